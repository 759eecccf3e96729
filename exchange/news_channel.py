"""The news of an exchange: accepts messages from operators, stores them and publishes them on the feed.

A lockstep client must neither miss a message nor see one early: a message is published once the clock is later than the message's time, so
it arrives before the next turn at a later time, and reaches nobody during a turn at its own time.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

import zmq

from serl.exchange.budget import Charges
from serl.exchange.config import LimitsConfig
from serl.exchange.errors import ConfigError, DiskFullError
from serl.exchange.feed import Feed
from serl.exchange.journal.news_log import NewsLog
from serl.exchange.news import FEED_KIND, REPLY_MESSAGES_MAX, TOPIC, News, checked_news, text_bytes
from serl.exchange.outbound import without_number
from serl.exchange.subscriptions import Subscriptions
from serl.exchange.wire import RequestError, pack

by_sequence = attrgetter("sequence")


class NewsChannel:
    """The channel of one exchange.

    `publish_events()` publishes the events so far; messages from before `complete_until_ns()` may be published.
    """

    def __init__(
        self,
        log: NewsLog,
        limits: LimitsConfig,
        symbols: Sequence[str],
        epoch: int,
        feed: Feed,
        socket: "zmq.Socket[bytes]",
        subscriptions: Subscriptions,
        now_ns: Callable[[], int],
        complete_until_ns: Callable[[], int],
        publish_events: Callable[[], None],
    ) -> None:
        self._log, self._limits, self._symbols, self._epoch = log, limits, frozenset(symbols), epoch
        self._feed, self._socket = feed, socket
        self._now_ns, self._complete_until_ns, self._publish_events = now_ns, complete_until_ns, publish_events
        self._rate = Charges(limits.news_per_s_max)
        self._waiting = [message for message in log.messages if message.time_ns >= complete_until_ns()]
        is_known = subscriptions.is_known
        subscriptions.is_known = lambda topic: TOPIC.startswith(without_number(topic)) or is_known(topic)

    @property
    def last(self) -> int:
        """The number of the newest published message; 0 without one."""
        return self._waiting[0].sequence - 1 if self._waiting else self._log.last

    def accept(self, kind: int, symbol: str, headline: str, body: str, value: int | float | None, source: str) -> News:
        """Stores a message, which is on the disk on return, and publishes it once its time has come. Raises RequestError."""
        if symbol and symbol not in self._symbols:
            raise RequestError("unknown_symbol", f"expected a symbol of this exchange, or none, got {symbol[:80]!r}")
        size, size_max = text_bytes(headline, body, source), self._limits.news_bytes_max
        if size > size_max:
            raise RequestError(
                "too_large",
                f"expected at most {size_max} bytes (news_bytes_max) of headline, body and source, got {size}; shorten them",
            )
        time_ns = max(self._now_ns(), self._log.last_ns)
        try:
            message = checked_news(self._log.last + 1, time_ns, kind, symbol, headline, body, value, source)
        except ConfigError as error:
            raise RequestError("malformed", str(error)) from None
        self._store(message)
        self.publish()
        return message

    def _store(self, message: News) -> None:
        if not self._rate.take(0, owes=False):
            raise RequestError(
                "throttled",
                f"more than {self._limits.news_per_s_max:g} news messages per second (news_per_s_max); send it again later",
            )
        self._publish_events()  # events from before the message are published before it
        try:
            self._log.append(message)
        except DiskFullError as error:
            raise RequestError("disk_full", str(error)) from None
        self._waiting.append(message)

    def publish(self) -> None:
        """Publishes the messages whose time has come."""
        if not self._waiting:
            return
        until_ns = self._complete_until_ns()
        while self._waiting and self._waiting[0].time_ns < until_ns:
            message = self._waiting.pop(0)
            if self._feed.has_subscribers:
                body = self._body(message.sequence - 1, message, [list(message)])
                self._socket.send_multipart([TOPIC, body])
                self._feed.delayed.put(TOPIC, message.sequence, message.time_ns, body)

    def repeat(self) -> None:
        """Publishes the number of the last message again, without its content, so that a subscriber that missed it notices."""
        if not self._feed.has_subscribers or not self.last:
            return
        for message in self.messages_after(-1):  # none if it is no longer kept, while many wait for their time
            self._repeat(message)

    def _repeat(self, message: News) -> None:
        body = self._body(message.sequence, message, [])
        self._socket.send_multipart([TOPIC, body])
        self._feed.delayed.repeat(TOPIC, message.sequence, message.time_ns, body)

    def messages_after(self, after: int) -> list[News]:
        """The published messages after number `after` (below 0: the last `-after` messages), oldest first, at most REPLY_MESSAGES_MAX."""
        stored = self._log.messages
        end = bisect_right(stored, self.last, key=by_sequence)
        first = max(0, end + after) if after < 0 else bisect_left(stored, after + 1, key=by_sequence)
        return stored[first : min(end, first + REPLY_MESSAGES_MAX)]

    def _body(self, previous: int, message: News, items: list[list[object]]) -> bytes:
        return pack(FEED_KIND, self._epoch, previous, message.sequence, message.time_ns, items)
