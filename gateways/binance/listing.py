"""A symbol of the exchange as Binance lists it: base and quote asset, filters, numbers as text."""

import re
from collections.abc import Iterable
from typing import Any

from serl.clients.errors import RequestRejected
from serl.clients.session import Instrument
from serl.exchange.config import DEFAULT_QUOTE
from serl.exchange.errors import ConfigError
from serl.exchange.records import MICRO
from serl.exchange.symbol_rules import SymbolRules
from serl.gateways.binance.errors import BinanceError, bad_symbol, filter_failure
from serl.gateways.binance.scale import Scale

ORDER_TYPES = ("LIMIT", "LIMIT_MAKER", "MARKET", "STOP_LOSS", "STOP_LOSS_LIMIT", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT")
LEGAL_NAME = "^[A-Z0-9-_.]{1,20}$"
STP_MODES = ("NONE", "EXPIRE_TAKER", "EXPIRE_MAKER", "EXPIRE_BOTH", "DECREMENT")


class Listing:
    """One symbol.

    Attributes:
        name: Binance's name, for example DEMOUSDT of the exchange's symbol DEMO, or of one with these two assets.
        base: the asset that is traded.
        quote: the asset that pays for it.
        prices, quantities, amounts, commissions: convert ticks, lots, ticks x lots and microticks x lots to text.
        rules: what quantities and prices must fit, as the exchange told last.
    """

    def __init__(self, instrument: Instrument, base: str, quote: str, limits: dict[str, Any]) -> None:
        self.instrument, self.base, self.quote = instrument, base, quote
        self.number = instrument.number
        self.name = f"{base}{quote}"
        self.stream = self.name.lower()
        self.prices, self.quantities = Scale(instrument.tick_size), Scale(instrument.lot_size)
        self.amounts = Scale(instrument.tick_size * instrument.lot_size)
        self.commissions = Scale(instrument.tick_size * instrument.lot_size / MICRO)
        self.rules = SymbolRules()
        self.price_ticks_max = int(limits.get("price_ticks_max", 1_000_000_000))
        self.qty_lots_max = int(limits.get("qty_lots_max", 1_000_000))

    def price_ticks(self, name: str, text: str) -> int:
        """Converts a price parameter to ticks. Raises BinanceError if PRICE_FILTER refuses it."""
        ticks = self.prices.units(name, text)
        if ticks is None or not 1 <= ticks <= self.price_ticks_max:
            raise filter_failure("PRICE_FILTER")
        return ticks

    def qty_lots(self, name: str, text: str) -> int:
        """Converts a quantity parameter to lots. Raises BinanceError if LOT_SIZE refuses it."""
        lots = self.quantities.units(name, text)
        if lots is None or not 1 <= lots <= self.qty_lots_max:
            raise filter_failure("LOT_SIZE")
        return lots

    def filters(self) -> list[dict[str, Any]]:
        """The filters of exchangeInfo. There is one tick size for all prices, so it fits at every level of a tick table."""
        lot, tick = self.quantities.text(self.rules.lot_multiple), self.prices.text(self.rules.common_multiple)
        size = {"minQty": lot, "maxQty": self.quantities.text(self.qty_lots_max), "stepSize": lot}
        most = self.amounts.text(self.price_ticks_max * self.qty_lots_max)
        return [
            {"filterType": "PRICE_FILTER", "minPrice": tick, "maxPrice": self.prices.text(self.price_ticks_max), "tickSize": tick},
            {"filterType": "LOT_SIZE", **size},
            {"filterType": "MARKET_LOT_SIZE", **size},
            {"filterType": "NOTIONAL", "minNotional": self.amounts.text(1), "applyMinToMarket": False, "maxNotional": most, "applyMaxToMarket": False, "avgPriceMins": 5},
            {"filterType": "ICEBERG_PARTS", "limit": self.qty_lots_max},
        ]  # fmt: skip

    def describe(self, trading: bool) -> dict[str, Any]:
        """The entry of exchangeInfo."""
        places = self.prices.places
        return {
            "symbol": self.name, "status": "TRADING" if trading else "BREAK", "baseAsset": self.base, "baseAssetPrecision": self.quantities.places,
            "quoteAsset": self.quote, "quotePrecision": places, "quoteAssetPrecision": places, "baseCommissionPrecision": 8,
            "quoteCommissionPrecision": 8, "orderTypes": list(ORDER_TYPES), "icebergAllowed": True, "ocoAllowed": True, "otoAllowed": True,
            "quoteOrderQtyMarketAllowed": True, "allowTrailingStop": False, "cancelReplaceAllowed": True, "amendAllowed": True, "pegInstructionsAllowed": False,
            "isSpotTradingAllowed": True, "isMarginTradingAllowed": False, "filters": self.filters(), "permissions": [], "permissionSets": [["SPOT"]],
            "defaultSelfTradePreventionMode": "NONE", "allowedSelfTradePreventionModes": list(STP_MODES),
        }  # fmt: skip


class Listings:
    """All symbols, by name and by the exchange's number. `assets`: base and quote of each, by number; `quote`: this gateway's name for the
    exchange's default currency. Raises ConfigError if two symbols or assets would have the same name."""

    def __init__(
        self, instruments: dict[str, Instrument], assets: list[list[str]], quote: str, limits: dict[str, Any]
    ) -> None:
        self.by_name: dict[str, Listing] = {}
        self.by_number: dict[int, Listing] = {}
        used = {asset for pair in assets for asset in pair}
        if DEFAULT_QUOTE in used and quote in used and quote != DEFAULT_QUOTE:
            raise ConfigError(
                f"--quote: expected another name than that of an asset of the exchange, for its {DEFAULT_QUOTE}, got {quote}; give one, "
                f"like {DEFAULT_QUOTE}"
            )
        self.quote = quote
        for instrument in instruments.values():
            base, quote_asset = map(self.asset, assets[instrument.number])
            listing = Listing(instrument, base, quote_asset, limits)
            if listing.name in self.by_name:
                raise ConfigError(
                    f"expected symbols that differ by more than case, got {instrument.name} twice; rename one"
                )
            self.by_name[listing.name] = self.by_number[listing.number] = listing

    def are(self, instruments: Iterable[Instrument]) -> bool:
        """Whether the exchange still has the symbols under their numbers: with others, orders would go to other books."""
        found = {instrument.name: instrument for instrument in instruments}
        return all(found.get(listing.instrument.name) == listing.instrument for listing in self.by_name.values())

    def require_same(self, instruments: Iterable[Instrument]) -> None:
        """Raises RequestRejected unless `are`."""
        if not self.are(instruments):
            raise RequestRejected(
                "symbols", "expected the symbols that the exchange had, got others; restart the gateway"
            )

    def asset(self, name: str) -> str:
        """This gateway's name for an asset of the exchange."""
        return self.quote if name == DEFAULT_QUOTE else name.upper()

    @property
    def assets(self) -> list[str]:
        """All assets, quote assets first."""
        listings = self.by_name.values()
        return list(dict.fromkeys([*(each.quote for each in listings), *(each.base for each in listings)]))

    def find(self, name: str) -> Listing:
        """A listing by its name. Raises BinanceError."""
        if (found := self.by_name.get(name)) is not None:
            return found
        if not re.fullmatch(LEGAL_NAME, name):
            raise BinanceError(-1100, f"Illegal characters found in parameter 'symbol'; legal range is '{LEGAL_NAME}'.")
        raise bad_symbol()
