"""The tape of a day: every visible message and the book around it, as flat arrays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from serl.agents.realism.errors import EmptyWindow, NoSuchSymbol, NoTrades, NoTwoSidedBook, RealismError
from serl.agents.realism.messages import MARKET, allocate_tape, mark_messages, run
from serl.exchange.config import time_of_day_text
from serl.exchange.kernel.commands import DONE
from serl.exchange.market import Market
from serl.exchange.records import ALL_SYMBOLS, EVENT, LEVEL, Rows
from serl.history.day import Day
from serl.history.verify import HISTORY

LEVELS_DEFAULT = 10
LEVELS_MAX = 1000
HOUR_NS, MINUTE_NS, SECOND_NS = 3600 * 10**9, 60 * 10**9, 10**9

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Tape:
    """n visible messages and the n + 1 books around them, N levels a side. Prices in ticks, quantities in lots."""

    symbol: str
    time_ns: Ints
    """[n] after midnight."""
    kind: NDArray[np.int8]
    """[n] LIMIT, MARKET or CANCEL."""
    side: NDArray[np.int8]
    """[n] of the order that is entered or cancelled; of a market message, of the aggressor."""
    price_ticks: Ints
    """[n] of a market message: the last, that is worst, price."""
    qty_lots: Ints
    entered_ns: Ints
    """[n] of a cancellation: when its order arrived, -1 if that was not seen; -1 for other messages."""
    first: Bools
    """[n] of a cancellation: the first that its order sees."""
    book_ticks: Ints
    """[n + 1, side (bids first), N]: books i and i + 1 are those before and after message i; 0 = no level."""
    book_lots: Ints

    def __len__(self) -> int:
        """Number of messages."""
        return len(self.time_ns)

    @property
    def levels(self) -> int:
        """N, levels shown per side."""
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
        """[n + 1] whether the book has a bid and an ask."""
        return (self.bid > 0) & (self.ask > 0)

    @cached_property
    def mid(self) -> Floats:
        """[n + 1] in ticks, NaN where a side is empty."""
        return np.where(self.two_sided, (self.bid + self.ask) / 2.0, np.nan)

    @cached_property
    def sign(self) -> Ints:
        """[n] +1 for side BUY, -1 for SELL; of a market message this is the trade sign."""
        return 1 - 2 * self.side.astype(np.int64)

    @cached_property
    def trades(self) -> Bools:
        """[n] whether it is a market message."""
        return self.kind == MARKET

    def part(self, start: int, stop: int) -> "Tape":
        """Messages start..stop with the books around them."""
        one, books = slice(start, stop), slice(start, stop + 1)
        return Tape(
            self.symbol, self.time_ns[one], self.kind[one], self.side[one], self.price_ticks[one], self.qty_lots[one],
            self.entered_ns[one], self.first[one], self.book_ticks[books], self.book_lots[books],
        )  # fmt: skip

    def window(self, start_ns: int, end_ns: int) -> "Tape":
        """Messages of [start_ns, end_ns); EmptyWindow, NoTrades or NoTwoSidedBook if that is too little to compare."""
        start, stop = (int(place) for place in np.searchsorted(self.time_ns, [start_ns, end_ns]))
        name = f"{self.symbol} in {time_of_day_text(start_ns)}-{time_of_day_text(end_ns)}"
        if start == stop:
            seen = (
                f"{time_of_day_text(int(self.time_ns[0]))}-{time_of_day_text(int(self.time_ns[-1]))}"
                if len(self)
                else "no time at all"
            )
            raise EmptyWindow(f"{name}: no visible message; the day has messages in {seen}, give a window there")
        cut = self.part(start, stop)
        if not cut.trades.any():
            raise NoTrades(f"{name}: {len(cut):,} messages and no trade among them; give a longer window")
        if not cut.two_sided[1:].any():
            raise NoTwoSidedBook(f"{name}: never a bid and an ask at the same time; give another window")
        return cut

    def halves(self, start_ns: int, end_ns: int) -> tuple["Tape", "Tape"]:
        """The two halves in time of a window; errors as window."""
        middle_ns = (start_ns + end_ns) // 2
        return self.window(start_ns, middle_ns), self.window(middle_ns, end_ns)

    def span(self) -> tuple[int, int]:
        """First message's time and the time just after the last one's, in ns."""
        return int(self.time_ns[0]), int(self.time_ns[-1]) + 1


def build_tape(day: Day, levels: int = 0, symbol: str | None = None) -> Tape:
    """Plays a day and records what `levels` levels a side show (0: as many as its source, or 10).

    NoSuchSymbol if the day has no such symbol (None: its first), EmptyWindow if nothing is visible at all.
    """
    shown = levels or day.reference.levels or LEVELS_DEFAULT
    if not 1 <= shown <= LEVELS_MAX:
        raise RealismError(f"levels: 1 to {LEVELS_MAX} is due, got {levels}")
    name, commands, rows = symbol_commands(day, symbol)
    partial = "refresh_adds" in day.reference.counts
    told = mark_messages(commands, rows, partial)
    room, event_rows = len(commands) + shown + 64, 4096
    near = np.zeros(shown + 1, LEVEL)
    while True:
        market = history_market()
        events = np.zeros(event_rows, EVENT)
        out = allocate_tape(room, int(commands["command_id"].max(initial=0)), shown)
        while (status := run(market.state, commands, rows, told, partial, events, near, out)) > DONE:
            market.grow()
        if status == DONE:
            break
        room, event_rows = 2 * room, 2 * event_rows
    count = int(out.at[1])
    if count == 0:
        raise EmptyWindow(f"{name}: the day has no visible message; give a day with orders in it")
    whole = Tape(
        name, out.time_ns, out.kind, out.side, out.price_ticks, out.qty_lots, out.entered_ns, out.first, out.book_ticks,
        out.book_lots,
    )  # fmt: skip
    return whole.part(0, count)


def symbol_commands(day: Day, symbol: str | None) -> tuple[str, Rows, Ints]:
    """(name, commands as symbol 0 of participant HISTORY, source rows) of one symbol of a day."""
    names = [known.name for known in day.reference.symbols]
    name = names[0] if symbol is None else symbol
    if name not in names:
        raise NoSuchSymbol(f"symbol {name}: the day has {', '.join(names)}; give one of these")
    place = names.index(name)
    own = (day.commands["symbol"] == place) | (day.commands["symbol"] == ALL_SYMBOLS)
    commands = day.commands[own]
    commands["symbol"] = np.where(commands["symbol"] == place, 0, commands["symbol"])
    commands["participant"] = HISTORY
    commands["sequence"] = np.arange(1, len(commands) + 1)
    return name, commands, day.rows[own]


def history_market(symbols: int = 1) -> Market:
    """An empty market in which participant HISTORY is an operator."""
    market = Market(symbols)
    market.grant_operator(HISTORY)
    return market
