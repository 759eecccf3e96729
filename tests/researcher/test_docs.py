"""What the docs of the researcher tell people to type works."""

from pathlib import Path

import pytest
import yaml

from serl.history.day import write_day
from serl.history.generate import generate_day
from serl.researcher.candidates import Budget
from serl.researcher.outer import run as runs
from serl.researcher.outer.config import parse_config
from tests.doc_blocks import blocks, run
from tests.researcher.outer.small import Arithmetic


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(("page", "printed"), [("sandbox.md", "ok 42\n"), ("modules.md", "True\n1.0\nTrue \n")])
def test_pages_run(page: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(page)
    assert capsys.readouterr().out == printed


def test_the_page_on_the_outer_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the trainings, which the page on the inner loop shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "make_evaluator", lambda *_: Arithmetic())
    names = run("researcher.md")
    names["database"].close()
    assert capsys.readouterr().out == "all 2 iterations are done\n"
    assert (tmp_path / "runs" / "random" / "run.db").exists()


@pytest.mark.long
def test_the_page_on_the_inner_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With less training."""
    monkeypatch.chdir(tmp_path)
    write_day(generate_day(3, commands_per_s=2.0), tmp_path / "amzn.day")
    (block,) = blocks("inner.md", "python")
    names: dict[str, object] = {"less": Budget(static_steps=800, dynamic_steps=0, wall_s=400)}
    exec(compile(block.text.replace("Budget(),", "less,").replace("workers=2", "workers=1"), "inner.md", "exec"), names)
    results = names["results"]
    assert isinstance(results, list) and len(results) == 2
    assert {result.stage for result in results} <= {"done", "halved"}, [result.reason for result in results]


@pytest.mark.parametrize("page", ["tutorials/run-the-researcher.md", "researcher.md"])
def test_settings_of_an_endpoint_are_settings(page: str) -> None:
    (block,) = blocks(page, "yaml")
    config = parse_config(yaml.safe_load(block.text), "mine.yaml")
    assert config.endpoint is not None
    assert config.form == "code" and config.active_low_level is None
