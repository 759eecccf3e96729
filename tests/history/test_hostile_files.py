"""Files that would fill memory, or whose records are not what an import takes them for."""

import gzip
import resource
from pathlib import Path

import pytest

from serl.history.cli import day
from serl.history.dbn import LAST
from serl.history.errors import DbnError, SourceError
from serl.history.importing import import_day
from tests.history.test_dbn import FIRST, imported

HEADS = {
    "binance_incremental_book_L2_2020-09-01_X.csv.gz": b"exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount\n",
    "coinapi.csv.gz": b"time_exchange,time_coinapi,is_buy,update_type,entry_px,entry_sx,order_id\n",
    "depth.txt.gz": b'1723161253937085768 {"a":1}\n',
}


@pytest.mark.parametrize("name", HEADS)
def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path, name: str) -> None:
    """A compressed file of a megabyte holds a line of 320 MB: today it is collected block by block, in 10 s and 1.3 GB; 100 MB need all memory."""
    parts = [gzip.compress(data, 1) for data in (HEADS[name], b"7" * (1 << 23))]
    (tmp_path / name).write_bytes(parts[0] + 40 * parts[1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SourceError, match="16,777,216 bytes"):
        import_day(tmp_path / name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000  # KiB


def test_databento_levels_are_no_orders(tmp_path: Path) -> None:
    """Flag 16 (MBP): "an aggregated price level record, not an individual order". Before, it becomes an order."""
    with pytest.raises(DbnError, match="a level instead of an order"):
        imported(tmp_path, FIRST, ("A", "B", 6, 99, 500), flags={1: LAST | 16})


def test_databento_records_after_a_gap_are_counted(tmp_path: Path) -> None:
    """Flag 4 (MAYBE_BAD_BOOK): "an unrecoverable gap was detected in the channel". Before, nothing tells that the book may be wrong."""
    day = imported(tmp_path, FIRST, ("A", "B", 6, 99, 5), ("A", "B", 7, 98, 5), flags={1: LAST | 4, 2: LAST | 4})
    assert day.reference.counts["records_maybe_bad"] == 2


def test_databento_cancels_of_more_than_is_open_are_counted(tmp_path: Path) -> None:
    """A cancel of 15 of an order of 10 shows that something is missing. Before, it cancels the 10 and nothing tells of it."""
    day = imported(tmp_path, FIRST, ("C", "B", 5, 100, 15))
    assert day.reference.counts["cancels_beyond_open"] == 1


def test_a_symbol_that_is_no_text_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON can escape half a character; a file cannot be named after it. Before, the import ends with a traceback after all its work."""
    from click.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    Path("d.txt").write_text(
        '1723161253937085768 {"lastUpdateId":10,"bids":[["100.50","1.25"]],"asks":[["101.50","2.5"]]}\n'
        '1723161254937085768 {"e":"depthUpdate","E":1,"s":"\\ud800","U":11,"u":12,"b":[["100.50","10.25"]],"a":[]}\n'
    )
    result = CliRunner().invoke(day, ["import", "d.txt"])
    assert result.exit_code == 0, result.exception
    assert [path.name for path in tmp_path.glob("*.parquet")] == ["-_2024-08-08_0.parquet"]
