"""The arrays that a market and an execution agent exchange, one row per environment. Units: ticks, lots, ns after midnight."""

import numpy as np

LEVELS = 10
"""Number of price levels per side in FRAME; levels that the market does not show have price 0."""

EPISODE = np.dtype(
    [
        ("day", "<i4"),  # index in the market's list of days, or seed of a simulated market
        ("sign", "<i4"),  # +1 sell, -1 buy
        ("qty_lots", "<i8"),
        ("start_ns", "<i8"),
        ("interval_ns", "<i8"),  # time between decisions
        ("steps", "<i8"),  # number of decisions; the window ends steps * interval_ns after start_ns
    ],
    align=True,
)
"""One parent order."""

CHILD = np.dtype(
    [
        ("market_lots", "<i8"),  # to take at once, at any price
        ("limit_lots", "<i8"),  # rests until the next decision
        ("limit_ticks", "<i8"),  # its price
    ],
    align=True,
)
"""The child orders of one decision."""

FILL = np.dtype(
    [
        ("lots", "<i8"),  # filled in this step
        ("notional", "<i8"),  # ticks x lots
        ("resting_lots", "<i8"),  # open quantity of our limit order
        ("ahead_lots", "<i8"),  # quantity ahead of it in its queue
        ("fee_microticks", "<i8"),  # the market's fees for the fills, microticks x lots; below 0: a rebate
    ],
    align=True,
)

FRAME = np.dtype(
    [
        ("time_ns", "<i8"),
        ("bid_ticks", "<i8", (LEVELS,)),  # best first, 0 = no level
        ("bid_lots", "<i8", (LEVELS,)),
        ("ask_ticks", "<i8", (LEVELS,)),
        ("ask_lots", "<i8", (LEVELS,)),
        ("traded_lots", "<i8"),  # by others in this step
        ("traded_notional", "<i8"),  # ticks x lots
        ("signed_lots", "<i8"),  # bought minus sold by takers
        ("trades", "<i8"),
    ],
    align=True,
)
"""The market now, and the trades of others since the last decision."""
