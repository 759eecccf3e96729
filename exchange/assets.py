"""Assets by name, and their units; docs/orders.md, Assets and balance checks."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import gcd

import numpy as np

from serl.exchange.account_config import AccountConfig
from serl.exchange.config import SymbolConfig
from serl.exchange.errors import ConfigError
from serl.exchange.records import ASSET_COLUMNS, DEPOSITS_MAX, MICRO, UNITS_MAX

_AMOUNT = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,2})?")
"""A decimal number. The exponent is short because computing a larger power alone takes minutes."""


class Assets:
    """The assets of an exchange.

    Attributes:
        names: names by asset number - 1; "" for numbers that no asset has.
        units: the size of each asset's unit.
        rows: Snapshot.assets, int64 (symbols, ASSET_COLUMNS).
    """

    def __init__(self, symbols: Sequence[SymbolConfig]) -> None:
        """Numbers the assets: a base asset has the number of the first symbol that trades it, plus 1; the others follow. Raises ConfigError if
        units are too small."""
        count = len(symbols)
        bases = [symbol.base or symbol.name for symbol in symbols]
        numbers: dict[str, int] = {}
        for place, name in enumerate(bases):
            numbers.setdefault(name, place + 1)
        for symbol in symbols:
            if symbol.quote not in numbers:
                numbers[symbol.quote] = count + 1 + sum(number > count for number in numbers.values())
        lots = [Fraction(symbol.lot_size) for symbol in symbols]
        amounts = [Fraction(symbol.tick_size) * lot for symbol, lot in zip(symbols, lots, strict=True)]
        used: dict[str, list[Fraction]] = {name: [] for name in numbers}
        for name, size in (*zip(bases, lots, strict=True), *zip((s.quote for s in symbols), amounts, strict=True)):
            used[name].append(size)
        units = {name: reduce(_common, sizes) for name, sizes in used.items()}
        self.names, self.units = [""] * (2 * count), [Fraction(0)] * (2 * count)
        for name, number in numbers.items():
            self.names[number - 1], self.units[number - 1] = name, units[name]
        self.rows = np.zeros((count, ASSET_COLUMNS), np.int64)
        for place, symbol in enumerate(symbols):
            base, quote = numbers[bases[place]], numbers[symbol.quote]
            parts = int(lots[place] / units[bases[place]]), int(amounts[place] / units[symbol.quote])
            if max(parts) > UNITS_MAX:
                raise ConfigError(
                    f"symbols.{symbol.name}: expected lot and tick sizes of symbols that share an asset to differ by at most 2^31, "
                    f"got {max(parts)}; choose other sizes"
                )
            defaults = place + 1, count + 1, 1, 1
            wanted = base, quote, *parts
            self.rows[place] = [value * (value != default) for value, default in zip(wanted, defaults, strict=True)]

    def number(self, name: str) -> int:
        """The number of an asset. Raises ConfigError if there is none of that name."""
        if not name or name not in self.names:
            known = ", ".join([each for each in self.names if each][:10])
            raise ConfigError(f"asset: expected one of {known}, got {name!r}")
        return self.names.index(name) + 1

    def amount_units(self, name: str, text: str) -> int:
        """Converts an amount of an asset to units. Raises ConfigError unless it is a decimal number of whole units and not too large."""
        unit = self.units[self.number(name) - 1]
        amount = Fraction(text) if _AMOUNT.fullmatch(text) else Fraction(0)
        if not amount or (amount / unit).denominator != 1:
            raise ConfigError(f"{name}: expected a multiple of {decimal_text(unit)}, not 0, got {text[:80]!r}")
        units = int(amount / unit)
        if abs(units) > DEPOSITS_MAX:
            raise ConfigError(
                f"{name}: expected an amount below {decimal_text(DEPOSITS_MAX * unit)}, got {text[:80]!r}"
            )
        return units

    def check(self, accounts: Mapping[str, AccountConfig]) -> None:
        """Raises ConfigError unless every configured balance is an amount above 0 of a known asset."""
        for name, account in accounts.items():
            for asset, text in account.balances.items():
                try:
                    if self.amount_units(asset, text) < 0:
                        raise ConfigError(f"{asset}: expected an amount above 0, got {text!r}")
                except ConfigError as error:
                    raise ConfigError(f"accounts.{name}.balances: {error}") from None

    def money(self, asset: int, amount: int) -> Decimal:
        """Converts millionths of an asset's units to an amount of the asset."""
        return Decimal(decimal_text(self.units[asset - 1] * amount / MICRO))


def _common(one: Fraction, other: Fraction) -> Fraction:
    """The greatest common divisor of two sizes."""
    denominator = one.denominator * other.denominator
    return Fraction(gcd(int(one * denominator), int(other * denominator)), denominator)


def decimal_text(value: Fraction) -> str:
    """The full decimal text of a fraction that is a decimal number."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    whole = digits[:-places] + "." + digits[-places:] if places else digits
    return ("-" if value < 0 else "") + whole
