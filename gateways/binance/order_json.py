"""Converts orders, trades and executions to Binance's JSON objects."""

from typing import Any

from serl.gateways.binance.order_entry import SIDE_NAMES
from serl.gateways.binance.orders import Execution, OwnTrade, SpotOrder

ZERO = "0.00000000"
Json = dict[str, Any]


def _commission(trade: OwnTrade) -> str:
    """The fee of a trade in the quote asset; 0 if it is not known."""
    return trade.order.listing.commissions.text(trade.charge.fee or 0)


def _optional(order: SpotOrder) -> Json:
    record, listing = order.record, order.listing
    found: Json = {}
    if record.stop_ticks:
        found["stopPrice"] = listing.prices.text(record.stop_ticks)
    if record.display_lots:
        found["icebergQty"] = listing.quantities.text(record.display_lots)
    return found | _strategy(order) | _prevented(order)


def _strategy(order: SpotOrder, id_name: str = "strategyId", type_name: str = "strategyType") -> Json:
    """The numbers of the client's strategy; as at Binance only those that it sent."""
    found = {id_name: order.record.strategy_id, type_name: order.record.strategy_type}
    return {name: number for name, number in found.items() if number >= 0}


def _prevented(order: SpotOrder) -> Json:
    """The quantity that self-trade prevention took off; as at Binance only if there is any."""
    return {"preventedQuantity": order.listing.quantities.text(order.prevented_lots)} if order.prevented_lots else {}


def ack(order: SpotOrder, time_ms: int) -> Json:
    """The answer ACK to a new order."""
    return {
        "symbol": order.listing.name, "orderId": order.order_id, "orderListId": order.record.list_id, "clientOrderId": order.client_id,
        "transactTime": time_ms,
    }  # fmt: skip


def _amounts(order: SpotOrder) -> Json:
    listing, record = order.listing, order.record
    return {
        "price": listing.prices.text(order.price_ticks), "origQty": listing.quantities.text(order.qty_lots),
        "executedQty": listing.quantities.text(order.filled_lots), "origQuoteOrderQty": record.quote_qty or ZERO,
        "cummulativeQuoteQty": listing.amounts.text(order.filled_amount), "status": order.status, "timeInForce": record.time_in_force,
        "type": record.type, "side": SIDE_NAMES[record.side],
    }  # fmt: skip


def result(order: SpotOrder, time_ms: int) -> Json:
    """The answer RESULT to a new order."""
    return {
        **ack(order, time_ms), **_amounts(order), **_optional(order), "workingTime": order.working_ms,
        "selfTradePreventionMode": order.record.stp,
    }  # fmt: skip


def full(order: SpotOrder, time_ms: int) -> Json:
    """The answer FULL to a new order."""
    listing = order.listing
    fills = [
        {
            "price": listing.prices.text(trade.price_ticks), "qty": listing.quantities.text(trade.qty_lots), "commission": _commission(trade),
            "commissionAsset": listing.quote, "tradeId": trade.trade_id,
        }
        for trade in order.trades
    ]  # fmt: skip
    return {**result(order, time_ms), "fills": fills}


def canceled(order: SpotOrder, client_id: str, time_ms: int) -> Json:
    """The answer to a cancel. client_id: that of the cancel."""
    return {
        **ack(order, time_ms), "origClientOrderId": order.client_id, "clientOrderId": client_id, **_amounts(order), **_optional(order),
        "selfTradePreventionMode": order.record.stp,
    }  # fmt: skip


def status(order: SpotOrder) -> Json:
    """An order as queries return it."""
    listing, record = order.listing, order.record
    return {
        "symbol": listing.name, "orderId": order.order_id, "orderListId": record.list_id, "clientOrderId": order.client_id, **_amounts(order),
        "stopPrice": listing.prices.text(record.stop_ticks), "icebergQty": listing.quantities.text(record.display_lots),
        "time": order.time_ms, "updateTime": order.update_ms, "isWorking": order.working, "workingTime": order.working_ms,
        "selfTradePreventionMode": record.stp,
        **_strategy(order), **_prevented(order),
    }  # fmt: skip


def own_trade(trade: OwnTrade) -> Json:
    """A row of myTrades."""
    order = trade.order
    listing = order.listing
    return {
        "symbol": listing.name, "id": trade.trade_id, "orderId": order.order_id, "orderListId": order.record.list_id,
        "price": listing.prices.text(trade.price_ticks), "qty": listing.quantities.text(trade.qty_lots),
        "quoteQty": listing.amounts.text(trade.price_ticks * trade.qty_lots), "commission": _commission(trade), "commissionAsset": listing.quote,
        "time": trade.time_ms, "isBuyer": order.record.side == 0, "isMaker": trade.maker, "isBestMatch": True,
    }  # fmt: skip


def execution_report(execution: Execution, cancel_id: str, now_ms: int) -> Json:
    """An event executionReport. cancel_id: the client's id of the cancel, "" if the client sent none."""
    order, trade = execution.order, execution.trade
    listing, record = order.listing, order.record
    is_cancel = execution.kind == "CANCELED"
    resting = order.working and execution.status in ("NEW", "PARTIALLY_FILLED")
    qty = listing.quantities.text
    prevented = {"A": qty(order.prevented_lots), "B": qty(execution.prevented_lots)} if execution.prevented_lots else {}
    return {
        "e": "executionReport", "E": now_ms, "s": listing.name, "c": (cancel_id or order.client_id) if is_cancel else order.client_id,
        "S": SIDE_NAMES[record.side], "o": record.type, "f": record.time_in_force, "q": listing.quantities.text(order.qty_lots),
        "p": listing.prices.text(order.price_ticks), "P": listing.prices.text(record.stop_ticks),
        "F": listing.quantities.text(record.display_lots), "g": record.list_id, "C": order.client_id if is_cancel else "",
        "x": execution.kind, "X": execution.status, "r": "NONE", "i": order.order_id, "l": listing.quantities.text(trade.qty_lots if trade else 0),
        "z": listing.quantities.text(execution.filled_lots), "L": listing.prices.text(trade.price_ticks if trade else 0), "n": _commission(trade) if trade else "0",
        "N": listing.quote if trade else None, "T": execution.time_ms, "t": trade.trade_id if trade else -1, "I": execution.sequence, "w": resting,
        "m": trade is not None and trade.maker, "M": trade is not None, "O": order.time_ms, "Z": listing.amounts.text(execution.filled_amount),
        "Y": listing.amounts.text(trade.price_ticks * trade.qty_lots if trade else 0), "Q": record.quote_qty or ZERO, "W": order.working_ms, "V": record.stp,
        **_strategy(order, "j", "J"), **prevented,
    }  # fmt: skip


def list_is_open(orders: list[SpotOrder]) -> bool:
    """Whether an order of a list can still trade."""
    return any(order.open for order in orders)


def order_list(orders: list[SpotOrder]) -> Json:
    """An order list as queries return it."""
    record, is_open = orders[0].record, list_is_open(orders)
    shown = sorted(orders, key=lambda order: order.record.pending)
    return {
        "orderListId": record.list_id, "contingencyType": record.list_type, "listStatusType": "EXEC_STARTED" if is_open else "ALL_DONE",
        "listOrderStatus": "EXECUTING" if is_open else "ALL_DONE", "listClientOrderId": record.list_client_id,
        "transactionTime": max(order.update_ms for order in orders), "symbol": orders[0].listing.name,
        "orders": [{"symbol": order.listing.name, "orderId": order.order_id, "clientOrderId": order.client_id} for order in shown],
    }  # fmt: skip


def canceled_list(orders: list[SpotOrder], client_id: str | None = None) -> Json:
    """The answer to a cancel of an order list. client_id: that of the cancel; None: each order's own."""
    gone = [order for order in orders if order.status == "CANCELED"]
    reports = [canceled(order, client_id or order.client_id, order.update_ms) for order in gone]
    return {**order_list(orders), "orderReports": reports}


def list_status(orders: list[SpotOrder], now_ms: int) -> Json:
    """An event listStatus."""
    found = order_list(orders)
    return {
        "e": "listStatus", "E": now_ms, "s": found["symbol"], "g": found["orderListId"], "c": found["contingencyType"],
        "l": found["listStatusType"], "L": found["listOrderStatus"], "r": "NONE", "C": found["listClientOrderId"],
        "T": found["transactionTime"], "O": [{"s": each["symbol"], "i": each["orderId"], "c": each["clientOrderId"]} for each in found["orders"]],
    }  # fmt: skip
