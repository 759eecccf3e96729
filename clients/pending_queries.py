"""Queries whose calls wait for a reply."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgpack

from serl.exchange.wire import Kind, with_token

IN_FLIGHT_MAX = 32
"""Maximum number of queries in flight: an exchange drops replies to a client with too many unread ones (`replies_unread_max`)."""


def query_message(number: int, query: Sequence[Any], token: str) -> bytes:
    """Encodes a query (kind, values ..) as a message."""
    kind, *values = query
    return bytes(msgpack.packb([kind, number, *(with_token(values, token) if kind < Kind.ACCOUNT else values)]))


class PendingQueries:
    """Numbers queries and keeps the replies that calls wait for: a reply may arrive while another call is receiving."""

    def __init__(self) -> None:
        self._last = 0
        self._replies: dict[int, list[Any] | None] = {}
        self.noted_s = 0.0
        """When the last reply arrived (monotonic)."""

    def new_number(self) -> int:
        """A number for a query."""
        self._last += 1
        return self._last

    def add(self, queries: Sequence[tuple[Any, ...]], token: str) -> dict[int, bytes]:
        """Returns the messages of queries (kind, values ..) by number. From now on a call waits for their replies."""
        numbers = [self.new_number() for _ in queries]
        messages = {number: query_message(number, query, token) for number, query in zip(numbers, queries, strict=True)}
        self._replies.update(dict.fromkeys(messages))
        return messages

    def note(self, number: int, reply: list[Any]) -> bool:
        """Keeps a reply if a call waits for it; returns whether one does."""
        if number not in self._replies:
            return False
        self._replies[number], self.noted_s = reply, time.monotonic()
        return True

    def without_reply(self, numbers: Iterable[int]) -> list[int]:
        """The numbers of the queries that have no reply yet."""
        return [number for number in numbers if self._replies[number] is None]

    def replies(self, numbers: Iterable[int]) -> list[list[Any]]:
        """The replies to these queries that have arrived so far."""
        return [reply for reply in map(self._replies.__getitem__, numbers) if reply is not None]

    def remove(self, numbers: Iterable[int]) -> None:
        """Forgets these queries: no call waits for them any longer."""
        for number in numbers:
            del self._replies[number]
