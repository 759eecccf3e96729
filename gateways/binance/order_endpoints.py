"""Endpoints that place, change, cancel and query orders."""

from typing import Any

from serl.exchange.records import CommandKind, EventKind
from serl.gateways.binance import order_json as as_json
from serl.gateways.binance.account_endpoints import commission_rates
from serl.gateways.binance.api import Call, Endpoint, signed
from serl.gateways.binance.errors import BinanceError, no_such_order, order_does_not_exist, refused
from serl.gateways.binance.link import accepted
from serl.gateways.binance.listing import Listing
from serl.gateways.binance.order_entry import Draft, MarketView, new_client_id, read_order
from serl.gateways.binance.orders import SpotOrder, head_of
from serl.gateways.binance.parameters import Parameters

ORDER = (
    "symbol side type timeInForce quantity quoteOrderQty price newClientOrderId strategyId strategyType stopPrice trailingDelta icebergQty "
    "newOrderRespType selfTradePreventionMode"
)
RESPONSES = ("ACK", "RESULT", "FULL")
RESTRICTIONS = {"ONLY_NEW": ("NEW",), "ONLY_PARTIALLY_FILLED": ("PARTIALLY_FILLED",)}


def listing_of(call: Call) -> Listing:
    """The listing that the parameter `symbol` names. Raises BinanceError."""
    return call.gateway.market.listings.find(call.parameters.text("symbol"))


def market_view(call: Call, listing: Listing) -> MarketView:
    """The market of a symbol."""
    symbol = call.gateway.market.symbols[listing.name]
    return MarketView(symbol.last_ticks, lambda side: symbol.book.levels(1 - side))


def draft_order(call: Call, parameters: Parameters) -> Draft:
    """Creates a checked order from its parameters. Raises BinanceError."""
    listing = call.gateway.market.listings.find(parameters.text("symbol"))
    draft = read_order(listing, parameters, market_view(call, listing))
    check_client_id(call, draft)
    return draft


def check_client_id(call: Call, draft: Draft) -> None:
    """Raises BinanceError if an open order of the symbol has the same client id."""
    key, link = draft.template.client_key, call.account.link
    known = link.orders.by_client_id.get(key)
    if (known is not None and known.open) or key in link.pending_ids:
        raise refused("Duplicate order sent.")


async def placed(call: Call, draft: Draft) -> SpotOrder:
    """Sends an order; returns it once the exchange has accepted it. Raises BinanceError for a rejection."""
    report = accepted(
        await call.account.link.new(draft.record, draft.listing.number, draft.fields), draft.broken_filter()
    )
    return call.account.link.orders.by_id[report.order_id]


def response(order: SpotOrder, kind: str) -> Any:
    """The answer to a new order."""
    return {"ACK": as_json.ack, "RESULT": as_json.result, "FULL": as_json.full}[kind](order, order.time_ms)


def response_type(parameters: Parameters) -> str:
    """The parameter newOrderRespType; by default FULL for LIMIT and MARKET, ACK for other types."""
    default = "FULL" if parameters.values.get("type") in ("LIMIT", "MARKET") else "ACK"
    return parameters.choice("newOrderRespType", RESPONSES, -1137, "Invalid newOrderRespType.", default)


async def place(call: Call) -> Any:
    """POST order."""
    kind, draft = response_type(call.parameters), draft_order(call, call.parameters)
    call.account.link.require()
    call.gateway.limits.count_order(call.account.login)
    return response(await placed(call, draft), kind)


async def test(call: Call) -> Any:
    """POST order/test: checks an order without sending it."""
    response_type(call.parameters)
    draft_order(call, call.parameters)
    if not call.parameters.flag("computeCommissionRates"):
        return {}
    no_rates = {"maker": "0.00000000", "taker": "0.00000000"}
    rates = commission_rates(call, listing_of(call))
    return {"standardCommissionForOrder": rates, "taxCommissionForOrder": no_rates, "discount": {}}


def find_order(call: Call, error: BinanceError) -> SpotOrder:
    """The order of the request's symbol that orderId or origClientOrderId names. Raises BinanceError: `error` if there is none."""
    order = named_order(call, "orderId", "origClientOrderId")
    if order is None:
        raise error
    return order


def named_order(call: Call, id_name: str, client_name: str) -> SpotOrder | None:
    """The order of the request's symbol that one of these parameters names. Raises BinanceError if both are missing."""
    listing, parameters = listing_of(call), call.parameters
    order_id, client_id = parameters.integer(id_name), parameters.get(client_name)
    if order_id is None and client_id is None:
        raise BinanceError(-1102, f"Param '{client_name}' or '{id_name}' must be sent, but both were empty/null!")
    orders = call.account.link.orders
    order = (
        orders.by_id.get(order_id) if order_id is not None else orders.by_client_id.get((listing.name, client_id or ""))
    )
    if order is None or order.listing is not listing or (client_id is not None and order.client_id != client_id):
        return None
    return order


async def status(call: Call) -> Any:
    """GET order."""
    return as_json.status(find_order(call, order_does_not_exist()))


async def cancel_one(call: Call, order: SpotOrder, client_id: str) -> Any:
    """Cancels an order and with it the rest of its list; returns the answer. Raises BinanceError if the order is no longer open."""
    link = call.account.link
    future = link.amend(CommandKind.CANCEL, order.order_id)
    call.account.note_cancel(link.last_command_id, client_id)
    accepted(await future)
    return as_json.canceled(order, client_id, order.update_ms)


async def cancel(call: Call) -> Any:
    """DELETE order."""
    order = find_order(call, no_such_order())
    check_restriction(cancel_restriction(call), order)
    if not order.open:
        raise no_such_order()
    client_id = call.parameters.client_id("newClientOrderId") or new_client_id()
    if order.record.list_id < 0:
        return await cancel_one(call, order, client_id)
    orders = call.account.link.orders.lists[order.record.list_id]
    await cancel_one(call, head_of(orders) or order, client_id)
    return as_json.canceled_list(orders, client_id)


def cancel_restriction(call: Call) -> str:
    """The parameter cancelRestrictions; NONE by default. Raises BinanceError."""
    return call.parameters.choice(
        "cancelRestrictions", tuple(RESTRICTIONS), -1145, "Invalid cancelRestrictions.", "NONE"
    )


def check_restriction(restriction: str, order: SpotOrder) -> None:
    """Raises BinanceError if cancelRestrictions forbid cancelling the order."""
    if restriction != "NONE" and order.open and order.status not in RESTRICTIONS[restriction]:
        raise BinanceError(-2011, "Order was not canceled due to cancel restrictions.")


async def cancel_all(call: Call) -> Any:
    """DELETE openOrders."""
    listing, link = listing_of(call), call.account.link
    chosen = [order for order in link.orders.open.values() if order.listing is listing]
    if not chosen:
        raise no_such_order()
    accepted(await link.amend(CommandKind.MASS_CANCEL, listing.number, last=EventKind.MASS_CANCELLED))
    answers: list[Any] = []
    lists: set[int] = set()
    for order in chosen:
        list_id = order.record.list_id
        if list_id < 0 and not order.open:
            answers.append(as_json.canceled(order, order.client_id, order.update_ms))
        elif list_id >= 0 and not order.open and list_id not in lists:
            lists.add(list_id)
            answers.append(as_json.canceled_list(link.orders.lists[list_id]))
    return answers


async def replace(call: Call) -> Any:
    """POST order/cancelReplace: a cancel, then a new order with a new id."""
    parameters = call.parameters
    mode = parameters.choice(
        "cancelReplaceMode", ("STOP_ON_FAILURE", "ALLOW_FAILURE"), -1145, "Invalid cancelReplaceMode."
    )
    order, listing = named_order(call, "cancelOrderId", "cancelOrigClientOrderId"), listing_of(call)
    cancel_restriction(call)  # an invalid value refuses the whole request, not only the cancel
    kind, draft = response_type(parameters), read_order(listing, parameters, market_view(call, listing))
    if order is None or draft.template.client_id != order.client_id:
        check_client_id(call, draft)
    call.account.link.require()
    call.gateway.limits.count_order(call.account.login)
    return await _replace(call, order, draft, kind, stop=mode == "STOP_ON_FAILURE")


async def _cancel_replaced(call: Call, order: SpotOrder | None) -> Any:
    if order is None:
        raise no_such_order()
    check_restriction(cancel_restriction(call), order)
    return await cancel_one(call, order, call.parameters.client_id("cancelNewClientOrderId") or new_client_id())


async def _replace(call: Call, order: SpotOrder | None, draft: Draft, kind: str, *, stop: bool) -> Any:
    cancelled, created = "SUCCESS", "SUCCESS"
    cancel_answer: Any = None
    new_answer: Any = None
    try:
        cancel_answer = await _cancel_replaced(call, order)
    except BinanceError as error:
        cancelled, cancel_answer = "FAILURE", error.body()
    if cancelled == "FAILURE" and stop:
        created = "NOT_ATTEMPTED"
    else:
        try:
            check_client_id(call, draft)  # another request may have used it during the cancel
            new_answer = response(await placed(call, draft), kind)
        except BinanceError as error:
            created, new_answer = "FAILURE", error.body()
    answer = {
        "cancelResult": cancelled,
        "newOrderResult": created,
        "cancelResponse": cancel_answer,
        "newOrderResponse": new_answer,
    }
    if cancelled == created == "SUCCESS":
        return answer
    if "SUCCESS" in (cancelled, created):
        raise BinanceError(-2021, "Order cancel-replace partially failed.", 409, answer)
    raise BinanceError(-2022, "Order cancel-replace failed.", 400, answer)


async def amend(call: Call) -> Any:
    """PUT order/amend/keepPriority: a smaller quantity, which keeps the order's place in the queue."""
    async with call.account.amending(find_order(call, order_does_not_exist()).order_id):
        return await _amend(call, find_order(call, order_does_not_exist()))


async def _amend(call: Call, order: SpotOrder) -> Any:
    new_lots = order.listing.qty_lots("newQty", call.parameters.text("newQty"))
    if not order.open:
        raise BinanceError(-2038, "Order amend is not supported for this symbol: the order is not open.")
    if not order.qty_lots - order.leaves_lots < new_lots < order.qty_lots:
        raise BinanceError(
            -2038,
            "The requested action would change no state: newQty must be below the quantity and above what is executed or prevented.",
        )
    accepted(await call.account.link.amend(CommandKind.REDUCE, order.order_id, order.qty_lots - new_lots))
    return {"transactTime": order.update_ms, "executionId": len(order.amendments), "amendedOrder": _amended(order)}


def _amended(order: SpotOrder) -> Any:
    found = as_json.status(order)
    found["qty"] = found.pop("origQty")
    prevented = found.pop("preventedQuantity", as_json.ZERO)
    return {**found, "preventedQty": prevented, "cumulativeQuoteQty": found["cummulativeQuoteQty"]}


async def amendments(call: Call) -> Any:
    """GET order/amendments."""
    order = find_order(call, order_does_not_exist())
    qty = order.listing.quantities.text
    return [
        {
            "symbol": order.listing.name, "orderId": order.order_id, "executionId": number, "origClientOrderId": order.client_id,
            "newClientOrderId": order.client_id, "origQty": qty(before), "newQty": qty(after), "time": time_ms,
        }
        for number, (before, after, time_ms) in enumerate(order.amendments, 1)
    ]  # fmt: skip


async def open_orders(call: Call) -> Any:
    """GET openOrders."""
    name = call.parameters.get("symbol")
    listing = None if name is None else call.gateway.market.listings.find(name)
    call.account.link.require()
    orders = call.account.link.orders.open.values()
    return [as_json.status(order) for order in orders if listing is None or order.listing is listing]


async def all_orders(call: Call) -> Any:
    """GET allOrders."""
    listing, parameters = listing_of(call), call.parameters
    count = parameters.count("limit", 500, 1000)
    from_id, start_ms, end_ms = (parameters.integer(name) for name in ("orderId", "startTime", "endTime"))
    call.account.link.require()
    orders = [
        order
        for order in call.account.link.orders.by_id.values()
        if order.listing is listing
        and (from_id is None or order.order_id >= from_id)
        and (start_ms is None or order.time_ms >= start_ms)
        and (end_ms is None or order.time_ms <= end_ms)
    ]
    chosen = orders[-count:] if from_id is None and start_ms is None else orders[:count]
    return [as_json.status(order) for order in chosen]


async def my_trades(call: Call) -> Any:
    """GET myTrades."""
    listing, parameters = listing_of(call), call.parameters
    count = parameters.count("limit", 500, 1000)
    from_id, start_ms, end_ms, order_id = (
        parameters.integer(name) for name in ("fromId", "startTime", "endTime", "orderId")
    )
    call.account.link.require()
    trades = [
        trade
        for trade in call.account.link.orders.trades
        if trade.order.listing is listing
        and (from_id is None or trade.trade_id >= from_id)
        and (start_ms is None or trade.time_ms >= start_ms)
        and (end_ms is None or trade.time_ms <= end_ms)
        and (order_id is None or trade.order.order_id == order_id)
    ]
    chosen = trades[-count:] if from_id is None and start_ms is None else trades[:count]
    return [as_json.own_trade(trade) for trade in chosen]


def _test_weight(parameters: Parameters) -> int:
    return 20 if parameters.values.get("computeCommissionRates", "").lower() == "true" else 1


NAMED = "symbol orderId origClientOrderId"
CANCEL = f"{NAMED} newClientOrderId cancelRestrictions"
REPLACE = f"{ORDER} cancelReplaceMode cancelNewClientOrderId cancelOrigClientOrderId cancelOrderId cancelRestrictions orderRateLimitExceededMode"
ORDER_ENDPOINTS: dict[tuple[str, str], Endpoint] = {
    ("POST", "order"): signed(place, 1, ORDER),
    ("POST", "order/test"): signed(test, _test_weight, f"{ORDER} computeCommissionRates"),
    ("GET", "order"): signed(status, 4, NAMED),
    ("DELETE", "order"): signed(cancel, 1, CANCEL),
    ("POST", "order/cancelReplace"): signed(replace, 1, REPLACE),
    ("PUT", "order/amend/keepPriority"): signed(amend, 4, f"{NAMED} newClientOrderId newQty"),
    ("GET", "order/amendments"): signed(amendments, 4, f"{NAMED} fromExecutionId limit"),
    ("GET", "openOrders"): signed(open_orders, lambda parameters: 6 if "symbol" in parameters.values else 80, "symbol"),
    ("DELETE", "openOrders"): signed(cancel_all, 1, "symbol"),
    ("GET", "allOrders"): signed(all_orders, 20, "symbol orderId startTime endTime limit"),
    ("GET", "myTrades"): signed(
        my_trades,
        lambda parameters: 5 if "orderId" in parameters.values else 20,
        "symbol orderId startTime endTime fromId limit",
    ),
}
"""By method and the end of the path below /api/v3/."""
