"""Parent orders and the time-weighted schedule of their child orders."""

from dataclasses import dataclass

import numpy as np

from serl.agents.execution.environment.records import EPISODE
from serl.exchange.config import time_of_day_text
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows, Side

QTY_LOTS_MAX = 10**15
"""More than any exchange accepts, and little enough for exact sums."""


@dataclass(frozen=True)
class ParentOrder:
    """Buy or sell qty_lots of symbol in [start_ns, end_ns], with a decision every interval_ns. Times are ns after midnight."""

    symbol: str
    side: Side
    qty_lots: int
    start_ns: int
    end_ns: int
    interval_ns: int

    def __post_init__(self) -> None:
        if not isinstance(self.side, Side):
            raise ConfigError(
                f"side: expected Side.BUY or Side.SELL, got {self.side!r}; it is in serl.exchange.records"
            )
        if self.qty_lots <= 0:
            raise ConfigError(f"qty: expected a positive number of lots, got {self.qty_lots}")
        if self.qty_lots > QTY_LOTS_MAX:
            raise ConfigError(f"qty: expected at most {QTY_LOTS_MAX:,} lots, got {self.qty_lots:,}; order less")
        if self.end_ns <= self.start_ns:
            raise ConfigError(
                f"window: expected FROM-TO with FROM before TO, like 10:00-10:30, got "
                f"{time_of_day_text(self.start_ns)}-{time_of_day_text(self.end_ns)}"
            )
        if self.interval_ns <= 0:
            raise ConfigError(f"interval: expected a positive time, got {self.interval_ns} ns")

    @property
    def sign(self) -> int:
        """+1 for a sell, -1 for a buy."""
        return 1 if self.side == Side.SELL else -1

    @property
    def slice_times_ns(self) -> list[int]:
        """The times at which child orders are sent: the start of every interval."""
        return list(range(self.start_ns, self.end_ns, self.interval_ns))

    @property
    def episode(self) -> Rows:
        """(1,) EPISODE row on day 0. Raises ConfigError if the window is not a whole number of intervals."""
        rows = np.zeros(1, EPISODE)
        steps, remainder = divmod(self.end_ns - self.start_ns, self.interval_ns)
        if remainder:
            raise ConfigError(
                f"interval: expected a divisor of the window's {(self.end_ns - self.start_ns) / 1e9:g} s, got {self.interval_ns / 1e9:g} s"
            )
        rows["sign"], rows["qty_lots"], rows["start_ns"] = self.sign, self.qty_lots, self.start_ns
        rows["interval_ns"], rows["steps"] = self.interval_ns, steps
        return rows


def twap_targets(qty_lots: int, slices: int, lot_multiple: int = 1) -> list[int]:
    """Cumulative quantity after each of `slices` equal slices, in whole multiples, rounded down; the last is qty_lots, which must be a multiple."""
    return [qty_lots * (index + 1) // slices // lot_multiple * lot_multiple for index in range(slices)]
