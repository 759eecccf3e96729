"""Which row of a table is the first that cannot be."""

import io
from bisect import bisect_left
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
from numpy.typing import NDArray

from serl.history.errors import SourceError


class Refuse:
    """Raises an error that names the first bad row (from 1, behind the header), if there is one."""

    def __init__(self, path: Path, error: type[SourceError]) -> None:
        self.path = path
        self._error = error

    def __call__(self, bad: NDArray[np.bool_], due: str, came: Any) -> None:
        """bad: [row]; due: what a row must have; came: [row] what is there instead."""
        if bad.any():
            row = int(np.argmax(bad))
            raise self._error(f"{self.path}: row {row + 1}: {due} is due, got {came[row]}")

    def cast(self, column: Any, kind: pa.DataType, due: str) -> Any:
        """The column as another type; an error for the first cell that is not `due`."""
        try:
            return pc.cast(column, kind)
        except pa.ArrowException:
            row = first_refused(column, kind)
            raise self._error(f"{self.path}: row {row + 1}: {due} is due, got {column[row].as_py()!r}") from None


def first_refused(column: Any, kind: pa.DataType) -> int:
    """Row (from 0) of the first cell that cannot be cast, by halves; the number of rows if all can."""

    def refused(count: int) -> bool:
        try:
            pc.cast(column.slice(0, count), kind)
        except pa.ArrowException:
            return True
        return False

    return bisect_left(range(1, len(column) + 1), True, key=refused)


def first_wrong(data: bytes, kinds: dict[str, pa.DataType]) -> str:
    """The first row of a CSV that has not as many cells as its header, or a cell not of its kind, in words; '' if none is found."""
    uneven: list[csv.InvalidRow] = []

    def note(row: csv.InvalidRow) -> str:
        uneven.append(row)
        return "skip"

    table = csv.read_csv(
        io.BytesIO(data),
        read_options=csv.ReadOptions(use_threads=False),  # with threads rows have no numbers
        parse_options=csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=note),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(kinds, pa.string()), strings_can_be_null=False),
    )
    if uneven:
        row = uneven[0]
        return (
            f"row {row.number - 1}: {row.expected_columns} columns are due, got {row.actual_columns}: {row.text[:80]!r}"
        )
    rows = {name: first_refused(table[name], kind) for name, kind in kinds.items() if name in table.column_names}
    name = min(rows, key=lambda name: rows[name], default="")
    if not name or rows[name] == table.num_rows:
        return ""
    cell = table[name][rows[name]].as_py()
    return f"row {rows[name] + 1}: {name}: {_words(kinds[name])} is due, got {cell!r}"


def _words(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"a decimal of up to {kind.scale} places"
    return "a whole number" if pa.types.is_integer(kind) else str(kind)
