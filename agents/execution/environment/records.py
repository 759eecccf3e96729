"""The arrays between a market and an execution agent, one row an environment. Ticks, lots, ns after midnight."""

import numpy as np

LEVELS = 10
"""Price levels a side in FRAME; fewer where the market shows fewer (prices 0)."""

EPISODE = np.dtype(
    [
        ("day", "<i4"),  # place in the market's list of days (or seed of the simulated market)
        ("sign", "<i4"),  # +1 sell, -1 buy
        ("qty_lots", "<i8"),
        ("start_ns", "<i8"),
        ("interval_ns", "<i8"),  # between decisions
        ("steps", "<i8"),  # decisions; the window ends steps * interval_ns after start_ns
    ],
    align=True,
)
"""One parent order."""

CHILD = np.dtype(
    [
        ("market_lots", "<i8"),  # traded at once, whatever the price
        ("limit_lots", "<i8"),  # rests until the next decision
        ("limit_ticks", "<i8"),  # its price
    ],
    align=True,
)
"""What is sent at one decision."""

FILL = np.dtype(
    [
        ("lots", "<i8"),  # of ours in this step
        ("notional", "<i8"),  # ticks x lots
        ("resting_lots", "<i8"),  # what the limit order still has open
        ("ahead_lots", "<i8"),  # standing before it in its queue
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
        ("signed_lots", "<i8"),  # bought minus sold by those who took
        ("trades", "<i8"),
    ],
    align=True,
)
"""The market as it is now, and what others traded since the last decision."""
