"""Whole runs on a scripted endpoint: every kind of module, every operator, every mistake, and a kill anywhere."""

import json
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.researcher.candidates import Result
from serl.researcher.outer import run
from serl.researcher.outer.config import OuterConfig
from serl.researcher.outer.database import Database
from serl.researcher.outer.loop import Callbacks
from serl.researcher.outer.report import idle_models, write_report
from tests.researcher.llm.fake import completion, fake_endpoint
from tests.researcher.outer.scripted import Script
from tests.researcher.outer.small import REWARD, Arithmetic, config_of, endpoint_of, score_of

SMALL_MARKET = {"environments": 4, "duration_s": 60}
SMALL: dict[str, Any] = {
    "rungs": [1.0], "orders": 2, "agents": 2, "market": {"kind": "static", **SMALL_MARKET, "deviation_bps": 0.05, "unfilled_bps": 1},
    "dynamic": {"kind": "dynamic", **SMALL_MARKET, "simulated_days": 4, "hours": "09:35-09:45", "population": "small"},
    "ppo": {"rollout_steps": 30, "minibatch": 60, "gamma": 1.0, "threads": 1},
}  # fmt: skip
LIVING = {
    "scored_in": "market", "orders": 4, "rungs": [1.0],
    "market": {**SMALL["dynamic"], "hours": "09:35-09:50"},
}  # fmt: skip


def of_hash(candidates: Any, folder: Path) -> list[Result]:
    """A score for every candidate that its modules decide."""
    return [Result("done", "", score_of(int(one.key[:4], 16) % 100 / 10), None, {}) for one in candidates]


class Hashed(Arithmetic):
    """Scores every kind of module."""

    def __call__(self, candidates: Any, folder: Path) -> list[Result]:
        self.asked += [candidate.key for candidate in candidates]
        return of_hash(candidates, folder)


def scripted_config(url: str, **changes: Any) -> OuterConfig:
    values: dict[str, Any] = {
        "proposer": "dek",
        "endpoint": endpoint_of(url),
        "iterations": 3,
        "candidates": 3,
        "repairs_max": 2,
    }
    return config_of(**values | changes)


@pytest.mark.long
@pytest.mark.usefixtures("sandboxed")
def test_a_run_with_every_kind_every_operator_and_every_mistake(tmp_path: Path) -> None:
    script, small_script = Script(), Script(0.0)
    with fake_endpoint(script) as fake, fake_endpoint(small_script) as other:
        config = scripted_config(
            fake.url, form="code", scenario="multi", kinds=[], iterations=4, candidates=2,
            search={"operators": ["fresh", "rewrite", "diff", "combine", "mutate"], "model_share": 1.0},
            endpoints=[endpoint_of(other.url) | {"model": "little", "size": "tiny"}],
        )  # fmt: skip
        database = run.begin(tmp_path, config, "test", resume=False)
        ended = run.research(config, tmp_path, database, Hashed())
    assert ended == "all 4 iterations are done"
    assert database.one("SELECT count(*) FROM candidates WHERE stage = 'done'") >= 6
    written = {
        (row["kind"], row["form"], row["model"])
        for row in database.rows("SELECT * FROM modules WHERE text IS NOT NULL AND origin = 'model'")
    }
    assert {kind for kind, form, _ in written if form == "code"} == {kind.value for kind in config.module_kinds}
    assert {form for _, form, model in written if model == "little"} == {"spec"}, "a tiny model writes no code"
    reasons = {row["reason"] for row in database.tally()}
    assert len({"prose", "truncated", "syntax"} & reasons) >= 2, "which ones come depends on every word of the prompts"
    assert {"well", "edit", "rate limited", "failing", "closed", "malformed"} <= set(script.did)
    failures = {
        row["failure"]
        for line in (tmp_path / run.RECORD).read_text().splitlines()
        for row in json.loads(line)["attempts"]
    }
    assert {"rate_limited", "server_error", "connection", "malformed"} <= failures
    assert database.one("SELECT count(*) FROM notes") >= 3
    assert not idle_models(database)
    assert database.one("SELECT count(*) FROM instructions WHERE origin != 'initial'") >= 3
    database.close()
    found = write_report(tmp_path, tmp_path / "report.html")
    tried = {row["operator"] for row in found["operators"]}
    assert {"fresh", "rewrite"} <= tried
    assert {row["model"] for row in found["operators"]} >= {"fake", "little"}
    assert sum(row["candidates"] for row in found["operators"]) == 8 - found["candidates"].get("rejected", 0)
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Operators</h2>" in page and "difference to the best candidate at that time" in page


@pytest.mark.parametrize(("kinds", "changes"), [
    pytest.param(["policy"], {"form": "code", "inner": LIVING, "budget": {"static_steps": 0, "dynamic_steps": 0}}, marks=pytest.mark.long),
    ([], {"scenario": "multi", "inner": SMALL, "budget": {"static_steps": 640, "dynamic_steps": 320}, "search": {"kept": 0.0}}),
])  # fmt: skip
@pytest.mark.long
@pytest.mark.usefixtures("sandboxed")
def test_what_the_endpoint_writes_is_trained_and_scored(kinds: list[str], changes: dict[str, Any], tmp_path: Path) -> None:  # fmt: skip
    with fake_endpoint(Script(0.0)) as fake:
        config = scripted_config(fake.url, kinds=kinds, iterations=1, candidates=2, **changes)
        database = run.begin(tmp_path, config, "test", resume=False)
        run.research(config, tmp_path, database)
    rows = database.rows("SELECT * FROM candidates")
    assert [row["stage"] for row in rows] == ["done"] * 3, [row["reason"] for row in rows]
    asked = fake.requests[0]["messages"][1]["content"]
    assert "volume_lots_per_s" in asked, "the prompt shows the market's statistics"
    for row in rows[:2]:  # then the incumbent
        assert set(json.loads(row["modules"])) == {kind.value for kind in config.module_kinds}
        assert "lateness" in json.loads(row["score"])["behaviour"]
    database.close()


def test_without_the_endpoint_other_operators_go_on(tmp_path: Path) -> None:
    with fake_endpoint("close") as fake:
        config = scripted_config(fake.url)
        database, evaluator = run.begin(tmp_path, config, "test", resume=False), Hashed()
        assert run.research(config, tmp_path, database, evaluator) == "all 3 iterations are done"
    (warning,) = idle_models(database)
    assert "fake wrote no valid module" in warning and "check that it is running" in warning
    database.close()
    found = write_report(tmp_path, tmp_path / "report.html")
    assert found["candidates"] == {"done": 10}, "with the incumbent"
    assert {row["reason"] for row in found["verdicts"] if row["stage"] == "endpoint"} == {"unreachable"}
    rows = {row["operator"]: row for row in found["operators"]}
    assert rows["fresh"]["candidates"] == 0 < rows["fresh"]["attempts"]
    assert rows["uniform"]["candidates"] + rows.get("mutate", {"candidates": 0})["candidates"] > 0


def test_a_known_module_is_not_evaluated_again_but_mutated(tmp_path: Path) -> None:
    with fake_endpoint(completion(REWARD)) as fake:
        config = scripted_config(
            fake.url, search={"operators": ["fresh", "rewrite", "mutate"], "ahead": 0}, fresh_share=1.0
        )
        database, evaluator = run.begin(tmp_path, config, "test", resume=False), Hashed()
        run.research(config, tmp_path, database, evaluator)
    keys = [row["key"] for row in database.rows("SELECT key FROM candidates WHERE key IS NOT NULL")]
    assert len(keys) == len(set(keys)) == len(evaluator.asked) >= 7
    duplicates = database.rows("SELECT * FROM verdicts WHERE reason = 'duplicate'")
    assert duplicates and duplicates[0]["stage"] == "archive"
    used = database.rows("SELECT * FROM attempts WHERE number > 0 AND used")
    assert used and {row["operator"] for row in used} == {"mutate"}
    database.close()


class Killed(BaseException):
    """As SIGKILL: nothing is caught, nothing is tidied."""


class Mortal:
    """An evaluator and a database that die at the n-th result or stored proposal, from whichever thread."""

    def __init__(self, lives: int) -> None:
        self.left, self.hashed = lives, Hashed()

    def live(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def evaluate(self, candidates: Any, folder: Path) -> list[Result]:
        self.live()
        return self.hashed(candidates, folder)


def found_in(database: Database) -> list[Any]:
    """What a run has found, without the order in which two threads wrote it."""
    tables = ("candidates", "verdicts", "modules", "attempts", "notes", "prompts", "instructions")
    rows = [(table, {name: row[name] for name in row.keys() if name not in ("id", "prompt", "instruction", "replay_of", "parents")})  # noqa: SIM118
            for table in tables for row in database.rows(f"SELECT * FROM {table}")]  # fmt: skip
    return sorted(json.dumps(row) for row in rows)


@pytest.mark.long
def test_a_kill_anywhere_while_proposals_are_ahead_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    store = Database.add_proposal
    with fake_endpoint(Script(0.2)) as fake:
        config = scripted_config(fake.url, candidates=2, search={"ahead": 1})

        def lived(folder: Path, lives: int) -> tuple[Mortal, list[Any]]:
            mortal = Mortal(lives)

            def add(database: Database, *arguments: Any) -> None:
                mortal.live()
                store(database, *arguments)

            monkeypatch.setattr(Database, "add_proposal", add)
            database = run.begin(folder, config, "test", resume=(folder / run.DATABASE).exists())
            with suppress(Killed):
                run.research(config, folder, database, mortal.evaluate)
            found = found_in(database)
            database.close()
            return mortal, found

        whole, expected = lived(tmp_path / "whole", 10**6)
        calls = 10**6 - whole.left
        assert calls == 3 * (2 + 1) + 1, "and the incumbent"
        for n in range(calls):
            folder = tmp_path / f"killed-{n}"
            first, _ = lived(folder, n)
            second, found = lived(folder, 10**6)
            assert found == expected, f"killed at call {n}"
            asked = first.hashed.asked + second.hashed.asked
            assert len(asked) == len(set(asked)), "no candidate is evaluated twice"


def test_proposals_do_not_wait_for_training(tmp_path: Path) -> None:
    """While the first iteration is evaluated, the second is proposed."""
    proposed = threading.Event()
    with fake_endpoint(Script(0.0)) as fake:
        config = scripted_config(fake.url, iterations=2)
        database = run.begin(tmp_path, config, "test", resume=False)
        ahead: list[int] = []

        def evaluate(candidates: Any, folder: Path) -> list[Result]:
            if not ahead:
                assert proposed.wait(60)
                ahead.append(database.one("SELECT count(*) FROM candidates WHERE iteration = 2"))
            return of_hash(candidates, folder)

        def on_proposed(iteration: int, slot: int, _: Any) -> None:
            if (iteration, slot) == (2, config.candidates - 1):
                proposed.set()

        run.research(config, tmp_path, database, evaluate, Callbacks(on_proposed=on_proposed))
    assert ahead == [config.candidates]
    database.close()


def test_a_database_from_before_has_no_operators(tmp_path: Path) -> None:
    config = config_of(iterations=1)
    run.begin(tmp_path, config, "test", resume=False).close()
    with closing(sqlite3.connect(tmp_path / run.DATABASE)) as connection, connection:
        connection.execute("DROP TABLE attempts")
        connection.execute("DROP TABLE notes")
    found = write_report(tmp_path, tmp_path / "report.html")
    assert found["operators"] == []
