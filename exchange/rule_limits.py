"""Checks the configured rules of a symbol against the exchange's limits and each other."""

from datetime import time
from typing import TYPE_CHECKING

from serl.exchange.errors import ConfigError

if TYPE_CHECKING:
    from serl.exchange.config import LimitsConfig, SymbolConfig


def check_rules(symbol: "SymbolConfig", limits: "LimitsConfig") -> None:
    """Raises ConfigError for a rule that the order book would reject, and the exchange then run without."""
    ticks = {"band_low_ticks": symbol.band_low_ticks, "band_high_ticks": symbol.band_high_ticks}
    ticks |= {f"tick_table.{start}": max(start, multiple) for start, multiple in symbol.tick_table.items()}
    values = {"lot_multiple": (symbol.lot_multiple, "qty_lots_max", limits.qty_lots_max)}
    values |= {name: (value, "price_ticks_max", limits.price_ticks_max) for name, value in ticks.items()}
    for name, (value, limit, most) in values.items():
        if value > most:
            raise ConfigError(f"symbols.{symbol.name}.{name}: expected at most {most} (limits.{limit}), got {value}")
    times = [time.fromisoformat(entry.at) for entry in symbol.day]
    if len(set(times)) < len(times):
        raise ConfigError(f"symbols.{symbol.name}.day: expected each time once, got one twice; remove an entry")
    _check_band(symbol, limits.price_ticks_max)
    if 0 < symbol.band_high_ticks < symbol.band_low_ticks:
        raise ConfigError(
            f"symbols.{symbol.name}.band_low_ticks: expected at most band_high_ticks ({symbol.band_high_ticks}), got {symbol.band_low_ticks}"
        )


def _check_band(symbol: "SymbolConfig", price_ticks_max: int) -> None:
    where = f"symbols.{symbol.name}"
    if symbol.band_ppm is not None and (symbol.band_low_ticks or symbol.band_high_ticks):
        raise ConfigError(
            f"{where}.band_ppm: expected a band that follows the market, or fixed band_low_ticks and band_high_ticks, got both; remove one"
        )
    if symbol.reference_ticks is not None and symbol.band_ppm is None:
        raise ConfigError(f"{where}.reference_ticks: expected band_ppm with it, got none; set band_ppm too")
    if (symbol.reference_ticks or 0) >= price_ticks_max:
        raise ConfigError(
            f"{where}.reference_ticks: expected a price below limits.price_ticks_max ({price_ticks_max}), got {symbol.reference_ticks}"
        )
