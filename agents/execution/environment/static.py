"""The static book: a recorded day whose book and trades do not react to our orders.

A market child takes the recorded levels when it arrives; quantity beyond the last level shown is not filled. A limit child takes them up to
its price, and the remainder queues behind the quantity that the book shows at its price on arrival. Each recorded trade at that price first fills
the quantity ahead, then our order; a trade through the price fills us up to the trade's quantity. The quantity ahead is never more than the
book shows at the price, so cancellations move us forward only when the whole level becomes smaller than our queue position. What we take
remains available to others, and to us at the next decision: there is no impact.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment import windows
from serl.agents.execution.environment.records import CHILD, FILL, FRAME, LEVELS
from serl.agents.realism.tape import build_tape
from serl.exchange.compiling import compiled, inlined
from serl.exchange.errors import ConfigError
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.market import Market
from serl.exchange.records import EventFlag, EventKind, Rows
from serl.history.day import Day, Reference
from serl.history.limits import limits_for

TRADE = np.dtype(
    [
        ("time_ns", "<i8"),
        ("price_ticks", "<i8"),
        ("lots", "<i8"),
        ("sign", "<i8"),  # +1: the taker bought; 0: an auction, which has no taker
        ("sum_lots", "<i8"),  # cumulative before this trade, like the next two
        ("sum_notional", "<i8"),
        ("sum_signed", "<i8"),
    ],
    align=True,
)
"""A match. The last row of a day is not a trade but has the sums of the whole day."""
# Columns of `bounds`, one row per day
BOOKS, BOOKS_END, TRADES, TRADES_END = range(4)
# Columns of `env_states`, one row per environment
DAY, SIGN, NOW = range(3)


@inlined
def _lower_bound(rows: Any, low: int, high: int, time_ns: int) -> int:
    """Index of the first row from `low` on and before `high` at or after a time; `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if rows[middle].time_ns < time_ns:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _take_levels(ticks: Any, lots: Any, sign: int, limit_ticks: int, skip: int, qty_lots: int, fill: Any) -> int:
    """Takes lots from the opposite levels up to a limit price (0: none), after skipping `skip` lots; returns the lots filled."""
    remaining_lots = qty_lots
    for level in range(ticks.size):
        price, available = ticks[level], lots[level]
        if remaining_lots == 0 or price == 0 or (limit_ticks > 0 and sign * (price - limit_ticks) < 0):
            break
        skipped = min(skip, available)
        skip -= skipped
        taken = min(remaining_lots, available - skipped)
        remaining_lots -= taken
        fill.lots += taken
        fill.notional += taken * price
    return qty_lots - remaining_lots


@inlined
def _lots_at(ticks: Any, lots: Any, price_ticks: int) -> int:
    """Lots at a price, 0 if the book does not show it."""
    for level in range(ticks.size):
        if ticks[level] == price_ticks:
            return lots[level]
    return 0


@inlined
def _fill_resting(books: Any, trades: Any, bound: Any, sign: int, child: Any, remaining_lots: int, arrival_ns: int, until_ns: int, fill: Any) -> None:  # fmt: skip
    """Fills a resting limit order from the recorded trades, and writes its remaining quantity and queue position."""
    side, price = ASK if sign > 0 else BID, child.limit_ticks
    book = books[_lower_bound(books, bound[BOOKS], bound[BOOKS_END], arrival_ns) - 1]
    ahead = _lots_at(book.ticks[side], book.lots[side], price)
    trade_index = _lower_bound(trades, bound[TRADES], bound[TRADES_END], arrival_ns)
    while trade_index < bound[TRADES_END] and trades[trade_index].time_ns < until_ns and remaining_lots > 0:
        trade = trades[trade_index]
        trade_index += 1
        beyond = sign * (trade.price_ticks - price)
        if trade.sign == -sign or beyond < 0:
            continue
        book = books[_lower_bound(books, bound[BOOKS], bound[BOOKS_END], trade.time_ns) - 1]
        ahead = min(ahead, _lots_at(book.ticks[side], book.lots[side], price)) if beyond == 0 else 0
        lots = min(remaining_lots, max(0, trade.lots - ahead))
        ahead = max(0, ahead - trade.lots)
        remaining_lots -= lots
        fill.lots += lots
        fill.notional += lots * price
    fill.resting_lots = remaining_lots
    if remaining_lots > 0:
        book = books[_lower_bound(books, bound[BOOKS], bound[BOOKS_END], until_ns) - 1]
        fill.ahead_lots = min(ahead, _lots_at(book.ticks[side], book.lots[side], price))


@inlined
def _write_book(book: Any, frame: Any) -> None:
    """Writes a recorded book to a FRAME row."""
    for level in range(book.ticks[0].size):
        frame.bid_ticks[level], frame.bid_lots[level] = book.ticks[BID, level], book.lots[BID, level]
        frame.ask_ticks[level], frame.ask_lots[level] = book.ticks[ASK, level], book.lots[ASK, level]


@compiled
def _advance(books: Any, trades: Any, bounds: Any, env_states: Any, which: Any, children: Any, until_ns: Any, latency_ns: int, frames: Any, fills: Any) -> None:  # fmt: skip
    for index in range(which.size):
        env = which[index]
        env_state, frame, fill, child = env_states[env], frames[env], fills[env], children[index]
        bound, sign, end_ns = bounds[env_state[DAY]], env_state[SIGN], until_ns[index]
        fill.lots = fill.notional = fill.resting_lots = fill.ahead_lots = 0
        arrival_ns = min(env_state[NOW] + latency_ns, end_ns)
        book = books[_lower_bound(books, bound[BOOKS], bound[BOOKS_END], arrival_ns) - 1]
        opposite = BID if sign > 0 else ASK
        taken = _take_levels(book.ticks[opposite], book.lots[opposite], sign, 0, 0, child.market_lots, fill)
        limit_lots = child.limit_lots if child.limit_ticks > 0 else 0
        if limit_lots > 0:
            at_once = _take_levels(
                book.ticks[opposite], book.lots[opposite], sign, child.limit_ticks, taken, limit_lots, fill
            )
            _fill_resting(books, trades, bound, sign, child, limit_lots - at_once, arrival_ns, end_ns, fill)
        first = _lower_bound(trades, bound[TRADES], bound[TRADES_END], env_state[NOW])
        last = _lower_bound(trades, bound[TRADES], bound[TRADES_END], end_ns)
        frame.traded_lots = trades[last].sum_lots - trades[first].sum_lots
        frame.traded_notional = trades[last].sum_notional - trades[first].sum_notional
        frame.signed_lots = trades[last].sum_signed - trades[first].sum_signed
        frame.trades = last - first
        env_state[NOW] = frame.time_ns = end_ns
        _write_book(books[_lower_bound(books, bound[BOOKS], bound[BOOKS_END], end_ns) - 1], frame)


def book_dtype(levels: int) -> np.dtype[np.void]:
    """The type of a recorded book: the time from which it is valid, and (side, levels) prices and lots."""
    shape = (2, levels)
    return np.dtype([("time_ns", "<i8"), ("ticks", "<i8", shape), ("lots", "<i8", shape)])


@dataclasses.dataclass(frozen=True)
class RecordedDay:
    """The books and trades of a day with one symbol, for a static book."""

    books: Mapping[int, Rows]
    """Rows of `recorded_books` by the number of levels; changes beyond these levels make no row."""
    trades: Rows
    """Rows of `recorded_trades`."""
    reference: Reference

    @classmethod
    def of(cls, day: Day) -> "RecordedDay":
        """The books and trades of a day."""
        return cls({levels: recorded_books(day, levels) for levels in (1, LEVELS)}, recorded_trades(day), day.reference)

    def within(self, spans: Sequence[tuple[int, int]]) -> "RecordedDay":
        """Only the trades between the times (from, to), and the books valid then."""
        trades = np.zeros(len(self.trades), bool)
        trades[-1] = True  # see TRADE
        for start_ns, end_ns in spans:
            trades |= (self.trades["time_ns"] >= start_ns) & (self.trades["time_ns"] <= end_ns)
        kept = self.trades[trades]
        _add_sums(kept)
        return RecordedDay({levels: _within(rows, spans) for levels, rows in self.books.items()}, kept, self.reference)


def _within(books: Rows, spans: Sequence[tuple[int, int]]) -> Rows:
    """The first recorded book, which is empty, then those that are valid between the times."""
    kept = np.zeros(len(books), bool)
    kept[0] = True
    for start_ns, end_ns in spans:
        first, end = np.searchsorted(books["time_ns"], start_ns) - 1, np.searchsorted(books["time_ns"], end_ns, "right")
        kept[first:end] = True
    found: Rows = books[kept]
    return found


def recorded_trades(day: Day | RecordedDay) -> Rows:
    """(T + 1,) TRADE rows of a day with one symbol."""
    if isinstance(day, RecordedDay):
        return day.trades
    market = Market(1, limits=limits_for([day.commands]))
    market.grant_operator(0)
    events = market.submit(day.commands)
    fills = events[(events["kind"] == EventKind.FILL) & (events["flags"] & EventFlag.MAKER > 0)]
    rows = np.zeros(len(fills) + 1, TRADE)
    for name, values in (
        ("time_ns", fills["time_ns"]),
        ("price_ticks", fills["price_ticks"]),
        ("lots", fills["qty_lots"]),
    ):
        rows[name][:-1] = values
    has_taker = fills["flags"] & EventFlag.AUCTION == 0
    rows["sign"][:-1] = np.where(has_taker, np.where(fills["side"] == ASK, 1, -1), 0)
    rows["time_ns"][-1] = np.iinfo(np.int64).max
    _add_sums(rows)
    return rows


def _add_sums(rows: Rows) -> None:
    """Writes the cumulative sums of TRADE rows."""
    for name in ("sum_lots", "sum_notional", "sum_signed"):
        rows[name][0] = 0
    rows["sum_lots"][1:] = np.cumsum(rows["lots"][:-1])
    rows["sum_notional"][1:] = np.cumsum(rows["lots"][:-1] * rows["price_ticks"][:-1])
    rows["sum_signed"][1:] = np.cumsum(rows["lots"][:-1] * rows["sign"][:-1])


def recorded_books(day: Day | RecordedDay, levels: int) -> Rows:
    """The books of a day with one symbol: rows of `book_dtype`, with the time from which each is valid."""
    if isinstance(day, RecordedDay):
        return day.books[levels]
    tape = build_tape(day, levels)
    rows = np.zeros(len(tape) + 1, book_dtype(levels))
    rows["time_ns"][0], rows["time_ns"][1:] = np.iinfo(np.int64).min, tape.time_ns
    rows["ticks"], rows["lots"] = tape.book_ticks, tape.book_lots
    return rows


class StaticBook:
    """N environments on recorded days of one symbol each. See the module and `ExecutionMarket`."""

    def __init__(
        self, days: Sequence[Day | RecordedDay], count: int, *, latency_ns: int = 1_000_000, levels: int = LEVELS
    ) -> None:
        if not days or any(len(day.reference.symbols) != 1 for day in days):
            raise ConfigError("static book: expected at least one day, each with one symbol")
        if latency_ns < 0 or not 1 <= levels <= LEVELS:
            raise ConfigError(
                f"static book: expected 1 to {LEVELS} levels and a latency from 0 on, got {levels} and {latency_ns} ns"
            )
        self.count, self.latency_ns = count, latency_ns
        self.frames, self.fills = np.zeros(count, FRAME), np.zeros(count, FILL)
        books, trades = [recorded_books(day, levels) for day in days], [recorded_trades(day) for day in days]
        self._books, self._trades = np.concatenate(books), np.concatenate(trades)
        self._spans = [(day.reference.first_time_ns, day.reference.last_time_ns) for day in days]
        self._most_lots = [int(rows["sum_lots"][-1]) for rows in trades]
        self._bounds = np.zeros((len(days), 4), np.int64)
        for columns, parts, spare in (((BOOKS, BOOKS_END), books, 0), ((TRADES, TRADES_END), trades, 1)):
            ends = np.cumsum([len(part) for part in parts])
            self._bounds[:, columns[0]] = ends - [len(part) for part in parts]
            self._bounds[:, columns[1]] = ends - spare
        self._env_states = np.zeros((count, 3), np.int64)
        self._all_envs = np.arange(count)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket."""
        windows.check(episodes, self._spans, self._most_lots)
        self._env_states[which] = np.stack([episodes["day"], episodes["sign"], episodes["start_ns"]], axis=1)
        self._run(which, np.zeros(len(which), CHILD), episodes["start_ns"])

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(self._all_envs, children, until_ns)

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        self._run(which, children, self.frames["time_ns"][which] + self.latency_ns)

    def _run(self, which: Any, children: Rows, until_ns: Any) -> None:
        _advance(
            self._books, self._trades, self._bounds, self._env_states, which, children, np.ascontiguousarray(until_ns),
            self.latency_ns, self.frames, self.fills,
        )  # fmt: skip
