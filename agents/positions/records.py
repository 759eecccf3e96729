"""The arrays that a market and an agent with a position exchange, one row per environment. Units: ticks, lots."""

import numpy as np

DECISION = np.dtype(
    [
        ("price_ticks", "<i8", (2,)),  # prices of the quotes, bid and ask
        ("lots", "<i8", (2,)),  # 0: no quote on that side
        ("limit_lots", "<i8"),  # limit of the position, long or short, when quotes are sent; 0: no limit
        ("takes", "<i8"),  # 1: instead of quotes, a market order brings the position to its target
        ("target_lots", "<i8"),  # above 0: long
    ],
    align=True,
)
"""A decision: where to quote, or which position to take."""

POSITION = np.dtype(
    [
        ("lots", "<i8"),  # bought minus sold
        ("cash", "<i8"),  # ticks x lots received minus paid, before fees
        ("fee_microticks", "<i8"),  # microticks x lots paid to the market; below 0: rebates
        ("price_ticks", "<i8", (2,)),  # prices of our quotes, 0 = none
        ("open_lots", "<i8", (2,)),  # open quantities of our quotes
        ("ahead_lots", "<i8", (2,)),  # quantities ahead of them in their queues
    ],
    align=True,
)
"""The account and quotes of an agent after a step."""
