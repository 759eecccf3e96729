"""Finds and reports the first invalid row of a table."""

import io
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
from numpy.typing import NDArray

from serl.history.decompress import read_blocks
from serl.history.errors import SourceError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_BYTES_MAX = 1 << 24
LINE_ENDS = b"\r\n"
"""Characters of line ends; a blank last line is not a row."""


class RowCheck:
    """Raises an error that names the first invalid row (from 1, after the header), if there is one."""

    def __init__(self, path: Path, error: type[SourceError], first: int = 0) -> None:
        """first: number of the table's first row in the file, from 0."""
        self.path = path
        self._error, self._first = error, first

    def __call__(self, column: str, invalid: NDArray[np.bool_], expected: str, values: Any) -> None:
        """Raises the error if any row is invalid. invalid: [row]; expected: what a cell of the column must be; values: [row] the cells."""
        if invalid.any():
            row = int(np.argmax(invalid))
            raise self._error(
                f"{self.path}: row {self._first + row + 1}: {column}: expected {expected}, got {values[row]}"
            )

    def cast(self, name: str, column: Any, kind: pa.DataType, expected: str) -> Any:
        """The column as another type; raises an error for the first cell that cannot be cast."""
        try:
            return pc.cast(column, kind)
        except pa.ArrowException:
            row = first_uncastable(column, kind)
            raise self._error(
                f"{self.path}: row {self._first + row + 1}: {name}: expected {expected}, got {column[row].as_py()!r}"
            ) from None

    def codes(self, name: str, column: Any, values: tuple[str, ...]) -> NDArray[np.int64]:
        """(n,) position of each cell in `values`; raises an error for the first cell that is none of them."""
        codes = pc.fill_null(pc.index_in(column, pa.array(values)), -1).to_numpy().astype(np.int64)
        self(name, codes < 0, f"one of {', '.join(values)}", column)
        return codes


def read_columns(
    path: Path, data: bytes, kinds: dict[str, pa.DataType], error: type[SourceError], first: int = 0
) -> pa.Table:
    """The columns of a CSV with these types. Raises `error` with the first malformed row. first: as in `first_malformed_row`."""
    try:
        return csv.read_csv(
            io.BytesIO(data.rstrip(LINE_ENDS) + b"\n"),
            parse_options=csv.ParseOptions(ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=kinds, include_columns=list(kinds), null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowKeyError as reason:  # a header with quotes inside its names does not contain the expected names
        raise error(f"{path}: header: expected the columns {', '.join(kinds)}; {reason.args[0]}") from None
    except pa.ArrowInvalid as reason:
        raise error(f"{path}: {first_malformed_row(data, kinds, first) or reason}") from None


def read_tables(
    path: Path,
    kinds: Callable[[bytes], dict[str, pa.DataType]],
    error: type[SourceError],
    clean: Callable[[bytes], bytes] = lambda lines: lines,
) -> Iterator[tuple[int, pa.Table, RowCheck]]:
    """Reads a CSV block by block: (number of the block's first row, its columns, their check). Raises `error` like `read_columns`.

    kinds: the types of the columns, by the header. clean: changes whole lines before they are parsed.
    """
    header, first = b"", 0
    for lines in _line_blocks(path):
        lines = clean(lines)
        if not header:
            header, _, lines = lines.partition(b"\n")
            header = header.removeprefix(BYTE_ORDER_MARK).rstrip(b"\r")
        if lines.strip():
            table = read_columns(path, header + b"\n" + lines, kinds(header), error, first)
            yield first, table, RowCheck(path, error, first)
            first += table.num_rows


def _line_blocks(path: Path) -> Iterator[bytes]:
    rest = b""
    for block in read_blocks(path):
        rest += block
        text_end = len(rest.rstrip(LINE_ENDS))  # blank lines after it may be the last ones of the file
        newline = rest.find(b"\n", text_end)
        stop = (rest.rfind(b"\n", 0, text_end) if newline < 0 else newline) + 1
        if rest[:stop].strip(LINE_ENDS):
            yield rest[:stop]
            rest = rest[stop:]
        elif len(rest) > LINE_BYTES_MAX:  # a small compressed file may contain a line that does not fit into memory
            raise SourceError(f"{path}: expected lines of at most {LINE_BYTES_MAX:,} bytes, got a longer one")
    if rest.strip(LINE_ENDS):
        yield rest


def first_uncastable(column: Any, kind: pa.DataType) -> int:
    """Row (from 0) of the first cell that cannot be cast, by bisection; the number of rows if all can."""

    def fails(count: int) -> bool:
        try:
            pc.cast(column.slice(0, count), kind)
        except pa.ArrowException:
            return True
        return False

    return bisect_left(range(1, len(column) + 1), True, key=fails)


def first_malformed_row(data: bytes, kinds: dict[str, pa.DataType], first: int = 0) -> str:
    """Describes the first row of a CSV that has another number of cells than its header, or a cell of the wrong type; '' if there is none.

    first: number of the row after the header in the file, from 0.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"row {first + data.count(10, 0, error.start)}: expected text in UTF-8, got other bytes"
    uneven: list[csv.InvalidRow] = []

    def skip(row: csv.InvalidRow) -> str:
        uneven.append(row)
        return "skip"

    try:
        table = csv.read_csv(
            io.BytesIO(data),
            read_options=csv.ReadOptions(use_threads=False),  # with threads, rows have no numbers
            parse_options=csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=skip),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(kinds, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:  # only uneven rows do not form a table
        table = None
    if uneven:
        row = uneven[0]
        return f"row {first + row.number - 1}: expected {row.expected_columns} columns, got {row.actual_columns}: {row.text[:80]!r}"
    if table is None:
        return ""
    rows = {name: first_uncastable(table[name], kind) for name, kind in kinds.items() if name in table.column_names}
    name = min(rows, key=lambda name: rows[name], default="")
    if not name or rows[name] == table.num_rows:
        return ""
    cell = table[name][rows[name]].as_py()
    return f"row {first + rows[name] + 1}: {name}: expected {_type_text(kinds[name])}, got {cell!r}"


def _type_text(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"a decimal with up to {kind.scale} places"
    return "an integer" if pa.types.is_integer(kind) else str(kind)
