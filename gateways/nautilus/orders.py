"""Converts NautilusTrader orders to commands of the exchange."""

from typing import Any, NamedTuple

from nautilus_trader.model.enums import (
    OrderSide,
    OrderType,
    TimeInForce,
    TrailingOffsetType,
    TriggerType,
    order_type_to_str,
    time_in_force_to_str,
    trailing_offset_type_to_str,
    trigger_type_to_str,
)
from nautilus_trader.model.objects import Price

from serl.exchange import records
from serl.exchange.errors import ConfigError
from serl.exchange.records import Side
from serl.exchange.terms import Terms
from serl.gateways.nautilus.instruments import SymbolUnits

TIMES_IN_FORCE = {
    TimeInForce.GTC: records.TimeInForce.GTC,
    TimeInForce.DAY: records.TimeInForce.DAY,
    TimeInForce.IOC: records.TimeInForce.IOC,
    TimeInForce.FOK: records.TimeInForce.FOK,
    TimeInForce.GTD: records.TimeInForce.GTT,
    TimeInForce.AT_THE_OPEN: records.TimeInForce.AT_OPEN,
    TimeInForce.AT_THE_CLOSE: records.TimeInForce.AT_CLOSE,
}
TYPES = (
    OrderType.MARKET,
    OrderType.LIMIT,
    OrderType.STOP_MARKET,
    OrderType.STOP_LIMIT,
    OrderType.TRAILING_STOP_MARKET,
)
LIMITS = (OrderType.LIMIT, OrderType.STOP_LIMIT)
STOPS = (OrderType.STOP_MARKET, OrderType.STOP_LIMIT, OrderType.TRAILING_STOP_MARKET)
TRIGGERS = (TriggerType.DEFAULT, TriggerType.LAST_PRICE)


class NewOrder(NamedTuple):
    """The arguments of `Session.new_order` after the symbol."""

    side: Side
    qty_lots: int
    price_ticks: int | None
    time_in_force: records.TimeInForce
    post_only: bool
    terms: Terms


def new_order(order: Any, units: SymbolUnits, expire_ns: int | None, link: int | None = None) -> NewOrder:
    """Converts an `Order` to a command.

    Args:
        expire_ns: exchange time at which a GTD order expires.
        link: order id of the other order of a one-cancels-other pair.

    Raises:
        ConfigError: the exchange has no such order; the text says what to do instead.
    """
    if order.order_type not in TYPES:
        kind = order_type_to_str(order.order_type)
        raise ConfigError(
            f"expected MARKET, LIMIT, STOP_MARKET, STOP_LIMIT or TRAILING_STOP_MARKET, got {kind}; let the node emulate it with emulation_trigger"
        )
    if order.is_quote_quantity:
        raise ConfigError("expected a quantity in units of the instrument, got one in money; convert it")
    tif = TIMES_IN_FORCE.get(order.time_in_force)
    if tif is None:
        raise ConfigError(f"expected a time in force of the exchange, got {time_in_force_to_str(order.time_in_force)}")
    price = units.ticks(order.price) if order.order_type in LIMITS else None
    display_lots, hidden = _display(order, units)
    stop_ticks, trail_ticks = stop_terms(order, units)
    terms = Terms(
        display_lots=display_lots, hidden=hidden, stop_ticks=stop_ticks, trail_ticks=trail_ticks,
        expire_ns=expire_ns if tif == records.TimeInForce.GTT else None, link=link, reduce_only=order.is_reduce_only,
    )  # fmt: skip
    side = Side.BUY if order.side == OrderSide.BUY else Side.SELL
    return NewOrder(side, units.lots(order.quantity), price, tif, order.is_post_only, terms)


def _display(order: Any, units: SymbolUnits) -> tuple[int | None, bool]:
    """(displayed lots of an iceberg, whether nothing is displayed)."""
    display = getattr(order, "display_qty", None)
    if display is None:
        return None, False
    return (units.lots(display), False) if display.raw else (None, True)


def stop_terms(order: Any, units: SymbolUnits) -> tuple[int | None, int | None]:
    """(stop price, trailing distance) in ticks."""
    if order.order_type not in STOPS:
        return None, None
    if order.trigger_type not in TRIGGERS:
        kind = trigger_type_to_str(order.trigger_type)
        raise ConfigError(
            f"expected a trigger by the last trade (DEFAULT, LAST_PRICE), got {kind}; let the node emulate it"
        )
    stop = None if order.trigger_price is None else units.ticks(order.trigger_price)
    if order.order_type != OrderType.TRAILING_STOP_MARKET:
        return stop, None
    offset, kind = order.trailing_offset, order.trailing_offset_type
    if kind == TrailingOffsetType.TICKS:
        return stop, int(offset)
    if kind == TrailingOffsetType.PRICE:
        return stop, units.ticks(Price(offset, units.price_places))
    raise ConfigError(
        f"expected a trailing offset in PRICE or TICKS, got {trailing_offset_type_to_str(kind)}; convert it or let the node emulate it"
    )
