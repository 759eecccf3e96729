"""The rules of a symbol that every order must fit, as the exchange publishes them."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from serl.exchange.records import BAND_HIGH, BAND_LOW, LOT, TICKS, Side


@dataclass(frozen=True)
class SymbolRules:
    """The rules of a symbol at a time: operators and a replayed day may change them."""

    lot_multiple: int = 1
    """Quantities are multiples of this, in lots."""
    tick_table: tuple[tuple[int, int], ...] = ()
    """(start, multiple) in ticks, by start: prices from `start` on are multiples of `multiple`, up to the next entry. Below the first entry every tick is
    a price."""
    band_low_ticks: int = 0
    """No trade below this price; 0: none."""
    band_high_ticks: int = 0
    """No trade above this price; 0: none."""

    @classmethod
    def of_row(cls, row: Any) -> "SymbolRules":
        """The rules in a row of State.symbols, int64 (SYMBOL_COLUMNS,)."""
        entries = tuple((int(start), int(multiple)) for start, multiple in row[TICKS:].reshape(-1, 2) if multiple)
        return cls(int(row[LOT]), entries, int(row[BAND_LOW]), int(row[BAND_HIGH]))

    @classmethod
    def of_reply(cls, reply: Mapping[str, Any]) -> "SymbolRules":
        """The rules in a reply to RULES; ignores what a later version adds."""
        table = tuple((start, multiple) for start, multiple in reply["tick_table"])
        return cls(reply["lot_multiple"], table, reply["band_low_ticks"], reply["band_high_ticks"])

    def reply(self) -> dict[str, Any]:
        """The reply to RULES."""
        return asdict(self)

    def whole_lots(self, qty_lots: int) -> int:
        """A quantity, rounded down to one that an order can have."""
        return qty_lots - qty_lots % self.lot_multiple

    def on_tick(self, price_ticks: int, side: int) -> int:
        """A price, moved away from the market to one that an order can have: up for a sell, down for a buy; 0 if there is none."""
        return self._next_above(price_ticks) if side == Side.SELL else self._next_below(price_ticks)

    def _next_above(self, price_ticks: int) -> int:
        for start, _ in self.tick_table:
            if start > price_ticks:
                found = _rounded_up(price_ticks, self.multiple_at(price_ticks))
                if found < start:
                    return found
                price_ticks = start
        return _rounded_up(price_ticks, self.multiple_at(price_ticks))

    def _next_below(self, price_ticks: int) -> int:
        for start, multiple in reversed(self.tick_table):
            if start <= price_ticks:
                found = price_ticks - price_ticks % multiple
                if found >= start:
                    return found
                price_ticks = start - 1
        return max(price_ticks, 0)

    def multiple_at(self, price_ticks: int) -> int:
        """What prices are multiples of, there."""
        return next((multiple for start, multiple in reversed(self.tick_table) if start <= price_ticks), 1)

    def multiple_between(self, low_ticks: int, high_ticks: int) -> int:
        """What a price that fits at every level from low to high is a multiple of."""
        inside = (multiple for start, multiple in self.tick_table if low_ticks < start <= high_ticks)
        return math.lcm(self.multiple_at(low_ticks), *inside)

    @property
    def common_multiple(self) -> int:
        """What a price that fits at every level is a multiple of, for protocols that know one tick size only."""
        return math.lcm(*(multiple for _, multiple in self.tick_table))


NO_RULES = SymbolRules()
"""Any quantity and price fits."""


def _rounded_up(price_ticks: int, multiple: int) -> int:
    return -(-price_ticks // multiple) * multiple
