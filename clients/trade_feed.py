"""The trades of a symbol from the feed: those that it misses come from the exchange's replies to TRADES."""

from typing import Any

from serl.clients.feed_state import FeedState

TRADES_MAX = 1000
"""Number of trades requested after the feed has missed some; the exchange keeps `trades_kept` of a symbol."""

FeedTrade = list[int]
"""[match_id, time_ns, price_ticks, qty_lots, aggressor_side, off_book]"""


class TradeFeed(FeedState):
    """The trades of channel `trade`, each once and in order. Its snapshots are replies to TRADES, requested one at a time; the first one
    brings the trades after `last`, by default all that the exchange keeps. Those that it no longer keeps when a gap is filled are lost.

    Attributes:
        last: the last trade, None without any.
        restarts: how often the trades were numbered from 1 again, by an exchange that was restarted without its journal.
    """

    def __init__(self, last: FeedTrade | None = None) -> None:
        super().__init__()
        self.last = last
        self.restarts = 0
        self._fresh: list[FeedTrade] = []

    def take(self) -> list[FeedTrade]:
        """The trades since the last call, oldest first."""
        fresh, self._fresh = self._fresh, []
        return fresh

    @property
    def _last_id(self) -> int:
        return self.last[0] if self.last is not None else 0

    def _change(self, items: list[Any]) -> None:
        last_id = self._last_id
        if items and items[0][0] <= last_id:  # a message may begin before the snapshot
            items = [trade for trade in items if trade[0] > last_id]
        if items:
            self._fresh += items
            self.last = items[-1]

    def _load(self, result: Any) -> None:
        if (result[-1][0] if result else 0) < self._last_id:
            self.restarts += 1
            self.last = None
        self._change(result)
