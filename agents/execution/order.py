"""A parent order, and the time-weighted schedule of its children."""

from dataclasses import dataclass

import numpy as np

from serl.agents.execution.environment.records import EPISODE
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows, Side


@dataclass(frozen=True)
class ParentOrder:
    """Buy or sell qty_lots of symbol in [start_ns, end_ns], deciding every interval_ns. Times after midnight."""

    symbol: str
    side: Side
    qty_lots: int
    start_ns: int
    end_ns: int
    interval_ns: int

    def __post_init__(self) -> None:
        if self.qty_lots <= 0:
            raise ConfigError(f"qty: a positive number of lots is due, got {self.qty_lots}")
        if self.end_ns <= self.start_ns:
            raise ConfigError("window: FROM-TO with FROM before TO is due, like 10:00-10:30")
        if self.interval_ns <= 0:
            raise ConfigError(f"interval: a positive time is due, got {self.interval_ns} ns")

    @property
    def sign(self) -> int:
        """+1 for a sell, -1 for a buy."""
        return 1 if self.side == Side.SELL else -1

    @property
    def slice_times_ns(self) -> list[int]:
        """When children are sent: the beginning of every interval."""
        return list(range(self.start_ns, self.end_ns, self.interval_ns))

    @property
    def episode(self) -> Rows:
        """(1,) EPISODE of day 0; ConfigError if the window is not a whole number of intervals."""
        rows = np.zeros(1, EPISODE)
        steps, rest = divmod(self.end_ns - self.start_ns, self.interval_ns)
        if rest:
            raise ConfigError(
                f"interval: a part of the window without remainder is due, got {self.interval_ns / 1e9:g} s of "
                f"{(self.end_ns - self.start_ns) / 1e9:g} s"
            )
        rows["sign"], rows["qty_lots"], rows["start_ns"] = self.sign, self.qty_lots, self.start_ns
        rows["interval_ns"], rows["steps"] = self.interval_ns, steps
        return rows


def twap_targets(qty_lots: int, slices: int) -> list[int]:
    """How much must be done after each of `slices` equal slices: whole lots, even, ending at qty_lots."""
    return [qty_lots * (index + 1) // slices for index in range(slices)]
