"""Every console block of the documentation runs, except those in NOT_RUN of tests/doc_blocks.py, and prints the output that the page shows."""

import os
import re
from pathlib import Path

import pytest

from serl.researcher.llm.models import MODELS
from serl.researcher.sandbox import bubblewrap
from serl.researcher.sandbox.errors import SandboxUnavailableError
from serl.researcher.tuning.base import dequantised_folder
from tests.doc_blocks import BLOCK, DOCS, NOT_RUN, PAGES, ROOT, blocks
from tests.doc_fixtures import FILES
from tests.doc_session import Session

DATA = ROOT.parent / "shared" / "data"
REAL = {
    "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip": "lobster/LOBSTER_SampleFile_AMZN_2012-06-21_5.zip",
    "LOBSTER_SampleFile_GOOG_2012-06-21_10.zip": "lobster/LOBSTER_SampleFile_GOOG_2012-06-21_10.zip",
    "AMZN.zip": "lobster/LOBSTER_SampleFile_AMZN_2012-06-21_5.zip",
    "GOOG.zip": "lobster/LOBSTER_SampleFile_GOOG_2012-06-21_10.zip",
    "nasdaq.parquet": "bars/nasdaq_44stocks_1min_2018-02-16_2018-04-06.parquet",
    "cn.parquet": "bars/cn_42stocks_15min_2025.parquet",
}
"""Real data files by the names that pages use, with their paths in ../shared/data."""
NEEDED = {
    "serl train": ["torch"], "serl evaluate": ["torch"], "serl episodes": ["minari", "torch"], "python -m benchmarks": ["torch"], "serl calibrate": ["optuna"],
    "serl nautilus": ["nautilus_trader"], "serl league": ["torch"], "serl signals": ["torch"], "serl researcher": ["torch", "openai"], "serl llm": ["peft", "xllamacpp"],
}  # fmt: skip
"""Optional packages that commands need."""
AFTER = {"researcher.md": "tutorials/run-the-researcher.md", "models.md": "tutorials/run-the-researcher.md"}
"""Pages that use the files of another page: they are followed after it, in the same folder."""
LONG = {
    "calibration.md", "dashboard.md", "execution.md", "experiments.md", "gateways/nautilus.md", "generated-flow.md", "history.md", "journal.md", "league.md", "offline.md", "orders.md", "results.md", "signals.md", "tables.md", "traders.md",
    "tutorials/backtest-a-bot.md", "tutorials/calibrate.md", "tutorials/replay.md", "tutorials/run-the-researcher.md", "tutorials/train-an-executor.md",
}  # fmt: skip
"""Pages that take more than a few seconds: `make test-long` follows them."""
CONSOLE = {os.path.relpath(page, DOCS): blocks(str(page), "console") for page in PAGES}
RUN = {
    page: [block for part in (page, *(late for late in AFTER if AFTER[late] == page)) for block in CONSOLE[part] if not block.unrun]
    for page in CONSOLE
    if page not in AFTER
}  # fmt: skip


def test_comments_are_directives_of_console_blocks() -> None:
    """So that none is misspelt or in the wrong place."""
    for page in PAGES:
        text = page.read_text()
        found = re.findall(BLOCK, text, re.DOTALL | re.MULTILINE)
        assert text.count("<!--") == sum(bool(options) for options, *_ in found), page
        assert all(language == "console" for options, language, _ in found if options), page


def test_every_console_block_is_run_or_has_a_reason() -> None:
    skipped = [place for page in CONSOLE.values() for block in page for place in block.unrun]
    assert sorted(set(skipped)) == sorted(NOT_RUN), "each reason belongs to a block"
    assert all(len(reason.split()) > 2 for reason in NOT_RUN.values()), "give a reason why a block is not run"
    assert sum(map(len, RUN.values())) + len(skipped) == sum(map(len, CONSOLE.values()))


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long) if page in LONG else page for page, found in RUN.items() if found],
)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    """Of the researcher runs at several endpoints one is complete; the budget of the others (--tokens 1) ends them before the first request."""
    text = "".join(block.run_options + block.text for block in RUN[page])
    for name, path in REAL.items():
        if re.search(rf"\b{re.escape(name)}\b", text):
            if not (DATA / path).exists():
                pytest.skip(f"{path} is not in ../shared/data")
            (tmp_path / name).symlink_to(DATA / path)
    for name, create in FILES.items():
        if re.search(rf"\b{re.escape(name)}\b", text):
            create(tmp_path / name)
    for command, modules in NEEDED.items():
        if re.search(rf"^(\$ )?{command}", text, re.MULTILINE):
            for module in modules:
                pytest.importorskip(module)
    if "serl llm" in text and not dequantised_folder(MODELS["tiny"].path).exists():
        pytest.skip("needs the model in fp32: serl llm fetch tiny, serl llm unpack tiny")
    if "--form code" in text:
        try:
            bubblewrap.require_bwrap()
        except SandboxUnavailableError as error:
            pytest.skip(str(error))
    with Session(tmp_path) as session:
        for block in RUN[page]:
            session.type(block)
        session.end()
