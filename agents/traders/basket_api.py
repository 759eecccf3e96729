"""Functions for traders of a basket, in addition to trader_api.py. Leg 0 is the trader's own symbol, legs 1 to `market.legs` are the members."""

from typing import Any, LiteralString

from serl.agents.traders.addresses import load_float64, load_int64
from serl.agents.traders.records import LEG, LEG_SHIFT
from serl.agents.traders.trader_api import IOC, NEW, add_request
from serl.exchange.compiling import inlined


def _offset(field: LiteralString) -> int:
    assert LEG.fields is not None
    return int(LEG.fields[field][1])


_BYTES, _WEIGHT, _BASKET_TICKS = LEG.itemsize, _offset("weight"), _offset("basket_ticks")
_BID, _BID_LOTS, _ASK, _ASK_LOTS = (_offset(name) for name in ("bid_ticks", "bid_lots", "ask_ticks", "ask_lots"))
_POSITION, _ORDERS = _offset("position_lots"), _offset("orders_open")
_FEE_MICROTICKS, _FEE_PPM = _offset("taker_microticks"), _offset("taker_ppm")


@inlined
def leg_weight(market: Any, leg: int) -> float:
    """Lots of a leg in one lot of the basket; 1 for leg 0."""
    return load_float64(market.legs_address + leg * _BYTES + _WEIGHT)


@inlined
def leg_basket_ticks(market: Any, leg: int) -> float:
    """Ticks of the basket that a tick of the leg is worth, times its weight."""
    return load_float64(market.legs_address + leg * _BYTES + _BASKET_TICKS)


@inlined
def leg_bid_ticks(market: Any, leg: int) -> int:
    """Best bid; 0: none."""
    return load_int64(market.legs_address + leg * _BYTES + _BID)


@inlined
def leg_bid_lots(market: Any, leg: int) -> int:
    """Lots at the best bid."""
    return load_int64(market.legs_address + leg * _BYTES + _BID_LOTS)


@inlined
def leg_ask_ticks(market: Any, leg: int) -> int:
    """Best ask; 0: none."""
    return load_int64(market.legs_address + leg * _BYTES + _ASK)


@inlined
def leg_ask_lots(market: Any, leg: int) -> int:
    """Lots at the best ask."""
    return load_int64(market.legs_address + leg * _BYTES + _ASK_LOTS)


@inlined
def leg_position_lots(market: Any, leg: int) -> int:
    """The trader's position."""
    return load_int64(market.legs_address + leg * _BYTES + _POSITION)


@inlined
def leg_orders_open(market: Any, leg: int) -> int:
    """Number of the trader's open orders, including those in flight."""
    return load_int64(market.legs_address + leg * _BYTES + _ORDERS)


@inlined
def leg_taker_fee_ticks(market: Any, leg: int, price_ticks: int) -> float:
    """Fee for taking a lot, in ticks of the leg."""
    row = market.legs_address + leg * _BYTES
    return 1e-6 * (load_int64(row + _FEE_MICROTICKS) + price_ticks * load_int64(row + _FEE_PPM))


@inlined
def take_leg(requests: Any, leg: int, side: int, price_ticks: int, qty_lots: int) -> None:
    """Sends an IOC order in a leg: it trades up to its limit at once, and the remainder is cancelled."""
    if price_ticks > 0 and qty_lots > 0:
        add_request(requests, NEW | leg << LEG_SHIFT, side, price_ticks, qty_lots, IOC, 0)
