"""One TCP connection of a FIX client: bytes in, messages to its session, bytes out."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from serl.exchange.errors import SerlError
from serl.exchange.log import LineLimit, log
from serl.gateways.fix.codec import BEGIN_STRING, Framer, Message, UtcClock, encode, plain
from serl.gateways.fix.session import BYE, FixSession
from serl.gateways.fix.settings import LAST_WRITE_S, LOGON_S, UNREAD_BYTES_MAX


class Business(Protocol):
    """The business of a session: orders, or drop copies."""

    session: FixSession

    def load(self) -> None:
        """Restores the state from the store, once; from any thread. Raises SerlError."""

    async def open(self, owner: "Connection") -> None:
        """Connects to the exchange. Raises SerlError."""

    def start(self) -> None:
        """Called once the client is logged on."""

    async def close(self) -> None:
        """Disconnects from the exchange."""

    def send_commands(self) -> None:
        """Sends the commands that are in the store to the exchange."""

    def tick(self) -> None:
        """Called several times a second."""

    @property
    def is_full(self) -> bool:
        """Whether to stop reading from the client."""

    @property
    def is_low(self) -> bool:
        """Whether to read from the client again."""


Find = Callable[["Connection", Message], "tuple[Business | None, str]"]
"""Returns (the business of a Logon, ""), or None and the reason for refusing it ("": silently)."""


_STRANGERS = LineLimit()


class Connection(asyncio.Protocol):
    """A connection; from its Logon on it belongs to a session."""

    def __init__(
        self, comp_id: str, admit: Callable[["Connection"], str], find: Find, left: Callable[["Connection"], None]
    ) -> None:
        self._comp_id, self._admit, self._find, self._left = comp_id, admit, find, left
        self._framer = Framer()
        self._business: Business | None = None
        self._logging_on: asyncio.Task[None] | None = None
        self._resending: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = self._closed = False
        self.address = self.peer = ""

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.address, port, *_ = transport.get_extra_info("peername") or ("?", "?")
        self.peer = f"{self.address}:{port}"
        refusal = self._admit(self)
        if refusal:
            self.cut(refusal)
            return
        self._timer = asyncio.get_running_loop().call_later(LOGON_S, self.cut, "no Logon")

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._framer.feed(data)
        if self._business is None:
            self._first()
        elif self._logging_on is None:
            self._work()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._closed = True
        self._writable.set()
        for task in (self._logging_on, self._resending):
            if task is not None:
                task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._left(self)

    # ---- the logon

    def _first(self) -> None:
        frame = self._framer.next()
        if frame is None:
            if self._framer.garbled:
                self.cut("expected a Logon first, got other bytes")
            return
        message = Message(frame)
        if frame.begin_string != BEGIN_STRING or message.type != "A" or message.seq < 1:
            self.cut(
                f"expected a Logon of {BEGIN_STRING} first, got MsgType {message.type[:10]!r} of {frame.begin_string}"
            )
            return
        business, refusal = self._find(self, message)
        if business is None:
            if refusal:
                self._say_goodbye(message, refusal)
            self.cut(refusal or "already logged on")
            return
        self._business = business
        if self._timer is not None:
            self._timer.cancel()
        self._pause()
        self._logging_on = asyncio.create_task(self._log_on(business, message))

    def _say_goodbye(self, message: Message, text: str) -> None:
        """Sends a Logout to a client without a session, outside the sequence numbers of any session."""
        header = f"35=5\x0149={self._comp_id}\x0156={plain(message.fields.get('49', ''))}\x0134=1\x0152={UtcClock().now()}\x01"
        self._write([encode(f"{header}58={plain(text)}\x01")])

    async def _log_on(self, business: Business, message: Message) -> None:
        session = business.session
        try:
            await asyncio.to_thread(business.load)  # takes seconds after a million orders
        except SerlError as error:
            self._say_goodbye(message, str(error))
            self.cut(str(error))
            return
        session.connect()
        try:
            await business.open(self)
            session.begin()
            session.logon(message)
            if session.live and not session.closing:
                business.start()
        except SerlError as error:
            session.begin()
            session.end(str(error))
        except OSError as error:
            self._store_failed(error)
            return
        self._logging_on = None
        self.flush()
        self._resume()
        if not session.closing:
            self._work()

    # ---- work

    def _work(self) -> None:
        """Processes the messages that have arrived, while the exchange keeps up."""
        business = self._business
        assert business is not None
        session = business.session
        session.begin()
        while not session.closing and not self._closed:
            if business.is_full:
                self._pause()
                break
            frame = self._framer.next()
            if frame is None:
                break
            try:
                session.receive(Message(frame))
            except OSError as error:
                self._store_failed(error)
        self.flush()

    def _store_failed(self, error: OSError) -> None:
        self.cut(f"the store cannot be written: {error.strerror}")

    def flush(self) -> None:
        """Stores what has changed, then sends it: commands to the exchange, messages to the client."""
        business = self._business
        if business is None or self._closed:
            return
        try:
            out = business.session.flush()
        except OSError as error:
            self._store_failed(error)
            return
        business.send_commands()
        self._write(out)
        if business.session.resending and self._resending is None:
            self._resending = asyncio.create_task(self._resend(business.session))
        if business.session.closing:
            self._end(business.session.closing)
        elif self._paused and self._logging_on is None and business.is_low:
            self._resume()
            asyncio.get_running_loop().call_soon(self._work_again)

    def _work_again(self) -> None:
        if not self._closed and self._business is not None:
            self._work()

    async def _resend(self, session: FixSession) -> None:
        """Resends as fast as the client reads."""
        while session.resending and not self._closed:
            await self._writable.wait()
            session.begin()
            self.flush()
            self._write(session.resend_part())
            await asyncio.sleep(0)
        self._resending = None
        self.flush()

    def _write(self, messages: list[bytes]) -> None:
        transport = self._transport
        if not messages or transport is None or transport.is_closing():
            return
        transport.write(b"".join(messages))
        if transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self.cut(f"more than {UNREAD_BYTES_MAX >> 20} MiB are unread")

    async def drain(self) -> None:
        """Returns once the client has read most of what was written, and no resend is under way."""
        if self._resending is not None:
            await asyncio.wait([self._resending])
        await self._writable.wait()

    def tick(self) -> None:
        """Handles heartbeats and timeouts; called several times a second."""
        business = self._business
        if business is not None and self._logging_on is None:
            business.tick()
            if self._paused:
                business.session.hear()
            business.session.tick()
            self.flush()

    def logout(self, text: str) -> None:
        """Ends the session with a Logout."""
        if self._business is None or self._logging_on is not None:
            self.cut(text)
            return
        self._business.session.begin()
        self._business.session.logout(text)
        self.flush()

    def cut(self, reason: str) -> None:
        """Ends the connection at once; the last written data is still sent if the client reads it. reason: for the log; "" for none."""
        name = self._business.session.login if self._business is not None else "a stranger"
        if reason and not self._closed:
            text = f"{name} ({self.peer}): connection closed: {reason}"
            if self._business is None:
                text = _STRANGERS.limit(text)
            if text:
                log("fix_cut", text, login=name, reason=reason)
        self._closed = True
        if self._transport is not None:
            if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
                self._transport.abort()
            else:
                self._transport.close()
                asyncio.get_running_loop().call_later(LAST_WRITE_S, self._transport.abort)

    def _end(self, reason: str) -> None:
        assert self._business is not None
        self._business.session.live = False
        self.cut("" if reason == BYE else reason)

    def _pause(self) -> None:
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    @property
    def business(self) -> Business | None:
        """The business that the connection belongs to."""
        return self._business
