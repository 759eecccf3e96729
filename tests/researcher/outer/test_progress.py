"""Output of a run without a terminal: a line per event."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.progress import Progress

pytest.importorskip("tensorboard", reason="the extra `learning` is not installed")

from serl.cli import serl as command
from serl.researcher.candidates import Result
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import run
from serl.researcher.outer.database import Database
from serl.researcher.outer.progress import UNANSWERED_TOLD, iteration_line, proposal_line, result_line, show_progress
from serl.researcher.outer.records import Draft, Proposal, Verdict
from serl.researcher.outer.report import idle_models
from tests.researcher.outer.small import Arithmetic, config_of, score_of


def test_without_a_terminal_each_candidate_has_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of(iterations=1, candidates=2)
    database = run.begin(tmp_path, config, "test", resume=False)
    with show_progress(config, tmp_path, database) as callbacks:
        run.research(config, tmp_path, database, Arithmetic(), callbacks)
        callbacks.on_stage("abcdef0123", "training")
    lines = capsys.readouterr().err.splitlines()
    keys = [row["key"][:6] for row in database.rows("SELECT key FROM candidates ORDER BY slot")]
    database.close()
    made = [
        line
        for slot, key in enumerate(keys[:2])
        for line in (
            f"iteration 1 of 1: proposing candidate {slot + 1}",
            f"iteration 1, slot {slot}: proposed {key}; reward dry run ok",
        )
    ]
    assert lines[:5] == [*made, f"iteration 1, slot 2: proposed {keys[2]}; default modules"], "the incumbent"
    assert [text.partition(", PA")[0] for text in lines[5:8]] == [
        f"iteration 1, slot {slot}: done" for slot in range(3)
    ]
    assert lines[8].startswith("iteration 1: PA")
    assert lines[9:] == ["candidate abcdef: training"]


def test_the_bar_counts_candidates_of_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was reset by each proposal and ended at 16 of 8."""
    shown: list[Progress] = []
    started = Progress.start

    def start(self: Progress) -> None:
        shown.append(self)
        started(self)

    monkeypatch.setattr(Progress, "start", start)
    config = config_of(iterations=2, candidates=2)
    database = run.begin(tmp_path, config, "test", resume=False)
    with show_progress(config, tmp_path, database) as callbacks:
        counts = []
        for key in ("incumbent", "a", "b"):
            callbacks.on_proposing(1, 0)
            callbacks.on_stage(key, "training")
            callbacks.on_stage(key, "scoring")
            counts.append(shown[0].tasks[0].completed)
        callbacks.on_iteration({"iteration": 1, "pa_bps": None, "seconds": 1.0})
        assert (counts, shown[0].tasks[0].completed, shown[0].tasks[0].total) == ([1, 2, 2], 2, 4)
        callbacks.on_stage("c", "scoring")
        assert shown[0].tasks[0].completed == 3
    database.close()


def test_lines_say_why() -> None:
    verdicts = Verdict(Kind.REWARD, "m", 0, "static check", "spec"), Verdict(Kind.REWARD, "m", 1, "answer", "prose")
    rejected = Proposal(None, (Draft(Kind.REWARD, "spec", "model", "m", None, None, verdicts),))
    assert proposal_line(rejected) == "rejected; reward answer prose"
    assert (
        result_line(Result("training", "training timeout:\nafter 600 s", None, None, {}))
        == "training, training timeout: after 600 s"
    )
    assert result_line(Result("halved", "others were better", score_of(-2.0), None, {})) == "halved, PA -2.00 bps, others were better"  # fmt: skip
    eliminated = {"iteration": 2, "pa_bps": None, "seconds": 77.0}
    assert iteration_line(eliminated) == "iteration 2: no candidate was trained and scored to the end, 77 s"


def test_a_model_that_does_not_answer_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run went on with candidates drawn at random, and only the record of calls said why."""
    config = config_of(iterations=1, candidates=2)
    database = run.begin(tmp_path, config, "test", resume=False)
    silent = (
        Verdict(Kind.REWARD, "m", 0, "endpoint", "unreachable", f"it did not answer ({'x' * 250}); check that it runs"),
    )
    proposal = Proposal(None, (Draft(Kind.REWARD, "spec", "model", "m", None, None, silent),))
    with show_progress(config, tmp_path, database) as callbacks:
        for slot in range(UNANSWERED_TOLD):
            assert "has not answered" not in capsys.readouterr().err
            callbacks.on_proposed(1, slot, proposal)
    database.close()
    told = capsys.readouterr().err
    assert f"has not answered the last {UNANSWERED_TOLD} requests" in told and "check that it runs); candidates" in told


def test_a_run_does_not_start_without_its_endpoint(tmp_path: Path) -> None:
    started = CliRunner().invoke(
        command,
        ["researcher", "start", "--url", "http://127.0.0.1:1/v1", "--model", "x", "--output", str(tmp_path / "run")],
    )
    assert started.exit_code != 0 and not (tmp_path / "run").exists()
    assert "http://127.0.0.1:1/v1 does not answer" in str(started.exception)


def test_an_idle_model_is_warned_of_with_its_own_error(tmp_path: Path) -> None:
    database = Database(tmp_path / "run.db")
    for slot, model in enumerate(("gpt", "gpt-mini")):
        verdicts = (Verdict(Kind.REWARD, model, 0, "answer", "prose", f"error of {model}"),)
        database.add_proposal(1, slot, Proposal(None, (Draft(Kind.REWARD, "spec", "model", model, None, None, verdicts),)))  # fmt: skip
    lines = idle_models(database)
    database.close()
    assert [line.rpartition(": ")[2] for line in lines] == ["error of gpt", "error of gpt-mini"]
