"""One open page: sends it frames, no faster than it draws them, and runs its operator's actions."""

import asyncio
import hmac
import json
from concurrent.futures import Future
from typing import Any, TypeVar

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from serl.clients.dashboard.board import Board, Cursor
from serl.clients.dashboard.errors import ActionFailed
from serl.clients.dashboard.link import Link
from serl.exchange.config import time_of_day_ns
from serl.exchange.errors import SerlError
from serl.exchange.records import Side

FRAME_S = 0.05
UNDRAWN_MAX = 2
"""Maximum number of frames sent but not drawn yet; at that number a page gets no more, and later the newest state."""
MESSAGE_BYTES_MAX = 4096
WRONG_TOKENS_MAX, WRONG_TOKEN_S = 5, 0.5
"""Number of actions with a wrong token after which a page is closed, and the delay of the answer to each."""
INTEGER_MAX = 1 << 53
SPEED_MIN, SPEED_MAX = 1e-3, 1e6
N = TypeVar("N", int, float)
ACTIONS = ("halt", "resume", "clock", "speed", "order", "cancel", "standings")


class Page:
    """The WebSocket of a page until it closes."""

    def __init__(self, socket: WebSocket, board: Board, link: Link, admin_token: str) -> None:
        self._socket, self._board, self._link, self._token = socket, board, link, admin_token
        self._cursor = Cursor()
        self._sent = self._drawn = self._wrong_tokens = 0

    async def serve(self) -> None:
        """Sends frames and receives messages. Actions run as separate tasks, because an exchange that hangs may not reply for seconds."""
        await self._socket.accept()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._send_frames())
                while True:
                    if (action := await self._process(await self._receive())) is not None:
                        tasks.create_task(self._run_action(action))
        except* WebSocketDisconnect:
            pass

    async def _send_frames(self) -> None:
        while True:
            if self._sent - self._drawn < UNDRAWN_MAX:
                with self._board.lock:
                    frame = self._board.frame(self._cursor)
                if frame:
                    self._sent += 1
                    await self._send(frame | {"n": self._sent})
            await asyncio.sleep(FRAME_S)

    async def _send(self, frame: dict[str, Any]) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            await self._socket.send_text(json.dumps(frame, separators=(",", ":")))

    async def _close(self, reason: str) -> None:
        await self._socket.close(1003, reason)
        raise WebSocketDisconnect(1003, reason)

    async def _receive(self) -> str:
        try:
            return await self._socket.receive_text()
        except KeyError:  # binary data, which no page sends
            return ""

    async def _process(self, text: str) -> dict[str, Any] | None:
        """Processes {"seen": n} and {"symbol": name}; returns {"do": action, "id", "token", ...}; closes the socket on anything else."""
        try:
            message = json.loads(text) if len(text) <= MESSAGE_BYTES_MAX else None
        except (ValueError, RecursionError):
            message = None
        match message:
            case None:
                await self._close(f"expected JSON of at most {MESSAGE_BYTES_MAX} bytes, not this")
            case {"do": str(), "id": int()}:
                return dict(message)
            case {"seen": int(n)}:
                self._drawn = max(self._drawn, min(n, self._sent))
            case {"symbol": str(name)}:
                with self._board.lock:
                    if name in self._board.views:
                        self._cursor.select(name)
            case _:
                await self._close("expected a message of a page, not this")
        return None

    async def _run_action(self, message: dict[str, Any]) -> None:
        try:
            if not hmac.compare_digest(str(message.get("token", "")).encode(), self._token.encode()):
                await self._slow_down()
                raise ActionFailed(
                    "expected the operator token; open the operator address that `serl dashboard` printed"
                )
            if message["do"] == "standings":
                self._cursor.operator, text = True, "done"
            else:
                text = await asyncio.wrap_future(self._start_action(message))
            failed = False
        except (SerlError, KeyError, TypeError, ValueError) as error:
            text, failed = (str(error) if isinstance(error, SerlError) else "not an action of a page"), True
        await self._send({"done": message["id"], "text": text, "failed": failed})

    async def _slow_down(self) -> None:
        """After a wrong token: waits, and closes the page after too many."""
        self._wrong_tokens += 1
        if self._wrong_tokens > WRONG_TOKENS_MAX:
            await self._close(f"more than {WRONG_TOKENS_MAX} actions with a wrong token")
        await asyncio.sleep(WRONG_TOKEN_S)

    def _start_action(self, message: dict[str, Any]) -> "Future[str]":
        kind, link = message["do"], self._link
        if kind == "clock":
            seek = message.get("to")
            return link.set_clock(None if seek is None else time_of_day_ns(seek), bool(message["run"]))
        if kind == "speed":
            return link.set_speed(_within(message["speed"], float, SPEED_MIN, SPEED_MAX, "speed"))
        if kind == "cancel":
            return link.cancel(_within(message["order"], int, 1, INTEGER_MAX, "order"))
        if kind not in ACTIONS:
            raise ActionFailed(f"expected an action of {', '.join(ACTIONS)}, got {kind!r}")
        symbol = str(message["symbol"])
        if kind != "order":
            return link.halt(symbol) if kind == "halt" else link.resume(symbol)
        side = _within(message["side"], int, Side.BUY, Side.SELL, "side")
        qty_lots = _within(message["qty_lots"], int, 1, INTEGER_MAX, "lots")
        price = message["price_ticks"]
        price_ticks = None if price is None else _within(price, int, 1, INTEGER_MAX, "price in ticks")
        return link.order(symbol, side, qty_lots, price_ticks)


def _within(value: Any, kind: type[N], low: float, high: float, name: str) -> N:
    """Returns the value if it is a number in low..high; otherwise raises `ActionFailed`."""
    if isinstance(value, int | float) and low <= value <= high and kind(value) == value:
        return kind(value)
    raise ActionFailed(f"{name}: expected a number from {low:g} to {high:g}, got {str(value)[:40]}")
