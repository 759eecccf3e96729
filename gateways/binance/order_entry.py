"""New orders: converts Binance's parameters, checked as Binance checks them, to commands of the exchange."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from serl.clients.book import Level
from serl.exchange.records import CommandFlag, SelfTrade, Side, TimeInForce
from serl.exchange.terms import NO_TERMS, Terms
from serl.gateways.binance.errors import BinanceError, filter_failure, refused
from serl.gateways.binance.link import NewOrder
from serl.gateways.binance.listing import ORDER_TYPES, STP_MODES, Listing
from serl.gateways.binance.order_file import OrderRecord
from serl.gateways.binance.parameters import Parameters
from serl.gateways.binance.scale import number_text

TIMES = {"GTC": TimeInForce.GTC, "IOC": TimeInForce.IOC, "FOK": TimeInForce.FOK}
STP = dict(
    zip(
        STP_MODES,
        (SelfTrade.NONE, SelfTrade.NEWEST, SelfTrade.OLDEST, SelfTrade.BOTH, SelfTrade.DECREMENT),
        strict=True,
    )
)
SIDES = {"BUY": Side.BUY, "SELL": Side.SELL}
SIDE_NAMES = ("BUY", "SELL")
TAKE_PROFIT = ("TAKE_PROFIT", "TAKE_PROFIT_LIMIT")
"""Types that wait for a trade at their stop price or better: the book's if-touched orders."""
NEEDS = {
    "LIMIT": ("timeInForce", "quantity", "price"),
    "LIMIT_MAKER": ("quantity", "price"),
    "MARKET": (),
    "STOP_LOSS": ("quantity", "stopPrice"),
    "STOP_LOSS_LIMIT": ("timeInForce", "quantity", "price", "stopPrice"),
    "TAKE_PROFIT": ("quantity", "stopPrice"),
    "TAKE_PROFIT_LIMIT": ("timeInForce", "quantity", "price", "stopPrice"),
}
"""The mandatory parameters of each order type, in addition to symbol, side and type."""
FORBIDS = {
    "LIMIT": ("stopPrice", "quoteOrderQty"),
    "LIMIT_MAKER": ("stopPrice", "quoteOrderQty", "timeInForce"),
    "MARKET": ("stopPrice", "price", "timeInForce", "icebergQty"),
    "STOP_LOSS": ("price", "timeInForce", "icebergQty", "quoteOrderQty"),
    "STOP_LOSS_LIMIT": ("quoteOrderQty",),
    "TAKE_PROFIT": ("price", "timeInForce", "icebergQty", "quoteOrderQty"),
    "TAKE_PROFIT_LIMIT": ("quoteOrderQty",),
}


class MarketView(NamedTuple):
    """A symbol's market, as the gateway knows it.

    Attributes:
        last_ticks: price of the last trade; 0 for none.
        levels: the opposite side of the book, best first, by the order's side.
    """

    last_ticks: int
    levels: Callable[[int], list[Level]]


class Draft(NamedTuple):
    """A checked order that has no id yet."""

    listing: Listing
    fields: NewOrder
    template: OrderRecord

    def record(self, order_id: int) -> OrderRecord:
        """The record under an order id."""
        return self.template._replace(order_id=order_id)

    def broken_filter(self) -> BinanceError | None:
        """The filter that its stop price or displayed quantity breaks, by the symbol's rules as the exchange told them last."""
        rules, stop_ticks = self.listing.rules, self.template.stop_ticks
        if stop_ticks % rules.multiple_at(stop_ticks):
            return filter_failure("PRICE_FILTER")
        return filter_failure("LOT_SIZE") if self.template.display_lots % rules.lot_multiple else None


def read_order(listing: Listing, parameters: Parameters, market: MarketView) -> Draft:
    """Creates a new order from its parameters. Raises BinanceError."""
    side = SIDES[parameters.choice("side", SIDE_NAMES, -1117, "Invalid side.")]
    kind = parameters.choice("type", ORDER_TYPES, -1116, "Invalid orderType.")
    if parameters.get("trailingDelta") is not None:
        raise refused("Trailing stop orders are not supported for this symbol.")
    for name in NEEDS[kind]:
        parameters.text(name)
    for name in FORBIDS[kind]:
        if parameters.get(name) is not None:
            raise BinanceError(-1106, f"Parameter '{name}' sent when not required.")
    tif = parameters.choice("timeInForce", tuple(TIMES), -1115, "Invalid timeInForce.", "GTC")
    price = parameters.get("price")
    price_ticks = 0 if price is None else listing.price_ticks("price", price)
    stop_ticks = _stop_ticks(listing, parameters, kind, side, market)
    qty_lots, quote_qty = 0, parameters.get("quoteOrderQty") or ""
    sent_ticks, flags = price_ticks, 0
    if kind == "MARKET" and quote_qty:
        if parameters.get("quantity") is not None:
            raise BinanceError(-1106, "Parameter 'quoteOrderQty' sent when not required.")
        qty_lots, sent_ticks = spend(listing, quote_qty, market.levels(side))
    else:
        qty_lots = listing.qty_lots("quantity", parameters.text("quantity"))
        if kind in ("MARKET", "STOP_LOSS", "TAKE_PROFIT"):
            flags = int(CommandFlag.MARKET)
    if kind == "LIMIT_MAKER":
        flags = int(CommandFlag.POST_ONLY)
    display_lots = _display_lots(listing, parameters, qty_lots, tif)
    stp = parameters.choice("selfTradePreventionMode", STP_MODES, -1014, "Unsupported order combination.", "NONE")
    immediate = kind == "MARKET"
    terms = NO_TERMS
    if stop_ticks or display_lots or stp != "NONE":
        stop, touch = (None, stop_ticks) if kind in TAKE_PROFIT else (stop_ticks or None, None)
        terms = Terms(
            stop_ticks=stop, touch_ticks=touch, display_lots=display_lots or None, self_trade=STP[stp] if stp != "NONE" else None
        )  # fmt: skip
    fields = NewOrder(TimeInForce.IOC if immediate else TIMES[tif], flags, terms)
    client_id = parameters.client_id("newClientOrderId") or new_client_id()
    record = OrderRecord(
        0, listing.name, int(side), sent_ticks, qty_lots, client_id, kind, tif, price_ticks, stop_ticks, display_lots, quote_qty, stp,
        _strategy(parameters, "strategyId"), strategy_type=_strategy(parameters, "strategyType"),
    )  # fmt: skip
    return Draft(listing, fields, record)


def _strategy(parameters: Parameters, name: str) -> int:
    """A number of the client's strategy; -1 for none."""
    number = parameters.integer(name)
    return -1 if number is None else number


def new_client_id() -> str:
    """Creates an order id for a client that chose none."""
    return secrets.token_hex(11)


def _stop_ticks(listing: Listing, parameters: Parameters, kind: str, side: int, market: MarketView) -> int:
    stop = parameters.get("stopPrice")
    if stop is None:
        return 0
    ticks = listing.price_ticks("stopPrice", stop)
    check_stop(ticks, side, market.last_ticks, better=kind in TAKE_PROFIT)
    return ticks


def check_stop(stop_ticks: int, side: int, last_ticks: int, *, better: bool = False) -> None:
    """Raises BinanceError for a stop that the last trade has already reached. better: it waits for a better price, like a take-profit."""
    rises = (side == Side.BUY) != better
    if last_ticks and (last_ticks >= stop_ticks if rises else last_ticks <= stop_ticks):
        raise refused("Stop price would trigger immediately.")


def _display_lots(listing: Listing, parameters: Parameters, qty_lots: int, tif: str) -> int:
    """The displayed lots of an iceberg; 0 if it is not an iceberg."""
    shown = parameters.get("icebergQty")
    if shown is None or not shown.strip("0."):
        return 0
    lots = listing.qty_lots("icebergQty", shown)
    if tif != "GTC":
        raise BinanceError(-1014, "Unsupported order combination.")
    if lots > qty_lots:
        raise BinanceError(-1013, "Filter failure: ICEBERG_PARTS")
    return lots if lots < qty_lots else 0


def spend(listing: Listing, quote_qty: str, levels: list[Level]) -> tuple[int, int]:
    """(quantity, limit) of a market order for an amount of the quote asset: as many lots as the displayed book sells for it, and the price of
    the last one. Lots that are gone when the order arrives remain unfilled. Raises BinanceError."""
    places = listing.amounts.places
    whole, _, part = number_text("quoteOrderQty", quote_qty).partition(".")
    left = int(whole + part[:places].ljust(places, "0")) // int(listing.amounts.unit * 10**places)
    qty_lots, limit_ticks = 0, 0
    for level in levels:
        lots = min(level.qty_lots, left // level.price_ticks, listing.qty_lots_max - qty_lots)
        if not lots:
            break
        qty_lots, limit_ticks, left = qty_lots + lots, level.price_ticks, left - lots * level.price_ticks
        if lots < level.qty_lots:
            break  # a worse bid would let it sell one lot more, at this level, for more than the amount
    if not levels:
        raise refused("Order was rejected: there is no liquidity on the other side of the book.")
    qty_lots = listing.rules.whole_lots(qty_lots)
    if not qty_lots:
        raise filter_failure("LOT_SIZE")
    return qty_lots, limit_ticks
