"""How market orders meet the touch: the more lots it has, the more rarely they take all of it or trade through it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serl.agents.calibration.tables import quantiles_or_pooled, share_by_state
from serl.agents.realism.tape import Floats, Tape
from serl.agents.traders.flow_tables import POINTS, TOUCH_STATES

TOUCH_SHARES = (0.12, 0.25, 0.33, 0.62, 0.83, 0.93)
"""Shares of market orders that meet fewer lots at the touch than the edges between touch states. Many meet one round lot, the fourth state."""


@dataclass(frozen=True)
class MarketOrders:
    """Measures of market orders. Tables are [..., POINTS] quantiles."""

    touch_edges_lots: Floats
    """[6] quantiles TOUCH_SHARES of the lots at the touch that market orders meet."""
    sweep_share: Floats
    """[touch state] share of market orders that take exactly the touch."""
    through_share: Floats
    """[touch state] share of market orders that trade through the touch."""
    lots: Floats
    """[touch state, point] sizes of market orders that do neither."""
    through_lots: Floats
    """[point] lots beyond the touch, for market orders that trade through it."""
    repeat_share: float
    """Share of market orders on the side of the previous one, in excess of coin flips."""


def measure_market_orders(windows: Sequence[Tape]) -> MarketOrders:
    """Measures the market orders of all windows."""
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
