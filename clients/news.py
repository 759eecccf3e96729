"""News messages of an exchange in sequence and without gaps: messages that the feed missed are queried."""

import time
from typing import Any

from serl.exchange.errors import RequestRejected
from serl.exchange.news import News
from serl.exchange.wire import Kind

REPLY_TIMEOUT_S = 5.0
"""A query without a reply for this long is sent again: a broken connection may have lost it."""


class NewsFeed:
    """Turns feed messages and replies to NEWS into news messages, each once. It opens no sockets: while `is_query_due`, send NEWS for the messages
    after `query()`.

    after: the number of the last known message; below 0: every message that exists when the first reply is made counts as known.
    """

    def __init__(self, after: int = -1) -> None:
        #: number of the last message that was returned; below 0: unknown
        self.last = after
        #: whether messages are missing, or may be
        self.needs_query = True
        #: the query in progress; 0 for none
        self.request = 0
        self._epoch = -1
        self._heard = self._asked = 0  # the last number on the feed: now, and at the time of the query
        self._asked_s = 0.0

    def receive(self, message: list[Any]) -> list[News]:
        """Processes a feed message; returns the messages that follow those returned before."""
        _, epoch, previous, sequence, _, items = message
        if sequence < self._heard and epoch <= self._epoch:
            self._begin_again()  # without its journal, a restarted exchange numbers from 1
        self._epoch, self._heard = epoch, sequence
        if self.needs_query or sequence <= self.last:
            return []
        if previous > self.last or not items:
            self.needs_query = True
            return []
        self.last = sequence
        return [News(*items[0])]

    @property
    def is_query_due(self) -> bool:
        """Whether to send a query now."""
        return self.needs_query and (not self.request or time.monotonic() - self._asked_s > REPLY_TIMEOUT_S)

    def query(self, request: int) -> int:
        """Begins the query with this request number; returns the message number after which to ask."""
        self.request, self._asked, self._asked_s = request, self._heard, time.monotonic()
        return self.last

    def receive_reply(self, reply: list[Any]) -> list[News]:
        """Processes the reply to the query; returns the messages that follow those returned before. Raises RequestRejected."""
        self.request = 0
        if reply[0] == Kind.ERROR:
            self.needs_query = False
            raise RequestRejected(reply[1], reply[2])
        published, items = reply[5]
        if published < self._asked:
            self._begin_again()
            return []
        if self.last < 0:
            self.last, items = published, []
        messages = [News(*item) for item in items if item[0] > self.last]
        if messages:
            self.last = messages[-1].sequence
        self.needs_query = self.last < max(self._heard, published)
        return messages

    def _begin_again(self) -> None:
        self.last = self._heard = self._asked = 0
        self.needs_query = True


class NewsPages:
    """The last `count` messages, page by page: query NEWS after `after` until they `are_complete`."""

    def __init__(self, count: int) -> None:
        self.messages: list[News] = []
        self.after = -max(0, count)
        self.are_complete = not self.after

    def add(self, result: list[Any]) -> None:
        """Adds the result of a query."""
        published, items = result
        self.messages += [News(*item) for item in items]
        self.are_complete = not items or items[-1][0] >= published
        self.after = self.messages[-1].sequence if self.messages else 0
