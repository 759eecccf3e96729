"""How market orders meet the touch: they take all of it the more rarely, and trade through it the more rarely, the more lots there are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serl.agents.calibration.tables import quantiles_or_pooled, share_by_state
from serl.agents.realism.tape import Floats, Tape
from serl.agents.traders.flow_tables import POINTS, TOUCH_STATES

TOUCH_SHARES = (0.12, 0.25, 0.33, 0.62, 0.83, 0.93)
"""Shares of market orders that meet fewer lots at the touch than the edges between touch states. Many meet one round lot: the fourth state."""


@dataclass(frozen=True)
class MarketOrders:
    """Tables: [..., POINTS] quantiles."""

    touch_edges_lots: Floats
    """[6] quantiles TOUCH_SHARES of the lots at the touch that market orders meet."""
    sweep_share: Floats
    """[touch state] share of those that take exactly the touch."""
    through_share: Floats
    """[touch state] share of those that trade through it."""
    lots: Floats
    """[touch state, point] sizes of those that do neither."""
    through_lots: Floats
    """[point] lots beyond those at the touch of those that trade through it."""
    repeat_share: float
    """Excess share of those on the side of the previous one, over coin flips."""


def measure_market_orders(windows: Sequence[Tape]) -> MarketOrders:
    """The market orders of all windows."""
    rows, repeats = [], []
    for window in windows:
        orders = np.flatnonzero(window.trades & window.two_sided[:-1])
        opposite = 1 - window.side[orders].astype(np.int64)
        touch_ticks, touch_lots = window.book_ticks[orders, opposite, 0], window.book_lots[orders, opposite, 0]
        lots, signs = window.qty_lots[orders], window.sign[orders]
        through = window.price_ticks[orders] != touch_ticks
        rows.append((lots, touch_lots, through, ~through & (lots == touch_lots)))
        repeats.append(signs[1:] == signs[:-1])
    lots, touch, through, sweep = (np.concatenate(column) for column in zip(*rows, strict=True))
    edges, less = np.quantile(touch, TOUCH_SHARES), ~through & ~sweep
    state = np.searchsorted(edges, touch, side="left")
    pool = lots[less] if less.sum() >= POINTS else lots
    return MarketOrders(
        touch_edges_lots=edges,
        sweep_share=share_by_state(sweep, state, TOUCH_STATES),
        through_share=share_by_state(through, state, TOUCH_STATES),
        lots=np.stack([quantiles_or_pooled(lots[less & (state == number)], pool) for number in range(TOUCH_STATES)]),
        through_lots=quantiles_or_pooled(np.maximum(1, lots - touch)[through], lots),
        repeat_share=max(0.0, 2.0 * float(np.concatenate(repeats).mean()) - 1.0),
    )
