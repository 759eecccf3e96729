"""Code blocks of the documentation, and how tests run them.

A comment before a block, like `<!-- run: --steps 2000 -->`, gives extra options to the commands that have them, so that they take seconds.
Without a comment a block is run unchanged. The blocks in NOT_RUN are not run.
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
    ("results.md", "python -m benchmarks.proof"): "hours in any size; test_proof.py runs a quick one",
    (
        "generated-flow.md",
        "serl flow train GOOG.zip",
    ): "four networks take minutes; tests/agents/calibration/test_generated_flow.py trains one",
    ("generated-flow.md", "python -m benchmarks.flow AMZN"): "minutes, for the same reason",
    ("generated-flow.md", "python -m benchmarks.flow_scenarios"): "sixty simulated days take minutes",
    ("researcher.md", "python -m benchmarks.proof"): "five tasks take a minute in any size; test_proof.py runs one",
    ("results.md", "serl evaluate pov"): "six learnt policies in three markets take minutes with a single order",
    (
        "results.md",
        "python -m benchmarks.headline --nasdaq nasdaq.parquet --no-dynamic --steps 1000000 --seeds 3 --methods",
    ): "the block before it runs the same command with other options",
    ("results.md", "python -m benchmarks.headline --cn"): "the command is run for the Nasdaq bars",
    (
        "results.md",
        "python -m benchmarks.headline --book",
    ): "five learners in replayed books take minutes with a few steps",
    (
        "results.md",
        "python -m benchmarks.headline --steps 200000",
    ): "learners among simulated traders take minutes with a few steps",
    (
        "minds.md",
        "serl exchange start --symbols ALFA,BETA --clock lockstep --participants 8",
    ): "64 decisions of a model take minutes; tests/minds/test_tiny.py runs four",
    (
        "minds.md",
        "serl exchange start --symbols ALFA,BETA --clock lockstep --participants 9",
    ): "64 decisions of a model take minutes; tests/minds/test_news.py plays such a file",
    ("minds.md", "serl minds report"): "there is no run to report; tests/minds/test_report.py makes one",
    ("minds.md", "serl exchange start --with small"): "decisions of a model take minutes; tests/minds runs them",
    ("results.md", "python -m benchmarks.ablation"): "twelve policies take minutes with a single step",
}
"""Console blocks that are not run, by page and first words, with the reason. Tests still parse their commands."""


@dataclass(frozen=True)
class Block:
    """A fenced block; `page` is relative to docs/, `run_options` are the options in its comment."""

    page: str
    run_options: str
    language: str
    text: str

    @property
    def unrun(self) -> list[tuple[str, str]]:
        """Its keys in NOT_RUN: none or one."""
        return [(page, start) for page, start in NOT_RUN if page == self.page and commands(self)[0].startswith(start)]

    @property
    def options(self) -> list[tuple[str, ...]]:
        """The extra options for its commands: (option, value)."""
        return [tuple(shlex.split(one)) for one in re.split(r" (?=-)", self.run_options) if one]


def blocks(page: str, language: str = "") -> list[Block]:
    """The blocks of a page (relative to docs/), in one language or all."""
    path = DOCS / page
    found = [
        Block(os.path.relpath(path, DOCS), *one)
        for one in re.findall(BLOCK, path.read_text(), re.DOTALL | re.MULTILINE)
    ]
    return [one for one in found if one.language == language or not language]


def commands(block: Block) -> list[str]:
    """The commands of a console block: the lines after a $, or all lines if there is none; without comments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
    return [line.split(" # ")[0].strip() for line in commands if line]


def outputs(block: Block) -> list[list[str]]:
    """The output shown below each command of a console block, as lines."""
    parts = re.split(r"^\$ .*\n", block.text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [part.splitlines() for part in parts] or [[] for _ in commands(block)]


def run(page: str, **names: Any) -> dict[str, Any]:
    """Runs a page's Python blocks as one program with these global names. Returns its names at the end."""
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block.text, page, "exec"), names)
    return names
