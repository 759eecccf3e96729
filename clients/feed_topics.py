"""Subscriptions to topics of the feed, also on an exchange that requires a login; and the last message of each topic."""

from typing import Any

import zmq

from serl.clients.errors import UnknownChannel
from serl.exchange.wire import FeedKind, subscription

CHANNELS = tuple(kind.name.lower() for kind in FeedKind if kind != FeedKind.TIME)
"""The feed channels of each symbol."""
BOOK_CHANNELS = "l2", "l3"


def check_channel(channel: str) -> None:
    """Raises UnknownChannel unless the feed has the channel: the exchange sends nothing on others."""
    if channel not in CHANNELS:
        raise UnknownChannel(
            f"expected a channel of {', '.join(CHANNELS)}, got {channel!r}; subscribe_news is for news"
        )


def check_book_channel(channel: str) -> None:
    """Raises UnknownChannel unless a book can follow the channel."""
    if channel not in BOOK_CHANNELS:
        raise UnknownChannel(f"expected a channel of {', '.join(BOOK_CHANNELS)} for a book, got {channel!r}; give one")


def subscribe(feed: "zmq.Socket[bytes]", topic: bytes, token: str, curve: bool) -> None:
    """Subscribes to a topic, also on an exchange that requires a login. curve: whether the socket has a key, which may replace the token."""
    feed.subscribe(topic)
    if token or curve:
        feed.subscribe(subscription(topic, token))


def unsubscribe(feed: "zmq.Socket[bytes]", topic: bytes, token: str, curve: bool) -> None:
    """Ends the subscription made by `subscribe`."""
    feed.unsubscribe(topic)
    if token or curve:
        feed.unsubscribe(subscription(topic, token))


class Heard:
    """The last message of each topic."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}  # epoch and sequence, by topic

    def says_more(self, topic: str, message: list[Any]) -> bool:
        """Whether a message adds to the ones before it; a repeat does so only if messages were missed."""
        _, epoch, previous, sequence, *_ = message
        before = self._last.get(topic)
        is_repeat = previous == sequence
        if is_repeat and before is not None and (epoch, sequence) <= before:
            return False
        self._last[topic] = epoch, sequence
        return not is_repeat or before is not None

    def forget(self, topic: str) -> None:
        """Forgets a topic after its subscription has ended."""
        self._last.pop(topic, None)
