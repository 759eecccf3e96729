"""What a client receives and has not returned yet."""

from collections.abc import Iterator

import numpy as np
import zmq

from serl.clients.session import Grant, Report
from serl.clients.values import FeedMessage
from serl.exchange.news import News
from serl.exchange.records import EventKind, Rows

InboxItem = Report | Grant | FeedMessage | News | Rows
"""What `wait` returns: EVENT rows instead of reports in a session with the option `rows`."""


def rejections(item: InboxItem) -> list[tuple[int, int]]:
    """(command id, `Reason`) of every command that an item of the inbox rejects."""
    if isinstance(item, Report):
        return [(item.command_id, item.reason)] if item.kind == EventKind.REJECTED else []
    if not isinstance(item, np.ndarray):
        return []
    rejected = item[item["kind"] == EventKind.REJECTED]
    return list(zip(rejected["command_id"].tolist(), rejected["reason"].tolist(), strict=True))


def drain(socket: "zmq.Socket[bytes]") -> Iterator[bytes]:
    """Every message that has arrived, without waiting. Those after one whose processing raises stay for the next call."""
    while True:
        try:
            data = socket.recv(zmq.DONTWAIT)
        except zmq.Again:
            return
        yield data
