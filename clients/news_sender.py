"""Sends news to a running exchange, each message at its time; under a lockstep clock as a participant, during its turn at that time."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from serl.clients.blocking import Exchange, connect
from serl.clients.news_file import AT_ONCE
from serl.clients.replay_news import publish
from serl.exchange.errors import ConfigError
from serl.exchange.news import LIMIT, News, text_bytes
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind

POLL_S = 1.0
"""The longest time between two reads of the exchange's clock, whose speed may change."""


class NewsSender:
    """Sends the messages of a file; a context manager. Before it sends anything, raises ConfigError for a message that the exchange would refuse."""

    def __init__(self, endpoint: str, messages: Sequence[News], name: str, token: str, curve: Path | None) -> None:
        self.messages = messages
        self._token = token
        with ExitStack() as stack:
            self._query = stack.enter_context(request_socket(endpoint, "queries", curve, token))
            self._ask: Request = stack.enter_context(request_socket(endpoint, "admin", curve, token))
            _, symbols, self._clock, limits = self._query(Kind.INFO)[5]
            if LIMIT not in limits:
                raise ConfigError(
                    f"expected an exchange with news, got one of an earlier version at {endpoint}; start one of this version"
                )
            self._check([symbol[1] for symbol in symbols], int(limits[LIMIT]))
            is_timed = any(message.time_ns != AT_ONCE for message in messages)
            self._participant: Exchange | None = None
            self._turn_ns = -1
            if is_timed and self._clock[0] == "lockstep":
                self._participant = stack.enter_context(connect(endpoint, name, token, curve=curve))
                self._clock = self._participant.session.clock
            self._stack = stack.pop_all()

    def _check(self, symbols: list[str], bytes_max: int) -> None:
        for number, message in enumerate(self.messages, 1):
            if message.symbol and message.symbol not in symbols:
                raise ConfigError(
                    f"message {number}: expected one of the symbols {', '.join(symbols)[:200]}, got {message.symbol[:80]}"
                )
            size = text_bytes(message.headline, message.body, message.source)
            if size > bytes_max:
                raise ConfigError(f"message {number}: expected at most {bytes_max} bytes (news_bytes_max), got {size}")

    def send(self) -> Iterator[News]:
        """Sends the messages; yields each, with its number and time, once it is acknowledged. A message whose time has passed is sent at once."""
        for message in self.messages:
            if message.time_ns != AT_ONCE:
                self._wait_until(message.time_ns)
            yield publish(self._ask, self._token, message)

    def _wait_until(self, time_ns: int) -> None:
        if self._participant is not None:
            time_ns = max(time_ns, int(self._clock[2]))
            if time_ns > self._turn_ns:  # there is only one turn per time
                self._turn_ns = self._participant.turn(time_ns).time_ns
            return
        while True:
            _, speed, now_ns, midnight_ns = self._query(Kind.INFO)[5][2]
            remaining_ns = time_ns + midnight_ns - now_ns
            if remaining_ns <= 0:
                return
            time.sleep(min(POLL_S, remaining_ns / 1e9 / speed))

    def __enter__(self) -> "NewsSender":
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()
