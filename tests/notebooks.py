"""Runs the notebooks of docs/notebooks without Jupyter, and stores what their cells print and draw: `make notebooks`.

A cell is Python; a line that starts with `!` is a command of the shell, as in Jupyter. The value of the last expression, what was printed, and
every open figure of matplotlib are a cell's outputs; a semicolon at the end hides the value.
"""

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from tests.doc_blocks import DOCS

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
DOTS_PER_INCH = 72
TEXT_WIDTH = 100
"""Columns that commands of the shell believe their terminal to have."""
Cell = dict[str, Any]
Output = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """A notebook as JSON."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def write(path: Path, notebook: Mapping[str, Any]) -> None:
    """Writes a notebook as Jupyter does: one space of indentation, sorted keys."""
    path.write_text(json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def code_cells(notebook: Mapping[str, Any]) -> list[Cell]:
    """Its cells of code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: Mapping[str, Any], smaller: Mapping[str, str] | None = None) -> Iterator[list[Output]]:
    """Runs its cells one after the other in an empty namespace and the working directory; the outputs of each.

    smaller: texts of the code and what replaces them, for a run that takes less time; each must occur. What a cell raises ends the run.
    """
    sources = ["".join(cell["source"]) for cell in code_cells(notebook)]
    for old, new in (smaller or {}).items():
        assert any(old in source for source in sources), f"expected {old!r} in the notebook; correct the test"
        sources = [source.replace(old, new) for source in sources]
    names: dict[str, Any] = {"__name__": "__main__", "_shell": shell}
    for number, source in enumerate(sources, 1):
        with mock.patch.dict(os.environ, environment()):
            outputs = run_cell(source, names, number)
        yield outputs


def environment() -> dict[str, str]:
    """Variables for commands that a notebook starts: `serl` is that of this Python, and the terminal has so many columns."""
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    return {"PATH": os.pathsep.join(paths), "COLUMNS": str(TEXT_WIDTH)}


def shell(command: str) -> None:
    """Runs a command and prints its output; RuntimeError with the output if it fails."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    print(done.stdout, end="")
    if done.returncode:
        raise RuntimeError(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


def run_cell(source: str, names: dict[str, Any], number: int) -> list[Output]:
    """Runs a cell in a namespace and returns its outputs in Jupyter's format."""
    tree = ast.parse(re.sub(r"^!(.+)$", lambda found: f"_shell({found[1]!r})", source, flags=re.MULTILINE))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if value is not None and not source.rstrip().endswith(";"):
        outputs.append(
            {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": shown(value)}
        )
    return outputs + [{"output_type": "display_data", "metadata": {}, "data": data} for data in figures()]


def shown(value: Any) -> dict[str, Any]:
    """A value as text, and as HTML if it has any."""
    data: dict[str, Any] = {"text/plain": lines(repr(value))}
    html: Callable[[], str] | None = getattr(value, "_repr_html_", None)
    return data if html is None else data | {"text/html": lines(html())}


def figures() -> list[dict[str, Any]]:
    """Every open figure as PNG; closes them."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        figure, file = pyplot.figure(number), io.BytesIO()
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH, bbox_inches="tight", metadata={"Software": None})
        size = f"<Figure size {figure.bbox.width:.0f}x{figure.bbox.height:.0f}>"
        found.append({"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": [size]})
    pyplot.close("all")
    return found


def lines(text: str) -> list[str]:
    """Lines with their ends, as notebooks store texts."""
    return text.splitlines(keepends=True)


def store(path: Path) -> None:
    """Runs a notebook in an empty folder and stores its outputs."""
    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, (cell, outputs) in enumerate(zip(code_cells(notebook), run(notebook), strict=True), 1):
            cell["execution_count"], cell["outputs"] = number, outputs
    write(path, notebook)


def main() -> None:
    """Stores all notebooks, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *(path.stem for path in NOTEBOOKS)], help="all by default")
    chosen = parser.parse_args().names
    import matplotlib

    matplotlib.use("agg")
    for path in NOTEBOOKS:
        if not chosen or path.stem in chosen:
            print(path.stem, flush=True)
            store(path.absolute())


if __name__ == "__main__":
    main()
