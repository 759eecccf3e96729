"""The interface of all execution markets."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import Rows

Ints = NDArray[np.int64]


class ExecutionMarket(Protocol):
    """N independent markets with one parent order each. All arrays have one row per environment and are updated in place."""

    count: int
    """N."""
    frames: Rows
    """(N,) FRAME: the market now."""
    fills: Rows
    """(N,) FILL: our fills in the last step."""

    def reset(self, which: Ints, episodes: Rows) -> None:
        """Moves markets `which` to the start of EPISODE rows (one per market).

        Raises ConfigError if a window is outside its day or a quantity exceeds the day's volume.
        """

    def step(self, children: Rows, until_ns: Ints) -> None:
        """Cancels resting orders, sends CHILD rows, and runs each market until its time in `until_ns`.

        What a resting order fills before its cancellation arrives is subtracted from the CHILD row.
        """

    def force(self, which: Ints, children: Rows) -> None:
        """Cancels resting orders of markets `which`, sends CHILD rows, and runs these markets until the orders are answered."""
