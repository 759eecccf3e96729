"""Tables: named columns of equal length, convertible to pandas, polars and Arrow, and written to files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.atomic_file import atomic_file
from serl.exchange.errors import ConfigError
from serl.extras import require

if TYPE_CHECKING:  # optional packages
    import pandas
    import polars
    import pyarrow

SHOWN_ROWS, SHOWN_COLUMNS = 5, 100
ENUM_VALUES = 256


class Names(NamedTuple):
    """A column of names, each stored once: a categorical of pandas, an Enum of polars, a dictionary of Arrow."""

    codes: NDArray[np.signedinteger[Any]]
    """(n,) index in `names`; -1: none."""
    names: tuple[str, ...]

    @classmethod
    def encode(cls, values: Iterable[str | None]) -> "Names":
        """Creates a column from texts."""
        listed = list(values)
        names = tuple(dict.fromkeys(value for value in listed if value is not None))
        number = {name: index for index, name in enumerate(names)}
        return cls.of([-1 if value is None else number[value] for value in listed], names)

    @classmethod
    def of(cls, codes: Any, names: Iterable[str]) -> "Names":
        """Creates a column from codes (n,), in the smallest type that holds them all; codes beyond the names mean none. A repeated name gets a
        number, because the libraries need distinct names."""
        names, codes = _distinct(names), np.asarray(codes)
        known = (codes >= 0) & (codes < len(names))
        return cls(np.where(known, codes, -1).astype(np.min_scalar_type(-max(1, len(names)))), names)

    @classmethod
    def of_enum(cls, values: NDArray[Any], enum: type[IntEnum], none: Sequence[int] = ()) -> "Names":
        """Creates a column from an enumeration's values (n,), with names in lower case; values in `none` and unknown ones mean none."""
        members = [member for member in enum if member not in none]
        index = np.full(ENUM_VALUES, -1, np.int8)
        index[members] = np.arange(len(members))
        return cls(index[values], tuple(member.name.lower() for member in members))

    def decode(self) -> NDArray[Any]:
        """The names themselves, (n,); None for none."""
        return np.array([*self.names, None], object)[self.codes]


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names; a repeated one becomes `name (2)`, or gets the next free number."""
    found: dict[str, None] = {}
    for name in names:
        number, text = 1, name
        while text in found:
            number += 1
            text = f"{name} ({number})"
        found[text] = None
    return tuple(found)


Column = NDArray[Any] | Names


class Table:
    """Named columns of equal length. Times are datetime64[ns], names are `Names`; the rest are integers, floats and bools.

    Raises ConfigError if the lengths differ.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns: dict[str, Column] = dict(columns)
        lengths = {name: len(values(column)) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ConfigError(f"expected columns of one length, got {lengths}; cut them to the same rows")
        self._rows = next(iter(lengths.values()), 0)

    def __len__(self) -> int:
        """Number of rows."""
        return self._rows

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column as a numpy array (n,); names as objects, None for none. Raises KeyError if there is no such column."""
        column = self.columns[name]
        return column.decode() if isinstance(column, Names) else column

    def rows(self, which: Any) -> "Table":
        """A table of some of the rows, given by a slice, a mask (n,) or indices."""
        return Table({
            name: Names(column.codes[which], column.names) if isinstance(column, Names) else column[which]
            for name, column in self.columns.items()
        })  # fmt: skip

    def __repr__(self) -> str:
        head = self.rows(slice(0, SHOWN_ROWS))
        width = max(map(len, self.columns), default=0)
        lines = []
        for name, column in self.columns.items():
            kind = "names" if isinstance(column, Names) else str(column.dtype).replace("datetime64[ns]", "time")
            text = ", ".join(map(str, head[name])) + (", ..." if len(self) > SHOWN_ROWS else "")
            lines.append(f"{name:{width}}  {kind:7}  {text}"[: width + SHOWN_COLUMNS])
        return "\n".join([f"{len(self):,} rows, {len(self.columns)} columns", *lines])

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        head = self.rows(slice(0, SHOWN_ROWS))
        titles = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        cells = [[escape("" if cell is None else str(cell)) for cell in head[name]] for name in self.columns]
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in zip(*cells, strict=True))
        return f"<p>{len(self):,} rows</p><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns a DataFrame that shares the memory of the columns. Raises MissingPackageError without pandas."""
        require("DataFrames", "pandas")
        import pandas

        columns = {
            name: pandas.Categorical.from_codes(column.codes, list(column.names)) if isinstance(column, Names) else column
            for name, column in self.columns.items()
        }  # fmt: skip
        return pandas.DataFrame(columns, copy=False)

    def to_polars(self) -> "polars.DataFrame":
        """Returns a polars DataFrame, in which NaN is null; columns of integers share their memory with it. Raises MissingPackageError without polars."""
        require("DataFrames", "polars")
        import polars

        def series(name: str, column: Column) -> Any:
            if not isinstance(column, Names):
                return polars.Series(name, column, nan_to_null=True)
            names = polars.Series(name, column.names, dtype=polars.Enum(column.names))
            codes = polars.Series(column.codes.astype(np.int64))
            return names.gather(codes.set(polars.Series(column.codes < 0), None))

        return polars.DataFrame([series(name, column) for name, column in self.columns.items()])

    def to_arrow(self) -> "pyarrow.Table":
        """Returns a pyarrow table, in which NaN is null; numbers and times share their memory with it. Raises MissingPackageError without pyarrow."""
        require("Arrow tables", "pyarrow", extra="history")
        import pyarrow

        def array(column: Column) -> Any:
            if not isinstance(column, Names):
                return pyarrow.array(column, from_pandas=True)
            missing = column.codes < 0
            codes = pyarrow.array(column.codes, mask=missing if missing.any() else None)
            return pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(column.names, pyarrow.string()))

        return pyarrow.table({name: array(column) for name, column in self.columns.items()})

    def write(self, path: Path | str) -> None:
        """Writes a file, complete or not at all: Parquet (.parquet), CSV (.csv) or Arrow (.arrow, .feather).

        Raises ConfigError for any other ending, UnwritableFileError, and MissingPackageError without pyarrow.
        """
        path = Path(path)
        if path.suffix not in WRITERS:
            raise ConfigError(f"expected a file that ends in {' or '.join(WRITERS)}, got {path}; choose another name")
        table = self.to_arrow()
        with atomic_file(path) as file:
            WRITERS[path.suffix](table, file)


def _write_parquet(table: "pyarrow.Table", file: IO[bytes]) -> None:
    from pyarrow import parquet

    parquet.write_table(table, file, compression="zstd")


def _write_csv(table: "pyarrow.Table", file: IO[bytes]) -> None:
    from pyarrow import csv

    csv.write_csv(table, file)


def _write_arrow(table: "pyarrow.Table", file: IO[bytes]) -> None:
    from pyarrow import feather

    feather.write_feather(table, file)


WRITERS: dict[str, Callable[["pyarrow.Table", IO[bytes]], None]] = {
    ".parquet": _write_parquet, ".csv": _write_csv, ".arrow": _write_arrow, ".feather": _write_arrow,
}  # fmt: skip
"""Writers by file ending."""


def values(column: Column) -> NDArray[Any]:
    """The array (n,) that a column stores."""
    return column.codes if isinstance(column, Names) else column


def times(time_ns: NDArray[np.int64], date: str = "") -> NDArray[np.datetime64]:
    """Converts times (n,) to datetime64[ns], as a copy: nanoseconds after midnight of the date YYYY-MM-DD, or of 1970-01-01 without a date."""
    return np.datetime64(date or "1970-01-01", "ns") + np.ascontiguousarray(time_ns).view("timedelta64[ns]")


def money(ticks: NDArray[Any], units: Sequence[Decimal], symbol: NDArray[Any]) -> NDArray[np.float64]:
    """Multiplies ticks (n,) by the value of a tick of their symbol (n,); the nearest floats (n,), NaN for a symbol without a unit."""
    if len(set(units)) == 1 and len(symbol) and symbol.min() >= 0 and symbol.max() < len(units):  # ten times as fast
        over, under = units[0].as_integer_ratio()
        return np.asarray(ticks * np.float64(over) / np.float64(under))
    ratios = np.array([(np.nan, np.nan), *(unit.as_integer_ratio() for unit in units)])
    place = np.where((symbol >= 0) & (symbol < len(units)), symbol + 1, 0)
    found: NDArray[np.float64] = ticks * ratios[place, 0] / ratios[place, 1]
    return found


def prices(ticks: NDArray[Any], tick_sizes: Sequence[str], symbol: NDArray[Any]) -> NDArray[np.float64]:
    """Converts ticks (n,) to prices in money (n,); NaN for 0, which is not a price."""
    return money(np.where(ticks == 0, np.nan, ticks), [Decimal(size) for size in tick_sizes], symbol)
