"""Every command in the documentation parses, even if it is not run, and every code block has a test."""

import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from serl.exchange.config import load_config
from tests.doc_blocks import DOCS, PAGES, ROOT, blocks, commands
from tests.server_fixture import free_endpoint
from tests.test_help import ALL, parse

LINES = [
    (str(page.relative_to(ROOT)), line)
    for page in PAGES
    for block in blocks(str(page), "console")
    for line in commands(block)
]
UNRUN = [line for page in PAGES for block in blocks(str(page), "console") if block.unrun for line in commands(block)]
OTHER_PROGRAMS = {"make", "pip", ".", "python", "tensorboard", "ollama", "vllm", "export", "mkdir", "cp"}
"""First words of commands of other programs."""
SERL = [(page, line) for page, line in LINES if line.split()[0] not in OTHER_PROGRAMS]
PYTHON = {
    "directional.md", "environments.md", "execution.md", "gateways/binance.md", "gateways/fix.md", "gateways/nautilus.md", "gateways/ouch.md", "history.md", "inner.md", "league.md", "market-making.md", "models.md", "modules.md", "news.md", "offline.md", "orders.md", "pairs.md", "realism.md", "researcher.md", "sandbox.md", "scaling.md", "signals.md",
    "tables.md", "traders.md", "tutorials/backtest-a-bot.md", "tutorials/calibrate.md", "tutorials/plug-in-a-bot.md", "tutorials/train-an-executor.md", "tutorials/use-the-library.md",
    "tutorials/write-a-bot.md",
}  # fmt: skip
"""Run by tests/test_docs.py, test_docs_commands.py, tests/researcher/test_docs.py, tests/researcher/tuning/test_tiny.py and tests/gateways/."""
YAML = {
    "journal.md",
    "latency.md",
    "experiments.md",
    "gateways/binance.md",
    "gateways/index.md",
    "gateways/fix.md",
    "minds.md",
    "orders.md",
    "researcher.md",
    "traders.md",
    "tutorials/run-the-researcher.md",
    "tutorials/start-an-exchange.md",
    "scaling.md",
    "security.md",
}


def test_every_block_has_a_test() -> None:
    found: dict[str, set[str]] = {}
    for page in PAGES:
        for block in blocks(str(page)):
            found.setdefault(block.language, set()).add(os.path.relpath(page, DOCS))
    languages = {"python", "yaml", "json", "console", "text"}
    assert set(found) == languages, "name the language of a block: ```console, ```text, ..."
    assert found["python"] == PYTHON and found["yaml"] == YAML
    assert found["json"] == {"gateways/binance.md"}, "tests/gateways/binance/test_freqtrade.py runs it"


@pytest.mark.parametrize(("page", "line"), SERL, ids=lambda value: value[:60])
def test_commands_parse(page: str, line: str) -> None:
    for one in line.split("&&"):
        parse(shlex.split(one))


@pytest.mark.parametrize("line", [line for line in UNRUN if line.startswith("python -m benchmarks.")])
def test_benchmark_commands_that_are_not_run_parse(line: str) -> None:
    pytest.importorskip("torch")
    _, _, module, *words = shlex.split(line)
    assert importlib.import_module(module).parser().parse_args(words)


def test_make_targets_and_extras_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = {line.split()[1] for _, line in LINES if line.startswith("make ")}
    assert made and made <= targets
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pages = "".join(page.read_text() for page in PAGES)
    asked = set(re.findall(r"pip install -e '\.\[([\w,]+)\]'", pages))
    assert asked and {extra for one in asked for extra in one.split(",")} <= set(extras)


def test_outlines_name_options_that_exist() -> None:
    seen = 0
    for page in PAGES:
        for block in blocks(str(page), "text"):
            for start in re.finditer(r"^serl (.*(?:\n +.*)*)", block.text, re.MULTILINE):
                words = start.group(1).split()
                path = next(tuple(words[:count]) for count in (2, 1) if tuple(words[:count]) in ALL)
                known = {
                    text
                    for one in ALL[path].params
                    if isinstance(one, click.Option)
                    for text in (*one.opts, *one.secondary_opts)
                }
                assert set(re.findall(r"--[a-z-]+", start.group(1))) <= known
                seen += 1
    assert seen


def test_exchange_settings_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = blocks("tutorials/start-an-exchange.md", "yaml")
    path = tmp_path / "mine.yaml"
    path.write_text(block.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DESK_TOKEN", "desk")
    for name in ("alice", "risk"):
        Path(f"{name}.token").write_text(name)
    found = load_config(path).login.participants
    assert {name: own.token for name, own in found.items()} == {name: name for name in ("alice", "desk", "risk")}
    assert [name for name, own in found.items() if "operate" in own.permissions] == ["risk"]


def typed(folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "serl", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def lines_of(page: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for block in blocks(page, "console") for line in commands(block)]


def test_the_replay_tutorial_can_be_followed(tmp_path: Path) -> None:
    """With the generated day, so without LOBSTER's sample. With the sample, test_docs_sessions.py follows the whole page."""
    steps = [words for words in lines_of("tutorials/replay.md") if not any("LOBSTER" in word for word in words)]
    (serve,) = [words for words in steps if words[:2] == ["exchange", "start"]]
    (first, *looks), replays = (
        [words for words in steps if words[0] == "day"], [words for words in steps if words[0] == "replay"]
    )  # fmt: skip
    assert "49,003 commands" in typed(tmp_path, *first)
    for words in looks:
        assert typed(tmp_path, *words)
    endpoint = free_endpoint()
    exchange = subprocess.Popen(
        [sys.executable, "-m", "serl", *serve, "--endpoint", endpoint], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert exchange.stdout is not None
        next(line for line in exchange.stdout if line.startswith("  journal"))
        assert "49,003 of 49,003" in typed(tmp_path, *replays[0], "--connect", endpoint)
    finally:
        exchange.send_signal(signal.SIGTERM)
        exchange.communicate()
