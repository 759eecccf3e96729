"""Converts symbols of an exchange or a day to NautilusTrader instruments, and prices and quantities between the two."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nautilus_trader.model.enums import CurrencyType
from nautilus_trader.model.identifiers import InstrumentId, Symbol, Venue
from nautilus_trader.model.instruments import CurrencyPair, Equity
from nautilus_trader.model.objects import FIXED_PRECISION, Currency, Price, Quantity

from serl.exchange.errors import ConfigError
from serl.exchange.symbol_rules import NO_RULES, SymbolRules

SERL_VENUE = Venue("SERL")
CURRENCY_PRECISION = 8
"""Decimal places of a currency that NautilusTrader does not know, e.g. the base of an invented pair."""


@dataclass(frozen=True)
class SymbolUnits:
    """Converts between ticks and lots of a symbol and the raw integers of NautilusTrader, which are decimals times 10^`FIXED_PRECISION`.

    Attributes:
        tick_raw: raw price of a tick.
        lot_raw: raw quantity of a lot.
        price_places: decimal places of prices.
        size_places: decimal places of quantities.
    """

    name: str
    tick_raw: int
    lot_raw: int
    price_places: int
    size_places: int

    @classmethod
    def of(cls, name: str, tick_size: Decimal | str, lot_size: Decimal | str) -> "SymbolUnits":
        """Creates the units of a symbol. Raises ConfigError for sizes that NautilusTrader cannot represent."""
        tick, lot = Decimal(tick_size), Decimal(lot_size)
        for what, size in (("tick", tick), ("lot", lot)):
            if places(size) > FIXED_PRECISION:
                raise ConfigError(
                    f"{name}: expected a {what} size of at most {FIXED_PRECISION} decimal places for nautilus_trader, got {size}"
                )
        scale = 10**FIXED_PRECISION
        return cls(name, int(tick * scale), int(lot * scale), places(tick), places(lot))

    def price(self, price_ticks: int) -> Any:
        """Converts ticks to a `Price`."""
        return Price.from_raw(price_ticks * self.tick_raw, self.price_places)

    def quantity(self, qty_lots: int) -> Any:
        """Converts lots to a `Quantity`."""
        return Quantity.from_raw(qty_lots * self.lot_raw, self.size_places)

    def ticks(self, price: Any) -> int:
        """Converts a `Price` to ticks. Raises ConfigError if it lies between two ticks."""
        ticks, rest = divmod(price.raw, self.tick_raw)
        if rest:
            raise ConfigError(
                f"{self.name}: expected a price that is a multiple of {self.price(1)}, got {price}; round it with instrument.make_price"
            )
        return int(ticks)

    def lots(self, quantity: Any) -> int:
        """Converts a `Quantity` to lots. Raises ConfigError if it lies between two lots."""
        lots, rest = divmod(quantity.raw, self.lot_raw)
        if rest:
            raise ConfigError(
                f"{self.name}: expected a quantity that is a multiple of {self.quantity(1)}, got {quantity}"
            )
        return int(lots)


def places(size: Decimal) -> int:
    """Decimal places that a size needs: 2 for 0.01 and 0.010, 0 for 1 and 10."""
    exponent = size.normalize().as_tuple().exponent
    return max(0, -int(exponent))


def instrument_id(name: str) -> Any:
    """The `InstrumentId` of a symbol, like AMZN.SERL."""
    return InstrumentId(Symbol(name), SERL_VENUE)


def instrument_of(
    name: str,
    tick_size: Decimal | str,
    lot_size: Decimal | str,
    currency: str = "USD",
    time_ns: int = 0,
    rules: SymbolRules = NO_RULES,
) -> Any:
    """Creates an `Equity`, or a `CurrencyPair` if lots are fractions of a unit or the name is a pair like BTC-USDT or ETH/USD.

    rules: what quantities and prices must fit. An instrument has one price increment, so it fits at every level of a tick table.
    Raises ConfigError for sizes that NautilusTrader cannot represent.
    """
    units = SymbolUnits.of(name, tick_size, lot_size)
    least, price_increment = units.quantity(rules.lot_multiple), units.price(rules.common_multiple)
    base, quote = pair(name)
    common = {
        "instrument_id": instrument_id(name),
        "raw_symbol": Symbol(name),
        "price_precision": units.price_places,
        "price_increment": price_increment,
        "lot_size": least,
        "min_quantity": least,
        "ts_event": time_ns,
        "ts_init": time_ns,
    }
    if not quote and not units.size_places:
        return Equity(currency=currency_of(currency), **common)
    return CurrencyPair(
        base_currency=currency_of(base),
        quote_currency=currency_of(quote or currency),
        size_precision=units.size_places,
        size_increment=least,
        **common,
    )


def pair(name: str) -> tuple[str, str]:
    """(base, quote) of a name like BTC-USDT or ETH/USD; (name, "") of others."""
    for separator in "/-_":
        base, found, quote = name.partition(separator)
        if found and base.isalnum() and quote.isalnum():
            return base, quote
    return name, ""


def currency_of(code: str) -> Any:
    """The `Currency` with this code; a new one if NautilusTrader does not know it."""
    known = Currency.from_str(code, strict=True) if code.isascii() else None
    if known is None:
        known = Currency(code, CURRENCY_PRECISION, 0, code, CurrencyType.CRYPTO)
        Currency.register(known)
    return known
