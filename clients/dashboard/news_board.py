"""News and forecasts in the form that pages show."""

import contextlib
import json
import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from serl.clients.dashboard.json_lines import MALFORMED
from serl.clients.dashboard.symbol import SymbolView, time_of_day_s
from serl.clients.news import NewsFeed, NewsPages
from serl.clients.sockets import Sockets
from serl.exchange.errors import RequestRejected
from serl.exchange.news import News, NewsKind
from serl.exchange.wire import Kind

TOPIC = b"news/"
SHOWN = 50
HORIZONS_MAX = 6


class NewsBoard:
    """The last messages of an exchange, and the forecast of each symbol. Only the link's thread uses it."""

    def __init__(self, token: str) -> None:
        self._token = token
        self.reset()

    def reset(self) -> None:
        """Starts again after the exchange was restarted."""
        self._pages = NewsPages(SHOWN)
        self._feed: NewsFeed | None = None  # once the last messages are known
        self._asked = False
        self._messages: deque[News] = deque(maxlen=SHOWN)

    def apply(self, message: list[Any], views: Mapping[str, SymbolView]) -> None:
        """Applies a feed message."""
        if self._feed is not None:
            self._add(self._feed.receive(message), views)

    def ask_for_missing(self, sockets: Sockets, views: Mapping[str, SymbolView]) -> None:
        """Requests the last messages, and later those that the feed has missed. Exchanges of earlier versions have no news."""

        def on_last(reply: list[Any], round_trip_s: float) -> None:
            if reply[0] == Kind.ERROR or self._pages is not pages:
                return
            pages.add(reply[5])
            self._asked = False
            if pages.are_complete:
                self._add(pages.messages, views)
                self._feed = NewsFeed(pages.after)

        def on_missing(reply: list[Any], round_trip_s: float) -> None:
            if self._feed is feed and feed is not None:
                with contextlib.suppress(RequestRejected):  # the next message triggers another query
                    self._add(feed.receive_reply(reply), views)

        def on_timeout() -> None:
            self._asked = False

        feed, pages = self._feed, self._pages
        if feed is None:
            if not self._asked:
                self._asked = sockets.request(on_last, Kind.NEWS, self._token, pages.after, on_timeout=on_timeout)
        elif feed.is_query_due:
            sockets.request(on_missing, Kind.NEWS, self._token, feed.query(1))

    def _add(self, messages: list[News], views: Mapping[str, SymbolView]) -> None:
        for message in messages:
            if message.kind != NewsKind.SIGNAL:
                self._messages.append(message)
            elif (view := views.get(message.symbol)) is not None:
                view.set_leans(leans_of(message), message.time_ns)

    def as_json(self) -> list[list[Any]]:
        """The messages for the page, newest first: [sequence, time_s, kind, symbol, headline, value, source]."""
        return [
            [one.sequence, time_of_day_s(one.time_ns), NewsKind(one.kind).name.lower(), one.symbol, one.headline, _finite(one.value), one.source]
            for one in reversed(self._messages)
        ]  # fmt: skip


def leans_of(message: News) -> dict[str, float]:
    """P(up) - P(down) of a forecast (docs/signals.md) by horizon, like "10 s"; empty if the message is not a forecast."""
    try:
        body = json.loads(message.body)
        found = {
            f"{float(seconds):g} s": float(up) - float(down)
            for seconds, down, up in zip(body["horizons_s"], body["down"], body["up"], strict=True)
        }
    except (*MALFORMED, OverflowError):
        return {}
    return found if len(found) <= HORIZONS_MAX and all(abs(lean) <= 1 for lean in found.values()) else {}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
