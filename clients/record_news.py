"""The news of a recording of the public feed."""

from collections.abc import Collection
from typing import Any

from serl.clients.news import NewsFeed
from serl.clients.sockets import Sockets
from serl.exchange.news import News
from serl.exchange.wire import Kind


class NewsRecording:
    """Collects the messages of some symbols, and those without a symbol, from now on. `begin` takes the reply to its first `query`."""

    def __init__(self, symbols: Collection[str], midnight_ns: int, token: str) -> None:
        self._symbols, self._midnight_ns, self._token = frozenset(symbols), midnight_ns, token
        self._feed = NewsFeed()
        self.messages: list[News] = []

    def query(self, request: int = 1) -> tuple[Kind, str, int]:
        """The query to send."""
        return Kind.NEWS, self._token, self._feed.query(request)

    def receive(self, message: list[Any]) -> None:
        """Processes a feed message."""
        self._add(self._feed.receive(message))

    def receive_reply(self, reply: list[Any], _round_trip_s: float = 0.0) -> None:
        """Processes a reply to the query. Raises RequestRejected."""
        self._add(self._feed.receive_reply(reply))

    def ask_for_missing(self, sockets: Sockets) -> None:
        """Requests messages that the feed has missed, and processes the replies that have arrived."""
        if self._feed.is_query_due:
            sockets.request(self.receive_reply, *self.query())
        sockets.process_replies()

    def _add(self, messages: list[News]) -> None:
        self.messages += of_day(messages, self._midnight_ns, self._symbols)


def of_day(messages: list[News], midnight_ns: int, symbols: Collection[str]) -> list[News]:
    """The messages of a day that concern one of `symbols` or none, with times in ns after midnight."""
    return [
        message._replace(time_ns=message.time_ns - midnight_ns)
        for message in messages
        if message.time_ns >= midnight_ns and (not message.symbol or message.symbol in symbols)
    ]
