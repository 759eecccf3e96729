"""Applies the messages of both forms of PITCH to the orders of the imported symbols. docs/history.md has the rules."""

from decimal import Decimal
from pathlib import Path

from serl.history.day import SymbolReference
from serl.history.errors import PitchError
from serl.history.order_writer import InvalidOrder, OrderWriter
from serl.history.source import Options, Sink, units_of
from serl.history.stream_book import BUY, SELL

PRICE_UNIT = Decimal("0.0001")
TICK = "0.01"
SYMBOLS_MAX = 1 << 16
SIDES = {"B": BUY, "S": SELL}
TRADING = "T"
STATUSES = {"A": "accepting orders", "H": "halted", "Q": "quote only", "S": "suspended", "T": "trading"}
OMITTED = -1
"""Number of a symbol that is not imported."""
COUNT_NAMES = (
    "prices_rounded",  # off the tick: bids down, asks up
    "prints_rounded",
    "broken_trades",
    "auctions",  # summaries, whose trades are not in the book
    "messages_left_out",  # of symbols that are not imported
    "messages_without_effect",
)


class PitchOrders:
    """The orders of the imported symbols. Events raise `InvalidOrder`."""

    def __init__(self, path: Path, sink: Sink, options: Options) -> None:
        options.allow_only(path, "Cboe PITCH", "symbols", "tick_size", "date")
        self.tick_size = options.tick_size or TICK
        self.writer = OrderWriter(sink, SYMBOLS_MAX, removes_crossed=True)
        self.counts = dict.fromkeys(COUNT_NAMES, 0)
        self.symbols: list[str] = []
        self.rows = 0
        self._path = path
        self._wanted = frozenset(options.symbols)
        self._units = units_of("tick-size", self.tick_size, PRICE_UNIT)
        self._numbers: dict[str, int] = {}
        self._statuses: dict[str, str] = {}

    def stamp(self, time_ns: int) -> None:
        """Starts the next message, at a time after midnight."""
        self.writer.stamp(self.rows, time_ns)
        self.rows += 1

    def add(self, order_id: int, side: str, shares: int, symbol: str, price_units: int) -> int:
        """Adds a displayed order; returns the number of its symbol, OMITTED if that is not imported."""
        number = self._number(symbol)
        if number == OMITTED:
            return OMITTED
        if order_id == 0:
            raise InvalidOrder("an order id above 0")
        side_number = _side(side)
        ticks = self._resting_ticks(price_units, side_number)
        self.writer.add(order_id, number, side_number, ticks, shares)
        return number

    def knows(self, order_id: int) -> bool:
        """Whether the order is open. If not, the message is counted: as unknown without a selection of symbols, else as left out, because the order
        may belong to another symbol."""
        if order_id in self.writer.orders:
            return True
        if self._wanted:
            self.counts["messages_left_out"] += 1
        else:
            self.writer.counts["orders_unknown"] += 1
        return False

    def execute_at(self, order_id: int, shares: int, price_units: int, shares_left: int) -> None:
        """Executes a displayed order at a price that may differ from its own."""
        self.writer.execute_at(order_id, shares, self._print_ticks(price_units), shares_left)

    def modify(self, order_id: int, shares: int, price_units: int, *, keeps_priority: bool) -> None:
        """Changes the price or size of a displayed order."""
        ticks = self._resting_ticks(price_units, self.writer.orders[order_id].side)
        self.writer.modify(order_id, ticks, shares, keeps_priority=keeps_priority)

    def trade(self, side: str, shares: int, symbol: str, price_units: int) -> None:
        """Prints a trade with an order that was not displayed."""
        number = self._number(symbol)
        if number != OMITTED:
            self.writer.trade_hidden(number, _side(side), self._print_ticks(price_units), shares)

    def set_status(self, symbol: str, status: str) -> None:
        """Applies a trading status: every status other than trading is a halt. A symbol gets its number with its first order or trade, not with a
        status."""
        if status not in STATUSES:
            raise InvalidOrder(f"a trading status ({', '.join(STATUSES)})")
        if not self._is_wanted(symbol):
            return
        self._statuses[symbol] = status
        if symbol in self._numbers:
            self.writer.set_halted(self._numbers[symbol], status != TRADING)

    def clear_symbol(self, symbol: str) -> None:
        """Removes all orders of a symbol."""
        if symbol in self._numbers:
            self.writer.clear(self._numbers[symbol])

    def finish(self) -> None:
        """Writes the last commands. Raises `PitchError` if a selected symbol, or any order, is missing."""
        self.writer.flush()
        missing = sorted(self._wanted - self._numbers.keys())
        if missing or not self.symbols:
            names = ", ".join(missing) or "any symbol"
            raise PitchError(f"{self._path}: expected orders of {names}, got {self.rows:,} messages without; check `--symbols`")  # fmt: skip

    def references(self) -> tuple[SymbolReference, ...]:
        """The symbols of the day."""
        return tuple(SymbolReference(name, self.tick_size) for name in self.symbols)

    def all_counts(self) -> dict[str, int]:
        """How often each rule applied."""
        return self.writer.all_counts() | self.counts

    def _is_wanted(self, symbol: str) -> bool:
        if not self._wanted or symbol in self._wanted:
            return True
        self.counts["messages_left_out"] += 1
        return False

    def _number(self, symbol: str) -> int:
        number = self._numbers.get(symbol)
        if number is not None:
            return number
        if not self._is_wanted(symbol):
            return OMITTED
        if not symbol or not symbol.isprintable() or len(self.symbols) == SYMBOLS_MAX:
            raise InvalidOrder("a symbol")
        number = self._numbers[symbol] = len(self.symbols)
        self.symbols.append(symbol)
        if self._statuses.get(symbol, TRADING) != TRADING:
            self.writer.set_halted(number, True)
        return number

    def _resting_ticks(self, price_units: int, side: int) -> int:
        """The price in ticks, rounded away from the other side, so that rounding never crosses the book; 0 only for a price of 0."""
        ticks, between = divmod(price_units, self._units)
        self.counts["prices_rounded"] += between != 0
        return max(1, ticks if side == BUY else ticks + 1) if between else ticks

    def _print_ticks(self, price_units: int) -> int:
        """The price in ticks, rounded to the nearest, half to even; 0 only for a price of 0."""
        ticks = round(Decimal(price_units) / self._units)
        self.counts["prints_rounded"] += ticks * self._units != price_units
        return max(ticks, 1 if price_units else 0)


def _side(letter: str) -> int:
    side = SIDES.get(letter)
    if side is None:
        raise InvalidOrder("side B or S")
    return side
