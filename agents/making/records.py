"""The arrays that a market and a market maker exchange, one row per environment. Units: ticks, lots."""

import numpy as np

QUOTE = np.dtype(
    [
        ("price_ticks", "<i8", (2,)),  # of bid and ask
        ("lots", "<i8", (2,)),  # 0: no quote on that side
        ("flatten", "<i8"),  # 1: the whole position is sold or bought at once, instead of quotes
    ],
    align=True,
)
"""A decision: where to quote."""

POSITION = np.dtype(
    [
        ("lots", "<i8"),  # bought minus sold
        ("cash", "<i8"),  # ticks x lots received minus paid, before fees
        ("fee_microticks", "<i8"),  # microticks x lots paid to the market; below 0: rebates
        ("price_ticks", "<i8", (2,)),  # of our quotes, 0 = none
        ("open_lots", "<i8", (2,)),  # of our quotes
        ("ahead_lots", "<i8", (2,)),  # before them in their queues
    ],
    align=True,
)
"""What a market maker has after a step."""
