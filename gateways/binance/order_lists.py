"""Order lists: one-cancels-other pairs, which are two linked orders of the exchange, and orders that wait for another."""

import asyncio
import dataclasses
from typing import Any

from serl.clients.session import Report
from serl.exchange.records import CommandKind, EventKind
from serl.exchange.terms import Terms
from serl.gateways.binance import order_json as as_json
from serl.gateways.binance.api import Call, Endpoint, signed
from serl.gateways.binance.errors import BinanceError, refused
from serl.gateways.binance.link import Leg, accepted
from serl.gateways.binance.listing import Listing
from serl.gateways.binance.order_endpoints import check_client_id, market_view, response, response_type
from serl.gateways.binance.order_entry import Draft, MarketView, new_client_id, read_order
from serl.gateways.binance.orders import SpotOrder, head_of
from serl.gateways.binance.parameters import Parameters

PROFITS, STOPS = ("LIMIT_MAKER", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT"), ("STOP_LOSS", "STOP_LOSS_LIMIT")
"""Types of the two orders of a pair."""
SHARED = ("symbol", "side", "quantity", "selfTradePreventionMode")
LEG_NAMES = {
    "Type": "type", "ClientOrderId": "newClientOrderId", "IcebergQty": "icebergQty", "Price": "price", "StopPrice": "stopPrice",
    "TrailingDelta": "trailingDelta", "TimeInForce": "timeInForce", "StrategyId": "strategyId", "StrategyType": "strategyType",
}  # fmt: skip
PENDING_NAMES = LEG_NAMES | {"Side": "side", "Quantity": "quantity"}
LIMIT_LEG = {
    "limitClientOrderId": "newClientOrderId",
    "price": "price",
    "limitIcebergQty": "icebergQty",
    "limitStrategyId": "strategyId",
    "limitStrategyType": "strategyType",
}
STOP_LEG = {
    "stopClientOrderId": "newClientOrderId", "stopPrice": "stopPrice", "stopLimitPrice": "price", "stopLimitTimeInForce": "timeInForce",
    "stopIcebergQty": "icebergQty", "stopStrategyId": "strategyId", "stopStrategyType": "strategyType", "trailingDelta": "trailingDelta",
}  # fmt: skip


async def place_pair(call: Call) -> Any:
    """POST orderList/oco."""
    sent = call.parameters.values
    legs = [
        {name: sent[f"{side}{suffix}"] for suffix, name in LEG_NAMES.items() if f"{side}{suffix}" in sent} for side in ("above", "below")
    ]  # fmt: skip
    for side in ("above", "below"):
        call.parameters.text(f"{side}Type")
    return await _place(call, legs)


async def place_pending(call: Call) -> Any:
    """POST orderList/oto and orderList/otoco: a working order, and one or two that wait until it is filled."""
    sent = call.parameters.values
    names = ("above", "below") if "pendingQuantity" in sent and "pendingAboveType" in sent else ("",)
    kinds = ("LIMIT", "LIMIT_MAKER")
    call.parameters.choice("workingType", kinds, -1014, "Unsupported order combination.")
    listing = call.gateway.market.listings.find(call.parameters.text("symbol"))
    view = market_view(call, listing)
    later = view._replace(last_ticks=0)  # nobody knows the last trade by then
    working = _draft(call, listing, "working", ("working",), view)
    pending = [
        _draft(call, listing, f"pending{name.title()}", ("pending", f"pending{name.title()}"), later) for name in names
    ]
    if len(pending) > 1:
        pending.sort(key=lambda draft: draft.template.type in STOPS)
        _check_pair(pending, 0)
    waiting = [draft._replace(fields=draft.fields._replace(terms=_waiting(draft.fields.terms))) for draft in pending]
    relations = ["", *["link"] * (len(waiting) - 1), "child"]
    return await _send(call, [*waiting, working], relations, "OTO")


def _waiting(terms: Terms) -> Terms:
    return dataclasses.replace(terms, waits=1)


def _draft(call: Call, listing: Listing, what: str, prefixes: tuple[str, ...], view: MarketView) -> Draft:
    """An order of a list from the parameters that begin with one of the prefixes. Raises BinanceError."""
    sent = call.parameters.values
    call.parameters.text(f"{what}Type")
    shared = {name: sent[name] for name in ("symbol", "selfTradePreventionMode") if name in sent}
    leg = {
        name: sent[f"{prefix}{suffix}"] for prefix in prefixes for suffix, name in PENDING_NAMES.items() if f"{prefix}{suffix}" in sent
    }  # fmt: skip
    return read_order(listing, Parameters(shared | leg), view)


async def place_former_pair(call: Call) -> Any:
    """POST order/oco, the older endpoint for placing a pair."""
    sent = call.parameters.values
    limit, stop = (
        {name: sent[sent_name] for sent_name, name in leg.items() if sent_name in sent} for leg in (LIMIT_LEG, STOP_LEG)
    )
    limit["type"] = "LIMIT_MAKER"
    stop["type"] = "STOP_LOSS_LIMIT" if "price" in stop else "STOP_LOSS"
    if "price" in stop:
        call.parameters.text("stopLimitTimeInForce")
    return await _place(call, [limit, stop])


async def _place(call: Call, legs: list[dict[str, str]]) -> Any:
    call.parameters.choice("side", ("BUY", "SELL"), -1117, "Invalid side.")
    listing = call.gateway.market.listings.find(call.parameters.text("symbol"))
    view = market_view(call, listing)
    shared = {name: call.parameters.values[name] for name in SHARED if name in call.parameters.values}
    drafts = sorted(
        (read_order(listing, Parameters(shared | leg), view) for leg in legs),
        key=lambda draft: draft.template.type in STOPS,
    )
    _check_pair(drafts, view.last_ticks)
    return await _send(call, drafts, ["", "link"], "OCO")


async def _send(call: Call, drafts: list[Draft], relations: list[str], list_type: str) -> Any:
    """Sends the orders of a list; returns the answer. relations: the term by which each names the first."""
    kind = response_type(Parameters({"type": "LIMIT", **call.parameters.values}))
    ids = [draft.template.client_id for draft in drafts]
    for draft in drafts:
        check_client_id(call, draft)
    if len(set(ids)) < len(ids):
        raise refused("Duplicate order sent.")
    list_client_id = call.parameters.client_id("listClientOrderId") or new_client_id()
    if list_client_id in call.account.link.pending_lists or any(
        legs_of[0].record.list_client_id == list_client_id and as_json.list_is_open(legs_of)
        for legs_of in call.account.link.orders.lists.values()
    ):
        raise refused("Duplicate order sent.")
    call.account.link.require()
    call.gateway.limits.count_order(call.account.login, len(drafts))
    legs = [Leg(draft.record, draft.fields, relation) for draft, relation in zip(drafts, relations, strict=True)]
    futures = call.account.link.new_list(legs, drafts[0].listing.number, list_client_id, list_type)
    reports = await asyncio.gather(*futures)
    await _keep_all_or_none(call, reports, drafts)
    orders = [call.account.link.orders.by_id[report.order_id] for report in reports]
    orders.sort(key=lambda order: order.record.pending)
    return {**as_json.order_list(orders), "orderReports": [response(order, kind) for order in orders]}


async def _keep_all_or_none(call: Call, reports: list[Report], drafts: list[Draft]) -> None:
    """If one of the orders was rejected, cancels the others, then raises BinanceError."""
    rejected = [report for report in reports if report.kind == EventKind.REJECTED]
    for report in reports if rejected else ():
        if report not in rejected and call.account.link.orders.by_id[report.order_id].open:
            await call.account.link.amend(CommandKind.CANCEL, report.order_id)
    for report, draft in zip(reports, drafts, strict=True):
        accepted(report, draft.broken_filter())


def _check_pair(drafts: list[Draft], last_ticks: int) -> None:
    """Raises BinanceError unless the pair is a profit-taking order and then a stop, on opposite sides of the market."""
    profit, stop = (draft.template for draft in drafts)
    if profit.type not in PROFITS or stop.type not in STOPS:
        raise BinanceError(-1014, "Unsupported order combination.")
    price_ticks = profit.stop_ticks or profit.price_ticks
    low, high = (price_ticks, stop.stop_ticks) if profit.side == 0 else (stop.stop_ticks, price_ticks)
    if not low < (last_ticks or low + 1) < high or high <= low:
        raise refused("The relationship of the prices for the orders is not correct.")


def _find(call: Call, client_name: str) -> list[SpotOrder]:
    list_id, client_id = call.parameters.integer("orderListId"), call.parameters.get(client_name)
    if list_id is None and client_id is None:
        raise BinanceError(-1102, f"Param '{client_name}' or 'orderListId' must be sent, but both were empty/null!")
    lists = call.account.link.orders.lists
    if list_id is not None:
        found = lists.get(list_id)
    else:
        found = next((each for each in reversed(lists.values()) if each[0].record.list_client_id == client_id), None)
    if found is None:
        raise BinanceError(-2018, "Order list does not exist.")
    return found


async def status(call: Call) -> Any:
    """GET orderList."""
    return as_json.order_list(_find(call, "origClientOrderId"))


async def cancel(call: Call) -> Any:
    """DELETE orderList: cancels both orders."""
    listing = call.gateway.market.listings.find(call.parameters.text("symbol"))
    orders = _find(call, "listClientOrderId")
    if orders[0].listing is not listing:
        raise BinanceError(-2018, "Order list does not exist.")
    return await cancel_list(call, orders)


async def cancel_list(call: Call, orders: list[SpotOrder]) -> Any:
    """Cancels an order list; returns the answer. Raises BinanceError if the list is done."""
    first = head_of(orders)
    if first is None:
        raise BinanceError(-2011, "Unknown order list sent.")
    client_id = call.parameters.client_id("newClientOrderId") or new_client_id()
    link = call.account.link
    future = link.amend(CommandKind.CANCEL, first.order_id)
    call.account.note_cancel(link.last_command_id, client_id)
    accepted(await future)
    return as_json.canceled_list(orders, client_id)


async def open_lists(call: Call) -> Any:
    """GET openOrderList."""
    return [
        as_json.order_list(orders) for orders in call.account.link.orders.lists.values() if as_json.list_is_open(orders)
    ]


async def all_lists(call: Call) -> Any:
    """GET allOrderList."""
    count, from_id = call.parameters.count("limit", 500, 1000), call.parameters.integer("fromId")
    start_ms, end_ms = call.parameters.integer("startTime"), call.parameters.integer("endTime")
    found = [
        as_json.order_list(orders)
        for list_id, orders in call.account.link.orders.lists.items()
        if (from_id is None or list_id >= from_id)
        and (start_ms is None or orders[0].time_ms >= start_ms)
        and (end_ms is None or orders[0].time_ms <= end_ms)
    ]
    return found[-count:] if from_id is None and start_ms is None else found[:count]


_LEGS = " ".join(
    f"{side}{suffix}"
    for side in ("above", "below")
    for suffix in (*LEG_NAMES, "PegPriceType", "PegOffsetType", "PegOffsetValue")
)
_PENDING = " ".join(
    ["symbol listClientOrderId newOrderRespType selfTradePreventionMode"]
    + [
        f"{prefix}{suffix}"
        for prefix in ("working", "pending", "pendingAbove", "pendingBelow")
        for suffix in PENDING_NAMES
    ]
)
_SHARED = "symbol side quantity listClientOrderId newOrderRespType selfTradePreventionMode"
LIST_ENDPOINTS: dict[tuple[str, str], Endpoint] = {
    ("POST", "orderList/oco"): signed(place_pair, 1, f"{_SHARED} {_LEGS}"),
    ("POST", "orderList/oto"): signed(place_pending, 1, _PENDING),
    ("POST", "orderList/otoco"): signed(place_pending, 1, _PENDING),
    ("POST", "order/oco"): signed(
        place_former_pair, 1, f"{_SHARED} {' '.join((*LIMIT_LEG, *STOP_LEG))}"
    ),
    ("GET", "orderList"): signed(status, 4, "orderListId origClientOrderId"),
    ("DELETE", "orderList"): signed(cancel, 1, "symbol orderListId listClientOrderId newClientOrderId"),
    ("GET", "openOrderList"): signed(open_lists, 6),
    ("GET", "allOrderList"): signed(all_lists, 20, "fromId startTime endTime limit"),
}  # fmt: skip
"""By method and the end of the path below /api/v3/."""
