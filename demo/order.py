"""The parent order of the demo."""

from dataclasses import dataclass

from serl.exchange.config import time_of_day_ns

OPEN, CLOSE = "09:30", "16:00"
"""Trading hours of the demo's market."""


@dataclass(frozen=True)
class DemoOrder:
    """A parent order, and the time up to which history is replayed for it."""

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
    def duration_ns(self) -> int:
        """Length of the window."""
        start, _, end = self.window.partition("-")
        return time_of_day_ns(end) - time_of_day_ns(start)
