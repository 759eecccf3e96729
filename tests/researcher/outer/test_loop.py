"""The logic of the loop: counting, convergence, lineage, and going on after a kill at any point."""

import json
from pathlib import Path
from typing import Any

import pytest

from serl.researcher.browse import runs
from serl.researcher.candidates import Candidate, Module, Result
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import run
from serl.researcher.outer.config import SINGLE, Convergence, OuterConfig
from serl.researcher.outer.database import Database, modules_of
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.final import score_test
from serl.researcher.outer.loop import OuterLoop, converged, ema
from serl.researcher.outer.proposers import RandomProposer
from serl.researcher.outer.records import Draft, Instruction, Lessons, Prompt, Proposal, Verdict
from serl.researcher.outer.report import summary
from tests.researcher.outer.small import REWARD, Arithmetic, config_of, content, endpoint_of, score_of


class Killed(BaseException):
    """As SIGKILL: nothing is caught, nothing is tidied."""


class Mortal:
    """Dies at the n-th call of anything."""

    def __init__(self, config: OuterConfig, calls: int) -> None:
        self.left = calls
        self.inner, self.arithmetic = RandomProposer(config), Arithmetic()
        self.model = "uniform"

    def _live(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def propose(self, iteration: int, slot: int) -> Proposal:
        self._live()
        return self.inner.propose(iteration, slot)

    def learn(self, iteration: int) -> Lessons:
        self._live()
        return self.inner.learn(iteration)

    def evaluate(self, candidates: Any, folder: Path) -> list[Result]:
        self._live()
        return self.arithmetic(candidates, folder)


def test_a_kill_at_any_point_changes_nothing(tmp_path: Path) -> None:
    config = config_of()
    whole = run.begin(tmp_path / "whole", config, "test", resume=False)
    mortal = Mortal(config, 10**9)
    OuterLoop(config, tmp_path / "whole", whole, mortal, mortal.evaluate).run()
    calls = 10**9 - mortal.left
    assert calls == 3 * (2 + 1 + 1)
    for n in range(calls):
        folder, asked = tmp_path / f"killed-{n}", []
        for lives in (n, 10**9):
            database = run.begin(folder, config, "test", resume=lives != n)
            mortal = Mortal(config, lives)
            loop = OuterLoop(config, folder, database, mortal, mortal.evaluate)
            if lives == n:
                with pytest.raises(Killed):
                    loop.run()
            else:
                loop.run()
            asked += mortal.arithmetic.asked
            found = content(database)
            database.close()
        assert found == content(whole)
        assert len(asked) == len(set(asked)), "no candidate is evaluated twice"
    whole.close()


def test_ema_and_convergence() -> None:
    assert ema(None, -3.0, 0.9) == -3.0
    assert ema(-3.0, 7.0, 0.9) == pytest.approx(-2.0)
    config = Convergence(iterations_min=3)
    assert not converged([None, 0.01], config), "too early"
    assert converged([None, 2.0, -0.09], config)
    assert not converged([None, 0.01, -0.11], config)
    assert converged([None, 2.0, 0.05, None], config), "an iteration without a score says nothing"


def test_it_stops_for_convergence_hours_iterations(tmp_path: Path) -> None:
    ticks = iter(range(0, 10**6, 1800))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"proposer": "default", "convergence": {"iterations_min": 2}}, "converged"),
        ({"hours_max": 0.9}, "1.00 of 0.9 hours are spent"),
        ({"iterations": 2}, "all 2 iterations are done"),
    ]
    for place, (changes, reason) in enumerate(cases):
        config, folder = config_of(**changes), tmp_path / str(place)
        database = run.begin(folder, config, "test", resume=False)
        with run.open_proposer(config, folder, database) as (proposer, _):
            loop = OuterLoop(config, folder, database, proposer, Arithmetic(), clock=lambda: float(next(ticks)))
            assert reason in loop.run()
        assert database.iterations_done == 2
        assert database.fact("stopped") == summary(database, config)["stopped"]
        database.close()


def test_the_default_is_evaluated_once(tmp_path: Path) -> None:
    config, arithmetic = config_of(proposer="default"), Arithmetic()
    database = run.begin(tmp_path, config, "test", resume=False)
    run.research(config, tmp_path, database, arithmetic)
    assert arithmetic.asked == [Candidate({}).key]
    database.close()


def test_what_fails_counts_as_worse_than_the_worst(tmp_path: Path) -> None:
    config = config_of(iterations=1, candidates=4, penalty_bps=5.0)
    database = run.begin(tmp_path, config, "test", resume=False)
    fates = [("done", -3.0), ("done", 2.0), ("halved", None), ("training", None), ("done", 0.0)]

    def evaluate(candidates: Any, folder: Path) -> list[Result]:
        return [Result(stage, "told", None if pa is None else score_of(pa), None, {}) for stage, pa in fates]

    run.research(config, tmp_path, database, evaluate)
    assert [row[0] for row in database.rows("SELECT performance_bps FROM candidates ORDER BY slot")] == [
        -3.0,
        2.0,
        -3.0,
        -8.0,
        0.0,
    ]
    assert {(row["stage"], row["reason"]): row["count"] for row in database.tally()} == {
        ("dry run", "ok"): 4, ("done", "ok"): 3, ("halved", "no score"): 1, ("training", "no score"): 1,
    }  # fmt: skip
    database.close()


def test_the_score_of_an_instruction_is_of_what_was_written_with_it(tmp_path: Path) -> None:
    """Specifications that are drawn in place of an answer had a part in it."""
    database = Database(tmp_path / "run.db")
    database.add_instructions(0, [Instruction(Kind.REWARD, "Write.", "initial")])
    prompt = Prompt(Kind.REWARD, (), 1)
    for slot, (origin, text) in enumerate([("model", REWARD), ("uniform", "{}"), ("model", None)]):
        draft = Draft(
            Kind.REWARD, "spec", origin, origin, prompt, text, (Verdict(Kind.REWARD, origin, 0, "dry run", "ok"),)
        )
        made = None if text is None else Candidate({Kind.REWARD: Module("spec", text)})
        database.add_proposal(1, slot, Proposal(made, (draft,)))
    database.add_results(1, "tiny", {slot: Result("done", "", score_of(2.0 - 10 * slot), None, {}) for slot in (0, 1)})
    database.set_performance(1, 5.0)
    (found,) = database.instructions(Kind.REWARD, 2)
    assert (found.score_bps, found.uses) == ((2.0 - 13.0) / 2, 2), "an answer without a module counts"
    (shown,) = runs.overview(tmp_path)["instructions"]
    assert (shown["score_bps"], shown["uses"]) == (found.score_bps, found.uses)
    database.close()


def test_folders_of_other_runs_are_refused(tmp_path: Path) -> None:
    config = config_of()
    with pytest.raises(RunError, match="omit --resume"):
        run.begin(tmp_path, config, "test", resume=True)
    run.begin(tmp_path, config, "test", resume=False).close()
    with pytest.raises(RunError, match="continue with --resume"):
        run.begin(tmp_path, config, "test", resume=False)
    with pytest.raises(RunError, match="other settings of seed"):
        run.begin(tmp_path, config_of(seed=1), "test", resume=True)
    run.begin(tmp_path, config_of(iterations=9), "test", resume=True).close()
    with pytest.raises(RunError, match="contains no run"):
        run.open_run(tmp_path / "nowhere")


def test_an_endpoint_that_was_wrong_can_be_corrected(tmp_path: Path) -> None:
    """The errors of a refusal and of an unreachable endpoint advise --resume with other settings, which was refused."""

    def begin(**endpoint: Any) -> Database:
        config = config_of(proposer="dek", endpoint=endpoint_of("http://127.0.0.1:1/v1") | endpoint)
        return run.begin(tmp_path, config, "test", resume=(tmp_path / run.DATABASE).exists())

    begin().close()
    database = begin(model="right", omit=["seed"])
    draft = Draft(Kind.REWARD, "spec", "model", "right", None, REWARD, ())
    database.add_proposal(1, 0, Proposal(None, (draft,)))
    database.close()
    begin(model="right", omit=["seed"], base_url="http://127.0.0.1:2/v1", attempts_max=9).close()
    with pytest.raises(RunError, match="other settings of endpoint"):
        begin(model="other", omit=["seed"])


def test_a_run_that_did_not_begin_is_started(tmp_path: Path) -> None:
    Database(tmp_path / run.DATABASE).close()  # killed, or without disk space, before its settings were stored
    with pytest.raises(RunError, match="has not begun; start it again"):
        run.open_run(tmp_path)
    with pytest.raises(RunError, match="omit --resume"):
        run.begin(tmp_path, config_of(), "test", resume=True)
    run.begin(tmp_path, config_of(), "test", resume=False).close()


def test_a_database_that_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    database = Database(tmp_path / run.DATABASE)
    database.rows("PRAGMA max_page_count = 1")  # as on a full disk
    with pytest.raises(RunError, match=r"database or disk is full.*--resume"):
        database.set_fact("name", "x" * 100_000)
    with database._transaction():
        database.rows("INSERT INTO facts VALUES ('config', '{')")
    with pytest.raises(RunError, match="damaged"):
        run.open_run(tmp_path)
    database.close()


def test_a_run_whose_data_changed_is_refused(tmp_path: Path) -> None:
    data, day, folder = tmp_path / "own.parquet", tmp_path / "scored.day", tmp_path / "run"
    config = config_of(inner={"market": {"kind": "static", "data": [str(data)]}, "day": str(day)})
    data.write_bytes(b"until November")
    with pytest.raises(RunError, match=r"scored\.day: expected a file of data"):
        run.begin(folder, config, "start", resume=False)
    assert not folder.exists()
    day.write_bytes(b"a day")
    run.begin(folder, config, "start", resume=False).close()
    for path in (data, day):
        before = path.read_bytes()
        path.write_bytes(b"until December")
        with pytest.raises(RunError, match=rf"expected the data that the run began with, {path.name}"):
            run.begin(folder, config, "other", resume=True)
        path.write_bytes(before)
    database, _ = run.open_run(folder)
    assert database.fact("command") == "start", "nothing was written"
    database.set_fact("data", database.fact("data").split(", ")[0])  # an earlier version recorded less
    database.close()
    run.begin(folder, config, "start --resume", resume=True).close()


def test_one_process_works_on_a_run(tmp_path: Path) -> None:
    config = config_of(iterations=1)
    database = run.begin(tmp_path, config, "test", resume=False)
    with pytest.raises(RunError, match="no other process at work"):
        run.begin(tmp_path, config, "test", resume=True)
    reader, _ = run.open_run(tmp_path)
    with pytest.raises(RunError, match="no other process at work"):
        score_test(reader, config)
    reader.close()
    database.close()
    run.begin(tmp_path, config, "test", resume=True).close()


def test_a_run_ends_when_its_test_part_is_opened(tmp_path: Path) -> None:
    config = config_of(iterations=3)
    database = run.begin(tmp_path, config, "test", resume=False)

    def evaluate(candidates: Any, folder: Path) -> list[Result]:
        database.set_fact("test_opened", {"key": "any", "time": "now"})
        return Arithmetic()(candidates, folder)

    assert "test part was opened" in run.research(config, tmp_path, database, evaluate)
    assert database.iterations_done == 1
    database.close()


def test_a_team_learns_to_speak_and_one_agent_does_not(tmp_path: Path) -> None:
    for scenario, kinds in (("multi", {*SINGLE, Kind.COMMUNICATE}), ("single", set(SINGLE))):
        config, folder = config_of(iterations=1, kinds=[], scenario=scenario, search={"kept": 0.0}), tmp_path / scenario
        database, arithmetic = run.begin(folder, config, "test", resume=False), Arithmetic()
        run.research(config, folder, database, arithmetic)
        assert {row["kind"] for row in database.rows("SELECT * FROM modules")} == {kind.value for kind in kinds}
        assert {row["kind"] for row in database.rows("SELECT * FROM instructions")} == {kind.value for kind in kinds}
        asked = [
            set(modules_of(row["modules"])) for row in database.rows("SELECT * FROM candidates WHERE stage = 'done'")
        ]
        assert len(asked) == len(arithmetic.asked) == 3, "and the incumbent"
        assert (Kind.COMMUNICATE in set().union(*asked)) == (scenario == "multi")
        database.close()


def test_modules_are_kept_as_they_came(tmp_path: Path) -> None:
    config = config_of(iterations=1, kinds=["reward", "agent"], search={"kept": 0.0})
    database = run.begin(tmp_path, config, "test", resume=False)
    run.research(config, tmp_path, database, Arithmetic())
    for row in database.rows("SELECT * FROM modules"):
        json.loads(row["text"])
        assert row["origin"] == row["model"] == "uniform"
    assert database.one("SELECT count(*) FROM modules") == 4
    database.close()
