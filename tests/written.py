"""What the pages tell people to type.

A comment before a block of a page says how a test runs it: `<!-- run: --steps 2000 -->` gives these options too to the commands that have them, so
that it takes seconds; `<!-- not run: REASON -->` leaves it out. Without a comment it is run as it stands.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = r"^(?:<!-- (?:run: ([^\n]+)|not run: ([^\n]+)) -->\n)?```(\w*)\n(.*?)^```$"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]


@dataclass(frozen=True)
class Block:
    """A fenced block; `less`: the options of its comment, `unrun`: the reason why it is not run."""

    less: str
    unrun: str
    language: str
    text: str

    @property
    def options(self) -> list[tuple[str, ...]]:
        """What is given to its commands beside what stands there: (option, value)."""
        return [tuple(shlex.split(one)) for one in re.split(r" (?=-)", self.less) if one]


def blocks(page: str, language: str = "") -> list[Block]:
    """Those of a page, named from docs/ on, in one language or all."""
    found = [Block(*one) for one in re.findall(BLOCK, (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)]
    return [one for one in found if one.language == language or not language]


def commands(block: Block) -> list[str]:
    """The lines of a console block that are typed: all, or those after a $ where there are any; without comments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
    return [line.split(" # ")[0].strip() for line in typed]


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
