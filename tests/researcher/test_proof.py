"""The proof: a quick one ends with tables and continues without repeating; its statistics against known values."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import proof, proof_table
from benchmarks.proof_methods import METHODS, Options, config_of
from benchmarks.proof_run import run_unit
from serl.exchange.errors import ConfigError
from serl.researcher.modules.contracts import Kind
from tests.marked import Mark

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "results.md"
FIVE = ("liquid", "trending", "informed", "closing", "slow")
FOUR = ("liquid", "informed", "closing", "slow")
FAMILIES = {
    "full": ("proof", FIVE, ("full", "random", "default", "climb", "tpe", "ceiling"), range(20, 25), 4),
    "without trending": ("proof", FOUR, ("full", "random", "default", "ceiling"), range(20, 25), 1),
    "drawn first": (
        "proof",
        FIVE,
        ("full", "random", "default", "climb", "tpe", "no-model", "ceiling"),
        range(30, 40),
        5,
    ),
    "racing": ("proof", FIVE, ("no-model", "search-no-racing", "default", "ceiling"), range(30, 40), 1),
    "kinds": ("kinds", ("informed", "closing"), ("no-model", "no-policy", "default"), range(40, 43), 2),
    "signals": ("proof", FIVE, ("no-model", "random", "tpe", "default"), range(50, 60), 3),
}
"""Finished comparisons of the page, whose figures by run are stored; the first method is compared there with so many of the others."""
METHODS_TRIED = ("full", "random", "climb", "tpe", "ceiling", "default")


@pytest.mark.long
def test_a_quick_proof_continues_without_repeating(task: Path, tmp_path: Path) -> None:
    words = [str(task), "--quick", "--seeds", "2", "--output", str(tmp_path / "proof"), "--methods", *METHODS_TRIED]
    check_quick(words, tmp_path / "proof", METHODS_TRIED)


@pytest.mark.long
def test_a_quick_proof_without_a_model(task: Path, tmp_path: Path) -> None:
    words = [
        str(task),
        "--quick",
        "--seeds",
        "2",
        "--output",
        str(tmp_path / "proof"),
        "--methods",
        "tpe",
        "ceiling",
    ]
    check_quick(words, tmp_path / "proof", ("tpe", "ceiling"))


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_proof_leaves_no_process(task: Path, tmp_path: Path, number: signal.Signals) -> None:
    mark = Mark()
    words = [str(task), "--seeds", "2", "--output", str(tmp_path / "proof"), "--methods", "random"]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.proof", *words], env=mark.environment())
    deadline = time.monotonic() + 60
    while not list((tmp_path / "proof").rglob("seed-0/*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    while mark.processes():
        assert time.monotonic() < deadline, mark.processes()
        time.sleep(0.05)


def check_quick(words: list[str], output: Path, methods: tuple[str, ...]) -> None:
    found = proof.proven(proof.parser().parse_args(words))
    assert set(found["means"]) == set(methods)
    assert all(method in proof_table.text(found) for method in methods)
    made = json.loads((output / "mine" / "seed-1" / "ceiling.json").read_text())
    before = json.loads((output / "mine" / "seed-1" / "tpe.json").read_text())
    assert made["candidates"] == 3 * before["candidates"] == 12
    with pytest.raises(ConfigError, match="--resume"):
        proof.proven(proof.parser().parse_args(words))
    (output / "mine" / "seed-1" / "tpe.json").write_text(json.dumps(before | {"fresh_bps": 777.0}))
    again = proof.proven(proof.parser().parse_args([*words, "--resume"]))
    assert again["means"]["tpe"][0] > 300, "a finished run is read, not repeated"
    (output / "mine" / "seed-1" / "tpe.json").unlink()
    with pytest.raises(ConfigError, match="expected at most 2 iterations of tpe, got 6; name tpe before ceiling"):
        run_unit(output, words[0], 1, ["tpe"], proof.QUICK)
    with pytest.raises(ConfigError, match="other iterations"):
        proof.proven(proof.parser().parse_args([word for word in words if word != "--quick"] + ["--resume"]))


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="simulated days"):
        proof.proven(proof.parser().parse_args(["lob-replay", "--output", str(tmp_path / "proof")]))
    with pytest.raises(ConfigError, match="at least 2 seeds"):
        proof.proven(proof.parser().parse_args(["thin", "--seeds", "1", "--output", str(tmp_path / "proof")]))
    for tasks, methods, what in ((("thin", "slow", "thin"), ("tpe",), "tasks"), (("thin",), ("tpe", "tpe"), "methods")):
        twice = proof.Proof(tasks, methods, range(2), Options(), tmp_path / "proof")
        with pytest.raises(ConfigError, match=f"{what}: expected each"):  # its seeds would count twice
            proof.begin(twice, resume=False)
    assert not (tmp_path / "proof").exists()


def test_all_methods_have_the_same_candidates_and_days() -> None:
    options = Options(iterations=4, candidates=6, batches=12)
    configs = {method: config_of("thin", method, 3, options) for method in METHODS if method != "default"}
    candidates = {method: one.iterations * one.candidates for method, one in configs.items()}
    assert candidates.pop("ceiling") == 72
    assert set(candidates.values()) == {24}
    assert len({one.inner.market.model_dump_json() for one in configs.values()}) == 1
    batches = {method: (one.inner.race.trainings or 0) * one.iterations for method, one in configs.items()}
    assert batches.pop("ceiling") == 144 and batches.pop("no-racing") == batches.pop("search-no-racing") == 0
    trained = {method for method, one in configs.items() if one.budget.static_steps}
    assert trained == {"no-policy", "reward-alone", "agent-alone", "learner-alone", "interface-alone"}
    assert all((one.module_kinds == (Kind.POLICY,)) == (method not in trained) for method, one in configs.items())
    alone = configs["no-racing"]
    assert alone.inner.race.stages[0].seeds == 1 and alone.inner.orders * 24 == options.orders * 48
    assert set(batches.values()) == {48}
    assert configs["full"].active_low_level and configs["no-high"].active_low_level
    assert not any(configs[name].active_low_level for name in ("no-low", "eureka", "no-model", "random", "tpe"))
    other = config_of("thin", "random", 4, options).inner.market
    assert other.first_day >= configs["random"].inner.market.first_day + options.days


def test_statistics_against_known_values() -> None:
    found = proof_table.pooled([[1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 4.0, 4.0]])  # by hand
    error = np.sqrt((5 / 3) / 4 + (4 / 3) / 4) / 2
    assert (found.mean, found.freedom) == (2.75, pytest.approx(243 / 41))
    assert found.high - found.mean == pytest.approx(2.4537 * error, rel=1e-3)
    assert found.detectable == pytest.approx(2.487 * error, rel=1e-3)
    in_rooms = proof_table.in_rooms([[0.46, 0.92], [1.4, 0.7]], proof_table.rooms_bps({}, ["liquid", "slow"]))
    assert in_rooms and in_rooms.mean == pytest.approx((1.5 + 1.05 / 0.65) / 2)
    assert proof_table.in_rooms([[1.0, 2.0]], proof_table.rooms_bps({}, ["thin"])) is None
    measured = {("ceiling", "thin"): [3.0, 5.0], ("default", "thin"): [1.0, 2.0]}
    assert proof_table.rooms_bps(measured, ["thin"]) == [2.5]
    assert proof_table.rooms_bps({**measured, ("ceiling", "thin"): [1.0, 1.0]}, ["thin"]) is None


@pytest.mark.parametrize("name", FAMILIES)
def test_the_page_has_the_figures_of_the_stored_runs(name: str) -> None:
    """Rows of means, and the intervals of differences, to the last digit."""

    def plain(text: str) -> str:  # some tables of the page have no + and no 0 before the point
        return re.sub(r"\+|(?<!\d)0(?=\.)", "", text)

    def interval(one: dict[str, float]) -> str:
        return f"[{one['low']:.3f}, {one['high']:.3f}]"

    folder, tasks, methods, seeds, compared = FAMILIES[name]
    found = proof.Proof(tasks, methods, seeds, Options(), RESULTS / folder).found()
    made, page = proof_table.summary(found, methods, tasks), plain(PAGE.read_text())
    wanted = [interval(one) for one in made["contrasts"][:compared]]
    if name != "kinds":
        wanted += [interval(one) for one in made["of_the_room"][:compared]]
    if name != "without trending":
        means = {method: " | ".join(f"{mean:.2f}" for mean in row) for method, row in made["means"].items()}
        wanted += [
            f"{row} | {made['pooled'][method]['mean']:.3f} {interval(made['pooled'][method])}"
            for method, row in means.items()
        ]
    if name == "signals":
        for second in methods[1:]:
            by_task = proof_table.differences(found, proof_table.Contrast(methods[0], second), tasks)
            each = [proof_table.pooled([one]) for one in by_task]
            wanted.append(" | ".join(f"{one.mean:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in each))
    assert [text for text in wanted if plain(text) not in page] == []


@pytest.mark.long
def test_a_difference_that_is_there_is_found_and_one_that_is_not_is_not() -> None:
    random = np.random.default_rng(0)
    tasks = ["a", "b", "c"]

    def p_values(gain: float) -> list[float]:
        values = {
            (method, task): list(random.normal(gain * (method == "full"), 1, 10))
            for method in ("full", "random")
            for task in tasks
        }
        return [one["p_holm"] for one in proof_table.summary(values, ["full", "random"], tasks)["contrasts"]]

    assert max(p_values(2.0)) < 0.001
    false = np.mean([p_values(0.0)[0] < 0.05 for _ in range(400)])
    assert 0.02 < false < 0.09


def test_an_interval_contains_the_truth_where_one_task_has_nearly_all_of_the_variance() -> None:
    """As `trending` has. With the sum of the tasks' degrees of freedom it did in 90 % of cases."""
    random, hits = np.random.default_rng(0), 0
    for _ in range(1500):
        found = proof_table.pooled(
            [random.normal(0.0, spread, 5).tolist() for spread in (0.11, 1.10, 0.10, 0.19, 0.02)]
        )
        hits += found.low <= 0.0 <= found.high
    assert 0.935 < hits / 1500 < 0.965
