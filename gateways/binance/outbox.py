"""A bounded queue of messages to a WebSocket: a client that does not read is disconnected."""

import asyncio
import time
from collections import deque
from typing import Any

from starlette.types import Send
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

WAITING_BYTES_MAX = 8 << 20
FRAMES_MAX = 4096
"""Maximum number of frames in a message: a limit on bytes alone does not end a message of empty frames."""
PING_S, PONG_S = 20.0, 60.0
"""As at Binance: the interval between pings, and the time without a pong after which a connection ends."""
STUCK_S = 5.0
"""A client that has read nothing for this long while its buffers are full is disconnected."""


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A connection that ends without a farewell when its client does not read, and with a close code when it breaks the protocol."""

    _stuck: asyncio.TimerHandle | None = None

    def send_keepalive_ping(self) -> None:
        """Sends a ping whose payload is a text, the time in ms, as Binance's are: some clients cannot answer the bytes of the base class."""
        self.ping_timer = None
        if self.close_sent or self.transport.is_closing():
            return
        self.pending_ping_payload = str(time.time_ns() // 1_000_000).encode()
        self.ping_sent_at = self.loop.time()
        self.conn.send_ping(self.pending_ping_payload)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.pong_timer = self.loop.call_later(PONG_S, self.keepalive_timeout)

    def handle_cont(self, event: Frame) -> None:
        """Processes another frame of a message."""
        if len(self.frames) < FRAMES_MAX:
            super().handle_cont(event)
        else:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"expected at most {FRAMES_MAX} frames in a message")

    def send_receive_event_to_app(self) -> None:
        """Processes a message. Without this check, a message that is not text would leave a long traceback in the log."""
        try:
            if self.curr_msg_data_type == "text":
                b"".join(self.frames).decode()
        except UnicodeDecodeError:
            self._fail(CloseCode.INVALID_DATA, "expected UTF-8")
        else:
            super().send_receive_event_to_app()

    def _fail(self, code: CloseCode, reason: str) -> None:
        self.frames = []
        if not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        super().pause_writing()
        self._stuck = self.loop.call_later(STUCK_S, self.transport.abort)

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._stuck is not None:
            self._stuck.cancel()
        super().connection_lost(exc)


class Outbox:
    """The messages to one client, in order."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: deque[str] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()
        self._closing: tuple[int, str] | None = None

    def put(self, text: str) -> None:
        """Adds a message. Beyond WAITING_BYTES_MAX nothing more is sent, and the connection ends."""
        if self._closing is None:
            self._bytes += len(text)
            if self._bytes > WAITING_BYTES_MAX:
                self._waiting.clear()
                self.close(1008, "the client reads too slowly")
            else:
                self._waiting.append(text)
                self._ready.set()

    def close(self, code: int, reason: str) -> None:
        """Closes the connection once the waiting messages have been sent."""
        self._closing = code, reason
        self._ready.set()

    async def run(self) -> None:
        """Sends until the connection is closed."""
        message: dict[str, Any]
        while True:
            await self._ready.wait()
            while self._waiting:
                text = self._waiting.popleft()
                self._bytes -= len(text)
                await self._send({"type": "websocket.send", "text": text})
            self._ready.clear()
            if self._closing is not None:
                code, reason = self._closing
                message = {"type": "websocket.close", "code": code, "reason": reason}
                await self._send(message)
                return
