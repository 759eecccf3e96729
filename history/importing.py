"""Imports a file of any supported format; detects the format from the content."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from serl.history.bars import bars_advice, is_bars
from serl.history.coinapi import read_coinapi
from serl.history.coinapi_rows import is_coinapi
from serl.history.day import Day, Reference, day_writer, read_blocks, read_reference
from serl.history.dbn import is_dbn, read_dbn
from serl.history.decompress import read_head
from serl.history.depth import read_depth
from serl.history.depth_lines import is_depth
from serl.history.errors import DayError, SourceError
from serl.history.iex.reader import is_iex, read_iex
from serl.history.itch.reader import is_itch, read_itch
from serl.history.l3_csv import read_l3_csv
from serl.history.l3_events import is_l3_csv
from serl.history.lobster import is_lobster, read_lobster
from serl.history.lobster_day import lobster_day
from serl.history.pitch.reader import is_pitch, read_pitch
from serl.history.source import DEFAULTS, MemorySink, Options, Sink
from serl.history.tardis import read_tardis
from serl.history.tardis_rows import is_tardis
from serl.history.verdict import Verdict, verdict

SHOWN_BYTES = 24
"""Number of bytes of a file in an unknown format that the error shows."""
UNJUDGED = ".importing"
"""Suffix of a day file until the market has judged it."""


@dataclass(frozen=True)
class Format:
    """A supported format."""

    name: str
    description: str
    """One line, for error messages."""
    matches: Callable[[bytes], bool]
    """Whether the first (decompressed) bytes of a file are of this format."""
    read: Callable[[Path, Sink, Options], Reference]


def _read_lobster(path: Path, sink: Sink, options: Options) -> Reference:
    options.allow_only(path, "LOBSTER")
    day = lobster_day(read_lobster(path))
    sink.write(day.commands, day.rows)
    return day.reference


LOBSTER = Format(
    "LOBSTER",
    "a zip file or folder with SYMBOL_DATE_START_END_message_LEVELS.csv and its orderbook file, or that message file",
    lambda head: False,  # detected by the file names, which contain symbol, date and levels
    _read_lobster,
)
DEPTH = Format(
    "Binance depth",
    "lines of a time in ns or us and a message: snapshot, depth diffs, trades; plain or compressed",
    is_depth,
    read_depth,
)
FORMATS = (
    LOBSTER,
    Format("NASDAQ ITCH 5.0", "messages, each after its length in two bytes; plain or compressed", is_itch, read_itch),
    Format("Databento MBO", "DBN, plain or .zst", is_dbn, read_dbn),
    Format("L3 event CSV", "id,timestamp,exchange.timestamp,price,volume,action,direction; plain or compressed", is_l3_csv, read_l3_csv),
    DEPTH,
    Format("Cboe PITCH", "captured packets (pcap, pcapng) of Multicast PITCH, or text, a message a line; plain or compressed", is_pitch, read_pitch),
    Format("IEX DEEP", "captured packets (pcap, pcapng) of IEX's DEEP feed; plain or compressed", is_iex, read_iex),
    Format("Tardis", "a CSV file of incremental_book_L2, and the trades beside it; plain or compressed", is_tardis, read_tardis),
    Format("CoinAPI", "a CSV file of T-LIMITBOOK_FULL; plain or compressed", is_coinapi, read_coinapi),
)  # fmt: skip


def detect_format(path: Path) -> Format:
    """The format of a source. Raises `SourceError` for anything else, with advice for bars and day files."""
    if not path.exists():
        raise SourceError(f"{path}: does not exist; check the path")
    if not path.is_file() and not path.is_dir():
        raise SourceError(
            f"{path}: expected a file or folder, got a device or pipe; write its data to a file and give that"
        )
    if _is_empty(path):
        raise SourceError(f"{path}: is empty")
    if is_lobster(path):
        return LOBSTER
    if path.is_dir():
        raise SourceError(
            f"{path}: expected a folder with LOBSTER files, got one without; give the file of another format"
        )
    start = read_head(path)
    if not start:
        raise SourceError(f"{path}: is empty")
    for source_format in FORMATS:
        if source_format.matches(start):
            return source_format
    if is_day_file(path):
        raise SourceError(f"{path}: is a day file already; use it with `serl replay` or `serl day info`")
    if is_bars(path, start):
        raise SourceError(bars_advice(path))
    raise SourceError(
        f"{path}: expected a known format, got a file that begins with {start[:SHOWN_BYTES]!r}; give one of these (docs/history.md):\n"
        f"{_all_formats()}"
    )


def is_day_file(path: Path) -> bool:
    """Whether the file is a day file."""
    try:
        read_reference(path)
    except DayError:
        return False
    return True


def is_bars_source(path: Path) -> bool:
    """Whether the file is a table of bars."""
    return path.is_file() and not _is_empty(path) and not is_lobster(path) and is_bars(path, read_head(path))


def _is_empty(path: Path) -> bool:
    """Whether the file is empty, whatever its name."""
    return path.is_file() and path.stat().st_size == 0


def _all_formats() -> str:
    """A line for each format."""
    bars = ("bars", "a table (Parquet or CSV) with open, high, low, close, volume and their times")
    return "\n".join(f"  {name}: {text}" for name, text in (*((each.name, each.description) for each in FORMATS), bars))


def import_day(path: Path | str, options: Options = DEFAULTS) -> Day:
    """Reads a source of any format into memory. Raises `SourceError`."""
    sink = MemorySink()
    reference = detect_format(Path(path)).read(Path(path), sink, options)
    commands, rows = sink.concatenated()
    _require_orders(path, reference, len(commands))
    return Day(commands, rows, reference)


def convert_file(path: Path | str, output: Path | str, options: Options = DEFAULTS) -> tuple[Reference, int]:
    """Writes the day file of a source; returns its reference data and number of commands. Streaming readers need bounded memory."""
    source_format = detect_format(Path(path))
    with day_writer(output) as writer:
        reference = source_format.read(Path(path), writer, options)
        writer.finish(reference)
    return reference, writer.commands


def _require_orders(path: Path | str, reference: Reference, commands: int) -> None:
    """SourceError for a source that gave no commands other than halts and resumes."""
    if commands <= sum(reference.counts.get(name, 0) for name in ("halts", "resumes")):
        raise SourceError(
            f"{path}: expected orders, got {reference.source_rows:,} rows of {reference.source} without one; give a file that covers the trading hours, and "
            "check --symbols"
        )


def import_file(
    path: Path | str,
    output: Path | str | Callable[[Reference], Path],
    options: Options = DEFAULTS,
    *,
    allow_rejected: bool = False,
) -> tuple[Reference, Verdict]:
    """Converts a source as `convert_file` does, and replays the day through a market; returns the reference data and the market's verdict.

    output: the file to write, or a function that names it, in the current folder, when the reference data is known. Raises `SourceError`, and
    writes no file, if the source has no orders, or if the market rejects more than a hundredth of the commands and `allow_rejected` is false.
    The market needs memory for its open orders.
    """
    folder = Path() if callable(output) else Path(output).parent
    # a unique name: another import may write the same output at the same time. It omits the source's name, which may already have the maximum length
    unjudged = folder / f".{token_hex(8)}{UNJUDGED}"
    try:
        reference, commands = convert_file(path, unjudged, options)
        _require_orders(path, reference, commands)
        named = output(reference) if callable(output) else output
        found = verdict(reference, lambda: read_blocks(unjudged))
        if not allow_rejected:
            found.require_accepted(str(path))
        unjudged.replace(named)
    finally:
        unjudged.unlink(missing_ok=True)
    return reference, found
