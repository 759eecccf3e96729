"""The impact of metaorders in a replay."""

import numpy as np
import pytest

from serl.agents.impact.replay import replay_impact
from serl.agents.realism.errors import EmptyWindow, NoSuchSymbol, NoTrades, NoTwoSidedBook, RealismError
from serl.agents.realism.tape import SECOND_NS
from serl.exchange.records import CommandKind, Phase, Rule, Side, command
from serl.history.generate import generate_day
from tests.agents.realism.sample import BUY, SELL, TEN_NS, day_of, new

WINDOW = (TEN_NS, TEN_NS + 60 * SECOND_NS)


def test_by_hand() -> None:
    """Asks 101 x 10 and 102 x 10, bid 99: a buy of 15 takes the first level, the mid moves from 100 to 100.5 permanently."""
    history = day_of(
        new(BUY, 99, 100, -1000), new(SELL, 101, 10, -1000), new(SELL, 102, 10, -1000),
        new(SELL, 99, 15, 30_000, ioc=True), new(BUY, 98, 1, 200_000), opening=3,
    )  # fmt: skip
    found = replay_impact(history, Side.BUY, [1.0], WINDOW, interval_ns=60 * SECOND_NS, grid_step_ns=30 * SECOND_NS)
    (order,) = found.orders
    assert found.window_lots == found.day_lots == order.qty_lots == order.filled_lots == 15
    assert ((found.grid_ns - TEN_NS) // SECOND_NS).tolist() == [0, 30, 60, 90, 120]
    assert order.impact_ticks.tolist() == [0, 0.5, 0.5, 0.5, 0.5]
    assert order.at_end_ticks == 0.5 and order.mean_ticks == pytest.approx(1 / 3)
    assert (order.child_ticks == 0.5).all()
    sold = replay_impact(history, Side.SELL, [1.0], WINDOW, interval_ns=30 * SECOND_NS, grid_step_ns=30 * SECOND_NS)
    assert sold.orders[0].impact_ticks.tolist() == [0] * 5, "a bid of 100 lots is not exhausted"


def test_a_crossed_book_has_no_mid() -> None:
    """A bid of 12,000 that is collected for an auction was half of a mid: sigma was thousands of ticks."""
    phases = [(60_000, Phase.INTRADAY), (180_000, Phase.CONTINUOUS)]
    history = day_of(
        new(BUY, 99, 100, -1000), new(SELL, 101, 100, -1000), new(BUY, 101, 10, 30_000, ioc=True),
        *(command(CommandKind.PHASE, flags=int(phase), time_ns=TEN_NS + ms * 10**6) for ms, phase in phases),
        new(BUY, 12_000, 20, 90_000), new(BUY, 98, 1, 400_000), opening=2,
    )  # fmt: skip
    history.commands.sort(order="time_ns", kind="stable")
    history.commands["command_id"] = np.arange(1, len(history) + 1)
    found = replay_impact(history, Side.BUY, [0.1], (TEN_NS, TEN_NS + 300 * SECOND_NS))
    assert found.sigma_ticks == 0 and found.window_lots == 30


def test_children_are_whole_multiples_of_the_lot() -> None:
    """All of an order was rejected on a day with `lot_multiple`, and its impact given as 0."""
    lot = command(CommandKind.RULE, flags=int(Rule.LOT), price_ticks=10, time_ns=TEN_NS - SECOND_NS)
    history = day_of(
        lot, new(BUY, 99, 1000, -1000), new(SELL, 101, 20, -1000), new(SELL, 102, 1000, -1000),
        new(BUY, 98, 10, 10_000), new(SELL, 99, 100, 30_000, ioc=True), new(BUY, 98, 10, 90_000), opening=4,
    )  # fmt: skip
    found = replay_impact(history, Side.BUY, [0.01, 0.34], WINDOW, interval_ns=20 * SECOND_NS)
    assert [(order.qty_lots, order.filled_lots) for order in found.orders] == [(10, 10), (30, 30)]
    assert [order.at_end_ticks for order in found.orders] == [0, 0.5]


def test_larger_orders_move_a_generated_day_more() -> None:
    history = generate_day(1, start_ns=TEN_NS - 60 * SECOND_NS, end_ns=TEN_NS + 1800 * SECOND_NS)
    window = (TEN_NS, TEN_NS + 900 * SECOND_NS)
    for side in (Side.BUY, Side.SELL):
        found = replay_impact(history, side, [0.01, 0.1, 0.5], window)
        first = [order.child_ticks[0] for order in found.orders]
        assert 0 <= first[0] < first[1] < first[2]
        assert found.orders[2].filled_lots <= found.orders[2].qty_lots
        assert found.sigma_ticks > 0


def test_invalid_settings_and_windows_are_refused() -> None:
    history = day_of(new(BUY, 99, 5, 0), new(SELL, 101, 5, 0), new(SELL, 99, 1, 1, ioc=True), new(BUY, 98, 1, 91_500))
    for shares in ([], [0.0], [-1.0]):
        with pytest.raises(RealismError, match="qty-share"):
            replay_impact(history, Side.BUY, shares, WINDOW)
    with pytest.raises(RealismError, match="grid"):
        replay_impact(history, Side.BUY, [0.1], WINDOW, grid_step_ns=0)
    for start_s in (0, 200):  # the last command is a second and a half after 10:01:30
        with pytest.raises(EmptyWindow, match="expected an end by 10:01:32, the day's last command"):
            replay_impact(history, Side.BUY, [0.1], (TEN_NS + start_s * SECOND_NS, TEN_NS + (start_s + 93) * SECOND_NS))
    with pytest.raises(NoTrades):
        replay_impact(history, Side.BUY, [0.1], (TEN_NS + 80 * SECOND_NS, TEN_NS + 92 * SECOND_NS))
    with pytest.raises(NoTwoSidedBook, match="give a later window"):
        replay_impact(history, Side.BUY, [0.1], WINDOW)
    with pytest.raises(NoSuchSymbol):
        replay_impact(history, Side.BUY, [0.1], WINDOW, symbol="SIX")
