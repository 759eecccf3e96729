"""The publisher's sample days: the market's book equals the file's at every row, on every level."""

from pathlib import Path

import numpy as np
import pytest

from serl.exchange.errors import SerlError
from serl.history.lobster import read_lobster
from serl.history.lobster_day import book_view, lobster_day
from serl.history.verify import verify, verify_source

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "lobster"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the LOBSTER sample files are not in ../shared/data/lobster"
)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        pytest.param("GOOG_2012-06-21_10", 147_916, marks=pytest.mark.long),
        pytest.param("AMZN_2012-06-21_5", 155_935, marks=pytest.mark.long),
        ("AMZN_2012-06-21_1", 57_515),
    ],
)
def test_book_equals_the_file_at_every_row(name: str, rows: int) -> None:
    source = read_lobster(FOLDER / f"LOBSTER_SampleFile_{name}.zip")
    day = lobster_day(source)
    ticks, lots = book_view(source)
    result = verify(day, ticks, lots)
    assert (result.rows, result.differing, result.unexplained, result.rejected) == (rows, 0, 0, 0)
    counts = day.reference.counts
    assert counts["missing_lots"] == counts["executions_unfilled"] == 0
    assert counts["executions_other_head"] < 0.15 * counts["executions"]
    volume = day.commands["qty_lots"][day.commands["time_in_force"] == 2].sum()
    assert volume == source.messages[1:][source.messages[1:, 0] == 4, 2].sum(), "every execution is in, with its size"
    # The comparison can fail: one lot more in one row is found.
    row = int(np.argmax(lots[:, 0, 0] > 0) + rows // 2)
    lots[row, 0, 0] += 1
    wrong = verify(day, ticks, lots)
    assert wrong.differing == 1 and wrong.first_difference is not None and wrong.first_difference.row == row + 1


def test_another_source_is_refused() -> None:
    day = lobster_day(read_lobster(FOLDER / "LOBSTER_SampleFile_AMZN_2012-06-21_1.zip"))
    with pytest.raises(SerlError, match=r"expected the source of the day, LOBSTER_SampleFile_AMZN_2012-06-21_1\.zip"):
        verify_source(day, FOLDER / "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip")
