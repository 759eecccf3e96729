"""WebSocket connections to /ws and /stream: market streams, and user data streams by listen key."""

import asyncio
import json
import time
from functools import partial
from typing import Any
from urllib.parse import unquote

from starlette.types import Receive, Scope, Send

from serl.gateways.binance.api import Gateway
from serl.gateways.binance.hub import Hub, encode
from serl.gateways.binance.outbox import Outbox

STREAMS_MAX = 1024
STREAM_CHARACTERS_MAX = 128


class _Refused(Exception):
    """A control message that is refused with a code and a text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class StreamSocket:
    """One connection. It is a `Listener` of the hub."""

    def __init__(self, gateway: Gateway, hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
        self._gateway, self._hub, self._scope, self._receive, self._send = gateway, hub, scope, receive, send
        self._outbox = Outbox(send)
        self._streams: dict[str, None] = {}
        self._combined = scope["path"].startswith("/stream")

    def event(self, stream: str, text: str) -> None:
        """Receives an event."""
        self._outbox.put(f'{{"stream":{encode(stream)},"data":{text}}}' if self._combined else text)

    async def serve(self) -> None:
        """Serves until the client leaves or is cut off."""
        await self._receive()  # websocket.connect
        await self._send({"type": "websocket.accept"})
        writer = asyncio.create_task(self._outbox.run())
        try:
            self._subscribe(self._first_streams())
            reader = asyncio.create_task(self._read())
            await asyncio.wait((writer, reader), return_when=asyncio.FIRST_COMPLETED)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        except _Refused as refused:
            self._outbox.put(encode({"code": refused.code, "msg": refused.text}))
            self._outbox.close(1008, refused.text)
            await asyncio.wait((writer,))
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            self._unsubscribe(list(self._streams))

    def _first_streams(self) -> list[str]:
        """The streams in the address."""
        if self._combined:
            pairs = (pair.partition("=") for pair in self._scope["query_string"].decode("latin-1").split("&"))
            text = next((unquote(value) for name, _, value in pairs if name == "streams"), "")
        else:
            text = self._scope["path"].removeprefix("/ws")
        return [stream for stream in text.split("/") if stream]

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return
            request_id: Any = None
            try:
                request = self._parse(message.get("text"))
                request_id = request.get("id")
                answer: dict[str, Any] = {"result": self._control(request), "id": request_id}
            except _Refused as refused:
                answer = {
                    "code": refused.code,
                    "msg": refused.text,
                    **({"id": request_id} if request_id is not None else {}),
                }
            self._outbox.put(encode(answer))

    @staticmethod
    def _parse(text: str | None) -> dict[str, Any]:
        try:
            request = json.loads(text or "")
        except (ValueError, RecursionError) as error:
            raise _Refused(3, f"Invalid JSON: {str(error)[:80]}") from None
        if not isinstance(request, dict):
            raise _Refused(2, "Invalid request: expected an object")
        if not (
            request.get("id") is None
            or isinstance(request["id"], int)
            or (isinstance(request["id"], str) and len(request["id"]) <= 36)
        ):
            request.pop("id")
            raise _Refused(2, "Invalid request: request ID must be an unsigned integer or a string")
        if not isinstance(request.get("method"), str):
            raise _Refused(2, "Invalid request: missing field `method`")
        return request

    def _control(self, request: dict[str, Any]) -> Any:
        """Processes SUBSCRIBE and other control messages; returns the result for the answer."""
        method, parameters = request["method"], request.get("params")
        if method == "LIST_SUBSCRIPTIONS":
            return list(self._streams)
        if method in ("SET_PROPERTY", "GET_PROPERTY"):
            return self._property(method, parameters)
        if method not in ("SUBSCRIBE", "UNSUBSCRIBE"):
            raise _Refused(
                2,
                f"Invalid request: unknown variant `{method[:40]}`, expected one of `SUBSCRIBE`, `UNSUBSCRIBE`, `LIST_SUBSCRIPTIONS`, `SET_PROPERTY`, `GET_PROPERTY`",
            )
        if not isinstance(parameters, list) or not all(isinstance(each, str) for each in parameters):
            raise _Refused(2, "Invalid request: params must be an array of strings")
        (self._subscribe if method == "SUBSCRIBE" else self._unsubscribe)(parameters)
        return None

    def _property(self, method: str, parameters: Any) -> Any:
        if not isinstance(parameters, list) or not parameters or parameters[0] != "combined":
            raise _Refused(0, "Unknown property")
        if method == "GET_PROPERTY":
            return self._combined
        if len(parameters) != 2 or not isinstance(parameters[1], bool):
            raise _Refused(1, "Invalid value type: expected Boolean")
        self._combined = parameters[1]
        return None

    def _subscribe(self, streams: list[str]) -> None:
        wanted = [stream for stream in dict.fromkeys(streams) if stream not in self._streams]
        if len(wanted) + len(self._streams) > STREAMS_MAX:
            raise _Refused(2, f"Invalid request: expected at most {STREAMS_MAX} streams on a connection")
        if any(len(stream) > STREAM_CHARACTERS_MAX for stream in wanted):
            raise _Refused(2, f"Invalid request: expected names of at most {STREAM_CHARACTERS_MAX} characters")
        for stream in wanted:
            self._streams[stream] = None
            account = next((each for each in self._gateway.accounts.values() if each.has_listen_key(stream)), None)
            if account is None:
                self._hub.listen(stream, self)
            else:
                take, end = partial(self.event, stream), partial(self._end_user_stream, stream)
                account.listen_by_key(stream, (self, stream), take, end)

    def _end_user_stream(self, stream: str) -> None:
        """Ends the stream of a listen key that has ended. A connection without other streams ends with it."""
        self.event(stream, encode({"e": "listenKeyExpired", "E": time.time_ns() // 1_000_000, "listenKey": stream}))
        self._streams.pop(stream, None)
        if not self._streams:
            self._outbox.close(1000, "the listen key has ended")

    def _unsubscribe(self, streams: list[str]) -> None:
        for stream in streams:
            if self._streams.pop(stream, self) is None:
                self._hub.leave(stream, self)
                for account in self._gateway.accounts.values():
                    account.leave((self, stream))
