"""Day files: the commands of one trading day as Parquet, with the reference data that they need.

One row per command: the columns of COMMAND that a day determines, and `row`, the source row that the command belongs
to (-1: the opening book). The reference data is JSON in the schema's metadata under `serl.day`.
"""

import dataclasses
import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from serl.exchange.history.errors import DayError, DayTruncated, DayVersionError, NotADayFile
from serl.exchange.records import COMMAND, Rows

VERSION = 1
"""Of the format; raised when an older reader would misread a file."""

KEY = b"serl.day"
COLUMNS = (
    "time_ns", "command_id", "order_id", "price_ticks", "qty_lots", "symbol", "kind", "side", "time_in_force", "flags",
)  # fmt: skip
"""The fields of COMMAND that are kept; the others are zero in a day."""


@dataclass(frozen=True)
class SymbolReference:
    """One symbol; its number in COMMAND.symbol is its place in Reference.symbols."""

    name: str
    tick_size: str = "0.01"
    lot_size: str = "1"


@dataclass(frozen=True)
class SourceFile:
    """A file that a day was made from."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Reference:
    """What the commands of a day mean."""

    symbols: tuple[SymbolReference, ...]
    date: str
    """Trading day, YYYY-MM-DD; empty for a generated one."""
    source: str
    """The format it was read from: 'lobster', 'generated', ..."""
    files: tuple[SourceFile, ...] = ()
    first_time_ns: int = 0
    """Nanoseconds after midnight of the exchange's time zone, as every time of a day."""
    last_time_ns: int = 0
    levels: int = 0
    """Levels per side that the source shows, 0 = all."""
    source_rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """How often each rule of the reader applied; docs/history.md explains them."""
    parameters: dict[str, int | float | str] = field(default_factory=dict)
    """Of a generated day: all that makes it again."""

    def to_json(self, commands: int) -> str:
        """The metadata text of a file with this many commands."""
        return json.dumps({"version": VERSION, "commands": commands, **dataclasses.asdict(self)})

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Reference":
        """The reverse of to_json, of the parsed text; KeyError or TypeError if something is missing."""
        names = {item.name for item in dataclasses.fields(cls)}
        known = {name: value for name, value in values.items() if name in names}
        known["symbols"] = tuple(SymbolReference(**symbol) for symbol in values["symbols"])
        known["files"] = tuple(SourceFile(**file) for file in values["files"])
        return cls(**known)


@dataclass(frozen=True)
class Day:
    """The commands of a trading day."""

    commands: Rows
    """COMMAND rows in order of time; participant, sequence and check are 0: whoever submits them sets them."""
    rows: NDArray[np.int64]
    """Source row (from 0) of each command, -1 for the opening book."""
    reference: Reference

    def __len__(self) -> int:
        """Number of commands."""
        return len(self.commands)


def write_day(day: Day, path: Path | str) -> None:
    """Writes a day file; the file appears complete or not at all. DayError if the folder cannot be written to."""
    path = Path(path)
    columns = {name: pa.array(np.ascontiguousarray(day.commands[name])) for name in COLUMNS}
    columns["row"] = pa.array(day.rows)
    table = pa.table(columns).replace_schema_metadata({KEY: day.reference.to_json(len(day)).encode()})
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DayError(f"{path}: cannot be written ({error.strerror}); give a file in a folder that exists") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def read_reference(path: Path | str) -> tuple[Reference, int]:
    """Reference data and number of commands, without reading the commands; errors as read_day."""
    path = Path(path)
    try:
        schema, rows = _metadata(path)
    except OSError as error:
        raise NotADayFile(
            f"{path}: cannot be read ({error.strerror or error}); give a file of `serl day import`"
        ) from None
    text = (schema.metadata or {}).get(KEY)
    if text is None:
        raise NotADayFile(
            f"{path}: Parquet, but not a day file (no {KEY.decode()} in it); make one with `serl day import`"
        )
    try:
        values = json.loads(text)
        version = values["version"]
        if version != VERSION:
            raise DayVersionError(
                f"{path}: day file of version {version}, this serl reads version {VERSION}; import it again"
            )
        reference = Reference.from_json(values)
        if values["commands"] != rows:
            raise DayTruncated(f"{path}: {values['commands']} commands are due, it holds {rows}; import it again")
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise NotADayFile(f"{path}: its reference data is damaged ({error!r}); import it again") from None
    missing = [name for name in (*COLUMNS, "row") if name not in schema.names]
    if missing:
        raise NotADayFile(f"{path}: columns {', '.join(missing)} are missing; import it again")
    return reference, rows


def _metadata(path: Path) -> tuple[pa.Schema, int]:
    with path.open("rb") as file:
        start = file.read(4)
        size = file.seek(0, os.SEEK_END)
        if start != b"PAR1":
            raise NotADayFile(f"{path}: not a day file (Parquet starts with PAR1, this with {start!r})")
        file.seek(max(0, size - 4))
        if size < 12 or file.read(4) != b"PAR1":
            raise DayTruncated(
                f"{path}: ends too early ({size} bytes, without a Parquet footer); copy or import it again"
            )
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise DayTruncated(f"{path}: its Parquet footer is damaged ({error}); copy or import it again") from None
    return metadata.schema.to_arrow_schema(), metadata.num_rows


def read_day(path: Path | str) -> Day:
    """Reads a day file. NotADayFile, DayVersionError or DayTruncated if that is not possible."""
    reference, count = read_reference(path)
    try:
        table = pq.read_table(path, columns=[*COLUMNS, "row"])
        commands = np.zeros(count, COMMAND)
        for name in COLUMNS:
            commands[name] = table[name].to_numpy()
        rows = table["row"].to_numpy().astype(np.int64)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DayTruncated(f"{path}: its rows cannot be read ({error}); copy or import it again") from None
    return Day(commands, rows, reference)
