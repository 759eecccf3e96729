"""Subscriptions to topics of the feed, also on an exchange that requires a login."""

import zmq

from serl.exchange.wire import subscription


def subscribe(feed: "zmq.Socket[bytes]", topic: bytes, token: str, curve: bool) -> None:
    """Subscribes to a topic, also on an exchange that requires a login. curve: whether the socket has a key, which may replace the token."""
    feed.subscribe(topic)
    if token or curve:
        feed.subscribe(subscription(topic, token))


def unsubscribe(feed: "zmq.Socket[bytes]", topic: bytes, token: str, curve: bool) -> None:
    """Takes back what `subscribe` did."""
    feed.unsubscribe(topic)
    if token or curve:
        feed.unsubscribe(subscription(topic, token))
