"""Converts NautilusTrader order modifications to REPLACE commands of the exchange."""

from typing import Any, NamedTuple

from serl.exchange.errors import ConfigError
from serl.exchange.terms import NO_TERMS, Terms
from serl.gateways.nautilus.instruments import SymbolUnits
from serl.gateways.nautilus.orders import STOPS, stop_terms
from serl.gateways.nautilus.own_orders import OwnOrder


class Change(NamedTuple):
    """A REPLACE under way.

    Attributes:
        qty_lots: the new total quantity.
        price_ticks: the new limit; 0 for a market order.
        terms: for an order that waits for its stop price.
        trigger_price: the new stop price in the node's representation; None if it does not change.
        keeps_priority: whether the order keeps its place in the queue.
    """

    qty_lots: int
    price_ticks: int
    terms: Terms
    trigger_price: Any
    keeps_priority: bool


def read_change(command: Any, order: Any, own: OwnOrder, units: SymbolUnits) -> Change:
    """Converts a `ModifyOrder` of an open order. Raises ConfigError if that is impossible; the text says what to do instead."""
    lots = units.lots(command.quantity) if command.quantity is not None else own.qty_lots
    ticks = units.ticks(command.price) if command.price is not None else own.price_ticks
    waits = order.order_type in STOPS and not own.is_triggered
    trigger = command.trigger_price
    if trigger is not None and trigger == order.trigger_price:
        trigger = None
    if trigger is not None and not waits:
        raise ConfigError("the order does not wait for a stop price; change its price and quantity only")
    keeps_priority = ticks == own.price_ticks and lots <= own.qty_lots and trigger is None
    return Change(lots, ticks, _terms(order, trigger, units) if waits else NO_TERMS, trigger, keeps_priority)


def _terms(order: Any, trigger: Any, units: SymbolUnits) -> Terms:
    """The terms to change a waiting order: only a REPLACE with terms can do so, so without a new stop price one of the order's terms is repeated."""
    stop_ticks, trail_ticks = stop_terms(order, units)
    if trigger is not None:
        return Terms(stop_ticks=units.ticks(trigger))
    return Terms(trail_ticks=trail_ticks) if trail_ticks is not None else Terms(stop_ticks=stop_ticks)
