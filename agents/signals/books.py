"""The book and the trades at each time as one row of numbers; the attention network sees the last WINDOW rows."""

import numpy as np

from serl.agents.signals.grid import LEVELS, Floats, Ints

WINDOW = 32
"""Number of rows that a forecast sees, 100 ms apart."""
CHANNELS = (
    *(f"{side}_{what}_{level + 1}" for what in ("distance_ticks", "log_lots") for side in ("bid", "ask") for level in range(LEVELS)),
    "move_ticks", "log_bought", "log_sold",
)  # fmt: skip


def channels(ticks: Ints, lots: Ints, buys: Ints, sells: Ints) -> Floats:
    """[n, channel] rows for books [n, side, level] and the lots taken before each [n]: distances of the levels from the mid, 0 where there is no level,
    logarithms of 1 + lots, and the move of the mid since the row before, 0 in the first row."""
    mid = ticks[:, :, :1].sum(axis=1, keepdims=True) / 2
    distances = np.where(ticks > 0, abs(ticks - mid), 0.0).reshape(len(ticks), -1)
    moves = np.diff(mid[:, 0, 0], prepend=mid[:1, 0, 0])
    taken = np.log1p(np.stack([buys, sells], axis=1))
    return np.concatenate([distances, np.log1p(lots).reshape(len(lots), -1), moves[:, np.newaxis], taken], axis=1)
