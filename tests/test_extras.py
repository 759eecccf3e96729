"""The command line without extras: a command that needs one names it in one line before it starts anything; the others work."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement

from serl.cli import serl
from serl.extras import MissingPackageError, extras_providing, missing_package, require, require_reports, user_extras
from serl.researcher.outer import run
from serl.researcher.outer.config import load_config
from tests.server_fixture import start_exchange

NEEDS_EXTRA = {
    "backtest bot.py --population small": "reports",
    "day export a.day -o a.zip": "history",
    "day export a.day --table trades -o a.csv": "history",
    "day generate -o new.day --seed 1": "history",
    "day head a.day": "history",
    "day import a.csv -o new.day": "history",
    "day import a.dbn -o new.day": "history",
    "day info a.day": "history",
    "day verify a.day": "history",
    "replay a.day": "history",
    "record -o new.day": "history",
    "record --accounts -o new.day": "history",
    "data a.day": "history",
    "bar-costs a.day": "history",
    "volume-curve a.day -o curve.json": "history",
    "simulate small -o new.day": "history",
    "execute twap --symbol A --side sell --qty 1 --window 10:00-10:01": "reports",
    "execute learnt --symbol A --side sell --qty 1 --window 10:00-10:01": "learning",
    "realism a.day b.day --no-predictive": "reports",
    "realism a.day b.day": "learning",
    "impact a.day --side buy --window 10:00-11:00": "reports",
    "impact --simulated small": "reports",
    "impact a.day --ofi": "reports",
    "impact --validity --simulated small": "reports",
    "signals train a.day -o f": "learning",
    "signals test f a.day": "reports",
    "flow train a.day -o a.yaml": "learning",
    "flow continue small a.day --at 10:00 -o a.yaml": "history",
    "ranking a.day small": "reports",
    "experiment tick-size": "reports",
    "calibrate a.day -o a.yaml": "calibrate",
    "train dynamic": "learning",
    "evaluate twap --kind dynamic": "reports",
    "evaluate twap --config bars": "learning",
    "evaluate twap learnt --kind dynamic": "learning",
    "llm ask hello": "researcher",
    "llm serve": "researcher",
    "llm unpack model.gguf": "researcher",
    "llm export run --to merged --output tuned": "researcher",
    "minds start --config single": "researcher",
    "researcher start": "researcher",
    "researcher start --on ray": "ray,researcher",
    "researcher report run": "reports",
    "researcher report run --final": "learning",
    "league --rounds 0": "learning",
    "episodes export --policy twap -o made": "offline",
    "episodes clone made": "learning,offline",
    "metrics": "metrics",
    "nautilus export a.day catalog": "nautilus",
    "docs --no-browser --port 0": "docs",
    "demo --output demo --no-dashboard": "researcher",
    "demo --output demo --no-dashboard --no-researcher": "reports",
    "demo --output demo --quick": "reports",
}
"""Command lines and the extras that they need."""
WITH_AN_EXCHANGE = {
    "agents start --population small --until 09:30:01 --connect {endpoint}": (0, "commands"),
    "exchange status --connect {endpoint}": (0, "DEMO"),
    "exchange account traders-small-0 --connect {endpoint}": (0, "realised"),
    "exchange purge traders-small-0 --connect {endpoint}": (0, "cancelled"),
    "exchange kill traders-small-0 --connect {endpoint}": (0, "kill"),
    "exchange operate halt --symbol DEMO --connect {endpoint}": (0, "halt"),
    "exchange deposit traders-small-0 DEMO 5 --connect {endpoint}": (0, "5"),
    "exchange withdraw traders-small-0 DEMO 5 --connect {endpoint}": (0, ""),
    "exchange news Hello --symbol DEMO --connect {endpoint}": (0, "1"),
    "news list --connect {endpoint}": (0, "Hello"),
    "news send news.jsonl --connect {endpoint}": (2, "news.jsonl"),
    "drop-copy -o events.csv --once --connect {endpoint}": (0, "events.csv"),
    "exchange stop --connect {endpoint}": (0, "stop"),
}
NEEDS_NO_EXTRA = {
    "journal verify journal": (0, "undamaged"),
    "journal info journal": (0, "commands"),
    "journal compress journal": (0, "compressed"),
    "journal repair journal repaired": (0, "nothing is lost"),
    "keys new keys": (0, "keys"),
    "keys client keys alice": (0, "alice"),
    "researcher status run": (0, "0 of 50 iterations"),
    "llm list": (0, "SmolLM2"),
    "llm verify": (0, ""),
    "llm fetch huge": (2, "tiny"),
    "llm ask hello --offline --record calls.jsonl": (2, "the record has no answer"),
    "doctor": (0, "extra history"),
    "minds report run": (2, "run"),
    "run bot.py": (2, "bot.py"),
    "signals publish f": (2, "expected a forecaster"),
    "flow scenario small -o fast.yaml": (2, "expected a population of `serl flow train`"),
    "fix start": (2, "expected --accounts or --account"),
    "binance start": (2, "expected --accounts FILE or --account NAME"),
}
"""Command lines that need no extra, with their exit status and output; the former are run while an exchange runs."""
LONG_RUNNING = {"exchange start", "dashboard", "exchange compile", "ouch start"}
"""Started by the test itself; the last would only repeat what the exchange compiles."""

WITHOUT_EXTRAS = """
from importlib.machinery import PathFinder
hidden, found = set({hidden}), PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in hidden else found(name, path, target)
PathFinder.find_spec = find_spec
"""
"""A sitecustomize that makes the imports fail as if the packages were not installed."""


def modules_of_extras() -> list[str]:
    """The modules of all packages in the extras for users, installed or not."""
    extras = set(metadata.metadata("serl").get_all("Provides-Extra") or ()) - {"bench", "dev", "fuzz", "interop"}
    listed = [Requirement(text) for text in metadata.requires("serl") or ()]
    optional = [one for one in listed if one.marker and not one.marker.evaluate({"extra": ""})]
    brought = {one.name for one in optional for extra in extras if one.marker and one.marker.evaluate({"extra": extra})}
    return sorted(name.replace("-", "_") for name in brought)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables for processes in which no package of an extra can be imported."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(WITHOUT_EXTRAS.format(hidden=modules_of_extras()))
    paths = (str(folder), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "200"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files for the commands, including a run with updated weights."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("learnt", "a.day", "b.day", "a.csv"):
        (folder / name).touch()
    (folder / "model.gguf").write_bytes(b"GGUF")
    (folder / "a.dbn").write_bytes(b"DBN\x01" + bytes(100))
    (folder / "run" / "tuning").mkdir(parents=True)
    run.begin(folder / "run", load_config(Path("default")), "test", resume=False).close()
    (folder / "run" / "tuning" / "after-00001.safetensors").touch()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of these files to work in."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


IN_PROCESS = """
import contextlib, io, json, sys, traceback
from serl.cli import main
for line in json.load(sys.stdin):
    sys.argv, text, status = ["serl", *line.split()], io.StringIO(), 0
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            main()
        except SystemExit as error:
            status = error.code
        except BaseException:
            traceback.print_exc()
            status = -1
    print(json.dumps([status, text.getvalue()]))
"""
"""Runs command lines one after the other, which shares their imports."""


def run_commands(lines: list[str], folder: Path, environment: dict[str, str]) -> dict[str, tuple[int, str]]:
    """Exit status and output of each command line."""
    done = subprocess.run(
        [sys.executable, "-c", IN_PROCESS], input=json.dumps(lines), capture_output=True, text=True, cwd=folder,
        env=environment, timeout=300,
    )  # fmt: skip
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(lines), (done.returncode, done.stderr)
    return {line: (status, text) for line, (status, text) in zip(lines, results, strict=True)}


def test_commands_that_need_an_extra_name_it_and_start_nothing(folder: Path, bare: dict[str, str]) -> None:
    before = sorted(folder.rglob("*"))
    found = run_commands(list(NEEDS_EXTRA), folder, bare)
    wrong = {
        line: found[line]
        for line, extra in NEEDS_EXTRA.items()
        if found[line][0] != 2
        or not found[line][1].startswith("error: expected the package")
        or not found[line][1].endswith(f": pip install -e '.[{extra}]'\n")
        or found[line][1].count("\n") != 1
    }
    assert wrong == {}
    assert sorted(folder.rglob("*")) == before


@pytest.mark.long
def test_commands_without_extras_work(folder: Path, bare: dict[str, str]) -> None:
    with start_exchange(symbols="DEMO", journal=folder / "journal", environment=bare) as served:
        watched = [sys.executable, "-m", "serl", "dashboard", "--port", "0", "--connect", served.endpoint]
        with subprocess.Popen(watched, stdout=subprocess.PIPE, text=True, env=bare) as dashboard:
            assert dashboard.stdout is not None
            assert [dashboard.stdout.readline().split()[0] for _ in range(2)] == ["dashboard", "operator"]
            dashboard.terminate()
        lines = {line.format(endpoint=served.endpoint): expected for line, expected in WITH_AN_EXCHANGE.items()}
        found = run_commands(list(lines), folder, bare)
        served.process.wait(timeout=60)
    found |= run_commands(list(NEEDS_NO_EXTRA), folder, bare)
    expected = lines | NEEDS_NO_EXTRA
    assert {
        line: one for line, one in found.items() if one[0] != expected[line][0] or expected[line][1] not in one[1]
    } == {}


def test_every_command_is_tested_without_extras() -> None:
    tested = [*NEEDS_EXTRA, *WITH_AN_EXCHANGE, *NEEDS_NO_EXTRA, *LONG_RUNNING]
    assert [name for name, _ in commands() if not any(f"{line} ".startswith(f"{name} ") for line in tested)] == []


def commands(command: click.Command = serl, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands of the command line that are not groups."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for word in command.list_commands(context):
        inner = command.get_command(context, word)
        assert inner is not None
        yield from commands(inner, f"{name} {word}".strip())


def test_the_documentation_lists_every_extra() -> None:
    text = (Path(__file__).parents[1] / "docs" / "index.md").read_text()
    listed = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert listed == set(user_extras())


def test_extras_provide_packages() -> None:
    assert extras_providing(["torch"]) == ["calibrate"], "the one with the fewest packages"
    assert extras_providing(["torch"], preferred="researcher") == ["researcher"]
    assert extras_providing(["pyarrow"], preferred="history") == ["history"]
    assert extras_providing(["matplotlib", "pyarrow"], preferred="reports") == ["reports"]
    assert extras_providing(["torch", "databento_dbn", "ray"], preferred="learning") == ["history", "learning", "ray"]
    assert extras_providing(["numpy"]) == [""]
    assert extras_providing(["torch", "nosuchpackage"]) == []


def test_failed_imports_that_no_extra_provides_stay_import_errors() -> None:
    for name in ("nosuchpackage", "serl.nosuchmodule", "numpy.nosuchmodule"):
        assert missing_package(ModuleNotFoundError(name=name), "a test") is None


def test_a_package_of_serl_itself_is_installed_with_serl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingPackageError) as caught:
        require("a test", "numpy", "numba")
    assert (
        str(caught.value)
        == "expected the package numba for a test, got none; install it in serl's clone with: pip install -e ."
    )


@pytest.mark.parametrize("modules", [("torch",), ("torch", "safetensors")])
def test_reports_that_lack_only_pytorch_name_the_extra_of_the_documentation(
    modules: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=r"\[learning\]"):
        require_reports(*modules)
