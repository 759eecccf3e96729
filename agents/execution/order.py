"""A parent order, and the time-weighted schedule of its children."""

from dataclasses import dataclass

from serl.exchange.errors import ConfigError
from serl.exchange.records import Side


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


def twap_targets(qty_lots: int, slices: int) -> list[int]:
    """How much must be done after each of `slices` equal slices: whole lots, even, ending at qty_lots."""
    return [qty_lots * (index + 1) // slices for index in range(slices)]
