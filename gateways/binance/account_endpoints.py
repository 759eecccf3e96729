"""Endpoints of the account, and of its stream of events."""

import time
from decimal import Decimal
from typing import Any

from serl.gateways.binance.api import Call, Endpoint, Security, names, signed
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.fees import Rates
from serl.gateways.binance.listing import Listing
from serl.gateways.binance.scale import Scale

NO_RATES = {"maker": "0.00000000", "taker": "0.00000000", "buyer": "0.00000000", "seller": "0.00000000"}


async def account(call: Call) -> Any:
    """GET account."""
    omit = call.parameters.flag("omitZeroBalances")
    balances = await call.account.balances()
    if omit:
        balances = [each for each in balances if float(each["free"]) or float(each["locked"])]
    return {
        "makerCommission": 0, "takerCommission": 0, "buyerCommission": 0, "sellerCommission": 0, "commissionRates": NO_RATES, "canTrade": True,
        "canWithdraw": False, "canDeposit": False, "brokered": False, "requireSelfTradePrevention": False, "preventSor": False,
        "updateTime": time.time_ns() // 1_000_000, "accountType": "SPOT", "balances": balances, "permissions": ["SPOT"], "uid": 0,
    }  # fmt: skip


def commission_rates(call: Call, listing: Listing) -> dict[str, str]:
    """Maker and taker fees of the account's next fills, relative to the notional."""
    rates = call.account.link.orders.fees.rates.get(listing.number, Rates())
    return {"maker": _PPM.text(rates.maker_ppm), "taker": _PPM.text(rates.taker_ppm)}


_PPM = Scale(Decimal("0.000001"))


async def commission(call: Call) -> Any:
    """GET account/commission."""
    listing = call.gateway.market.listings.find(call.parameters.text("symbol"))
    return {
        "symbol": listing.name, "standardCommission": NO_RATES | commission_rates(call, listing),
        "specialCommission": NO_RATES, "taxCommission": NO_RATES,
        "discount": {"enabledForAccount": False, "enabledForSymbol": False, "discountAsset": listing.quote, "discount": "0.00000000"},
    }  # fmt: skip


async def order_limits(call: Call) -> Any:
    """GET rateLimit/order."""
    counts = list(call.gateway.limits.order_counts(call.account.login).values())
    limits = [limit for limit in call.gateway.limits.describe() if limit["rateLimitType"] == "ORDERS"]
    return [{**limit, "count": count} for limit, count in zip(limits, counts, strict=True)]


async def own_filters(call: Call) -> Any:
    """GET myFilters: an account has no filters of its own."""
    call.gateway.market.listings.find(call.parameters.text("symbol"))
    return {"exchangeFilters": [], "symbolFilters": [], "assetFilters": []}


async def nothing(call: Call) -> Any:
    """An endpoint whose list is always empty here."""
    return []


async def start_stream(call: Call) -> Any:
    """POST userDataStream."""
    return {"listenKey": call.account.new_listen_key()}


def _listen_key(call: Call) -> str:
    key = call.parameters.text("listenKey")
    if not call.account.has_listen_key(key):
        raise BinanceError(-1125, "This listenKey does not exist.")
    return key


async def keep_stream(call: Call) -> Any:
    """PUT userDataStream."""
    _listen_key(call)
    call.account.new_listen_key()
    return {}


async def stop_stream(call: Call) -> Any:
    """DELETE userDataStream."""
    call.account.end_listen_key(_listen_key(call))
    return {}


def _stream(run: Any) -> Endpoint:
    return Endpoint(run, 2, Security.KEY, names("listenKey timestamp recvWindow signature apiKey"))


ACCOUNT_ENDPOINTS: dict[tuple[str, str], Endpoint] = {
    ("GET", "account"): signed(account, 20, "omitZeroBalances"),
    ("GET", "account/commission"): signed(commission, 20, "symbol"),
    ("GET", "rateLimit/order"): signed(order_limits, 40),
    ("GET", "myFilters"): signed(own_filters, 40, "symbol"),
    ("GET", "myPreventedMatches"): signed(nothing, 20, "symbol preventedMatchId orderId fromPreventedMatchId limit"),
    ("GET", "myAllocations"): signed(nothing, 20, "symbol startTime endTime fromAllocationId limit orderId"),
    ("POST", "userDataStream"): _stream(start_stream),
    ("PUT", "userDataStream"): _stream(keep_stream),
    ("DELETE", "userDataStream"): _stream(stop_stream),
}
"""By method and the end of the path below /api/v3/."""
