"""From a file on disk to a day, whatever its format: told by what is in it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from serl.history.bars import bars_advice, is_bars
from serl.history.day import Day, Reference, day_writer, read_reference
from serl.history.dbn import is_dbn, read_dbn
from serl.history.decompress import head
from serl.history.depth import read_depth
from serl.history.depth_lines import is_depth
from serl.history.errors import DayError, SourceError
from serl.history.itch.reader import is_itch, read_itch
from serl.history.l3_csv import read_l3_csv
from serl.history.l3_events import is_l3_csv
from serl.history.lobster import is_lobster, read_lobster
from serl.history.lobster_day import lobster_day
from serl.history.source import DEFAULTS, Collected, Options, Sink


@dataclass(frozen=True)
class Format:
    """One format of history."""

    name: str
    what: str
    """In a line, for those whose file was not recognised."""
    is_this: Callable[[bytes], bool]
    """Of the first (unpacked) bytes of a file."""
    read: Callable[[Path, Sink, Options], Reference]


def _read_lobster(path: Path, sink: Sink, options: Options) -> Reference:
    options.only(path, "LOBSTER")
    day = lobster_day(read_lobster(path))
    sink.write(day.commands, day.rows)
    return day.reference


LOBSTER = Format(
    "LOBSTER",
    "a zip file or folder with SYMBOL_DATE_START_END_message_LEVELS.csv and its orderbook file, or that message file",
    lambda head: False,  # told by its names, which say symbol, date and levels
    _read_lobster,
)
DEPTH = Format(
    "Binance depth",
    "lines of a time in ns and a message: snapshot, depth diffs, trades; plain or packed",
    is_depth,
    read_depth,
)
FORMATS = (
    LOBSTER,
    Format("NASDAQ ITCH 5.0", "messages behind their length in two bytes; plain or packed", is_itch, read_itch),
    Format("Databento MBO", "DBN, plain or .zst", is_dbn, read_dbn),
    Format("L3 event CSV", "id,timestamp,exchange.timestamp,price,volume,action,direction; plain or packed", is_l3_csv, read_l3_csv),
    DEPTH,
)  # fmt: skip


def recognise(path: Path) -> Format:
    """The format of a source; SourceError names all of them if it is none, and says where bars and day files go."""
    if not path.exists():
        raise SourceError(f"{path}: does not exist; give {_all_formats()}")
    if is_lobster(path):
        return LOBSTER
    if path.is_dir():
        raise SourceError(f"{path}: a folder without LOBSTER files; give {_all_formats()}")
    start = head(path)
    if not start:
        raise SourceError(f"{path}: is empty; give {_all_formats()}")
    for one in FORMATS:
        if one.is_this(start):
            return one
    if _is_day_file(path):
        raise SourceError(f"{path}: is a day file already; `serl replay` plays it, `serl day info` looks into it")
    if is_bars(path, start):
        raise SourceError(bars_advice(path))
    raise SourceError(f"{path}: not recognised; known are {_all_formats()}")


def _is_day_file(path: Path) -> bool:
    try:
        read_reference(path)
    except DayError:
        return False
    return True


def bars_source(path: Path) -> bool:
    """Whether a file is one of bars."""
    return path.is_file() and not is_lobster(path) and is_bars(path, head(path))


def _all_formats() -> str:
    known = "; ".join(f"{one.name}: {one.what}" for one in FORMATS)
    return f"{known}; bars: a table (Parquet or CSV) with open, high, low, close, volume and their times"


def import_day(path: Path | str, options: Options = DEFAULTS) -> Day:
    """Reads whatever `path` is, in memory; SourceError if no reader knows it, or the reader's own error."""
    sink = Collected()
    reference = recognise(Path(path)).read(Path(path), sink, options)
    return Day(*sink.all(), reference)


def import_file(path: Path | str, output: Path | str, options: Options = DEFAULTS) -> tuple[Reference, int]:
    """Writes the day file of `path`, in bounded memory where its reader streams; reference data and number of commands."""
    one = recognise(Path(path))
    with day_writer(output) as writer:
        reference = one.read(Path(path), writer, options)
        writer.finish(reference)
    return reference, writer.commands
