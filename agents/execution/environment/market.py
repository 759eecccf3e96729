"""What every market for execution can do."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import Rows

Ints = NDArray[np.int64]


class ExecutionMarket(Protocol):
    """N markets side by side, each with one parent order in it. All arrays have a row an environment, in place."""

    count: int
    """N."""
    frames: Rows
    """(N,) FRAME: what is seen now."""
    fills: Rows
    """(N,) FILL: what of ours happened in the last step."""

    def reset(self, which: Ints, episodes: Rows) -> None:
        """Brings markets `which` to the start of EPISODE rows of the same length.

        ConfigError if a window is not in its day, or a quantity larger than all that the day trades.
        """

    def step(self, children: Rows, until_ns: Ints) -> None:
        """Sends CHILD rows now (what rests from before is cancelled first) and runs each market up to its time.

        What of a resting order fills before its cancellation arrives is taken off its CHILD row.
        """

    def force(self, which: Ints, children: Rows) -> None:
        """Sends CHILD rows of markets `which` now, what rests cancelled first, and runs them until that is answered."""
