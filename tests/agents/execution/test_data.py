"""Reading bars, splitting them, fingerprints."""

import datetime
import itertools
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from serl.agents.execution.bar_files import read_bars
from serl.agents.execution.cli_data import data
from serl.agents.execution.data import TEST, TRAIN, UNSEEN, VALIDATION, bar_dataset, book_dataset, fit_scales
from serl.agents.execution.environment.bars import CLOSE, PRICE, VOLUME
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.errors import DataError
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import open_source
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day

STOCKS, DATES, BARS = 10, 10, 10


def rows() -> dict[str, list[object]]:
    """Ten stocks on ten dates with ten bars, all valid."""
    table: dict[str, list[object]] = {
        name: [] for name in ("symbol", "date", "ToD", "open", "high", "low", "close", "volume")
    }
    for stock in range(STOCKS):
        for date in range(DATES):
            for bar in range(BARS):
                values = (
                    f"S{stock}",
                    f"2020-01-{date + 1:02d}",
                    f"09:{30 + bar}:00",
                    10.0,
                    10.2,
                    9.9,
                    10.1,
                    600.0 * (1 + date),
                )
                for column, value in zip(table.values(), values, strict=True):
                    column.append(value)
    return table


def write(path: Path, table: dict[str, list[object]]) -> Path:
    """Writes a table as Parquet."""
    pq.write_table(pa.table(table), path)
    return path


def test_bad_rows_are_dropped_and_counted(tmp_path: Path) -> None:
    table = rows()
    table["close"][3] = 0.0  # one bar of a day: filled with the bar before it
    table["high"][4] = 9.0
    for bar in range(BARS, 2 * BARS):  # a suspended day
        for name in ("open", "high", "low", "close", "volume"):
            table[name][bar] = 0.0
    for name in table:  # a half day
        del table[name][-5:]
    table["close"][2] = 10.2
    read = read_bars(write(tmp_path / "bars.parquet", table))
    assert read.counts == {
        "rows": 995, "rows_without_price": 11, "rows_contradictory": 1, "rows_twice": 0, "stock_days": 98,
        "stock_days_short": 1, "stock_days_without_volume": 0, "bars_missing": 2,
    }  # fmt: skip
    first = read.bars.values[0]
    assert first[3, VOLUME] == first[4, VOLUME] == 0
    np.testing.assert_allclose(first[3:5, CLOSE], 1020)
    np.testing.assert_allclose(first[0, PRICE], (1020 + 990 + 1010) / 3)
    assert read.bars.starts_ns[0] == (9 * 60 + 30) * 60 * 10**9


def test_volumes_of_less_than_a_lot_a_day_are_refused(tmp_path: Path) -> None:
    """Coins, say: each order would be larger than its day's volume."""
    table = rows()
    for bar, symbol in enumerate(table["symbol"]):
        if symbol == "S3":
            table["volume"][bar] = 1e-5
    with pytest.raises(DataError, match=r"S3: expected volumes in lots, got a mean of 0\.0001 a day; .* multiply"):
        bar_dataset(write(tmp_path / "bars.parquet", table))


@pytest.mark.parametrize(
    ("column", "value", "error"),
    [
        ("open", "ten", "bars.parquet: open: expected numbers, got a column of string"),
        ("ToD", "25:00:00", "bars.parquet: ToD: expected a time of day .* got '25:00:00'"),
        ("period", "1min", "bars.parquet: period: expected numbers, got a column of string"),
        ("period", 0, "bars.parquet: period: expected the same whole minutes from 1 to 1440 in all rows, got 0;"),
        ("period", 1.5, "bars.parquet: period: expected the same whole minutes .*, got 1.5;"),
    ],
)
def test_columns_of_other_values_are_named(tmp_path: Path, column: str, value: object, error: str) -> None:
    table = rows()
    if column == "period":
        table["time"] = table.pop("ToD")
    table[column] = [value] * len(table["symbol"])
    with pytest.raises((DataError, ConfigError), match=error):
        read_bars(write(tmp_path / "bars.parquet", table))


def test_bars_of_several_lengths_are_refused(tmp_path: Path) -> None:
    """All had the length of the first, so the others began at wrong times."""
    table = rows()
    table["time"] = table.pop("ToD")
    table["period"] = [1, *[5] * (len(table["time"]) - 1)]
    with pytest.raises(DataError, match=r"period: expected the same whole minutes .*, got 1, 5; correct the column"):
        read_bars(write(tmp_path / "bars.parquet", table))


def test_a_stock_day_without_volume_is_dropped_and_counted(tmp_path: Path) -> None:
    table = rows()
    table["volume"][:BARS] = [0.0] * BARS
    read = read_bars(write(tmp_path / "bars.parquet", table))
    assert read.counts["stock_days_without_volume"] == 1 and read.counts["stock_days"] == STOCKS * DATES - 1
    assert (read.bars.values[:, :, VOLUME].sum(axis=1) > 0).all()


def test_bars_named_by_their_end_and_with_an_amount(tmp_path: Path) -> None:
    table = rows()
    table["time"] = table.pop("ToD")
    table["period"] = [1] * len(table["time"])
    table["amount"] = [10.05 * float(str(volume)) for volume in table["volume"]]
    read = read_bars(write(tmp_path / "bars.parquet", table))
    assert read.bars.starts_ns[0] == (9 * 60 + 29) * 60 * 10**9
    np.testing.assert_allclose(read.bars.values[:, :, PRICE], 1005)


@pytest.mark.parametrize("factor", [1e8, 0.01])
def test_an_amount_in_other_units_than_the_volume_is_refused(tmp_path: Path, factor: float) -> None:
    """Coins that were multiplied to make lots, or lots of a hundred shares: each VWAP would be the low or the high of its bar."""
    table = rows()
    table["amount"] = [10.05 * float(str(volume)) for volume in table["volume"]]
    table["volume"] = [factor * float(str(volume)) for volume in table["volume"]]
    with pytest.raises(DataError, match=r"amount: expected amount / volume within .* 9\.9 to 10\.2; multiply amount"):
        read_bars(write(tmp_path / "bars.parquet", table))


@pytest.mark.parametrize("form", ["1/{}/2020", "{}.1.2020", "{}"])
def test_dates_whose_order_as_text_is_not_that_of_time_are_refused(tmp_path: Path, form: str) -> None:
    """The tenth came before the second, so that training had dates after those of the test."""
    table = rows()
    table["date"] = [form.format(int(str(date)[-2:])) for date in table["date"]]
    with pytest.raises(DataError, match="date: expected dates like 2020-01-31"):
        bar_dataset(write(tmp_path / "a.parquet", table))


@pytest.mark.parametrize("name", ["", " ", None])
def test_rows_without_a_symbol_are_refused(tmp_path: Path, name: str | None) -> None:
    """They were taken for a stock of their own, of which the last row of each minute counted."""
    table = rows()
    table["symbol"] = [name, name, *list(table["symbol"])[2:]]
    with pytest.raises(DataError, match=r"symbol: expected a name in each of the [\d,]+ rows, got 2 without one"):
        read_bars(write(tmp_path / "a.parquet", table))


def test_dates_may_be_numbers_or_of_a_type_of_their_own(tmp_path: Path) -> None:
    table, days = rows(), [datetime.date.fromisoformat(str(date)) for date in rows()["date"]]
    for dates in ([int(day.strftime("%Y%m%d")) for day in days], days, [np.datetime64(day, "ns") for day in days]):
        table["date"] = list(dates)
        assert len(bar_dataset(write(tmp_path / "a.parquet", table)).table.dates) == DATES


def test_dates_and_unseen_stocks_are_never_trained_and_tested_on(tmp_path: Path) -> None:
    made = bar_dataset(write(tmp_path / "bars.parquet", rows()))
    train, validation, test, unseen = (made.parts[name] for name in (TRAIN, VALIDATION, TEST, UNSEEN))
    assert (len(train.dates), len(validation.dates), len(test.dates)) == (7, 1, 2)
    assert max(train.dates) < min(validation.dates) <= max(validation.dates) < min(test.dates)
    assert unseen.dates == test.dates
    assert set(unseen.symbols).isdisjoint(train.symbols) and set(train.symbols) == set(test.symbols)
    assert (len(train.symbols), len(unseen.symbols)) == (8, 2)
    mean_of_training = 600.0 * np.mean(np.arange(1, 8)) / 60
    assert {round(hours.volume_lots_per_s, 6) for part in made.parts.values() for hours in part.hours} == {
        mean_of_training
    }


def test_the_fingerprint_names_the_data(tmp_path: Path) -> None:
    one, table = write(tmp_path / "one.parquet", rows()), rows()
    table["close"][7] = 10.0
    other = write(tmp_path / "other.parquet", table)
    assert bar_dataset(one).fingerprint == bar_dataset(one).fingerprint != bar_dataset(other).fingerprint


def test_other_files_are_refused(tmp_path: Path) -> None:
    table = rows()
    del table["close"]
    with pytest.raises(DataError, match="close are missing"):
        read_bars(write(tmp_path / "bars.parquet", table))
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(DataError, match="cannot be read"):
        read_bars(tmp_path / "text.parquet")
    few = {name: values[:20] for name, values in rows().items()}
    with pytest.raises(DataError, match="3 dates"):
        bar_dataset(write(tmp_path / "few.parquet", few))


def test_a_book_is_split_by_hours(tmp_path: Path) -> None:
    path = tmp_path / "made.day"
    history = generate_day(1, commands_per_s=1.0)
    write_day(history, path)
    made = book_dataset(path, history)
    spans = [(part.hours[0].start_ns, part.hours[0].end_ns) for part in made.parts.values()]
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    sampler = RandomOrders(made.parts[TRAIN].hours, 60, 10)
    scales = fit_scales(made.static(4), sampler)
    assert scales == fit_scales(made.replay(4), sampler)
    assert scales.spread_ticks >= 1 and scales.volume_lots > 1


def test_bars_have_no_hours_in_their_settings(tmp_path: Path) -> None:
    settings = MarketConfig(kind="static", data=[write(tmp_path / "bars.parquet", rows())], hours="14:00-15:45")
    with pytest.raises(ConfigError, match=r"market.hours: expected none for bars, .* got 14:00-15:45"):
        open_source(settings)


def test_orders_last_whole_intervals() -> None:
    hours = [Hours(0, 0, 3600 * 10**9, 100.0)]
    with pytest.raises(ConfigError, match="duration_s: expected a multiple of interval_s, 30, got 100"):
        RandomOrders(hours, duration_s=100, interval_s=30)
    assert RandomOrders(hours, duration_s=0.6, interval_s=0.2).sample(np.random.default_rng(0), 1)["steps"] == 3


def test_the_command_shows_the_split(tmp_path: Path) -> None:
    path = write(tmp_path / "bars.parquet", rows())
    shown = CliRunner().invoke(data, [str(path)])
    assert shown.exit_code == 0, shown.output
    assert "unseen" in shown.output and bar_dataset(path).fingerprint in shown.output
    shown_json = json.loads(CliRunner().invoke(data, [str(path), "--json"]).output)
    assert shown_json["counts"]["bars.parquet"]["rows"] == STOCKS * DATES * BARS
    assert CliRunner().invoke(data, [str(path), "--tick-size", "1e-300"]).exit_code == 2, "nothing would depend on it"
    assert [row["part"] for row in shown_json["parts"]] == [TRAIN, VALIDATION, TEST, UNSEEN]
