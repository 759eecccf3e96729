"""The tape of a day: every visible message, and the book before and after it, as flat arrays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from serl.agents.realism.errors import EmptyWindow, NoSuchSymbol, NoTrades, NoTwoSidedBook, RealismError
from serl.agents.realism.messages import MARKET, allocate_tape, mark_messages, record_messages
from serl.exchange.config import time_of_day_text
from serl.exchange.kernel.commands import DONE
from serl.exchange.market import Market
from serl.exchange.records import ALL_SYMBOLS, EVENT, LEVEL, Rows
from serl.history.day import Day
from serl.history.limits import limits_for
from serl.history.verify import HISTORY

LEVELS_DEFAULT = 10
LEVELS_MAX = 1000
HOUR_NS, MINUTE_NS, SECOND_NS = 3600 * 10**9, 60 * 10**9, 10**9

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Tape:
    """n visible messages and the n + 1 books around them, N levels per side. Prices in ticks, quantities in lots."""

    symbol: str
    time_ns: Ints
    """[n] ns after midnight."""
    kind: NDArray[np.int8]
    """[n] LIMIT, MARKET or CANCEL."""
    side: NDArray[np.int8]
    """[n] side of the order that arrives or is cancelled; for a market message, the aggressor's."""
    price_ticks: Ints
    """[n] for a market message, the last and therefore worst price."""
    qty_lots: Ints
    entered_ns: Ints
    """[n] for a cancellation, the arrival time of its order, -1 if unknown; -1 for other messages."""
    first_cancel: Bools
    """[n] whether the message is its order's first cancellation or reduction."""
    book_ticks: Ints
    """[n + 1, side (bids first), N]: books i and i + 1 are before and after message i; 0 = no level."""
    book_lots: Ints

    def __len__(self) -> int:
        """Number of messages."""
        return len(self.time_ns)

    @property
    def levels(self) -> int:
        """N, the levels per side."""
        return int(self.book_ticks.shape[2])

    @cached_property
    def bid(self) -> Ints:
        """[n + 1] best bid price, 0 = none."""
        return self.book_ticks[:, 0, 0]

    @cached_property
    def ask(self) -> Ints:
        """[n + 1] best ask price, 0 = none."""
        return self.book_ticks[:, 1, 0]

    @cached_property
    def two_sided(self) -> Bools:
        """[n + 1] whether the book has a bid below an ask; while orders are collected for an auction, it may be crossed."""
        return (self.bid > 0) & (self.ask > self.bid)

    @cached_property
    def mid(self) -> Floats:
        """[n + 1] mid in ticks; NaN where the book is not two-sided."""
        return np.where(self.two_sided, (self.bid + self.ask) / 2.0, np.nan)

    @cached_property
    def sign(self) -> Ints:
        """[n] +1 for BUY, -1 for SELL; for a market message, the trade sign."""
        return 1 - 2 * self.side.astype(np.int64)

    @cached_property
    def trades(self) -> Bools:
        """[n] whether the message is a market message."""
        return self.kind == MARKET

    def part(self, start: int, stop: int) -> "Tape":
        """Messages start..stop with their books."""
        rows, books = slice(start, stop), slice(start, stop + 1)
        return Tape(
            self.symbol, self.time_ns[rows], self.kind[rows], self.side[rows], self.price_ticks[rows], self.qty_lots[rows],
            self.entered_ns[rows], self.first_cancel[rows], self.book_ticks[books], self.book_lots[books],
        )  # fmt: skip

    def window(self, start_ns: int, end_ns: int) -> "Tape":
        """The messages of [start_ns, end_ns). Raises EmptyWindow, NoTrades or NoTwoSidedBook if that is too little to compare."""
        start, stop = (int(index) for index in np.searchsorted(self.time_ns, [start_ns, end_ns]))
        name = f"{self.symbol} in {time_of_day_text(start_ns)}-{time_of_day_text(end_ns)}"
        if start == stop:
            covered = (
                f"the day has messages in {time_of_day_text(int(self.time_ns[0]))}-{time_of_day_text(int(self.time_ns[-1]))}"
                if len(self)
                else "the day has no messages"
            )
            raise EmptyWindow(f"{name}: expected visible messages, got none; {covered}, give a window there")
        part = self.part(start, stop)
        if not part.trades.any():
            raise NoTrades(f"{name}: expected trades, got {len(part):,} messages and no trade; give a longer window")
        if not part.two_sided[1:].any():
            raise NoTwoSidedBook(f"{name}: expected a bid and an ask at the same time, got none; give another window")
        return part

    def halves(self, start_ns: int, end_ns: int) -> tuple["Tape", "Tape"]:
        """The two halves in time of a window. Raises the errors of `window`."""
        middle_ns = (start_ns + end_ns) // 2
        return self.window(start_ns, middle_ns), self.window(middle_ns, end_ns)

    def span(self) -> tuple[int, int]:
        """Time of the first message, and the time just after the last one, ns."""
        return int(self.time_ns[0]), int(self.time_ns[-1]) + 1


def build_tape(day: Day, levels: int = 0, symbol: str | None = None) -> Tape:
    """Replays a day and records its messages with `levels` levels per side (0: as many as its source, or 10).

    Raises NoSuchSymbol if the day does not have the symbol (None: its first), and EmptyWindow if nothing is visible.
    """
    shown = levels or day.reference.levels or LEVELS_DEFAULT
    if not 1 <= shown <= LEVELS_MAX:
        raise RealismError(f"levels: expected 1 to {LEVELS_MAX}, got {levels}; 0 uses the day's own")
    name, commands, rows = symbol_commands(day, symbol)
    partial = "refresh_adds" in day.reference.counts
    is_message = mark_messages(commands, rows, partial)
    capacity, event_rows = len(commands) + shown + 64, 4096
    best_levels = np.zeros(shown + 1, LEVEL)
    while True:
        market = history_market(commands)
        events = np.zeros(event_rows, EVENT)
        out = allocate_tape(capacity, int(commands["command_id"].max(initial=0)), shown)
        while (
            status := record_messages(market.state, commands, rows, is_message, partial, events, best_levels, out)
        ) > DONE:
            market.grow()
        if status == DONE:
            break
        capacity, event_rows = 2 * capacity, 2 * event_rows
    count = int(out.position[1])
    if count == 0:
        raise EmptyWindow(f"{name}: expected visible messages, got none in the whole day; give a day with orders")
    tape = Tape(
        name, out.time_ns, out.kind, out.side, out.price_ticks, out.qty_lots, out.entered_ns, out.first_cancel,
        out.book_ticks, out.book_lots,
    )  # fmt: skip
    return tape.part(0, count)


def check_levels(day: Day, levels: int) -> None:
    """Raises RealismError for more levels than a day shows: the orders behind those may long be gone."""
    shown = day.reference.levels
    if 0 < shown < levels:
        raise RealismError(
            f"levels: expected at most the {shown} that the day shows, got {levels}; give --levels {shown}, or a day that shows more"
        )


def symbol_commands(day: Day, symbol: str | None) -> tuple[str, Rows, Ints]:
    """(name, commands, source rows) of one symbol of a day; the commands become symbol 0 of participant HISTORY."""
    names = [known.name for known in day.reference.symbols]
    name = names[0] if symbol is None else symbol
    if name not in names:
        raise NoSuchSymbol(f"symbol: expected one of {', '.join(names)}, got {name}; give a symbol of the day")
    number = names.index(name)
    own = (day.commands["symbol"] == number) | (day.commands["symbol"] == ALL_SYMBOLS)
    commands = day.commands[own]
    commands["symbol"] = np.where(commands["symbol"] == number, 0, commands["symbol"])
    commands["participant"] = HISTORY
    commands["sequence"] = np.arange(1, len(commands) + 1)
    return name, commands, day.rows[own]


def history_market(commands: Rows) -> Market:
    """An empty market of symbol 0 with room for these commands, in which participant HISTORY is an operator."""
    market = Market(limits=limits_for([commands]))
    market.grant_operator(HISTORY)
    return market
