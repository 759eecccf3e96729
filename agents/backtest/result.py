"""The result of a strategy: fills, trades, positions and profit, in exact integers; in money where people read it."""

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import MICRO, EventFlag, Rows
from serl.history.day import SymbolReference

FILL_FIELDS = ("time_ns", "symbol", "side", "price_ticks", "qty_lots", "flags", "order_id", "match_id")


class RoundTrip(NamedTuple):
    """A round trip in one symbol: from a flat position until it is flat again or changes sides.

    Attributes:
        side: 0 long, 1 short.
        qty_lots: the largest position.
        profit_ticks: ticks x lots, before fees; None while the position is open.
        end_ns: None while the position is open.
    """

    symbol: int
    side: int
    start_ns: int
    end_ns: int | None
    qty_lots: int
    fills: int
    profit_ticks: int | None


@dataclass(frozen=True)
class Result:
    """The result of one run with S symbols, F fills and T times at which positions were marked to the mid (at least a second apart).

    Profit is cash plus positions at the mid, less fees. The exact unit before fees is half ticks x lots, because mids are in half ticks; that of
    fees is microticks x lots.
    """

    name: str
    symbols: tuple[SymbolReference, ...]
    fill_rows: Rows
    """(F,) EVENT rows of the strategy's fills, oldest first."""
    times_ns: NDArray[np.int64]
    """(T,) times of the marks."""
    mids: NDArray[np.int64]
    """(T, S) best bid plus best ask, that is twice the mid, in ticks; the last known value where a side is empty, 0 before the first."""
    decisions: int
    counts: dict[str, int]
    """Numbers of the strategy's own events: accepted orders, fills, cancellations, rejections."""
    rejections: dict[str, int]
    """Numbers of its rejected commands by the name of the Reason, in lower case."""
    settings: dict[str, Any]
    """Market, seed, window, latency and queue model."""
    wall_s: float
    events: Rows | None = field(default=None, repr=False)
    """Every event of the run as EVENT rows, if they were kept."""
    fee_microticks: NDArray[np.int64] | None = None
    """(F,) fee of each fill, microticks x lots; None if the market has no fees."""
    date: str = ""
    """Date of a recorded day, YYYY-MM-DD; empty for one without a date."""

    @property
    def fills(self) -> dict[str, Any]:
        """The fills as columns (F,)."""
        columns = {name: self.fill_rows[name].copy() for name in FILL_FIELDS}
        columns["maker"] = columns.pop("flags") & EventFlag.MAKER > 0
        return columns

    @cached_property
    def _totals(self) -> tuple[Any, Any]:
        """(positions in lots, cash in ticks x lots) of each symbol after 0, 1 ... F fills; (F + 1, S) each, exact."""
        rows, count = self.fill_rows, len(self.symbols)
        prices, lots = rows["price_ticks"], rows["qty_lots"]
        # a position may be worth more than it cost
        highest = max(np.abs(prices).max(initial=0), self.mids.max(initial=0))
        exact = object if float(highest) * lots.astype(float).sum() > 2.0**60 else np.int64
        signed = np.where(rows["side"] == 0, lots, -lots).astype(exact)
        own = rows["symbol"][:, None] == np.arange(count)
        changes = np.where(own, signed[:, None], 0), np.where(own, -(signed * prices.astype(exact))[:, None], 0)
        start = np.zeros((1, count), exact)
        return tuple(np.concatenate([start, np.cumsum(one, axis=0, dtype=exact)]) for one in changes)  # pyrefly: ignore[bad-return]

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """(T, S) lots."""
        return self._totals[0][self._fills_before].astype(np.int64)

    @property
    def _fills_before(self) -> Any:
        return np.searchsorted(self.fill_rows["time_ns"], self.times_ns, side="left")

    @cached_property
    def profit_half_ticks(self) -> Any:
        """(T, S) exact profit before fees, in half ticks x lots."""
        positions, cash = (totals[self._fills_before] for totals in self._totals)
        return 2 * cash + positions * self._marks

    @property
    def _marks(self) -> Any:
        """(T, S) twice the price of a lot: the mid, or the last own fill before there was a mid."""
        marks = self.mids.astype(self._totals[0].dtype)
        for symbol in np.flatnonzero((self.mids == 0).any(axis=0)).tolist():
            own = self.fill_rows[self.fill_rows["symbol"] == symbol]
            before = np.searchsorted(own["time_ns"], self.times_ns, side="left")
            unknown = (self.mids[:, symbol] == 0) & (before > 0)
            marks[unknown, symbol] = 2 * own["price_ticks"][before[unknown] - 1]
        return marks

    @cached_property
    def _units(self) -> tuple[Decimal, list[int]]:
        """(a unit of money, number of these units in a half tick x lot of each symbol), so that sums over symbols are sums of integers."""
        worth = [Decimal(one.tick_size) * Decimal(one.lot_size) / 2 for one in self.symbols]
        unit = Decimal(1).scaleb(min(int(one.as_tuple().exponent) for one in worth))
        return unit, [int(one / unit) for one in worth]

    @cached_property
    def pnl(self) -> list[Decimal]:
        """(T,) profit in money over all symbols."""
        unit, worth = self._units
        units = self.profit_half_ticks.astype(object) @ np.array(worth, object)
        return [unit * int(value) - fees for value, fees in zip(units, self.fees_paid, strict=True)]

    @cached_property
    def fill_fees(self) -> list[Decimal]:
        """(F,) fee of each fill, in money; below 0: a rebate."""
        if self.fee_microticks is None:
            return [Decimal(0)] * len(self.fill_rows)
        costs = zip(self.fill_rows["symbol"].tolist(), self.fee_microticks.tolist(), strict=True)
        return [self.money(symbol, cost) / MICRO for symbol, cost in costs]

    @cached_property
    def fees_paid(self) -> list[Decimal]:
        """(T,) cumulative fees over all symbols, in money; below 0: rebates."""
        totals = list(accumulate(self.fill_fees, initial=Decimal(0)))
        return [totals[count] for count in self._fills_before.tolist()]

    @property
    def fees(self) -> Decimal:
        """Total fees, in money."""
        return self.fees_paid[-1]

    @property
    def profit(self) -> Decimal:
        """Profit at the end, in money."""
        return self.pnl[-1]

    @property
    def drawdown(self) -> Decimal:
        """The largest fall of the profit from an earlier peak (0 at the start), in money, at the times of the marks."""
        peaks = np.maximum.accumulate(np.array([Decimal(0), *self.pnl], object))[1:]
        return max(np.array([Decimal(0), *(peaks - np.array(self.pnl, object))], object))

    @cached_property
    def trades(self) -> list[RoundTrip]:
        """The round trips in all symbols, sorted by start."""
        found: list[RoundTrip] = []
        for symbol in range(len(self.symbols)):
            rows = self.fill_rows[self.fill_rows["symbol"] == symbol]
            found += _round_trips(symbol, rows)
        return sorted(found, key=lambda trip: trip.start_ns)

    def money(self, symbol: int, ticks: int) -> Decimal:
        """Converts ticks x lots of a symbol to money."""
        reference = self.symbols[symbol]
        return ticks * Decimal(reference.tick_size) * Decimal(reference.lot_size)


def _round_trips(symbol: int, rows: Rows) -> list[RoundTrip]:
    """The round trips in one symbol's fills; a fill that crosses zero ends one and starts the next."""
    found: list[RoundTrip] = []
    position = cash = start_ns = most = fills = 0
    columns = (rows[name].tolist() for name in ("time_ns", "side", "price_ticks", "qty_lots"))
    for time_ns, side, price, lots in zip(*columns, strict=True):
        sign = -1 if side else 1
        closing = min(lots, abs(position)) if position * sign < 0 else 0
        for part in (closing, lots - closing):
            if not part:
                continue
            if position == 0:
                start_ns, most, fills, cash = time_ns, 0, 0, 0
            position, cash, fills = position + sign * part, cash - sign * part * price, fills + 1
            most = max(most, abs(position))
            if position == 0:
                found.append(RoundTrip(symbol, 1 if sign > 0 else 0, start_ns, time_ns, most, fills, cash))
    if position:
        found.append(RoundTrip(symbol, 0 if position > 0 else 1, start_ns, None, most, fills, None))
    return found


def fill_forward(bests: NDArray[np.int64]) -> NDArray[np.int64]:
    """(T, S) twice the mids, from (T, S, 2) best bids and asks; where a side is empty, the value of the time before."""
    twice = np.where((bests > 0).all(axis=2), bests.sum(axis=2), 0)
    for symbol in range(twice.shape[1]):
        known = np.flatnonzero(twice[:, symbol])
        for first, stop in pairwise([*known.tolist(), len(twice)]):
            if stop > first + 1:
                twice[first + 1 : stop, symbol] = twice[first, symbol]
    return twice
