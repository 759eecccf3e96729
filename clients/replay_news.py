"""The news of a replayed day: the replay is an operator and publishes each message at its time."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serl.exchange.errors import RequestRejected
from serl.exchange.news import News
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind

RETRY_S = 0.05
"""Seconds before a message that the exchange refused because of `news_per_s_max` is sent again."""


class NewsReplay:
    """The messages still to publish, with their times on the exchange's clock."""

    def __init__(self, news: list[News], endpoint: str, token: str, curve: Path | None) -> None:
        self._waiting = deque(news)
        self._endpoint, self._token, self._curve = endpoint, token, curve
        #: number of messages that were published
        self.published = 0

    @property
    def next_ns(self) -> int | None:
        """The time of the next message; None if there is none."""
        return self._waiting[0].time_ns if self._waiting else None

    def publish_until(self, time_ns: int, wait: Callable[[float], Any] = time.sleep) -> None:
        """Publishes the messages up to a time; returns once they are acknowledged. wait(s): called to pass the time while the exchange accepts none."""
        if self._waiting and self._waiting[0].time_ns <= time_ns:
            with request_socket(self._endpoint, "admin", self._curve) as ask:
                while self._waiting and self._waiting[0].time_ns <= time_ns:
                    publish(ask, self._token, self._waiting[0], wait)
                    self._waiting.popleft()
                    self.published += 1


def publish(ask: Request, token: str, message: News, wait: Callable[[float], Any] = time.sleep) -> News:
    """Publishes a message, and retries while the exchange accepts no more. Returns it with its number and time.

    ask: a request to the admin socket. Raises RequestRejected."""
    _, _, *fields = message
    while True:
        try:
            sequence, time_ns = ask(Kind.PUBLISH_NEWS, token, *fields)[5]
            return message._replace(sequence=sequence, time_ns=time_ns)
        except RequestRejected as error:
            if error.code != "throttled":
                raise
            wait(RETRY_S)
