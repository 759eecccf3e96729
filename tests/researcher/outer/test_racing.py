"""Racing in a run: the incumbent first, ranking by the paired difference, old candidates that train on, and the sealed test part."""

import itertools
import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from serl.agents.learning.market_config import MarketConfig
from serl.exchange.errors import ConfigError
from serl.researcher.browse import runs
from serl.researcher.candidates import Candidate, Module, Paired, Result
from serl.researcher.inner import score as scoring
from serl.researcher.inner.errors import SealedError
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer import report, run
from serl.researcher.outer.cli import researcher
from serl.researcher.outer.config import OuterConfig, parse_config
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.final import score_test
from serl.researcher.outer.loop import OuterLoop
from serl.researcher.outer.past_results import PastResults
from serl.researcher.outer.proposers import RandomProposer
from serl.researcher.outer.records import Proposal
from tests.researcher.outer.small import REWARD, config_of, endpoint_of, pa_of, score_of

LIVING = MarketConfig(
    kind="dynamic", population="small", hours="09:35-09:50", simulated_days=4, environments=4, duration_s=60
)
STAGES = [{"share": 1, "seeds": 1}, {"share": 1, "seeds": 3, "kept": 0.5}]


def paired_of(value: float, error: float, seeds: int = 3) -> Paired:
    return Paired(value, error, value - 2 * error, value + 2 * error, seeds, 1.0, 8 * seeds, False)


class Racer:
    """Answers with paired scores; each time a candidate is given again, it has one training more."""

    def __init__(self) -> None:
        self.trained: dict[str, int] = {}
        self.asked: list[list[str]] = []

    def __call__(self, candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        self.asked.append([one.key for one in candidates])
        found = []
        for one in candidates:
            seeds = self.trained[one.key] = self.trained.get(one.key, 0) + 1
            paired = paired_of(pa_of(one) / seeds, 0.1, seeds)
            found.append(Result("done", "", score_of(pa_of(one)), None, {"stages": 1, "open": True}, paired))
        return found


@pytest.mark.parametrize("proposer", ["random", "default"])
def test_the_first_iteration_has_the_incumbent(tmp_path: Path, proposer: str) -> None:
    config = config_of(proposer=proposer, incumbent={"reward": json.loads(REWARD)})
    database, racer = run.begin(tmp_path, config, "test", resume=False), Racer()
    run.research(config, tmp_path, database, racer)
    first = database.rows("SELECT * FROM candidates WHERE iteration = 1 AND slot = 2")[0]
    assert first["key"] == config.incumbent_candidate.key == racer.asked[0][-1]
    assert database.slots(1) == {0, 1, 2} and database.slots(2) == {0, 1}, "beside the proposals"
    database.close()
    assert set(config.incumbent_candidate.modules) == {Kind.REWARD}


def test_policies_start_from_the_example_and_others_from_the_default() -> None:
    market = {
        "inner": {"market": LIVING.model_dump(mode="json"), "scored_in": "market"},
        "budget": {"dynamic_steps": 0},
    }
    assert config_of(kinds=["policy"], **market).incumbent_candidate.modules[Kind.POLICY].text == example(
        Kind.POLICY, "spec"
    )
    assert config_of().incumbent_candidate == Candidate({})
    with pytest.raises(ConfigError, match=r"incumbent\.reward"):
        config_of(incumbent={"reward": {"base": "nothing"}})


def test_candidates_of_earlier_iterations_race_on(tmp_path: Path) -> None:
    config = config_of(iterations=3, candidates=2)
    database, racer = run.begin(tmp_path, config, "test", resume=False), Racer()
    run.research(config, tmp_path, database, racer)
    assert len(racer.asked) == 3
    assert all(set(before) < set(after) for before, after in itertools.pairwise(racer.asked))
    key = racer.asked[0][0]
    (row,) = database.rows("SELECT * FROM candidates WHERE key = ?", key)
    stored = json.loads(row["paired"])
    assert stored["seeds"] == 3
    assert row["difference_bps"] == row["performance_bps"] == stored["difference_bps"] == row["pa_bps"] / 3
    assert row["lower_bps"] == stored["low_bps"]
    (module,) = database.rows("SELECT * FROM modules WHERE iteration = ? AND slot = ?", row["iteration"], row["slot"])
    assert module["performance_bps"] == row["difference_bps"]
    database.close()


def test_a_candidate_that_races_on_keeps_its_parent(tmp_path: Path) -> None:
    """A later training starts from the parent's weights, as the first did."""
    database = run.begin(tmp_path, config_of(), "test", resume=False)
    raced = Result("halved", "", score_of(1.0), None, {"stages": 1}, paired_of(1.0, 0.1, 1))
    first, second = (Candidate({Kind.REWARD: Module("spec", text)}) for text in ("first", "second"))
    database.add_proposal(1, 0, Proposal(first))
    database.add_results(1, "m", {0: raced})
    database.add_proposal(2, 0, Proposal(second, parents=((1, 0),)))
    ((_, pending),) = database.pending(2)
    database.add_results(2, "m", {0: raced})
    assert [one.parent for one in (pending, *database.raced())] == [first.key, None, first.key]
    database.close()


def shown(folder: Path, model_s: float, race_s: float) -> list[float]:
    """The differences that the proposals of iteration 3, made while iteration 2 races, know."""
    config = config_of(proposer="dek", candidates=1, endpoint=endpoint_of("http://127.0.0.1:9/v1"))
    database, racer, known = run.begin(folder, config, "test", resume=False), Racer(), list[float]()

    class Slow(RandomProposer):
        def propose(self, iteration: int, slot: int) -> Proposal:
            if iteration == 3:
                time.sleep(model_s)
                known.extend(one.performance_bps for one in PastResults(database, iteration - config.lag).scored)
            return super().propose(iteration, slot)

    def evaluate(candidates: Sequence[Candidate], place: Path) -> list[Result]:
        time.sleep(race_s)
        return racer(candidates, place)

    OuterLoop(config, folder, database, Slow(config), evaluate).run()
    database.close()
    return known


def test_what_is_proposed_ahead_does_not_depend_on_speed(tmp_path: Path) -> None:
    fast, slow = shown(tmp_path / "fast", 0.0, 0.2), shown(tmp_path / "slow", 0.2, 0.0)
    assert fast == slow and len(fast) == 2


def test_the_lower_bound_decides_and_not_pa(tmp_path: Path) -> None:
    """Slots: the highest PA with a wide interval, a sure gain, a sure loss, the incumbent."""
    config = config_of(iterations=1, candidates=3)
    database = run.begin(tmp_path, config, "test", resume=False)
    fates = [
        (9.0, paired_of(0.9, 1.0)),
        (1.0, paired_of(0.3, 0.1)),
        (2.0, paired_of(-0.5, 0.01)),
        (0.0, paired_of(0.0, 0.0)),
    ]

    def evaluate(candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        return [Result("done", "", score_of(pa), None, {"stages": 1, "open": False}, paired) for pa, paired in fates]

    run.research(config, tmp_path, database, evaluate)
    assert [one.slot for one in database.evaluated(2, 9)] == [1, 3, 2, 0]
    assert [one.slot for one in database.evaluated(2, 1, worst=True)] == [2]
    best = report.best(database)
    assert best is not None and best["slot"] == 1
    assert best["paired"]["difference_low_bps"] == pytest.approx(0.1)
    assert "+0.30 bps [+0.10, +0.50] against the incumbent, 3 seeds" in report.status_text(database, config)
    assert database.one("SELECT pa_bps FROM iterations") == 1.0
    assert "test part" not in report.status_text(database, config)
    database.set_fact("test_opened", {"key": best["key"], "time": "2026-11-30"})
    told = report.status_text(database, config)
    assert f"opened on 2026-11-30, not scored yet; `serl researcher report {tmp_path} --final`" in told
    database.set_fact("test", {"score": {"pa_bps": 1.5}})
    assert report.status_text(database, config).endswith("\ntest part: PA +1.50 bps")
    database.set_fact("test", None)
    database.close()
    found = report.write_report(tmp_path, tmp_path / "report.html")
    assert [row["slot"] for row in found["race"]] == [1, 3, 2, 0]
    assert "<h2>Race</h2>" in (tmp_path / "report.html").read_text()
    assert runs.candidate(tmp_path, 1, 1)["difference_bps"] == pytest.approx(0.3)


def test_the_best_so_far_is_that_of_the_report(tmp_path: Path) -> None:
    """It was the highest PA of all, of a candidate that the report does not call the best."""
    config = config_of(iterations=2, candidates=1)
    database = run.begin(tmp_path, config, "test", resume=False)
    fates = [(1.0, paired_of(0.3, 0.1)), (0.0, paired_of(0.0, 0.0)), (9.0, paired_of(0.9, 1.0))]
    seen = list[str]()

    def evaluate(candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        seen.extend(one.key for one in candidates if one.key not in seen)
        made = [fates[seen.index(one.key)] for one in candidates]
        return [Result("done", "", score_of(pa), None, {"stages": 1, "open": False}, paired) for pa, paired in made]

    run.research(config, tmp_path, database, evaluate)
    found = report.summary(database, config)
    database.close()
    assert [row["pa_bps"] for row in found["iterations"]] == [1.0, 9.0]
    assert [row["best_so_far_bps"] for row in found["iterations"]] == [1.0, found["best"]["score"]["pa_bps"]]


def test_a_database_without_pairs_is_opened_and_goes_on(tmp_path: Path) -> None:
    """As an earlier version wrote it: the columns are missing."""
    config = config_of(iterations=1)
    database = run.begin(tmp_path, config, "test", resume=False)

    def without_pairs(candidates: Sequence[Candidate], folder: Path) -> list[Result]:
        return [Result("done", "", score_of(pa_of(one)), None, {}) for one in candidates]

    run.research(config, tmp_path, database, without_pairs)
    database.close()
    with closing(sqlite3.connect(tmp_path / "run.db")) as plain, plain:
        for name in ("difference_bps", "lower_bps", "paired"):
            plain.execute(f"ALTER TABLE candidates DROP COLUMN {name}")
    assert runs.overview(tmp_path)["candidates"][0]["difference_bps"] is None
    database, _ = run.open_run(tmp_path)
    assert [one.result.paired for one in database.evaluated(2, 9)] == [None, None, None]
    assert report.summary(database, config)["best"]["paired"] == {}
    longer = config_of(iterations=2)
    run.research(longer, tmp_path, database, Racer())
    assert database.iterations_done == 2
    assert database.evaluated(3, 1)[0].result.paired is not None, "paired scores rank before those without"
    database.close()


def test_the_test_part_is_sealed() -> None:
    settings = Settings(market=LIVING, scored_in="market", orders=4)
    for part in ("test", "unseen"):
        with pytest.raises(SealedError, match="--final"):
            scoring.scoring_set(settings, part)


def finished(folder: Path) -> OuterConfig:
    """A run of two rules, evaluated for real."""
    values: dict[str, Any] = {
        "proposer": "random", "kinds": ["policy"], "iterations": 1, "candidates": 3, "budget": {"static_steps": 0, "dynamic_steps": 0},
        "inner": {"market": LIVING.model_dump(mode="json"), "scored_in": "market", "orders": 6, "race": {"stages": STAGES, "final_seeds": 2}},
    }  # fmt: skip
    config = parse_config(values, "test")
    database = run.begin(folder, config, "test", resume=False)
    run.research(config, folder, database)
    database.close()
    return config


def test_rules_race_by_batches_of_orders_and_the_final_score_is_taken_once(tmp_path: Path) -> None:
    config = finished(tmp_path)
    database, _ = run.open_run(tmp_path)
    best = report.best(database)
    assert best is not None
    found = [
        json.loads(row["paired"]) for row in database.rows("SELECT paired FROM candidates WHERE paired IS NOT NULL")
    ]
    assert {one["seeds"] for one in found} >= {3} and max(one["orders"] for one in found) == 18
    database.close()
    shown = report.write_report(tmp_path, tmp_path / "report.html", final=True)
    assert shown["test"]["paired"]["seeds"] == 2 and shown["test"]["key"] == best["key"]
    assert shown["test"]["opened"] <= shown["test"]["closed"]
    assert "Test part, opened once" in (tmp_path / "report.html").read_text()
    database, _ = run.open_run(tmp_path)
    with pytest.raises(RunError, match=r"scored already: PA .* against the incumbent, 2 seeds, on 20"):
        score_test(database, config)
    assert database.fact("test") == shown["test"]
    database.close()
    with pytest.raises(RunError, match="start another run"):
        run.begin(tmp_path, config.model_copy(update={"iterations": 9}), "test", resume=True)


@pytest.mark.long
def test_a_final_score_that_was_killed_is_finished_and_the_run_stays_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = finished(tmp_path)
    database, _ = run.open_run(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("serl.researcher.inner.contender.score", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(click.Abort):
            researcher.main(["report", str(tmp_path), "--final"], standalone_mode=False)
    assert "stopped; the same command goes on with the final score" in capsys.readouterr().err
    assert database.fact("test") is None and database.fact("test_opened")["time"]
    with pytest.raises(RunError, match="start another run"):
        run.begin(tmp_path, config.model_copy(update={"iterations": 9}), "test", resume=True)
    score_test(database, config)
    assert database.fact("test")["opened"] == database.fact("test_opened")["time"]
    database.close()
