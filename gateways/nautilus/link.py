"""One connection to an exchange, shared by the data and execution clients of a node; it reconnects when the exchange returns."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from serl.clients.asynchronous import AsyncExchange, resume
from serl.clients.errors import ExchangeUnreachable, LoginRefused, ReportGap, RequestRejected, SessionEnded
from serl.clients.session import Instrument, Report, Session
from serl.clients.values import FeedMessage
from serl.exchange.errors import ConfigError

SILENCE_S = 5.0
"""The connection is reopened after this long without a message (heartbeats arrive each second)."""
RETRY_S = 0.5
RESEND_S = 0.2
"""Delay before commands that the exchange throttled are sent again."""
RESENT_CODES = ("throttled", "disk_full", "rate")


class Address(NamedTuple):
    """The exchange and the participant of a link. Clients with the same address share a link."""

    endpoint: str
    participant: str
    token: str
    curve: str | None


class LinkSession(Session):
    """A session that counts its logins: the client also logs in again by itself if the exchange restarts quickly. It does not begin at an
    exchange with other symbols, whose numbers have other meanings."""

    logins = 0
    before_login: Callable[[], None]

    def _welcome(self, message: list[Any]) -> None:
        symbols = [Instrument.of(*symbol) for symbol in message[6]]
        if self.instruments and symbols != list(self.instruments.values()):
            raise SessionEnded("symbols", "expected the same symbols as before, got others; start the node again")
        super()._welcome(message)

    def hello(self) -> bytes:
        """The login message. After the WELCOME that answers it, the client sends unanswered commands again."""
        self.logins += 1
        self.before_login()
        return super().hello()


class Link:
    """Sends commands of a session, and dispatches each report and feed message to its receiver, in order.

    Attributes:
        session: encodes the commands.
        on_report: called with each report; those of earlier sessions first, if `is_replayed`.
        on_return: called when the connection has been reopened, and after commands have been sent again.
        on_gap: called with an explanation when reports are lost.
        before_return: called before each login.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_replayed = False
        self.cancel_on_disconnect = False
        self.on_report: Callable[[Report], None] = _ignore
        self.before_return: Callable[[], None] = _do_nothing
        self.on_return: Callable[[], None] = _do_nothing
        self.on_gap: Callable[[str], None] = _ignore
        self.warn: Callable[[str], None] = _ignore
        #: called when the connection has been reopened: data received before may be out of date
        self.refreshes: list[Callable[[], None]] = []
        self.session = self._new_session()
        #: number of logins after which everything has been requested again
        self._logins = 0
        #: by topic: channel, symbol, and the receiver of its messages
        self._listeners: dict[str, tuple[str, str, Callable[[list[Any]], None]]] = {}
        self._exchange: AsyncExchange | None = None
        self._pump: asyncio.Task[None] | None = None
        self._resending: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._users = 0
        self._midnight_ns = 0
        self._reading = (0, time.monotonic_ns())

    def _new_session(self, **options: bool) -> LinkSession:
        session = LinkSession(self.address.participant, self.address.token, **options)
        session.before_login = lambda: self.before_return()
        session.on_refusal = self._note_refusal
        return session

    @property
    def exchange(self) -> AsyncExchange:
        """The client. Raises ExchangeUnreachable while there is no connection."""
        if self._exchange is None:
            raise ExchangeUnreachable(
                f"no connection to {self.address.endpoint}; it is opened again when the exchange is back"
            )
        return self._exchange

    @property
    def is_open(self) -> bool:
        """Whether there is a connection with a session."""
        return self._exchange is not None and self.session.live

    @property
    def has_waiting(self) -> bool:
        """Whether reports or feed messages have arrived that are not dispatched yet."""
        return self._exchange is not None and bool(self._exchange.core.inbox)

    async def open(self) -> None:
        """Logs in, for the first user. Raises the errors of `serl.clients.asynchronous.connect`, and ConfigError for a lockstep clock."""
        async with self._opening:
            self._users += 1
            if self._users > 1:
                return
            try:
                await self._log_in()
            except BaseException:
                self._users -= 1
                raise
            self._pump = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Logs out, for the last user."""
        async with self._opening:
            self._users -= 1
            if self._users or self._pump is None:
                return
            self._pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pump
            self._pump = None
            await self._drop()

    async def _log_in(self) -> None:
        options = {"cancel_on_disconnect": self.cancel_on_disconnect}
        self.session = self._new_session(**options)
        if self.is_replayed:
            self.session.last_report = 0
        curve = Path(self.address.curve) if self.address.curve else None
        self._exchange = await resume(self.address.endpoint, self.session, curve=curve)
        kind, _, now_ns, _ = self.session.clock
        if kind == "lockstep":
            await self._drop()
            raise ConfigError(
                f"{self.address.endpoint}: expected a live or scaled clock, got lockstep; nautilus_trader's live clock cannot wait for its turn"
            )
        if kind == "scaled":
            self._midnight_ns = (
                int(datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * 10**9
            )
        self.note_time(now_ns)
        self._logins = self.session.logins

    async def _drop(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.close()

    def unix_ns(self, exchange_ns: int) -> int:
        """Converts exchange time to UNIX time; a scaled clock's time counts as the time of today, UTC."""
        return exchange_ns + self._midnight_ns

    def note_time(self, exchange_ns: int) -> None:
        """Notes the exchange's time for `exchange_time`."""
        self._reading = (exchange_ns, time.monotonic_ns())

    def exchange_time(self, unix_ns: int, now_unix_ns: int) -> int:
        """The exchange's time at which the node's clock will show `unix_ns`, if both keep running as now."""
        if self.session.clock[0] == "live":
            return unix_ns
        exchange_ns, read_ns = self._reading
        since_ns = time.monotonic_ns() - read_ns
        return exchange_ns + int((since_ns + unix_ns - now_unix_ns) * self.session.clock[1])

    def send(self, *messages: bytes) -> None:
        """Sends commands. Without a connection they wait for the next one."""
        if self._exchange is not None:
            self._exchange.send(*messages)

    def listen(self, channel: str, symbol: str, listener: Callable[[list[Any]], None]) -> None:
        """Subscribes to a feed channel; the listener gets its messages `[kind, epoch, previous, sequence, time_ns, items]`."""
        self._listeners[f"{channel}/{symbol}/"] = channel, symbol, listener
        if self._exchange is not None:
            self._exchange.subscribe(channel, symbol)

    def mute(self, channel: str, symbol: str) -> None:
        """Stops dispatching messages of a channel."""
        self._listeners.pop(f"{channel}/{symbol}/", None)

    async def _run(self) -> None:
        heard, heard_s = -1, time.monotonic()
        while True:
            try:
                exchange = self.exchange
                item = await exchange.wait(RETRY_S)
                while item is not None:
                    self._hand_on(item)
                    item = exchange.core.inbox.popleft() if exchange.core.inbox else None
                if self.session.logins != self._logins and self.session.live:
                    self._ask_anew()
                if exchange.core.received != heard:
                    heard, heard_s = exchange.core.received, time.monotonic()
                elif time.monotonic() - heard_s > SILENCE_S:
                    raise ExchangeUnreachable(f"nothing from {self.address.endpoint} for {SILENCE_S:g} s")
            except RequestRejected as error:
                self.warn(str(error))
            except ReportGap as gap:
                self.on_gap(str(gap))
                self.session.last_report = -1
                await self._return()
            except (SessionEnded, ExchangeUnreachable, LoginRefused) as error:
                self.warn(str(error))
                await self._return()
                heard, heard_s = -1, time.monotonic()

    def _hand_on(self, item: Any) -> None:
        try:
            self._give(item)
        except Exception as error:  # the items after it must not be lost
            self.warn(f"{item}: {error!r}")

    def _give(self, item: Any) -> None:
        if isinstance(item, Report):
            self.note_time(item.time_ns)
            self.on_report(item)
        elif isinstance(item, FeedMessage):
            topic = item.topic.removeprefix(self.session.topic_prefix)
            self.note_time(item.message[4])
            if topic in self._listeners:
                *_, listener = self._listeners[topic]
                listener(item.message)

    def _note_refusal(self, error: RequestRejected) -> None:
        """Sends commands again after a refusal that ends by itself, with which no query is to fail. Raises any other."""
        if error.code not in RESENT_CODES:
            raise error
        if self._resending is None or self._resending.done():
            self.warn(f"{error}; commands without a reply are sent again")
            self._resending = asyncio.create_task(self._resend())

    async def _resend(self) -> None:
        """Resends commands that the exchange did not accept; those that it did accept are answered as duplicates."""
        await asyncio.sleep(RESEND_S)
        if self.is_open:
            self.send(*self.session.unanswered.values())
        self.on_return()

    async def _return(self) -> None:
        """Reopens the connection as soon as the exchange is back."""
        await self._drop()
        while self._exchange is None:
            try:
                curve = Path(self.address.curve) if self.address.curve else None
                self._exchange = await resume(self.address.endpoint, self.session, curve=curve)
            except ExchangeUnreachable:
                await asyncio.sleep(RETRY_S)
            except (SessionEnded, RequestRejected) as error:
                self.warn(str(error))
                await asyncio.sleep(2 * RETRY_S)
            except LoginRefused as error:  # the exchange has not yet noticed that the former connection is gone
                self.warn(str(error))
                await asyncio.sleep(2 * RETRY_S)
            except ReportGap as gap:
                self.on_gap(str(gap))
                self.session.last_report = -1
        for channel, symbol, _ in self._listeners.values():
            self._exchange.subscribe(channel, symbol)
        self._ask_anew()

    def _ask_anew(self) -> None:
        self._logins = self.session.logins
        for refresh in self.refreshes:
            refresh()
        self.on_return()


def _ignore(_: Any) -> None:
    """Ignores an item that has no receiver."""


def _do_nothing() -> None:
    """The callback if nobody needs one."""


_LINKS: dict[tuple[int, Address], Link] = {}


def link_for(loop: asyncio.AbstractEventLoop, address: Address) -> Link:
    """The link of an event loop to an address, shared by all clients that request it."""
    return _LINKS.setdefault((id(loop), address), Link(address))
