"""REST: HTTP requests to endpoints."""

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_plus

from starlette.types import Receive, Scope, Send

from serl.exchange.log import log
from serl.gateways.binance.account_endpoints import ACCOUNT_ENDPOINTS
from serl.gateways.binance.api import Call, Endpoint, Gateway, not_found
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.hub import encode
from serl.gateways.binance.market_endpoints import MARKET_ENDPOINTS
from serl.gateways.binance.order_endpoints import ORDER_ENDPOINTS
from serl.gateways.binance.order_lists import LIST_ENDPOINTS
from serl.gateways.binance.parameters import Parameters
from serl.gateways.binance.signing import signed_payload
from serl.gateways.binance.wallet_endpoints import WALLET_ENDPOINTS

BODY_BYTES_MAX = 65_536
ENDPOINTS: dict[tuple[str, str], Endpoint] = {
    **{("GET", f"/api/v3/{path}"): endpoint for path, endpoint in MARKET_ENDPOINTS.items()},
    **{
        (method, f"/api/v3/{path}"): endpoint
        for (method, path), endpoint in {**ORDER_ENDPOINTS, **LIST_ENDPOINTS, **ACCOUNT_ENDPOINTS}.items()
    },
    **WALLET_ENDPOINTS,
}
"""Endpoints by method and path."""


class Rest:
    """The ASGI application for HTTP."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        headers: list[tuple[bytes, bytes]] = []
        try:
            status, body = 200, encode(await self._answer(scope, receive, headers))
        except BinanceError as error:
            status, body = error.status, encode(error.body())
            retry_ms = (error.data or {}).get("retryAfter")
            if retry_ms is not None:
                headers.append((b"retry-after", str(max(1, int(retry_ms / 1000 - time.time()) + 1)).encode()))
        except Exception as error:
            log("binance_error", f"{scope['method']} {scope['path']}: {type(error).__name__}: {error}")
            status, body = (
                500,
                encode(BinanceError(-1000, "An unknown error occurred while processing the request.").body()),
            )
        data = body.encode()
        headers += [(b"content-type", b"application/json;charset=UTF-8"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _answer(self, scope: Scope, receive: Receive, headers: list[tuple[bytes, bytes]]) -> Any:
        endpoint = ENDPOINTS.get((scope["method"], scope["path"]))
        if endpoint is None:
            raise not_found()
        query = scope["query_string"].decode("latin-1")
        body = await _body(scope["headers"], receive)
        parameters = Parameters(_parse(body) | _parse(query))  # the query takes precedence over the body
        limits, address = self._gateway.limits, (scope["client"] or ("",))[0]
        used = limits.spend(address, endpoint.cost(parameters))
        headers += [(b"x-mbx-used-weight", b"%d" % used), (b"x-mbx-used-weight-1m", b"%d" % used)]
        key = _header(scope["headers"], b"x-mbx-apikey")
        endpoint.check(self._gateway, parameters, key, lambda: signed_payload(query, body))
        try:
            return await endpoint.run(Call(self._gateway, parameters, key))
        finally:
            if key is not None and scope["method"] == "POST" and key in self._gateway.accounts:
                headers += [
                    (f"x-mbx-order-count-{name}".lower().encode(), b"%d" % count)
                    for name, count in limits.order_counts(key).items()
                ]


def _header(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name == wanted), None)


async def _body(headers: Iterable[tuple[bytes, bytes]], receive: Receive) -> str:
    """Reads the request's body. Raises BinanceError if it is too large."""
    length = _header(headers, b"content-length")
    if length is not None and length.isdigit() and int(length) > BODY_BYTES_MAX:
        raise _too_large()
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise _too_large()
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts).decode("latin-1")


def _too_large() -> BinanceError:
    return BinanceError(
        -1101, f"Too many parameters sent for this endpoint: the body has more than {BODY_BYTES_MAX} bytes.", 413
    )


def _parse(text: str) -> dict[str, str]:
    """Parses the parameters of a query or a body. Raises BinanceError for a repeated one."""
    found: dict[str, str] = {}
    for pair in text.split("&") if text else ():
        name, _, value = pair.partition("=")
        if "%" in pair or "+" in pair:
            name, value = unquote_plus(name), unquote_plus(value)
        if name in found:
            raise BinanceError(-1101, f"Duplicate values for parameter '{name}'.")
        if name:
            found[name] = value
    return found
