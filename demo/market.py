"""The demo's market view: a session that follows the book and the trades."""

import contextlib
from dataclasses import dataclass

from rich.table import Table

from serl.clients.blocking import Exchange, connect
from serl.clients.values import FeedMessage
from serl.exchange.config import time_of_day_text
from serl.exchange.errors import SerlError
from serl.exchange.wire import Kind

DEPTH = 5
SECOND_NS = 1_000_000_000


@dataclass
class Watcher:
    """Follows the book and trades of one symbol."""

    endpoint: str
    symbol: str
    trades: int = 0
    """Number of trades so far."""

    def __post_init__(self) -> None:
        self.client: Exchange = connect(self.endpoint, "demo")
        self._book = self.client.follow(self.symbol)
        self.client.subscribe("trade", self.symbol)

    @property
    def sessions(self) -> int:
        """Number of logged-in sessions, including this one."""
        return int(self.client.ask(Kind.STATISTICS)[-1]["sessions"])

    @property
    def time_ns(self) -> int:
        """Latest known time of the exchange's clock, in ns after midnight."""
        _, _, time_ns, midnight_ns = self.client.session.clock
        return max(int(time_ns - midnight_ns), self._book.time_ns - int(midnight_ns))

    def receive(self, timeout_s: float) -> None:
        """Receive messages for up to `timeout_s`."""
        item = self.client.wait(timeout_s)
        while item is not None:
            if isinstance(item, FeedMessage) and item.topic.startswith("trade/"):
                self.trades += len(item.message[-1])
            item = self.client.core.inbox.popleft() if self.client.core.inbox else None

    def table(self) -> Table:
        """The price ladder as a table."""
        price = self.client.instrument(self.symbol).price
        table = Table(title=f"{self.symbol} {time_of_day_text(self.time_ns)}, {self.trades:,} trades")
        for name in ("bid lots", "price", "ask lots"):
            table.add_column(name, justify="right")
        bids, asks = (self._book.levels(side, DEPTH) for side in (0, 1))
        for price_ticks, lots, _ in reversed(asks):
            table.add_row("", f"{price(price_ticks):f}", f"[red]{lots:,}")
        for price_ticks, lots, _ in bids:
            table.add_row(f"[green]{lots:,}", f"{price(price_ticks):f}", "")
        return table

    def close(self) -> None:
        """Log out. The exchange may be gone already, because Ctrl-C reaches it at the same time."""
        with contextlib.suppress(SerlError):
            self.client.close()
