"""What the pages tell people to type.

A comment before a block of a page says how a test runs it: `<!-- run: --steps 2000 -->` gives these options too to the commands that have them, so
that it takes seconds. Without a comment it is run as it stands. Only what NOT_RUN names is not run.
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = r"^(?:<!-- run: ([^\n]+) -->\n)?```(\w*)\n(.*?)^```$"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
NOT_RUN = {
    ("index.md", "make demo"): "it makes an environment of its own, which takes minutes",
    ("../README.md", "make demo"): "both make an environment of their own, which takes minutes",
    ("models.md", "serl llm export"): "needs a run that has tuned; outer/test_tuned.py exports one",
    ("results.md", "serl evaluate pov"): "six learnt policies in three markets take minutes with a single order",
    ("results.md", "python -m benchmarks.ablation"): "twelve policies take minutes with a single step",
    ("results.md", "python -m benchmarks.proof --config book"): "it trains in books and scores in served exchanges",
}
"""Why console blocks are not run, by page and beginning. That their commands can be typed is tested all the same."""


@dataclass(frozen=True)
class Block:
    """A fenced block; `page` is named from docs/ on, `less`: the options of its comment."""

    page: str
    less: str
    language: str
    text: str

    @property
    def unrun(self) -> list[tuple[str, str]]:
        """Its places in NOT_RUN: none, or one."""
        return [(page, start) for page, start in NOT_RUN if page == self.page and commands(self)[0].startswith(start)]

    @property
    def options(self) -> list[tuple[str, ...]]:
        """What is given to its commands beside what stands there: (option, value)."""
        return [tuple(shlex.split(one)) for one in re.split(r" (?=-)", self.less) if one]


def blocks(page: str, language: str = "") -> list[Block]:
    """Those of a page, named from docs/ on, in one language or all."""
    path = DOCS / page
    found = [
        Block(os.path.relpath(path, DOCS), *one)
        for one in re.findall(BLOCK, path.read_text(), re.DOTALL | re.MULTILINE)
    ]
    return [one for one in found if one.language == language or not language]


def commands(block: Block) -> list[str]:
    """The lines of a console block that are typed: all, or those after a $ where there are any; without comments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
    return [line.split(" # ")[0].strip() for line in typed if line]


def answers(block: Block) -> list[list[str]]:
    """The lines that stand below each command of a console block."""
    parts = re.split(r"^\$ .*\n", block.text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [part.splitlines() for part in parts] or [[] for _ in commands(block)]


def run(page: str, **names: Any) -> dict[str, Any]:
    """Runs a page's Python blocks one after the other, as one program that begins with these names; the names at its end."""
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block.text, page, "exec"), names)
    return names
