"""Endpoints outside the spot API that clients request, mostly at their start: there is no margin, and there are no derivatives or deposits here."""

import time
from typing import Any

from serl.gateways.binance.account_endpoints import commission_rates, nothing
from serl.gateways.binance.api import Call, Endpoint, Security, names, public, signed


async def system_status(call: Call) -> Any:
    """GET system/status: whether the exchange is available."""
    up = call.gateway.market.up
    return {"status": 0 if up else 1, "msg": "normal" if up else "system_maintenance"}


async def coins(call: Call) -> Any:
    """GET capital/config/getall: the assets, none of which has a network."""
    zero = dict.fromkeys(("free", "locked", "freeze", "withdrawing", "ipoing", "ipoable", "storage"), "0")
    closed = {
        "depositAllEnable": False,
        "withdrawAllEnable": False,
        "isLegalMoney": False,
        "trading": True,
        "networkList": [],
    }
    return [{"coin": asset, "name": asset, **closed, **zero} for asset in call.gateway.market.listings.assets]


async def fees(call: Call) -> Any:
    """GET asset/tradeFee."""
    listings, name = call.gateway.market.listings, call.parameters.get("symbol")
    chosen = list(listings.by_name.values()) if name is None else [listings.find(name)]
    rates = [(listing.name, commission_rates(call, listing)) for listing in chosen]
    return [
        {"symbol": name, "makerCommission": each["maker"], "takerCommission": each["taker"]} for name, each in rates
    ]


async def no_symbols(call: Call) -> Any:
    """The exchangeInfo of derivatives: no symbols."""
    now_ms = time.time_ns() // 1_000_000
    return {"timezone": "UTC", "serverTime": now_ms, "rateLimits": [], "exchangeFilters": [], "symbols": []}


WALLET_ENDPOINTS: dict[tuple[str, str], Endpoint] = {
    ("GET", "/sapi/v1/system/status"): public(system_status, 1),
    ("GET", "/sapi/v1/capital/config/getall"): signed(coins, 10),
    ("GET", "/sapi/v1/asset/tradeFee"): signed(fees, 1, "symbol"),
    ("GET", "/sapi/v1/spot/delist-schedule"): Endpoint(nothing, 100, Security.KEY, names("", signed=True)),
    ("GET", "/sapi/v1/margin/allPairs"): signed(nothing, 1),
    ("GET", "/sapi/v1/margin/isolated/allPairs"): signed(nothing, 10, "symbol"),
    ("GET", "/fapi/v1/exchangeInfo"): public(no_symbols, 1),
    ("GET", "/dapi/v1/exchangeInfo"): public(no_symbols, 1),
}
"""Endpoints by method and path."""
