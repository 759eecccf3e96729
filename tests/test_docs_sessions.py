"""Every console block of the pages is run, or says why not; what a page shows as an answer is what comes."""

import os
import re
from pathlib import Path

import pytest

from serl.exchange.history.day import write_day
from serl.exchange.history.generate import generate_day
from tests.session import Session
from tests.written import BLOCK, DOCS, PAGES, ROOT, blocks

DATA = ROOT.parent / "shared" / "data"
REAL = {
    "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip": "lobster/LOBSTER_SampleFile_AMZN_2012-06-21_5.zip",
    "LOBSTER_SampleFile_GOOG_2012-06-21_10.zip": "lobster/LOBSTER_SampleFile_GOOG_2012-06-21_10.zip",
    "AMZN.zip": "lobster/LOBSTER_SampleFile_AMZN_2012-06-21_5.zip",
    "GOOG.zip": "lobster/LOBSTER_SampleFile_GOOG_2012-06-21_10.zip",
    "nasdaq.parquet": "bars/nasdaq_44stocks_1min_2018-02-16_2018-04-06.parquet",
    "cn.parquet": "bars/cn_42stocks_15min_2025.parquet",
}
"""What pages call files that they do not make, and where those are in ../shared/data."""
DAYS = {"monday.day": 1, "tuesday.day": 2, "wednesday.day": 3}
"""Days that pages have without saying from where: generated ones of AMZN, by their seeds."""
RUN = {
    os.path.relpath(page, DOCS): [block for block in blocks(str(page), "console") if not block.unrun] for page in PAGES
}


def test_comments_are_directives_of_console_blocks() -> None:
    """So that none is misspelt or stands in the wrong place; and most blocks do run."""
    reasons = []
    for page in PAGES:
        text = page.read_text()
        found = re.findall(BLOCK, text, re.DOTALL | re.MULTILINE)
        assert text.count("<!--") == sum(bool(less or unrun) for less, unrun, *_ in found), page
        assert all(language == "console" for less, unrun, language, _ in found if less or unrun), page
        reasons += [block.unrun for block in blocks(str(page), "console") if block.unrun]
    assert all(len(reason.split()) > 2 for reason in reasons), "say why a block is not run"
    assert 3 * len(reasons) < 2 * sum(map(len, RUN.values()))


@pytest.mark.parametrize("page", [page for page, found in RUN.items() if found])
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    text = "".join(block.text for block in RUN[page])
    for name, path in REAL.items():
        if re.search(rf"\b{re.escape(name)}\b", text):
            if not (DATA / path).exists():
                pytest.skip(f"{path} is not in ../shared/data")
            (tmp_path / name).symlink_to(DATA / path)
    for name, seed in DAYS.items():
        if name in text:
            write_day(generate_day(seed, "AMZN"), tmp_path / name)
    if re.search(r"^(\$ )?serl (train|evaluate)|ablation", text, re.MULTILINE):
        pytest.importorskip("torch")
    if "serl calibrate" in text:
        pytest.importorskip("optuna")
    with Session(tmp_path) as session:
        for block in RUN[page]:
            session.type(block)
        session.end()
