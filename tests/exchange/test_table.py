"""Tables become DataFrames, Arrow tables and files with the same values; rows become tables with names."""

import builtins
import importlib.util
from collections.abc import Callable
from decimal import Decimal
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import csv, feather, parquet

from serl.exchange.errors import ConfigError, UnwritableFileError
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, CommandFlag, CommandKind, HaltReason, Phase, Rows, Setting, Side, TimeInForce
from serl.exchange.row_tables import RowContext, command_table, event_table, find
from serl.exchange.table import Names, Table, money, prices, times
from serl.extras import MissingPackageError

NOON_NS = 12 * 3600 * 10**9
CONTEXT = RowContext(["A", "B"], ["0.01", "0.5"])


def small() -> Table:
    """Every kind of column, with missing values."""
    return Table({
        "time": times(np.array([NOON_NS, NOON_NS + 1, 0]), "2020-01-02"), "lots": np.array([3, 2, 1]),
        "price": np.array([1.5, np.nan, 2.5]), "maker": np.array([True, False, True]), "side": Names.encode(["sell", None, "buy"]),
    })  # fmt: skip


EXPECTED = {
    "time": ["2020-01-02T12:00:00.000000000", "2020-01-02T12:00:00.000000001", "2020-01-02T00:00:00.000000000"],
    "lots": [3, 2, 1], "price": [1.5, None, 2.5], "maker": [True, False, True], "side": ["sell", None, "buy"],
}  # fmt: skip


def test_every_library_gets_the_same_values() -> None:
    table = small()
    frame, other, arrow = table.to_pandas(), table.to_polars(), table.to_arrow()
    read = [
        {name: column.to_numpy() for name, column in frame.items()}, {name: other[name].to_numpy() for name in other.columns},
        {name: arrow[name].to_pandas().to_numpy() for name in arrow.column_names}, {name: table[name] for name in table.columns},
    ]  # fmt: skip
    columns: dict[str, Any]
    for columns in read:
        found = {
            name: [None if pandas.isna(one) else one for one in column.tolist()] for name, column in columns.items()
        }
        found["time"] = [str(np.datetime64(time, "ns")) for time in columns["time"]]
        assert found == EXPECTED


def test_types_are_those_of_the_libraries() -> None:
    table = small()
    frame = table.to_pandas()
    assert str(frame["time"].dtype) == "datetime64[ns]" and frame["side"].cat.categories.tolist() == ["sell", "buy"]
    assert [str(kind) for kind in table.to_polars().dtypes[1:4]] == ["Int64", "Float64", "Boolean"]
    assert table.to_polars().schema["time"] == polars.Datetime("ns")
    assert table.to_polars().schema["side"] == polars.Enum(["sell", "buy"])
    assert table.to_arrow().schema.field("side").type == pyarrow.dictionary(pyarrow.int8(), pyarrow.string())
    assert table.to_polars()["price"].null_count() == table.to_arrow()["price"].null_count == 1


def test_numbers_are_not_copied() -> None:
    table = small()
    lots = table.columns["lots"]
    assert isinstance(lots, np.ndarray)
    assert np.shares_memory(table.to_pandas()["lots"].to_numpy(), lots)
    assert np.shares_memory(table.to_polars()["lots"].to_numpy(), lots)
    assert np.shares_memory(table.to_arrow()["lots"].chunk(0).to_numpy(), lots)


@pytest.mark.parametrize("table", [Table({}), small().rows(slice(0, 0)), Table({"side": Names.encode([None, None])})])
def test_empty_tables_and_columns(table: Table) -> None:
    for frame in (table.to_pandas(), table.to_polars(), table.to_arrow()):
        assert len(frame) == len(table)
    assert repr(table).startswith(f"{len(table)} rows, {len(table.columns)} columns")


@pytest.mark.parametrize(("ending", "read"), [
    (".parquet", parquet.read_table), (".csv", csv.read_csv), (".arrow", feather.read_table), (".feather", feather.read_table),
])  # fmt: skip
def test_files_are_read_as_they_were_written(
    ending: str, read: Callable[[Path], pyarrow.Table], tmp_path: Path
) -> None:
    small().write(tmp_path / f"a{ending}")
    found = read(tmp_path / f"a{ending}")
    for name in ("lots", "price", "maker"):
        assert found[name].to_pylist() == EXPECTED[name]
    assert [one or None for one in found["side"].to_pylist()] == EXPECTED["side"], "in a CSV no text is empty text"
    assert found["time"].to_numpy().astype("datetime64[ns]").astype(str).tolist() == EXPECTED["time"]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a file that ends in .parquet or .csv"):
        small().write(tmp_path / "a.xlsx")
    with pytest.raises(UnwritableFileError, match="cannot be written"):
        small().write(tmp_path / "missing" / "a.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_without_the_package_the_error_says_how_to_install_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> ModuleSpec | None:
        return None if name == package else importlib.util.find_spec(name)

    monkeypatch.setattr("serl.extras.find_spec", without)
    table, advice = small(), {"pyarrow": r"pip install -e '\.\[history\]'"}
    with pytest.raises(MissingPackageError, match=f"expected the package {package} for .*, got none; .*{advice.get(package, f'pip install {package}')}"):  # fmt: skip
        getattr(table, f"to_{package.replace('pyarrow', 'arrow')}")()


def test_pandas_and_polars_need_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert len(small().to_pandas()) == len(small().to_polars()) == 3


def test_columns_have_one_length() -> None:
    with pytest.raises(ConfigError, match="expected columns of one length"):
        Table({"a": np.zeros(2), "b": np.zeros(3)})


def test_a_table_shows_its_first_rows() -> None:
    shown = repr(Table({"lots": np.arange(1234), "side": Names.of(np.zeros(1234, np.int64), ("<buy>",))}))
    assert shown.splitlines()[0] == "1,234 rows, 2 columns" and "0, 1, 2, 3, 4, ..." in shown
    assert "&lt;buy&gt;" in Table({"side": Names.encode(["<buy>"])})._repr_html_()


def test_prices_are_the_nearest_floats() -> None:
    ticks, symbol = np.array([22_345, 0, 7, 9]), np.array([0, 0, 1, 2])
    found = prices(ticks, ["0.01", "0.00000001"], symbol)
    assert found[[0, 2]].tolist() == [223.45, 7e-8] and np.isnan(found[[1, 3]]).all()
    assert prices(ticks[:1], ["0.01"], symbol[:1]).tolist() == [223.45], "of one symbol without looking units up"
    assert money(np.array([3, 3]), [Decimal("0.1"), Decimal(7)], np.array([0, 1])).tolist() == [0.3, 21.0]


def test_ids_are_found_wherever_they_stand() -> None:
    assert find(np.array([5, 3, 9, 3]), np.array([3, 4, 9, 10])).tolist() == [1, -1, 2, -1]
    assert find(np.zeros(0, np.int64), np.array([1])).tolist() == [-1]


def test_names_have_the_smallest_codes() -> None:
    assert Names.of([0, 1, -1, 7], ("a", "b")).codes.tolist() == [0, 1, -1, -1]
    assert Names.of([0], ("a", "b", "a", "a (2)", "a")).names == ("a", "b", "a (2)", "a (2) (2)", "a (3)")
    assert Names.of([0], map(str, range(128))).codes.dtype == np.int8 and Names.of([0], map(str, range(129))).codes.dtype == np.int16  # fmt: skip


def commands(*rows: dict[str, int]) -> Rows:
    found = np.zeros(len(rows), COMMAND)
    for index, values in enumerate(rows):
        for name, value in {"time_ns": NOON_NS + index, "command_id": index + 1, **values}.items():
            found[name][index] = value
    return found


NEW = {"kind": CommandKind.NEW, "qty_lots": 5, "time_in_force": TimeInForce.GTC}
SENT = commands(
    NEW | {"side": Side.SELL, "price_ticks": 101},
    NEW | {"side": Side.BUY, "price_ticks": 102, "qty_lots": 3, "flags": CommandFlag.POST_ONLY},
    NEW | {"side": Side.BUY, "price_ticks": 101, "qty_lots": 2, "time_in_force": TimeInForce.IOC},
    {"kind": CommandKind.CANCEL, "order_id": 1}, {"kind": CommandKind.CANCEL, "order_id": 99},
    {"kind": CommandKind.HALT, "flags": HaltReason.NEWS, "symbol": 1},
    {"kind": CommandKind.ACCOUNT, "flags": Setting.KILLED, "price_ticks": 1},
    {"kind": CommandKind.PHASE, "flags": Phase.CLOSED}, {"kind": CommandKind.END_DAY},
)  # fmt: skip


def test_commands_have_names() -> None:
    table = command_table(SENT, CONTEXT)
    assert table["kind"].tolist() == ["new"] * 3 + ["cancel", "cancel", "halt", "account", "phase", "end_day"]
    assert table["side"].tolist() == ["sell", "buy", "buy", "sell", None, None, None, None, None]
    assert table["symbol"].tolist() == ["A"] * 5 + ["B", None, "A", None]
    assert table["time_in_force"].tolist() == ["gtc", "gtc", "ioc"] + [None] * 6
    assert table["detail"].tolist() == [None] * 5 + ["news", "killed", "closed", None]
    assert table["post_only"].tolist() == [False, True] + [False] * 7
    assert table["price"][:2].tolist() == [1.01, 1.02] and np.isnan(table["price"][3:]).all()


def test_events_have_names() -> None:
    market = Market(["A", "B"])
    market.grant_operator(0)
    table = event_table(market.submit(SENT), CONTEXT)
    kind = table["kind"]
    assert table["reason"][kind == "rejected"].tolist() == ["would_cross", "unknown_order"]
    assert table["detail"][kind == "halted"].tolist() == ["news"] and table["symbol"][kind == "halted"].tolist() == [
        "B"
    ]
    assert table["maker"][kind == "fill"].tolist() == [True, False]
    assert table["side"][kind == "fill"].tolist() == ["sell", "buy"]
    assert not table["maker"][np.isin(kind, ["halted", "phased"])].any(), "their flags are no flags"
