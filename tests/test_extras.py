"""The command line without extras: a command that needs one names it in one line before it starts anything; the others work."""

import ast
import importlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement

from serl.cli import serl
from serl.extras import MissingPackageError, extras_providing, missing_package, require
from serl.researcher.outer import run
from serl.researcher.outer.config import load_config

NEEDS_EXTRA = {
    "train dynamic": "learning",
    "evaluate twap --config bars": "learning",
    "evaluate twap learnt --kind dynamic": "learning",
    "execute learnt --symbol A --side sell --qty 1 --window 10:00-10:01": "learning",
    "realism a.day b.day": "learning",
    "calibrate a.day -o a.yaml": "calibrate",
    "day import a.dbn -o a.day": "history",
    "llm ask hello": "researcher",
    "llm serve": "researcher",
    "llm unpack model.gguf": "researcher",
    "llm export run --to merged --output tuned": "researcher",
    "researcher start": "researcher",
    "researcher start --on ray": "ray,researcher",
    "researcher report run --final": "learning",
    "metrics": "metrics",
    "demo --output demo": "researcher",
}
"""Command lines and the extras that they need; every command that needs one is here."""
NEEDS_NO_EXTRA = {
    "researcher status run": (0, "0 of 50 iterations"),
    "researcher report run": (0, "wrote run/report.html"),
    "llm list": (0, "SmolLM2"),
    "llm ask hello --offline --record calls.jsonl": (2, "the record has no answer"),
    "demo --quick --day none.day": (2, "none.day"),
    "demo --no-researcher --no-dashboard --day none.day": (2, "none.day"),
    "realism none.day none.day --no-predictive": (2, "none.day"),
}
"""Command lines that need no extra, although others of the same command do, with their exit status and output."""

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
    extras = set(metadata.metadata("serl").get_all("Provides-Extra") or ()) - {"bench", "dev", "docs"}
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
    for name in ("learnt", "model.gguf", "a.day", "b.day"):
        (folder / name).touch()
    (folder / "a.dbn").write_bytes(b"DBN\x01" + bytes(100))
    (folder / "run" / "tuning").mkdir(parents=True)
    run.begin(folder / "run", load_config(Path("default")), "test", resume=False).close()
    (folder / "run" / "tuning" / "after-00001.safetensors").touch()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of these files to work in."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def called(line: str, folder: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "serl", *line.split()]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=60)


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


ONE_OF_EACH = {extra: line for line, extra in NEEDS_EXTRA.items()}.values()


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=() if line in ONE_OF_EACH else pytest.mark.long) for line in NEEDS_EXTRA]
)
def test_a_command_that_needs_an_extra_names_it_and_starts_nothing(
    line: str, folder: Path, bare: dict[str, str]
) -> None:
    before = files_in(folder)
    done = called(line, folder, bare)
    assert done.returncode == 2 and done.stdout == "", done.stderr
    (message,) = done.stderr.splitlines()
    assert message.startswith("error: expected the package") and message.endswith(
        f": pip install 'serl[{NEEDS_EXTRA[line]}]'"
    )
    assert files_in(folder) == before


@pytest.mark.parametrize("line", NEEDS_NO_EXTRA)
def test_commands_without_extras_work(line: str, folder: Path, bare: dict[str, str]) -> None:
    done = called(line, folder, bare)
    status, text = NEEDS_NO_EXTRA[line]
    assert done.returncode == status and text in done.stdout + done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "pip install" not in done.stderr


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


def imported_in(command: click.Command) -> list[str]:
    """Modules of serl that a command imports when it runs."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(command.callback))))  # type: ignore[arg-type]
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names = [name for node in found for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names))]
    return [name for name in names if name and name.startswith("serl.")]


def needs_an_extra(module: str) -> bool:
    """Whether importing the module fails for a missing package; False for names that are not modules."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return not str(error.name).startswith("serl.")
    return False


def test_every_command_that_imports_an_extra_is_tested_without_it(bare: dict[str, str]) -> None:
    code = "import json; from tests.test_extras import importing; print(json.dumps(importing()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=bare, timeout=120)
    found = json.loads(done.stdout or "[]")
    assert {"train", "researcher start"} <= set(found), done.stderr
    assert [name for name in found if not any(line.startswith(name) for line in NEEDS_EXTRA)] == []


def importing() -> list[str]:
    """Commands whose imports fail in this process."""
    return [name for name, command in commands() if any(map(needs_an_extra, imported_in(command)))]


def test_extras_provide_packages() -> None:
    assert extras_providing(["torch"]) == ["learning"], "the smallest extra that provides it"
    assert extras_providing(["torch"], preferred="researcher") == ["researcher"]
    assert extras_providing(["torch", "databento_dbn", "ray"]) == ["history", "learning", "ray"]
    assert extras_providing(["numpy"]) == [""]
    assert extras_providing(["torch", "nosuchpackage"]) == []


def test_failed_imports_that_no_extra_provides_stay_import_errors() -> None:
    for name in ("nosuchpackage", "serl.nosuchmodule", "numpy.nosuchmodule"):
        assert missing_package(ModuleNotFoundError(name=name), "a test") is None


def test_a_package_of_serl_itself_is_installed_with_serl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingPackageError) as caught:
        require("a test", "numpy", "numba")
    assert str(caught.value) == "expected the package numba for a test, got none; install it with: pip install serl"
