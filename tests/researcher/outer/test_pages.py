"""What the pages on the researcher tell people to type works."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from serl.cli import serl
from serl.researcher.outer import run
from serl.researcher.outer.config import parse_config
from tests.researcher.outer.small import Arithmetic

DOCS = Path(__file__).parents[3] / "docs"
PAGES = (DOCS / "researcher.md", DOCS / "tutorials" / "run-the-researcher.md")


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "evaluator_of", lambda *_: Arithmetic())
    exec(compile(code, "researcher.md", "exec"), {})
    assert capsys.readouterr().out == "all 2 iterations are done\n"
    assert (tmp_path / "runs" / "random" / "run.db").exists()


def test_the_settings_are_some() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGES[1].read_text(), re.DOTALL)
    config = parse_config(yaml.safe_load(text), "tutorial")
    assert config.endpoint is not None and config.form == "code" and config.tuned is None


def test_commands_and_options_exist() -> None:
    lines = [line for page in PAGES for line in re.findall(r"^ *(serl .*)$", page.read_text(), re.MULTILINE)]
    assert len(lines) >= 7
    for line in lines:
        command: click.Command = serl
        words = shlex.split(line)[1:]
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, line
            command = found
        known = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
    options = set(re.findall(r"`(--url.*?)`", PAGES[1].read_text()))
    assert len(options) == 3
