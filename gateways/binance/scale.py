"""Converts decimal numbers of the API to whole numbers of ticks, lots or ticks x lots, without rounding."""

import re
from decimal import Decimal

from serl.gateways.binance.errors import BinanceError

PLACES = 8
"""Decimal places that Binance prints; a finer unit has more."""
NUMBER = r"^([0-9]{1,20})(\.[0-9]{1,20})?$"
_NUMBER = re.compile(NUMBER)


def number_text(name: str, text: str) -> str:
    """The text of a parameter that is a decimal number. Raises BinanceError for any other."""
    if not _NUMBER.fullmatch(text):
        raise BinanceError(-1100, f"Illegal characters found in parameter '{name}'; legal range is '{NUMBER}'.")
    return text


class Scale:
    """Numbers that are multiples of a unit.

    Attributes:
        unit: the unit, for example the tick size.
        places: decimal places of the texts.
    """

    def __init__(self, unit: Decimal) -> None:
        exponent = unit.normalize().as_tuple().exponent
        self.unit = unit
        self.places = max(PLACES, -int(exponent))
        self._one = 10**self.places
        self._unit = int(unit * self._one)

    def text(self, units: int) -> str:
        """Formats a number of units as Binance does, like 223.45000000."""
        whole, part = divmod(abs(units) * self._unit, self._one)
        return f"{'-' if units < 0 else ''}{whole}.{part:0{self.places}d}"

    def units(self, name: str, text: str) -> int | None:
        """Converts a parameter to units; None if it is not a multiple of the unit. Raises BinanceError if it is not a number."""
        whole, _, part = number_text(name, text).partition(".")
        part = part.rstrip("0")
        if len(part) > self.places:
            raise BinanceError(-1111, f"Parameter '{name}' has too much precision.")
        units, rest = divmod(int(whole) * self._one + int(part.ljust(self.places, "0")), self._unit)
        return None if rest else units
