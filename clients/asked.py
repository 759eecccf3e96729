"""Queries whose calls wait for a reply."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgpack

from serl.exchange.wire import Kind, with_token

TOGETHER_MAX = 32
"""Queries that wait for a reply at the same time: an exchange drops replies of a client with too many unread ones (`replies_unread_max`)."""


def query_message(number: int, query: Sequence[Any], token: str) -> bytes:
    """The message of a query (kind, values ..)."""
    kind, *values = query
    return bytes(msgpack.packb([kind, number, *(with_token(values, token) if kind < Kind.ACCOUNT else values)]))


class Asked:
    """The numbers of queries, and the replies to those that a call waits for: they may come while another call receives."""

    def __init__(self) -> None:
        self._last = 0
        self._replies: dict[int, list[Any] | None] = {}
        self.noted_s = 0.0
        """When the last reply came."""

    def new_number(self) -> int:
        """A number for a query."""
        self._last += 1
        return self._last

    def add(self, queries: Sequence[tuple[Any, ...]], token: str) -> dict[int, bytes]:
        """The messages of queries (kind, values ..) by number. A call waits for their replies from now on."""
        numbers = [self.new_number() for _ in queries]
        messages = {number: query_message(number, query, token) for number, query in zip(numbers, queries, strict=True)}
        self._replies.update(dict.fromkeys(messages))
        return messages

    def note(self, number: int, reply: list[Any]) -> bool:
        """Takes a reply. Returns whether a call waits for it."""
        if number not in self._replies:
            return False
        self._replies[number], self.noted_s = reply, time.monotonic()
        return True

    def without_reply(self, numbers: Iterable[int]) -> list[int]:
        """Those of the numbers that have no reply yet."""
        return [number for number in numbers if self._replies[number] is None]

    def replies(self, numbers: Iterable[int]) -> list[list[Any]]:
        """The replies to these queries, as far as there are any."""
        return [reply for reply in map(self._replies.__getitem__, numbers) if reply is not None]

    def remove(self, numbers: Iterable[int]) -> None:
        """No call waits for these any longer."""
        for number in numbers:
            del self._replies[number]
