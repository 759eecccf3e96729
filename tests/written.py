"""What the pages tell people to type."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str


def blocks(page: str, language: str = "") -> list[Block]:
    """Those of a page, named from docs/ on, in one language or all."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return [Block(*one) for one in found if one[0] == language or not language]


def commands(block: Block) -> list[str]:
    """The lines of a console block that are typed: all, or those after a $ where there are any; without comments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
    return [line.split(" # ")[0].strip() for line in typed]


def run(page: str, **names: Any) -> dict[str, Any]:
    """Runs a page's Python blocks one after the other, as one program that begins with these names; the names at its end."""
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block.text, page, "exec"), names)
    return names
