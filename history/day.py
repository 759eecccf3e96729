"""Day files: the commands of one trading day as Parquet, with their reference data.

One row per command: its COMMAND columns, and `row`, the source row that the command comes from (-1: the opening book). The reference
data is JSON in the file's metadata under `serl.day`; the news, if there is any, under `serl.news`.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.atomic_file import atomic_file
from serl.exchange.news import News
from serl.exchange.records import ALL_SYMBOLS, COMMAND, CommandKind, Rows
from serl.extras import require_day_files
from serl.history.day_news import news_metadata, news_of
from serl.history.errors import DayError, DayOfAccounts, DayTruncated, DayVersionError, ExportError, NotADayFile

if TYPE_CHECKING:  # an optional package: only day files need it, not the days of simulated markets
    import pyarrow as pa
    import pyarrow.parquet as pq

VERSION = 1
"""Format version; increased when older readers would misread a file."""
ACCOUNTS_VERSION = 2
"""Format version of days with the commands of several participants."""

KEY = b"serl.day"
COLUMNS = (
    "time_ns", "command_id", "order_id", "price_ticks", "qty_lots", "symbol", "kind", "side", "time_in_force", "flags",
)  # fmt: skip
"""The stored fields of COMMAND; the others are zero in a day of one participant."""
ACCOUNT_COLUMNS = ("participant", "reason")
"""Additional columns of a day with several participants."""
DELTA_COLUMNS = ("time_ns", "command_id", "order_id", "row")
"""Columns stored as differences: a third of the size and four times the speed of a dictionary."""
GROUP_COMMANDS = 1 << 16
"""Smaller blocks are written together."""
BLOCK_COMMANDS = 1 << 18
SYMBOLLESS_KINDS = (CommandKind.END_DAY, CommandKind.TIME, CommandKind.ACCOUNT, CommandKind.DEPOSIT)
"""Commands without a symbol."""
DICTIONARY_COLUMNS = tuple(name for name in (*COLUMNS, *ACCOUNT_COLUMNS) if name not in DELTA_COLUMNS)


def _columns(accounts: bool) -> tuple[str, ...]:
    return (*COLUMNS, *ACCOUNT_COLUMNS) if accounts else COLUMNS


def _schema(columns: tuple[str, ...]) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([(name, pa.from_numpy_dtype(COMMAND[name])) for name in columns] + [("row", pa.int64())])


@dataclass(frozen=True)
class SymbolReference:
    """Reference data of one symbol; COMMAND.symbol is its index in `Reference.symbols`."""

    name: str
    tick_size: str = "0.01"
    lot_size: str = "1"

    def differing_size(self, other: "SymbolReference") -> str:
        """`tick_size` or `lot_size`, the first of which differs; empty if neither does."""
        names = ("tick_size", "lot_size")
        return next((name for name in names if Decimal(getattr(self, name)) != Decimal(getattr(other, name))), "")


@dataclass(frozen=True)
class SourceFile:
    """A file that a day was imported from."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Reference:
    """The reference data of a day."""

    symbols: tuple[SymbolReference, ...]
    date: str
    """Trading day, YYYY-MM-DD; empty for a generated one."""
    source: str
    """The format that the day was read from: 'lobster', 'generated', ..."""
    files: tuple[SourceFile, ...] = ()
    first_time_ns: int = 0
    """Like all times of a day, in nanoseconds after midnight in the exchange's time zone."""
    last_time_ns: int = 0
    levels: int = 0
    """Levels per side in the source, 0 = all."""
    source_rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """How often each rule of the reader applied; docs/history.md explains them."""
    parameters: dict[str, int | float | str] = field(default_factory=dict)
    """Parameters of a generated or recorded day."""
    participants: tuple[str, ...] = ()
    """Names by COMMAND.participant, the exchange itself first. Empty for a day of one participant: every day except those of
    `serl record --accounts`."""

    def to_json(self, commands: int) -> str:
        """The metadata of a file with this many commands."""
        version = ACCOUNTS_VERSION if self.participants else VERSION
        return json.dumps({"version": version, "commands": commands, **dataclasses.asdict(self)})

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Reference":
        """Creates it from the parsed metadata. Raises KeyError or TypeError if a field is missing."""
        names = {item.name for item in dataclasses.fields(cls)}
        known = {name: value for name, value in values.items() if name in names}
        known["symbols"] = tuple(SymbolReference(**symbol) for symbol in values["symbols"])
        known["files"] = tuple(SourceFile(**file) for file in values["files"])
        known["participants"] = tuple(values.get("participants", ()))
        return cls(**known)


@dataclass(frozen=True)
class Day:
    """The commands of a trading day."""

    commands: Rows
    """COMMAND rows in order of time. sequence and check are 0, as is participant in a day of one participant: the submitter sets them."""
    rows: NDArray[np.int64]
    """Source row (from 0) of each command, -1 for the opening book."""
    reference: Reference
    news: tuple[News, ...] = ()
    """News, in order of time."""

    def __len__(self) -> int:
        """Number of commands."""
        return len(self.commands)

    def digest(self) -> bytes:
        """SHA-256 of the commands: the same for one day in two files."""
        return sha256(self.commands.tobytes()).digest()


class DayWriter:
    """Writes the commands of a day block by block. Create it with `day_writer`."""

    def __init__(self, parquet: "pq.ParquetWriter", columns: tuple[str, ...]) -> None:
        self.commands = 0
        self.finished = False
        self._parquet, self._columns = parquet, columns
        self._pending: list[tuple[Rows, NDArray[np.int64]]] = []
        self._pending_commands = 0

    def write(self, commands: Rows, rows: NDArray[np.int64]) -> None:
        """Appends COMMAND rows and their source rows. Small blocks are collected, because each group in the file costs a kilobyte."""
        self.commands += len(commands)
        if len(commands) >= GROUP_COMMANDS:
            self._write_pending()
            self._write_group(commands, rows)
            return
        self._pending.append((commands.copy(), rows.copy()))
        self._pending_commands += len(commands)
        if self._pending_commands >= GROUP_COMMANDS:
            self._write_pending()

    def _write_pending(self) -> None:
        if self._pending:
            blocks, sources = zip(*self._pending, strict=True)
            self._pending, self._pending_commands = [], 0
            self._write_group(np.concatenate(blocks), np.concatenate(sources))

    def _write_group(self, commands: Rows, rows: NDArray[np.int64]) -> None:
        import pyarrow as pa

        columns = [pa.array(np.ascontiguousarray(commands[name])) for name in self._columns]
        self._parquet.write_table(pa.table([*columns, pa.array(rows)], schema=_schema(self._columns)))

    def finish(self, reference: Reference, news: Sequence[News] = ()) -> None:
        """Adds the reference data and the news; call it last."""
        self._write_pending()
        self._parquet.add_key_value_metadata({KEY: reference.to_json(self.commands).encode()} | news_metadata(news))
        self.finished = True


@contextmanager
def day_writer(path: Path | str, accounts: bool = False) -> Iterator[DayWriter]:
    """Writes a day file in bounded memory; accounts: with several participants. The file appears complete at the end of the `with`, or
    not at all. Raises `UnwritableFileError`, and `MissingPackageError` without the extra `history`."""
    require_day_files()
    import pyarrow.parquet as pq

    columns = _columns(accounts)
    with atomic_file(path) as file:
        parquet = pq.ParquetWriter(
            file, _schema(columns), compression="zstd", use_dictionary=[name for name in DICTIONARY_COLUMNS if name in columns],
            column_encoding=dict.fromkeys(DELTA_COLUMNS, "DELTA_BINARY_PACKED"), write_page_checksum=True,
        )  # fmt: skip
        with parquet:
            writer = DayWriter(parquet, columns)
            yield writer
        assert writer.finished, "a day file without reference data cannot be read"


def write_day(day: Day, path: Path | str) -> None:
    """Writes a day file, which appears complete or not at all. Raises as `day_writer`."""
    with day_writer(path, accounts=bool(day.reference.participants)) as writer:
        writer.write(day.commands, day.rows)
        writer.finish(day.reference, day.news)


def read_news(path: Path | str) -> tuple[News, ...]:
    """The news of a day file, without reading its commands. Raises as `read_day`."""
    read_reference(path)
    return news_of(path, _metadata(Path(path)).metadata)


def read_reference(path: Path | str) -> tuple[Reference, int]:
    """Reference data and number of commands, without reading the commands. Raises as `read_day`."""
    require_day_files()
    path = Path(path)
    try:
        metadata = _metadata(path)
    except OSError as error:
        raise NotADayFile(
            f"{path}: cannot be read ({error.strerror or error}); give a day file, as `serl day import` writes it"
        ) from None
    text, rows = (metadata.metadata or {}).get(KEY), metadata.num_rows
    if text is None:
        raise NotADayFile(
            f"{path}: Parquet, but not a day file (no {KEY.decode()} in its metadata); create one with `serl day import`"
        )
    try:
        values = json.loads(text)
        version = values["version"]
        if version not in (VERSION, ACCOUNTS_VERSION):
            raise DayVersionError(
                f"{path}: expected a day file of version {ACCOUNTS_VERSION} or older, got version {version}; import it again"
            )
        reference = Reference.from_json(values)
        if values["commands"] != rows:
            raise DayTruncated(f"{path}: expected {values['commands']} commands, got {rows}; import it again")
    except DayError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotADayFile(f"{path}: its reference data is damaged ({error!r}); import it again") from None
    missing = [name for name in (*_columns(bool(reference.participants)), "row") if name not in metadata.schema.names]
    if missing:
        raise NotADayFile(f"{path}: columns {', '.join(missing)} are missing; import it again")
    return reference, rows


def _metadata(path: Path) -> "pq.FileMetaData":
    import pyarrow as pa
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        start = file.read(4)
        size = file.seek(0, os.SEEK_END)
        if start != b"PAR1":
            raise NotADayFile(
                f"{path}: not a day file: expected Parquet (PAR1), got {start!r}; create one with `serl day import`"
            )
        file.seek(max(0, size - 4))
        if size < 12 or file.read(4) != b"PAR1":
            raise DayTruncated(
                f"{path}: ends too early ({size} bytes, without a Parquet footer); copy or import it again"
            )
    try:
        return pq.read_metadata(path)
    except UnicodeEncodeError:
        raise NotADayFile(f"{path}: expected a name in UTF-8, got another encoding; rename the file") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DayTruncated(f"{path}: its Parquet footer is damaged ({error}); copy or import it again") from None


def read_day(path: Path | str, accounts: bool = False) -> Day:
    """Reads a day file.

    Raises `NotADayFile`, `DayVersionError` or `DayTruncated`, and `DayOfAccounts` for a day with several participants unless `accounts`
    is true; `MissingPackageError` without the extra `history`.
    """
    reference, _ = read_reference(path)
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = _columns(bool(reference.participants))
    if reference.participants and not accounts:
        raise DayOfAccounts(
            f"{path}: expected a day of one participant, got the commands of {len(reference.participants)}, for "
            "`serl replay`, `serl day verify` and `serl day export` only; record without --accounts"
        )
    try:
        # a file of an older version has no checksums to verify
        table = pq.read_table(path, columns=[*columns, "row"], page_checksum_verification=True)
        commands = _command_rows(table, columns)
        rows = table["row"].to_numpy().astype(np.int64)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    return Day(commands, rows, reference, read_news(path))


def read_blocks(path: Path | str) -> Iterator[Rows]:
    """The commands of a day file as COMMAND rows, block by block in bounded memory. Raises as `read_day`."""
    reference, _ = read_reference(path)
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = _columns(bool(reference.participants))
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(BLOCK_COMMANDS, columns=list(columns)):
                yield _command_rows(batch, columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _command_rows(table: "pa.Table | pa.RecordBatch", columns: tuple[str, ...]) -> Rows:
    commands = np.zeros(table.num_rows, COMMAND)
    for name in columns:
        commands[name] = table.column(name).to_numpy()
    return commands


def _unreadable(path: Path | str, error: Exception) -> DayTruncated:
    return DayTruncated(f"{path}: its rows cannot be read ({error}); copy or import it again")


def select_symbol(day: Day, name: str) -> Day:
    """A day with one symbol only; keeps commands without a symbol, and command ids (with gaps). Raises `ExportError`."""
    names = [symbol.name for symbol in day.reference.symbols]
    if name not in names:
        raise ExportError(f"--symbol: expected one of {', '.join(names)}, got {name}")
    symbolless = np.isin(day.commands["kind"], SYMBOLLESS_KINDS) | (day.commands["symbol"] == ALL_SYMBOLS)
    selected = symbolless | (day.commands["symbol"] == names.index(name))
    commands, rows = day.commands[selected], day.rows[selected]
    commands["symbol"][~symbolless[selected]] = 0
    reference = dataclasses.replace(day.reference, symbols=(day.reference.symbols[names.index(name)],), parameters={})
    news = tuple(message for message in day.news if message.symbol in ("", name))
    return Day(commands, rows, reference, news)
