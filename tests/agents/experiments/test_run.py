"""Runs of experiments: pairing, statistics, the same numbers in any number of threads, and going on after an interruption."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from serl.agents.experiments import store
from serl.agents.experiments.experiment import Experiment
from serl.agents.experiments.measures import MEASURES
from serl.agents.experiments.run import RunStopped, measure_run, run_experiment
from serl.agents.experiments.store import Results, RunFile
from serl.agents.experiments.summary import summarise
from serl.agents.students_t import holm, mean_interval, p_value
from serl.result_file import ResultFileError
from tests.agents.experiments.sample import sample


@pytest.fixture(scope="module")
def results() -> Results:
    return run_experiment(sample(), threads=1)


def as_text(results: Results) -> str:
    return json.dumps([[*key, store.to_json(values)] for key, values in results.items()])


def test_numbers_do_not_depend_on_the_threads(results: Results) -> None:
    assert list(results) == [("plain", 1), ("slow", 1), ("plain", 2), ("slow", 2)]
    assert as_text(run_experiment(sample(), threads=2)) == as_text(results)
    values = results["plain", 1]
    assert list(values) == [*MEASURES, "pnl.0.zero_intelligence", "pnl.1.value", "pnl.2.noise"]
    assert values["trades"] > 100 and 0 < values["spread_bps"] < 10 and values["empty_share"] < 0.01
    pnl = [
        values[f"pnl.{name}"] * count for name, count in (("0.zero_intelligence", 1), ("1.value", 10), ("2.noise", 20))
    ]
    assert sum(pnl) == pytest.approx(0, abs=1e-6), "what one earns another loses"


def test_only_what_an_arm_changes_differs(results: Results) -> None:
    same = run_experiment(sample(arms={"plain": {}, "same": {"value": {}}}, seeds=1), threads=1)
    assert same["plain", 1] == same["same", 1] == results["plain", 1]
    assert results["plain", 1] != results["slow", 1] and results["plain", 1] != results["plain", 2]


def made(experiment: Experiment, spread: dict[str, list[float]]) -> Results:
    return {
        (arm, seed): {"spread_bps": value}
        for arm, values in spread.items()
        for seed, value in zip(experiment.seeds, values, strict=True)
    }


def test_differences_are_paired_by_seed() -> None:
    experiment = sample(
        seeds=4, measures=["spread_bps"], arms={"a": {}, "b": {"tick_size": "0.02"}, "c": {"tick_size": "0.03"}}
    )
    values = {"a": [10.0, 20, 30, 40], "b": [11.0, 22, 31, 42], "c": [9.0, math.nan, 35, 39]}
    first, second, third = summarise(experiment, made(experiment, values))
    assert first.mean and second.mean and third.mean and second.difference and third.difference
    assert (first.mean.mean, second.mean.mean, third.mean.seeds, first.difference) == (25.0, 26.5, 3, None)
    half = 3.182 * math.sqrt(1 / 3) / 2  # differences 1, 2, 1, 2
    assert second.difference.mean == 1.5 and second.difference.interval == pytest.approx(
        (1.5 - half, 1.5 + half), abs=1e-3
    )
    assert second.difference.p == pytest.approx(0.0138, abs=1e-3), "t = 5.196 with 3 degrees of freedom"
    assert (third.difference.seeds, third.difference.mean) == (3, 1.0)
    ps = [second.difference.p or 0.0, third.difference.p or 0.0]
    assert [second.difference.p_holm, third.difference.p_holm] == holm(ps)
    assert second.is_clear and not third.is_clear


def test_one_seed_has_means_without_intervals() -> None:
    experiment = sample(seeds=1, measures=["spread_bps"])
    cells = summarise(experiment, made(experiment, {"plain": [1.0], "slow": [3.0]}))
    assert cells[0].mean and cells[0].mean.interval is None
    assert cells[1].difference and (cells[1].difference.mean, cells[1].difference.p, cells[1].difference.p_holm) == (
        2,
        None,
        None,
    )


def test_statistics_against_known_values() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert mean_interval([1.0, 3.0]) == pytest.approx((2.0, 2 - 12.706, 2 + 12.706))
    assert p_value([1.0, 2.0, 3.0]) == pytest.approx(0.0742, abs=1e-4)  # t = 3.464 with 2 degrees of freedom
    assert (p_value([0.0, 0.0]), p_value([1.0, 1.0]), p_value([1.0])) == (1.0, 0.0, None)


def test_an_interrupted_experiment_continues_without_repeating(results: Results, tmp_path: Path) -> None:
    experiment, kept = sample(), RunFile(tmp_path / "new", sample(), resume=False)

    def interrupted(arm: str, seed: int, values: dict[str, float]) -> None:
        kept.append(arm, seed, values)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, threads=1, on_run=interrupted)
    kept.close()
    with kept.path.open("ab") as file:
        file.write(b'{"arm": "plain", "seed": 2, "val')  # a kill cuts a line off
    again, repeated = RunFile(tmp_path / "new", experiment, resume=True), []
    assert 1 <= len(again.runs) < 4

    def continued(arm: str, seed: int, values: dict[str, float]) -> None:
        again.append(arm, seed, values)
        repeated.append((arm, seed))

    found = run_experiment(experiment, again.runs, 1, continued)
    again.close()
    assert not set(repeated) & set(again.runs) and len(repeated) + len(again.runs) == 4
    assert as_text(found) == as_text(results)
    whole = RunFile(tmp_path / "new", experiment, resume=True)
    whole.close()
    assert as_text({key: whole.runs[key] for key in results}) == as_text(results)


def test_a_stopped_run_ends_early() -> None:
    asked: list[bool] = []

    def is_stopped() -> bool:
        asked.append(True)
        return len(asked) > 1

    with pytest.raises(RunStopped):
        measure_run(sample().baseline, 1, is_stopped)
    assert len(asked) == 2


def test_results_of_another_experiment_or_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResultFileError, match="expected results to continue, got none; leave --resume out"):
        RunFile(tmp_path, sample(), resume=True)
    RunFile(tmp_path, sample(), resume=False).close()
    with pytest.raises(ResultFileError, match="expected no results, got some; continue with --resume"):
        RunFile(tmp_path, sample(), resume=False)
    RunFile(tmp_path, sample(seeds=9, baseline="slow", measures=["trades"]), resume=True).close()
    others: list[dict[str, Any]] = [{"until": "09:33"}, {"arms": {"plain": {}, "slow": {"groups.1.latency_us": 5}}}]
    for changes in others:
        with pytest.raises(ResultFileError, match=r"those of others \(arms differ\); give another --output"):
            RunFile(tmp_path, sample(**changes), resume=True)
    with monkeypatch.context() as patched:
        patched.setattr(store, "versions", lambda: {"serl": "0.0.1"})
        with pytest.raises(ResultFileError, match=r"those of others \(versions differ\)"):
            RunFile(tmp_path, sample(), resume=True)
    (tmp_path / store.FILE).write_text('{"versions": 1}\n')
    with pytest.raises(ResultFileError, match="got a damaged file"):
        RunFile(tmp_path, sample(), resume=True)
