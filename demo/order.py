"""The parent order of the demo."""

from dataclasses import dataclass

from serl.agents.execution.order import ParentOrder
from serl.exchange.config import time_of_day_ns
from serl.exchange.records import Side

SECOND_NS = 1_000_000_000

OPEN, CLOSE = "09:30", "16:00"
"""Trading hours of the demo's market."""


@dataclass(frozen=True)
class DemoOrder:
    """A parent order, and the time until which history is replayed for it."""

    symbol: str
    side: str
    qty_lots: int
    window: str
    interval_s: float
    replayed_to: str

    @property
    def options(self) -> tuple[str, ...]:
        """The order as options of `serl execute`."""
        return (
            "--symbol", self.symbol, "--side", self.side, "--qty", str(self.qty_lots), "--window", self.window,
            "--interval", f"{self.interval_s:g}",
        )  # fmt: skip

    @property
    def parent(self) -> ParentOrder:
        """The order for an executor in this process."""
        start, _, end = self.window.partition("-")
        times = time_of_day_ns(start), time_of_day_ns(end)
        return ParentOrder(
            self.symbol, Side[self.side.upper()], self.qty_lots, *times, round(self.interval_s * SECOND_NS)
        )

    @property
    def duration_ns(self) -> int:
        """Length of the window."""
        return self.parent.end_ns - self.parent.start_ns
