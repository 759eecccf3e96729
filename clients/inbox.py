"""Items that a client has received and not yet returned."""

from collections.abc import Iterator

import numpy as np
import zmq

from serl.clients.session import Grant, Report
from serl.clients.values import FeedMessage
from serl.exchange.news import News
from serl.exchange.records import EventKind, Rows

InboxItem = Report | Grant | FeedMessage | News | Rows
"""What `wait` returns; a session with the option `rows` gets EVENT rows instead of reports."""


def rejections(item: InboxItem) -> list[tuple[int, int]]:
    """(command id, `Reason`) of every command that an inbox item rejects."""
    if isinstance(item, Report):
        return [(item.command_id, item.reason)] if item.kind == EventKind.REJECTED else []
    if not isinstance(item, np.ndarray):
        return []
    rejected = item[item["kind"] == EventKind.REJECTED]
    return list(zip(rejected["command_id"].tolist(), rejected["reason"].tolist(), strict=True))


def drain(socket: "zmq.Socket[bytes]") -> Iterator[bytes]:
    """Yields every message that has arrived, without waiting. If processing one raises, the messages after it stay for the next call."""
    while True:
        try:
            data = socket.recv(zmq.DONTWAIT)
        except zmq.Again:
            return
        yield data
