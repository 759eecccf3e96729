"""Reads a day of Cboe PITCH, from captured packets or text; docs/history.md has the rules."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from serl.history.day import Reference
from serl.history.decompress import read_head
from serl.history.packets import is_capture
from serl.history.pitch.binary import BinaryReader, is_pitch_capture
from serl.history.pitch.orders import PitchOrders
from serl.history.pitch.text import TextReader, is_pitch_text
from serl.history.source import DEFAULTS, Options, Sink, is_date, source_file

EASTERN = ZoneInfo("America/New_York")
DATE = re.compile(r"(?<!\d)(20\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)")
"""A date in a file name."""


def is_pitch(head: bytes) -> bool:
    """Whether a (decompressed) file begins like PITCH, captured or as text."""
    return is_pitch_text(head) or is_pitch_capture(head)


def read_pitch(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink. Raises `PitchError`."""
    orders = PitchOrders(path, sink, options)
    own, capture_ns = {}, -1
    if is_capture(read_head(path)):
        binary = BinaryReader(path, orders)
        binary.read()
        own, capture_ns = binary.counts, binary.capture_ns
    else:
        TextReader(path, orders).read()
    orders.finish()
    return Reference(
        symbols=orders.references(),
        date=options.date or _date(path.name, capture_ns),
        source="pitch",
        files=(source_file(path),),
        first_time_ns=orders.writer.first_time_ns,
        last_time_ns=orders.writer.last_time_ns,
        source_rows=orders.rows,
        counts=orders.all_counts() | own,
    )


def _date(name: str, capture_ns: int) -> str:
    """The date of a capture in New York, else the date in the file's name, else ''."""
    if capture_ns >= 0:
        since_1970 = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=capture_ns // 1_000_000_000)
        return since_1970.astimezone(EASTERN).date().isoformat()
    match = DATE.search(name)
    text = "-".join(match.groups()) if match else ""
    return text if is_date(text) else ""
