"""The WebSocket API, /ws-api/v3: the endpoints of REST over one connection, and the user data stream."""

import asyncio
import json
from typing import Any

from starlette.types import Receive, Scope, Send

from serl.exchange.log import log
from serl.gateways.binance.account_endpoints import ACCOUNT_ENDPOINTS
from serl.gateways.binance.api import Call, Endpoint, Gateway
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.hub import encode
from serl.gateways.binance.market_endpoints import MARKET_ENDPOINTS
from serl.gateways.binance.order_endpoints import ORDER_ENDPOINTS
from serl.gateways.binance.order_lists import LIST_ENDPOINTS
from serl.gateways.binance.outbox import Outbox
from serl.gateways.binance.parameters import Parameters
from serl.gateways.binance.signing import socket_payload
from serl.gateways.binance.socket_session import SocketSession

REQUESTS_MAX = 1000
"""Maximum number of a connection's requests that wait for the exchange; further ones are not read meanwhile."""
_MARKET = {
    "ping": "ping", "time": "time", "exchangeInfo": "exchangeInfo", "depth": "depth", "trades.recent": "trades",
    "trades.historical": "historicalTrades", "trades.aggregate": "aggTrades", "klines": "klines", "uiKlines": "uiKlines",
    "avgPrice": "avgPrice", "ticker.24hr": "ticker/24hr", "ticker": "ticker", "ticker.tradingDay": "ticker/tradingDay", "ticker.price": "ticker/price",
    "ticker.book": "ticker/bookTicker",
}  # fmt: skip
_PRIVATE = {
    "order.place": ("POST", "order"), "order.test": ("POST", "order/test"), "order.status": ("GET", "order"), "order.cancel": ("DELETE", "order"),
    "order.cancelReplace": ("POST", "order/cancelReplace"), "order.amend.keepPriority": ("PUT", "order/amend/keepPriority"),
    "order.amendments": ("GET", "order/amendments"), "openOrders.status": ("GET", "openOrders"), "openOrders.cancelAll": ("DELETE", "openOrders"),
    "orderList.place": ("POST", "order/oco"), "orderList.place.oco": ("POST", "orderList/oco"), "orderList.status": ("GET", "orderList"),
    "orderList.cancel": ("DELETE", "orderList"), "openOrderLists.status": ("GET", "openOrderList"), "allOrders": ("GET", "allOrders"),
    "allOrderLists": ("GET", "allOrderList"), "myTrades": ("GET", "myTrades"), "account.status": ("GET", "account"),
    "account.commission": ("GET", "account/commission"), "account.rateLimits.orders": ("GET", "rateLimit/order"),
    "myFilters": ("GET", "myFilters"), "myPreventedMatches": ("GET", "myPreventedMatches"), "myAllocations": ("GET", "myAllocations"), "userDataStream.start": ("POST", "userDataStream"),
    "userDataStream.ping": ("PUT", "userDataStream"), "userDataStream.stop": ("DELETE", "userDataStream"),
}  # fmt: skip
_ALL_PRIVATE = {**ORDER_ENDPOINTS, **LIST_ENDPOINTS, **ACCOUNT_ENDPOINTS}
METHODS: dict[str, Endpoint] = {
    **{method: MARKET_ENDPOINTS[path] for method, path in _MARKET.items()},
    **{method: _ALL_PRIVATE[path] for method, path in _PRIVATE.items()},
}
"""Methods that are REST endpoints under another name."""


class ApiSocket:
    """One connection."""

    def __init__(self, gateway: Gateway, scope: Scope, receive: Receive, send: Send) -> None:
        self._gateway, self._receive, self._send = gateway, receive, send
        self._address = (scope["client"] or ("",))[0]
        self._outbox = Outbox(send)
        self._session = SocketSession(gateway, self._outbox)
        self._running: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(REQUESTS_MAX)

    async def serve(self) -> None:
        """Serves until the client leaves or is cut off."""
        await self._receive()  # websocket.connect
        await self._send({"type": "websocket.accept"})
        writer, reader = asyncio.create_task(self._outbox.run()), asyncio.create_task(self._read())
        try:
            await asyncio.wait((writer, reader), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writer, reader):
                task.cancel()
            await asyncio.gather(writer, reader, return_exceptions=True)
            self._session.close()

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return
            await self._room.acquire()
            # tasks begin in their order and send their command before they first wait: orders reach the exchange in the order of the requests
            task = asyncio.create_task(self._answer(message.get("text") or ""))
            self._running.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._room.release()

    async def _answer(self, text: str) -> None:
        request_id: Any = None
        key: str | None = None
        values: dict[str, str] = {}
        try:
            request = _parse(text)
            request_id = request["id"]
            values = _values(request.get("params"))
            key = values.get("apiKey", self._session.logon.key if self._session.logon else None)
            answer: dict[str, Any] = {
                "id": request_id,
                "status": 200,
                "result": await self._run(request["method"], values, key),
            }
        except BinanceError as error:
            answer = {"id": request_id, "status": error.status, "error": error.body()}
        except Exception as error:
            log("binance_error", f"WebSocket API: {type(error).__name__}: {error}")
            body = BinanceError(-1000, "An unknown error occurred while processing the request.").body()
            answer = {"id": request_id, "status": 500, "error": body}
        login = key if key is not None and key in self._gateway.accounts else None
        if values.get("returnRateLimits") != "false":
            answer["rateLimits"] = self._gateway.limits.usage(self._address, login)
        self._outbox.put(encode(answer))

    async def _run(self, method: str, values: dict[str, str], key: str | None) -> Any:
        parameters = Parameters({name: value for name, value in values.items() if name != "returnRateLimits"})
        if method in METHODS:
            endpoint, logon = METHODS[method], self._session.logon
            self._gateway.limits.spend(self._address, endpoint.cost(parameters))
            logged_on = logon is not None and values.keys().isdisjoint(("apiKey", "signature"))
            endpoint.check(self._gateway, parameters, key, lambda: socket_payload(values), logged_on=logged_on)
            return await endpoint.run(Call(self._gateway, parameters, key))
        self._gateway.limits.spend(self._address, 2)
        if method not in self._session.methods:
            raise BinanceError(-1000, f"Invalid method: {method[:40]}")
        return self._session.methods[method](values)


_DECODER = json.JSONDecoder(parse_float=str)
"""Keeps numbers with a decimal point as written, because a signature covers that text."""


def _parse(text: str) -> dict[str, Any]:
    """A request. Raises BinanceError."""
    try:
        request = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise BinanceError(-1135, "Invalid JSON Request") from None
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        raise BinanceError(-1135, "Invalid JSON Request: expected an object with `id` and `method`.")
    request_id = request.get("id")
    if not (request_id is None or (isinstance(request_id, (int, str)) and len(str(request_id)) <= 36)):
        raise BinanceError(
            -1135, "Invalid JSON Request: `id` must be an integer, a string of at most 36 characters or null."
        )
    return {**request, "id": request_id}


def _values(sent: Any) -> dict[str, str]:
    """The parameters as text. Raises BinanceError."""
    if sent is None:
        return {}
    if not isinstance(sent, dict):
        raise BinanceError(-1135, "Invalid JSON Request: `params` must be an object.")
    return {name: _text(value) for name, value in sent.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return encode(value)
