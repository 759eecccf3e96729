"""Profit, positions, trades and drawdown against a computation by hand."""

from decimal import Decimal
from typing import Any

import numpy as np

from serl.agents.backtest.result import Result, RoundTrip, fill_forward
from serl.exchange.records import EVENT, EventFlag, EventKind
from serl.history.day import SymbolReference

SYMBOLS = (SymbolReference("A", "0.01"), SymbolReference("B", "0.5", "100"))


def fills(*rows: tuple[int, int, int, int, int]) -> Any:
    """EVENT rows of (time, symbol, side, price, quantity); every second one as maker."""
    found = np.zeros(len(rows), EVENT)
    for index, row in enumerate(rows):
        found[["time_ns", "symbol", "side", "price_ticks", "qty_lots"]][index] = row
    found["kind"], found["flags"][1::2] = EventKind.FILL, EventFlag.MAKER
    return found


def result(rows: Any, times: list[int], twice_mids: list[list[int]]) -> Result:
    return Result("test", SYMBOLS, rows, np.array(times), np.array(twice_mids), 3, {}, {}, {}, 1.0)


def test_profit_is_cash_and_position_at_the_mid_over_all_symbols() -> None:
    found = result(
        fills((10, 0, 0, 1000, 7), (20, 0, 1, 1003, 2), (20, 1, 1, 50, 3), (31, 0, 1, 1001, 5)),
        [10, 15, 25, 40],
        [[2001, 101], [1997, 101], [2001, 101], [2001, 95]],
    )
    assert found.positions.tolist() == [[0, 0], [7, 0], [5, -3], [0, -3]], "a mark is before what happens at its time"
    # A in half ticks: 7 x 1997 - 2 x 7000 = -21; 5 x 2001 - 2 x (7000 - 2006) = 17; 2 x (2006 + 5005 - 7000) = 22
    # B: 2 x 150 - 3 x 101 = -3; 300 - 3 x 95 = 15
    assert found.profit_half_ticks.tolist() == [[0, 0], [-21, 0], [17, -3], [22, 15]]
    # a half tick of a lot is 0.005 of A and 25 of B
    assert found.pnl == [Decimal(0), Decimal("-0.105"), Decimal("0.085") - 75, Decimal("0.11") + 375]
    assert found.profit == Decimal("375.11")
    assert found.drawdown == Decimal("74.915")


def test_profit_beyond_64_bits_is_exact() -> None:
    """Also where only the market's price makes it so large: sums that wrap twice would be right by chance."""
    lots = 1 << 40
    found = result(fills((1, 0, 0, 1 << 30, lots), (2, 0, 1, (1 << 30) + 1, lots)), [5], [[0, 0]])
    assert found.profit_half_ticks.tolist() == [[2 * lots, 0]]
    assert found.profit == Decimal(lots) / 100
    found = result(fills((1, 0, 1, 1 << 30, lots)), [5], [[2, 0]])
    assert found.profit_half_ticks.tolist() == [[2 * lots * ((1 << 30) - 1), 0]]
    found = result(fills((1, 0, 0, 1, lots)), [5], [[2 << 30, 0]])
    assert found.profit_half_ticks.tolist() == [[2 * lots * ((1 << 30) - 1), 0]]


def test_trades_go_from_no_position_to_no_position() -> None:
    found = result(
        fills((1, 0, 0, 100, 5), (2, 0, 0, 102, 5), (3, 0, 1, 103, 14), (4, 0, 0, 101, 4), (5, 1, 1, 10, 1)), [9], [[200, 20]]
    )  # fmt: skip
    assert found.trades == [
        RoundTrip(0, 0, 1, 3, 10, 3, 20),
        RoundTrip(0, 1, 3, 4, 4, 2, 8),
        RoundTrip(1, 1, 5, None, 1, 1, None),
    ]
    assert found.money(1, 3) == 150


def test_trades_of_all_symbols_are_in_the_order_of_their_starts() -> None:
    found = result(fills((1, 1, 0, 10, 1), (2, 0, 0, 100, 1), (3, 1, 1, 11, 1)), [9], [[200, 20]])
    assert [trade.symbol for trade in found.trades] == [1, 0]


def test_fees_and_rebates_are_in_the_money_of_their_symbols() -> None:
    rows, fees = fills((1, 0, 0, 100, 5), (2, 1, 1, 10, 1)), np.array([2_000_000, -1_000_000])
    marks = np.array([2, 3]), np.array([[200, 20], [200, 20]])
    found = Result("test", SYMBOLS, rows, *marks, 3, {}, {}, {}, 1.0, fee_microticks=fees)
    assert found.fill_fees == [Decimal("0.02"), Decimal(-50)]
    assert found.fees_paid == [Decimal("0.02"), Decimal("-49.98")], "a mark is before what happens at its time"
    assert found.pnl == [Decimal("-0.02"), Decimal("49.98")]


def test_a_loss_at_the_first_mark_is_a_fall_from_0() -> None:
    found = result(fills((1, 0, 0, 100, 1)), [2, 3], [[198, 0], [198, 0]])
    assert found.pnl == [Decimal("-0.01"), Decimal("-0.01")] and found.drawdown == Decimal("0.01")


def test_without_a_mid_the_mark_is_the_one_before_or_the_last_own_fill() -> None:
    bests = np.array([[[0, 0]], [[9, 0]], [[9, 12]], [[0, 12]], [[10, 11]], [[0, 0]]])
    assert fill_forward(bests)[:, 0].tolist() == [0, 0, 21, 21, 21, 21]
    found = result(fills((1, 0, 0, 100, 5)), [2, 3], [[0, 0], [198, 0]])
    assert found.profit_half_ticks[:, 0].tolist() == [0, -10]
    found = result(fills((1, 0, 0, 100, 5), (2, 0, 0, 104, 5)), [2, 3], [[0, 0], [0, 0]])
    assert found.profit_half_ticks[:, 0].tolist() == [0, 40], "a fill at the time of a mark comes after it"


def test_a_run_without_fills_has_no_profit() -> None:
    found = result(fills(), [2], [[198, 0]])
    assert found.profit == found.drawdown == 0 and not found.trades
