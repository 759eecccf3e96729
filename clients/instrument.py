"""Reference data of symbols."""

import dataclasses
from decimal import Context, Decimal, DecimalException, localcontext
from typing import Any

from serl.clients.errors import PriceOffTick
from serl.exchange.errors import ConfigError
from serl.exchange.integers import integer
from serl.exchange.records import CASH_MAX

EXACT = Context(prec=60)
"""More digits than a price has. A program may have set decimal's own precision to a few, and its orders would then get other prices."""


@dataclasses.dataclass(frozen=True)
class Instrument:
    """Reference data of a symbol: its number on the wire, its tick size and its lot size."""

    number: int
    name: str
    tick_size: Decimal
    lot_size: Decimal

    @classmethod
    def of(cls, number: int, name: str, tick_size: str, lot_size: str) -> "Instrument":
        """Creates one from an element of `symbols` in WELCOME or INFO."""
        return cls(number, name, Decimal(tick_size), Decimal(lot_size))

    def ticks(self, price: Decimal | str | float) -> int:
        """Converts a price to ticks. A float is read as its shortest decimal form. Raises `PriceOffTick` for a price between two ticks, and
        for one that no exchange can have."""
        with localcontext(EXACT):
            try:
                exact = Decimal(str(price)) / self.tick_size
            except DecimalException:
                raise PriceOffTick(f"{self.name}: expected a price, got {price!r}; give a number, like 99.5") from None
            if not exact.is_finite() or abs(exact) > CASH_MAX:
                most = self.price(CASH_MAX)
                raise PriceOffTick(
                    f"{self.name}: expected a finite price of at most {most}, got {price!r}; give another"
                )
            if exact != exact.to_integral_value():
                below = int(exact // 1)
                raise PriceOffTick(
                    f"{self.name}: expected a multiple of {self.tick_size:f}, got {price}; the nearest prices are "
                    f"{self.price(below)} and {self.price(below + 1)}"
                )
            return int(exact)

    def checked_ticks(self, price_ticks: Any) -> int:
        """Returns a price that is already in ticks. Raises `PriceOffTick` for anything but an integer."""
        try:
            return integer("price_ticks", price_ticks)
        except ConfigError:
            raise PriceOffTick(
                f"{self.name}: expected price_ticks as an integer, got {price_ticks!r}; convert a price with "
                f"instrument({self.name!r}).ticks(price)"
            ) from None

    def price(self, price_ticks: int) -> Decimal:
        """Converts ticks to a price."""
        with localcontext(EXACT):
            return price_ticks * self.tick_size
