"""What a market makes of an import: limits that one absurd order does not spoil, rejections, time with one side, gaps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import CASH_MAX, COMMAND, CommandKind, EventKind, Phase, Rows, Side, TimeInForce, command
from serl.history import importing
from serl.history.cli import day
from serl.history.day import Day, Reference, SymbolReference, read_reference
from serl.history.errors import SourceRejected
from serl.history.importing import import_file
from serl.history.limits import limits_for
from serl.history.verdict import verdict
from serl.history.verify import market_of
from tests.history.samples import sample
from tests.history.test_l3_csv import csv_text

SECOND_NS = 1_000_000_000


def orders(*rows: tuple[float, Side, int, int], symbol: int = 0) -> Rows:
    """NEW GTC from (time in s, side, lots, ticks)."""
    made = np.zeros(len(rows), COMMAND)
    for row, (time_s, side, lots, ticks) in enumerate(rows):
        made["time_ns"][row], made["side"][row] = int(time_s * SECOND_NS), side
        made["qty_lots"][row], made["price_ticks"][row] = lots, ticks
    made["kind"], made["time_in_force"], made["symbol"] = CommandKind.NEW, TimeInForce.GTC, symbol
    made["command_id"] = np.arange(1, len(rows) + 1)
    return made


def reference(symbols: int = 1) -> Reference:
    return Reference(
        tuple(SymbolReference(str(number)) for number in range(symbols)), "2020-01-02", "made", source_rows=7
    )


def test_the_default_limits_stay_where_they_do() -> None:
    assert limits_for([orders((0, Side.BUY, 1_000_000, 1_000_000_000))]) == MarketLimits()
    assert limits_for([orders((0, Side.BUY, 1, 3_000_000_000))]).price_ticks_max == 3_000_000_000
    terms = np.tile(command(CommandKind.TERM, price_ticks=1 << 40), 3)
    assert limits_for([terms, orders((0, Side.BUY, 1_000_000, 9_000))]) == MarketLimits(), (
        "values of terms are no prices"
    )
    assert limits_for([orders((0, Side.BUY, 30_000_000_000, 9_000))]).qty_lots_max == 30_000_000_000


def test_limits_of_each_kind_of_command() -> None:
    usual = MarketLimits()
    for kind in (CommandKind.NEW, CommandKind.REDUCE, CommandKind.REPLACE, CommandKind.PRINT):
        rows = orders((0, Side.BUY, 2_000_000, 5), (0, Side.BUY, 5, 2_000_000_000))
        rows["kind"] = kind
        found = limits_for([rows[:1], rows[1:]], participants_max=7)
        assert (found.qty_lots_max, found.price_ticks_max, found.participants_max) == (2_000_000, 2_000_000_000, 7)
    many = np.repeat(orders((0, Side.BUY, 5, 100)), usual.levels_max + 9)
    assert limits_for([many[:9], many[9:]]).levels_max == usual.levels_max + 10, "and one to be replaced into"
    of_two_symbols, immediate, reductions = (many.copy() for _ in range(3))
    of_two_symbols["symbol"][::2] = 1
    immediate["time_in_force"] = TimeInForce.IOC
    reductions["kind"] = CommandKind.REDUCE
    for rows in (of_two_symbols, immediate, reductions):
        assert limits_for([rows]).levels_max == usual.levels_max


def test_limits_reject_as_few_rows_as_possible() -> None:
    three = orders(*[(0, Side.BUY, 1 << 40, 1)] * 3, (0, Side.BUY, 1, 1 << 14))
    assert limits_for([three]).qty_lots_max == 1 << 40, (
        "one row is rejected for its price, not three for their quantity"
    )
    high = limits_for([orders((0, Side.BUY, 5, 1 << 35))])
    assert (high.qty_lots_max, high.price_ticks_max) == (CASH_MAX >> 35, 1 << 35), "no lower than the price demands"
    assert limits_for([orders((0, Side.BUY, 5, 1 << 41))]).qty_lots_max == MarketLimits().qty_lots_max, (
        "no market has such prices"
    )


@pytest.mark.parametrize("lots", [1 << 39, 1 << 52])
def test_an_absurd_order_costs_itself(lots: int) -> None:
    """Limits that held it would leave no room for the prices of all others."""
    usual = [(second, Side.BUY, 5, 2_000_000 + second) for second in range(1, 100)]
    commands = orders((0, Side.BUY, lots, 2_000_000), *usual)
    assert CASH_MAX // lots < 2_000_000  # so the attack works on limits that hold every quantity
    limits = limits_for([commands[:50], commands[50:]])
    assert limits.qty_lots_max == MarketLimits().qty_lots_max and limits.price_ticks_max > 2_000_100
    market, rows = market_of(Day(commands, np.arange(len(commands)), reference()))
    market.submit(rows)
    assert len(market.book(0)[0]) == 99
    found = verdict(reference(), lambda: [commands[:50], commands[50:]])
    assert found.rejected == {"bad_qty": 1} and found.commands == 100 and found.rejected_share == 0.01


def test_time_with_one_side_and_gaps() -> None:
    first = orders((0, Side.BUY, 5, 100), (10, Side.SELL, 5, 101), (100, Side.BUY, 5, 99))
    second = orders((60, Side.SELL, 5, 101), (100, Side.SELL, 5, 102), symbol=1)
    second["command_id"] += 10
    together = np.concatenate([first, second])
    together = together[np.argsort(together["time_ns"], kind="stable")]
    found = verdict(reference(2), lambda: [together])
    assert found.one_sided_share == pytest.approx((10 + 40) / 140) and found.empty_share == found.crossed_share == 0
    assert (found.gaps, found.longest_gap_s, found.rows) == (0, 50.0, 7)
    for second, gaps in ((60, 0), (61, 1)):
        later = orders((0, Side.BUY, 5, 100), (second, Side.SELL, 5, 101))
        assert verdict(reference(), lambda later=later: [later]).gaps == gaps


def test_time_without_orders_and_crossed() -> None:
    """Orders that are collected for an auction may cross."""
    rows = np.zeros(7, COMMAND)
    rows["time_ns"] = np.array([0, 1, 3, 7, 20, 36, 100]) * SECOND_NS
    rows["kind"] = CommandKind.NEW
    rows["kind"][[0, 3, 6]] = CommandKind.PHASE, CommandKind.CANCEL, CommandKind.TIME
    rows["flags"][0], rows["order_id"][3], rows["command_id"] = Phase.PRE_OPEN, 2, np.arange(1, 8)
    rows["side"] = [0, Side.BUY, Side.SELL, 0, Side.SELL, Side.SELL, 0]
    rows["qty_lots"], rows["price_ticks"], rows["time_in_force"] = 5, [0, 100, 100, 0, 101, 99, 0], TimeInForce.GTC
    found = verdict(reference(), lambda: [rows])
    assert (found.empty_share, found.one_sided_share, found.crossed_share) == pytest.approx((0.01, 0.95, 0.04))
    assert found.lines() == [
        "no command was rejected",
        "share of the time in which the book has one side: 95.00%, no side: 1.00%, is crossed: 4.00%",
        "1 gaps of over a minute without a command; the longest time without one is 64.0 s",
    ]


def with_an_empty_order(count: int) -> Rows:
    """The first of them has no quantity."""
    made = orders(*((second, Side.BUY, 5, 100) for second in range(count)))
    made["price_ticks"][0], made["qty_lots"][0] = 0, 0
    return made


def test_a_source_that_a_market_rejects_writes_no_file(tmp_path: Path) -> None:
    commands = with_an_empty_order(50)
    with pytest.raises(
        SourceRejected,
        match=r"expected a market to accept at least 99% of the 50 commands, got 2\.0% rejected \(bad_qty 1\)",
    ):
        verdict(reference(), lambda: [commands]).require_accepted("made.csv")
    verdict(reference(), lambda: [with_an_empty_order(100)]).require_accepted("made.csv")


def test_an_import_is_judged_before_it_replaces_a_file(tmp_path: Path) -> None:
    """No limits hold a quantity beyond 2^40."""
    source, output = tmp_path / "bitstamp_x_y.csv", tmp_path / "day.parquet"
    absurd = [(1, 0, "10.00", 1 << 42, "created", "bid"), (2, 1, "9999999999.00", 500, "created", "ask")]
    source.write_text(csv_text(*absurd))
    output.write_text("of before")
    with pytest.raises(SourceRejected, match="give --allow-rejected"):
        import_file(source, output)
    assert output.read_text() == "of before" and sorted(tmp_path.iterdir()) == [source, output]
    result = CliRunner().invoke(day, ["import", str(source), "-o", str(output), "--allow-rejected"])
    assert result.exit_code == 0 and "50.00% of the commands were accepted; rejected: bad qty 1" in result.output
    assert read_reference(output)[1] == 2


def test_the_verdict_of_a_day_of_the_publisher(tmp_path: Path) -> None:
    _, found = import_file(sample("lobster/LOBSTER_SampleFile_AMZN_2012-06-21_1.zip"), tmp_path / "amzn.parquet")
    assert found.rejected == {} and found.commands == 73_336 and found.rows == 57_515
    assert found.crossed_share == 0 and found.one_sided_share < 0.001 and found.gaps == 0


def test_the_limits_hold_the_levels_of_the_day() -> None:
    usual = MarketLimits().levels_max
    flat = orders(*((0, Side.BUY, 5, 100) for _ in range(usual + 1)))
    assert verdict(reference(), lambda: [flat]).limits.levels_max == usual, "many orders at a price are one level"
    deep = orders(*((0, Side.BUY, 5, price) for price in range(1, usual + 9)))
    market, rows = market_of(Day(deep, np.arange(len(deep)), reference()))
    assert not (market.submit(rows)["kind"] == EventKind.REJECTED).any()
    found = verdict(reference(), lambda: [deep[:9], deep[9:]])
    assert found.rejected == {} and found.limits.levels_max == usual + 8
    assert found.lines()[-1].endswith("levels_max 65,544")


def test_imports_to_one_output_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first is judged, a second one runs from start to end."""
    for symbol in ("aaa", "bbb"):
        (tmp_path / f"bitstamp_{symbol}_y.csv").write_text(csv_text((1, 0, "10.00", 5, "created", "bid")))
    output = tmp_path / "day.parquet"

    def slow(*arguments: Any) -> Any:
        monkeypatch.setattr(importing, "verdict", verdict)
        assert len(list(tmp_path.glob(".*.importing"))) == 1, (
            "beside the output: a file of another disk cannot replace it"
        )
        import_file(tmp_path / "bitstamp_bbb_y.csv", output)
        return verdict(*arguments)

    monkeypatch.setattr(importing, "verdict", slow)
    made, _ = import_file(tmp_path / "bitstamp_aaa_y.csv", output)
    assert read_reference(output)[0] == made and made.symbols[0].name == "AAA"
    assert len(list(tmp_path.iterdir())) == 3


def test_an_exchange_with_the_limits_of_the_verdict_takes_the_day() -> None:
    """An order needs room for a level also where it joins one, or leaves one: the limits held the levels, and not one more order."""
    usual = MarketLimits().levels_max
    joins = orders(*((0, Side.BUY, 5, price) for price in range(1, usual + 9)), (1, Side.BUY, 5, 1))
    deep = joins.copy()
    deep["kind"][-1], deep["order_id"][-1], deep["price_ticks"][-1] = CommandKind.REPLACE, 9, usual + 9
    for rows in (joins, deep):
        found = verdict(reference(), lambda rows=rows: [rows])
        market = Market(1, limits=found.limits)
        assert not (market.submit(rows)["kind"] == EventKind.REJECTED).any() and not found.rejected
        assert found.lines()[-1].endswith("levels_max 65,545")


def test_limits_that_large_quantities_lower_are_told() -> None:
    """The lots of all open orders together are limited too: an exchange with the three limits alone did not start."""
    found = verdict(reference(), lambda: [orders((0, Side.BUY, 1 << 40, 100))])
    assert found.rejected == {} and found.lines()[-1].endswith("orders_open_max 1,048,576")
