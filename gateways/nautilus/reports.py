"""Converts own orders, fills and positions to the reports that NautilusTrader reconciles with."""

from decimal import Decimal
from typing import Any

from nautilus_trader.core.uuid import UUID4
from nautilus_trader.execution.reports import FillReport, OrderStatusReport, PositionStatusReport
from nautilus_trader.model.enums import (
    LiquiditySide,
    OrderSide,
    OrderStatus,
    OrderType,
    PositionSide,
    TimeInForce,
    TriggerType,
)
from nautilus_trader.model.identifiers import AccountId, ClientOrderId, TradeId, VenueOrderId
from nautilus_trader.model.objects import Money

from serl.exchange.account import Account
from serl.exchange.records import Reason
from serl.gateways.nautilus.instruments import SymbolUnits
from serl.gateways.nautilus.own_orders import Fill, OwnOrder

SIDES = (OrderSide.BUY, OrderSide.SELL)
EXPIRIES = (Reason.EXPIRED, Reason.DAY_END)
STOP_TYPES = (OrderType.STOP_MARKET, OrderType.STOP_LIMIT, OrderType.TRAILING_STOP_MARKET)


def venue_order_id(order_id: int) -> Any:
    """The id of an order at the exchange: the command id of its NEW."""
    return VenueOrderId(str(order_id))


def liquidity(fill: Fill) -> Any:
    """The liquidity side of a fill; in an auction everybody is a maker."""
    return LiquiditySide.MAKER if fill.is_maker else LiquiditySide.TAKER


def order_status(own: OwnOrder) -> Any:
    """The `OrderStatus` of an accepted order."""
    if own.open_lots:
        return OrderStatus.PARTIALLY_FILLED if own.fills else OrderStatus.ACCEPTED
    if own.reason in EXPIRIES:
        return OrderStatus.EXPIRED
    return OrderStatus.CANCELED if own.reason else OrderStatus.FILLED


def order_report(
    account: AccountId, instrument: Any, units: SymbolUnits, own: OwnOrder, cached: Any, times_ns: tuple[int, int, int]
) -> Any | None:
    """Creates an `OrderStatusReport`; None for a stop order that the node does not know, because no report contains its stop price.

    Args:
        cached: the node's `Order`, with the fields that reports lack (type, time in force and so on); or None.
        times_ns: (accepted, last change, now).
    """
    kind = cached.order_type if cached is not None else OrderType.LIMIT if own.price_ticks else OrderType.MARKET
    if cached is None and own.open_lots and not own.price_ticks:
        return None
    accepted_ns, last_ns, now_ns = times_ns
    trigger = cached.trigger_price if cached is not None and kind in STOP_TYPES else None
    filled = own.filled_lots
    total = sum(fill.qty_lots * fill.price_ticks for fill in own.fills)
    return OrderStatusReport(
        account_id=account, instrument_id=instrument.id, venue_order_id=venue_order_id(own.order_id),
        client_order_id=None if cached is None else cached.client_order_id,
        order_side=SIDES[own.side], order_type=kind,
        time_in_force=TimeInForce.GTC if cached is None else cached.time_in_force,
        order_status=order_status(own), quantity=units.quantity(max(own.qty_lots, filled, 1)), filled_qty=units.quantity(filled),
        price=units.price(own.price_ticks) if own.price_ticks else None,
        trigger_price=trigger, trigger_type=TriggerType.NO_TRIGGER if trigger is None else cached.trigger_type,
        avg_px=units.price(1).as_decimal() * total / filled if filled else None,
        cancel_reason=own.reason.name if own.reason else None,
        report_id=UUID4(), ts_accepted=accepted_ns, ts_last=last_ns, ts_init=now_ns,
    )  # fmt: skip


def fill_report(
    account: AccountId, instrument: Any, units: SymbolUnits, own: OwnOrder, fill: Fill, client_order_id: ClientOrderId | None,
    time_ns: int, now_ns: int,
) -> Any:  # fmt: skip
    """Creates a `FillReport`. Its commission is 0: the exchange reports fees by account, not by fill."""
    return FillReport(
        account_id=account, instrument_id=instrument.id, venue_order_id=venue_order_id(own.order_id), trade_id=TradeId(fill.trade_id),
        order_side=SIDES[own.side], last_qty=units.quantity(fill.qty_lots), last_px=units.price(fill.price_ticks),
        commission=Money(0, instrument.quote_currency), liquidity_side=liquidity(fill), client_order_id=client_order_id,
        report_id=UUID4(), ts_event=time_ns, ts_init=now_ns,
    )  # fmt: skip


def position_report(account: AccountId, instrument: Any, units: SymbolUnits, made: Account, now_ns: int) -> Any:
    """Creates a `PositionStatusReport` from the exchange's account."""
    lots = made.position_lots
    average = units.price(1).as_decimal() * Decimal(made.cost_ticks) / lots if lots else None
    side = PositionSide.LONG if lots > 0 else PositionSide.SHORT if lots < 0 else PositionSide.FLAT
    return PositionStatusReport(
        account_id=account, instrument_id=instrument.id, position_side=side, quantity=units.quantity(abs(lots)),
        avg_px_open=average, report_id=UUID4(), ts_last=now_ns, ts_init=now_ns,
    )  # fmt: skip
