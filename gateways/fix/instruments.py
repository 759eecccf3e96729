"""Converts prices and quantities of FIX to ticks and lots, and back; their texts are cached, because a few of them recur often."""

from decimal import Decimal

from serl.clients.session import Instrument

_KEPT_MAX = 1 << 16
_AVERAGE_PLACES = 6
"""Digits of an average price in addition to those of the tick size."""


class Quoting:
    """Converts prices and quantities of one symbol to texts and back."""

    def __init__(self, instrument: Instrument) -> None:
        self.number, self.name = instrument.number, instrument.name
        self.tick_size, self.lot_size = instrument.tick_size, instrument.lot_size
        self._places = max(0, -int(instrument.tick_size.normalize().as_tuple().exponent))
        self._prices: dict[int, str] = {}
        self._ticks: dict[str, int] = {}
        self._unit_lots = instrument.lot_size == 1

    def price(self, price_ticks: int) -> str:
        """The text of a price."""
        text = self._prices.get(price_ticks)
        if text is None:
            if len(self._prices) >= _KEPT_MAX:
                self._prices.clear()
            text = self._prices[price_ticks] = f"{price_ticks * self.tick_size:f}"
        return text

    def ticks(self, text: str) -> int:
        """Converts the text of a price, which must be a number, to ticks; -1 if it lies between two ticks or is negative."""
        ticks = self._ticks.get(text)
        if ticks is None:
            if len(self._ticks) >= _KEPT_MAX:
                self._ticks.clear()
            exact = Decimal(text) / self.tick_size
            ticks = int(exact) if exact == exact.to_integral_value() and exact >= 0 else -1
            self._ticks[text] = ticks
        return ticks

    def qty(self, qty_lots: int) -> str:
        """The text of a quantity in shares."""
        return str(qty_lots) if self._unit_lots else f"{qty_lots * self.lot_size:f}"

    def lots(self, text: str) -> int:
        """Converts the text of a quantity, which must be a number, to lots; -1 if it is not a whole number of lots or is negative."""
        if self._unit_lots and text.isdigit():
            return int(text)
        exact = Decimal(text) / self.lot_size
        return int(exact) if exact == exact.to_integral_value() and exact >= 0 else -1

    def average(self, notional: int, qty_lots: int) -> str:
        """The text of notional / qty_lots ticks, to `_AVERAGE_PLACES` more digits than a price; 0 without a quantity."""
        if not qty_lots:
            return "0"
        price_ticks, rest = divmod(notional, qty_lots)
        if not rest:
            return self.price(price_ticks)
        exact = Decimal(notional) / qty_lots * self.tick_size
        return f"{round(exact, self._places + _AVERAGE_PLACES):f}".rstrip("0").rstrip(".")
