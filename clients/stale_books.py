"""Followed books with a gap that no call waits for: their snapshots are requested while messages are processed."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from serl.clients.book import L2Book, L3Book
from serl.clients.pending_queries import query_message
from serl.clients.session import Session
from serl.exchange.wire import Kind

SNAPSHOTS_MAX = 16
"""Maximum number of snapshots requested at a time."""


class StaleBooks:
    """Notes which books, by topic, need a snapshot, and requests them."""

    def __init__(self, books: Mapping[str, L2Book | L3Book], retry_s: float) -> None:
        """retry_s: seconds after which a request without a reply is repeated."""
        self._books, self._retry_s = books, retry_s
        self._asked: dict[str, tuple[int, float]] = {}  # by topic: number and time of the last request for a snapshot
        #: topics of books whose snapshots a call waits for
        self.filling: set[str] = set()

    def note(self, topic: str, book: L2Book | L3Book) -> None:
        """Notes a book if it has a gap."""
        if book.needs_snapshot:
            self._asked.setdefault(topic, (0, -math.inf))

    def note_epoch(self, epoch: int) -> None:
        """Notes the epoch of the exchange: books of another one get new snapshots."""
        for topic, book in self._books.items():
            book.note_epoch(epoch)
            self.note(topic, book)

    def distrust(self) -> None:
        """Gives all books new snapshots: the exchange may have another journal."""
        for topic, book in self._books.items():
            book.distrust()
            self.note(topic, book)

    def note_depth(self, depth_max: int) -> None:
        """Notes the maximum number of levels per side in snapshots from now on. If it has changed, a book gets a new snapshot: its last one may
        have arrived before the new limit was known."""
        for topic, book in self._books.items():
            if isinstance(book, L2Book) and book.depth_max != depth_max:
                book.depth_max = depth_max
                book.distrust()
                self.note(topic, book)

    def queries(self, session: Session, new_number: Callable[[], int]) -> list[bytes]:
        """Queries for the snapshots that are needed now, of symbols that the exchange lists."""
        if not self._asked:
            return []
        now_s, found = time.monotonic(), []
        for topic, (_, asked_s) in list(self._asked.items())[:SNAPSHOTS_MAX]:
            book = self._books.get(topic)
            if book is None or not book.needs_snapshot or _symbol_of(topic) not in session.instruments:
                del self._asked[topic]
            elif topic not in self.filling and now_s - asked_s > self._retry_s:
                number = new_number()
                self._asked[topic] = number, now_s
                found.append(query_message(number, snapshot_query(session, topic), session.token))
        return found

    def apply(self, request: int, reply: list[Any]) -> None:
        """Loads the reply to a request into its book if the book still needs it."""
        for topic in [topic for topic, (asked, _) in self._asked.items() if asked == request]:
            book = self._books.get(topic)
            if book is not None and book.needs_snapshot and topic not in self.filling:
                book.apply_snapshot(reply)


def _symbol_of(topic: str) -> str:
    return topic.removesuffix("/").partition("/")[2]


def snapshot_query(session: Session, topic: str) -> tuple[int, ...]:
    """The query for the book of a topic. Raises UnknownSymbol."""
    number = session.instrument(_symbol_of(topic)).number
    return (int(Kind.L3), number) if topic.startswith("l3/") else (int(Kind.L2), number, 0)
