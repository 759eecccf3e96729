"""The notebooks run, print what is stored in them, and are stored complete, small, and without traces of a machine."""

import json
import re
from pathlib import Path

import pytest

from serl.researcher.llm.models import MODELS
from tests.doc_blocks import DOCS, ROOT
from tests.notebooks import NOTEBOOKS, Output, code_cells, read, run, run_cell, shell

CELLS_MAX = 12
BYTES_MAX = 1_500_000
SMALLER = {
    "circuit-breaker": {"SEEDS = 20": "SEEDS = 2", 'UNTIL = "13:00"': 'UNTIL = "09:45"', "seed=3": "seed=1"},
    "executor": {"STEPS = 200_000": "STEPS = 1_920", "EPISODES = 128": "EPISODES = 8"},
    "researcher": {
        "iterations: 2": "iterations: 1",
        "candidates: 3": "candidates: 1",
        "static_steps: 20000": "static_steps: 2000",
        "orders: 12": "orders: 2",
    },
}
"""What is replaced in notebooks that take long, so that they take less; they are run by `make test-long`."""
NEEDED = {"executor": ["torch"], "researcher": ["torch", "openai", "xllamacpp"]}
"""Packages that notebooks need beyond those of `serl[history,reports]`."""
ids = [path.stem for path in NOTEBOOKS]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and figures without a screen."""
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def texts(outputs: list[Output]) -> list[str]:
    """What is printed of outputs; of a figure its size."""
    return ["".join(one.get("text") or one["data"]["text/plain"]) for one in outputs]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name == "market-maker")) for name in ids if name not in SMALLER],
)
def test_a_notebook_prints_what_is_stored(name: str, folder: Path) -> None:
    notebook = read(DOCS / "notebooks" / f"{name}.ipynb")
    for cell, outputs in zip(code_cells(notebook), run(notebook), strict=True):
        assert texts(outputs) == texts(cell["outputs"]), "".join(cell["source"])


@pytest.mark.long
@pytest.mark.parametrize("name", SMALLER)
def test_a_smaller_notebook_runs(name: str, folder: Path) -> None:
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    if name == "researcher" and not MODELS["tiny"].path.exists():
        pytest.skip("needs the model: serl llm fetch tiny")
    notebook = read(DOCS / "notebooks" / f"{name}.ipynb")
    for cell, outputs in zip(code_cells(notebook), run(notebook, SMALLER[name]), strict=True):
        assert [one["output_type"] for one in outputs] == [one["output_type"] for one in cell["outputs"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_a_notebook_is_stored_as_it_ran(path: Path) -> None:
    notebook = read(path)
    cells = code_cells(notebook)
    assert len(notebook["cells"]) <= CELLS_MAX
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), "run make notebooks"
    assert any("image/png" in one.get("data", {}) for cell in cells for one in cell["outputs"])
    for cell in cells:
        assert not [one for one in cell["outputs"] if one["output_type"] == "error" or one.get("name") == "stderr"]
        text = "\n".join(re.sub(r'"image/png": "[^"]*"', "", json.dumps(one)) for one in cell["outputs"])
        assert not re.search(r"(?<![\w.:/-])/\w+/\w|[A-Z]:\\\\|file://| at 0x[0-9a-f]+", text), "a path or an address"


def test_notebooks_are_small_and_linked() -> None:
    assert sum(path.stat().st_size for path in NOTEBOOKS) < BYTES_MAX
    for page, where in ((ROOT / "README.md", "docs/notebooks"), (DOCS / "index.md", "notebooks")):
        text = page.read_text()
        assert [path.name for path in NOTEBOOKS if f"]({where}/{path.name})" not in text] == []


def test_a_cell_gives_its_value_its_prints_and_its_figures(folder: Path) -> None:
    from matplotlib import pyplot

    source = "!echo $((6 * 7))\nfrom matplotlib import pyplot\npyplot.plot([1, 2])\nprint('printed')\n{'a': 1}"
    printed, value, figure = run_cell(source, {"_shell": shell}, 3)
    assert printed["text"] == ["42\n", "printed\n"]
    assert (value["execution_count"], value["data"]["text/plain"]) == (3, ["{'a': 1}"])
    assert figure["data"]["image/png"] and not pyplot.get_fignums()


def test_a_failing_command_of_the_shell_ends_the_notebook(folder: Path) -> None:
    cell = {"cell_type": "code", "source": ["!serl simulate nobody -o a.day"]}
    with pytest.raises(RuntimeError, match="exit status 2"):
        list(run({"cells": [cell]}))


def test_what_is_made_smaller_must_be_there(folder: Path) -> None:
    with pytest.raises(AssertionError, match="expected 'SEEDS = 9' in the notebook"):
        list(run({"cells": [{"cell_type": "code", "source": ["SEEDS = 20"]}]}, {"SEEDS = 9": "SEEDS = 1"}))
