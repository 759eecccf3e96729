"""The reference market: docs/orders.md in plain Python, to be read beside it and to hold the compiled kernel to it.

Dicts and lists, no cleverness: an order is an object, a price level a dict of orders in time priority, a side of a book
its levels and their sorted prices. Some hundred times slower than `Market`, with the same results to the last bit.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np

from serl.exchange.errors import ConfigError
from serl.exchange.market import MarketLimits
from serl.exchange.records import (
    ALL_SYMBOLS,
    EVENT,
    LEVEL,
    ORDER,
    CommandFlag,
    CommandKind,
    EventFlag,
    EventKind,
    Reason,
    Rows,
    Side,
    TimeInForce,
)  # fmt: skip
from serl.exchange.reference_book import BookSide, Command, Order
from serl.exchange.snapshot import Snapshot, participants_used

KINDS = frozenset(map(int, CommandKind))
OPERATOR_KINDS = frozenset({CommandKind.END_DAY, CommandKind.HALT, CommandKind.RESUME, CommandKind.PRINT})
SYMBOL_KINDS = frozenset({CommandKind.NEW, CommandKind.HALT, CommandKind.RESUME, CommandKind.PRINT})
ORDER_KINDS = frozenset({CommandKind.CANCEL, CommandKind.REDUCE, CommandKind.REPLACE})
QTY_KINDS = frozenset({CommandKind.NEW, CommandKind.REDUCE, CommandKind.REPLACE, CommandKind.PRINT})
PRICE_KINDS = frozenset({CommandKind.NEW, CommandKind.REPLACE, CommandKind.PRINT})
POST_ONLY, MARKET = int(CommandFlag.POST_ONLY), int(CommandFlag.MARKET)
DEFAULT_LIMITS = MarketLimits()
CAN_REST = (TimeInForce.DAY, TimeInForce.GTC)


class ReferenceMarket:
    """The same interface, events and state hash as `Market`; `window_ticks` means nothing here."""

    def __init__(self, symbols: Sequence[str] | int = 1, *, limits: MarketLimits = DEFAULT_LIMITS) -> None:
        self.names = [str(number) for number in range(symbols)] if isinstance(symbols, int) else list(symbols)
        self.limits = limits
        self.books = [(BookSide(Side.BUY), BookSide(Side.SELL)) for _ in self.names]
        self.open: dict[tuple[int, int], Order] = {}  # (participant, order_id) -> order in the book
        self.halted = [False] * len(self.names)
        self.operators: set[int] = set()
        self.last_command_id = [0] * limits.participants_max
        self.report = [0] * limits.participants_max
        self.position_lots: defaultdict[tuple[int, int], int] = defaultdict(int)  # (participant, symbol)
        self.cash_ticks: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.event_sequence = self.match_id = self.order_number = self.command_sequence = 0
        self._events: list[tuple[int, ...]] = []
        self._effects: dict[int, Callable[[Command], None]] = {
            CommandKind.NEW: self._new,
            CommandKind.CANCEL: self._cancel,
            CommandKind.REDUCE: self._reduce,
            CommandKind.REPLACE: self._replace,
            CommandKind.MASS_CANCEL: self._mass_cancel,
            CommandKind.END_DAY: self._end_day,
            CommandKind.HALT: self._halt,
            CommandKind.RESUME: self._halt,
            CommandKind.PRINT: self._print,
        }

    def grant_operator(self, participant: int) -> None:
        """Lets a participant halt, resume, print and end the day."""
        self.operators.add(participant)

    def submit(self, commands: Rows) -> Rows:
        """Executes COMMAND rows in order; the EVENT rows that came of them."""
        if len(commands) and int(commands["participant"].max()) >= self.limits.participants_max:
            highest = commands["participant"].max()
            raise ConfigError(f"participants up to {self.limits.participants_max - 1} are due, got {highest}")
        self._events = []
        for row in commands.tolist():
            self._execute(Command(*row))
        return np.array(self._events, EVENT)

    # -- checks ---------------------------------------------------------------------------------------------------

    def _execute(self, command: Command) -> None:
        self.command_sequence += 1
        reason = Reason.STALE_COMMAND_ID
        if command.command_id == 0 or command.command_id > self.last_command_id[command.participant]:
            if command.command_id != 0:
                self.last_command_id[command.participant] = command.command_id
            reason = self._check(command)
        if reason == Reason.NONE:
            self._effects[command.kind](command)
            return
        order_id = command.command_id if command.kind == CommandKind.NEW else command.order_id
        self._tell(
            command, EventKind.REJECTED, order_id=order_id,
            price_ticks=command.price_ticks, qty_lots=command.qty_lots, reason=reason,
        )  # fmt: skip

    def _check(self, c: Command) -> Reason:
        """The section Checks of docs/orders.md from UNKNOWN_KIND on, a line each."""
        kind, new, order = c.kind, c.kind == CommandKind.NEW, self.open.get((c.participant, c.order_id))
        if kind not in KINDS:
            return Reason.UNKNOWN_KIND
        if kind in OPERATOR_KINDS and c.participant not in self.operators:
            return Reason.NOT_PERMITTED
        named = kind in SYMBOL_KINDS or (kind == CommandKind.MASS_CANCEL and c.symbol != ALL_SYMBOLS)
        if named and c.symbol >= len(self.books):
            return Reason.UNKNOWN_SYMBOL
        if kind in ORDER_KINDS and order is None:
            return Reason.UNKNOWN_ORDER
        if new and self.halted[c.symbol]:
            return Reason.HALTED
        if kind == CommandKind.REPLACE and order is not None and self.halted[order.symbol]:
            return Reason.HALTED
        if (new or kind == CommandKind.PRINT) and c.side not in (Side.BUY, Side.SELL):
            return Reason.BAD_SIDE
        if new and c.time_in_force > TimeInForce.FOK:
            return Reason.BAD_TIME_IN_FORCE
        if new and (c.flags & ~(POST_ONLY | MARKET) or (c.flags & POST_ONLY and not _can_rest(c))):
            return Reason.BAD_FLAGS
        if kind in QTY_KINDS and not 1 <= c.qty_lots <= self.limits.qty_lots_max:
            return Reason.BAD_QTY
        if new and c.flags & MARKET:
            if c.price_ticks != 0:
                return Reason.BAD_PRICE
        elif kind in PRICE_KINDS and not 1 <= c.price_ticks <= self.limits.price_ticks_max:
            return Reason.BAD_PRICE
        if new and c.flags & POST_ONLY and self.books[c.symbol][1 - c.side].crosses(c.price_ticks):
            return Reason.WOULD_CROSS
        if kind == CommandKind.REPLACE and order is not None and order.flags & POST_ONLY:
            filled = order.total_lots - order.open_lots  # what is filled already does not trade
            if c.qty_lots > filled and self.books[order.symbol][1 - order.side].crosses(c.price_ticks):
                return Reason.WOULD_CROSS
        if new and _can_rest(c) and (len(self.open) >= self.limits.orders_open_max or self._is_full(c.symbol)):
            return Reason.BOOK_FULL
        if (
            kind == CommandKind.REPLACE
            and order is not None
            and _loses_priority(c, order)
            and self._is_full(order.symbol)
        ):
            return Reason.BOOK_FULL
        return Reason.NONE

    def _is_full(self, symbol: int) -> bool:
        return sum(len(side.levels) for side in self.books[symbol]) >= self.limits.levels_max

    # -- effects --------------------------------------------------------------------------------------------------

    def _new(self, c: Command) -> None:
        order = Order(
            order_number=0, order_id=c.command_id, price_ticks=c.price_ticks, open_lots=c.qty_lots,
            total_lots=c.qty_lots, symbol=c.symbol, participant=c.participant, side=c.side,
            time_in_force=c.time_in_force, flags=c.flags,
        )  # fmt: skip
        limit = c.price_ticks
        if c.flags & MARKET:
            limit = self.limits.price_ticks_max if c.side == Side.BUY else 1
        opposite = self.books[c.symbol][1 - c.side]
        if _can_rest(c) and not opposite.crosses(limit):
            self._rest(c, order, EventKind.ACCEPTED, EventFlag.RESTING)
            return
        self._tell(c, EventKind.ACCEPTED, order, qty_lots=c.qty_lots)
        if c.time_in_force != TimeInForce.FOK or opposite.can_fill(limit, c.qty_lots):
            self._trade(c, order, limit)
        if order.open_lots == 0:
            return
        if _can_rest(c):
            self._rest(c, order, EventKind.RESTED, EventFlag.NONE)
            return
        reason = Reason.MARKET_REMAINDER if c.flags & MARKET else Reason.IOC_REMAINDER
        if c.time_in_force == TimeInForce.FOK:
            reason = Reason.FOK_UNFILLABLE
        rest_lots, order.open_lots = order.open_lots, 0
        self._tell(c, EventKind.CANCELLED, order, qty_lots=rest_lots, reason=reason)

    def _trade(self, c: Command, taker: Order, limit_ticks: int) -> None:
        """Trades while prices cross: best price first, within a price oldest first, at the resting order's price."""
        opposite = self.books[taker.symbol][1 - taker.side]
        while taker.open_lots and opposite.crosses(limit_ticks):
            maker = next(opposite.orders())
            qty, price = min(taker.open_lots, maker.open_lots), maker.price_ticks
            self.match_id += 1
            for order in (maker, taker):
                order.open_lots -= qty
                account, bought = (order.participant, order.symbol), qty if order.side == Side.BUY else -qty
                self.position_lots[account] += bought
                self.cash_ticks[account] -= bought * price
            fill = {"price_ticks": price, "qty_lots": qty, "match_id": self.match_id}
            self._tell(c, EventKind.FILL, maker, command_id=0, flags=EventFlag.MAKER, **fill)
            self._tell(c, EventKind.FILL, taker, order_number=0, **fill)
            if maker.open_lots == 0:
                self._take_out(maker)

    def _rest(self, c: Command, order: Order, kind: EventKind, flags: EventFlag) -> None:
        self.order_number += 1
        order.order_number = self.order_number
        self.books[order.symbol][order.side].add(order)
        self.open[order.participant, order.order_id] = order
        self._tell(c, kind, order, qty_lots=order.open_lots, flags=flags)

    def _take_out(self, order: Order) -> None:
        self.books[order.symbol][order.side].remove(order)
        del self.open[order.participant, order.order_id]

    def _cancel_resting(self, c: Command, order: Order, reason: int) -> None:
        was_open, order.open_lots = order.open_lots, 0
        self._take_out(order)
        command_id = c.command_id if order.participant == c.participant else 0
        flags = EventFlag.RESTING
        self._tell(c, EventKind.CANCELLED, order, qty_lots=was_open, reason=reason, flags=flags, command_id=command_id)

    def _take_off(self, c: Command, order: Order, qty_lots: int) -> None:
        order.open_lots -= qty_lots
        order.total_lots -= qty_lots
        self._tell(c, EventKind.REDUCED, order, qty_lots=qty_lots)

    def _cancel(self, c: Command) -> None:
        self._cancel_resting(c, self.open[c.participant, c.order_id], Reason.REQUESTED)

    def _reduce(self, c: Command) -> None:
        order = self.open[c.participant, c.order_id]
        if c.qty_lots >= order.open_lots:
            self._cancel_resting(c, order, Reason.REQUESTED)
        else:
            self._take_off(c, order, c.qty_lots)

    def _replace(self, c: Command) -> None:
        order = self.open[c.participant, c.order_id]
        filled = order.total_lots - order.open_lots
        if c.qty_lots <= filled:
            self._cancel_resting(c, order, Reason.REPLACED_BELOW_FILLED)
            return
        if not _loses_priority(c, order):
            self._take_off(c, order, order.total_lots - c.qty_lots)
            return
        self._take_out(order)
        was_open, order.open_lots, order.total_lots = order.open_lots, c.qty_lots - filled, c.qty_lots
        self._tell(c, EventKind.REPLACED, order, qty_lots=was_open)
        order.price_ticks = c.price_ticks
        self._trade(c, order, c.price_ticks)
        if order.open_lots:
            self._rest(c, order, EventKind.RESTED, EventFlag.NONE)

    def _mass_cancel(self, c: Command) -> None:
        gone = [order for order in self._resting() if order.participant == c.participant]
        if c.symbol != ALL_SYMBOLS:
            gone = [order for order in gone if order.symbol == c.symbol]
        for order in gone:
            self._cancel_resting(c, order, c.reason & 0xFF or Reason.MASS_CANCEL)
        self._tell(c, EventKind.MASS_CANCELLED, qty_lots=len(gone))

    def _end_day(self, c: Command) -> None:
        gone = [order for order in self._resting() if order.time_in_force == TimeInForce.DAY]
        for order in gone:
            self._cancel_resting(c, order, Reason.DAY_END)
        self._tell(c, EventKind.DAY_ENDED, qty_lots=len(gone))

    def _halt(self, c: Command) -> None:
        self.halted[c.symbol] = c.kind == CommandKind.HALT
        self._tell(c, EventKind.HALTED if self.halted[c.symbol] else EventKind.RESUMED)

    def _print(self, c: Command) -> None:
        self.match_id += 1
        self._tell(c, EventKind.PRINT, price_ticks=c.price_ticks, qty_lots=c.qty_lots, match_id=self.match_id)

    def _tell(
        self, c: Command, kind: int, order: Order | None = None, *, qty_lots: int = 0, price_ticks: int | None = None,
        order_id: int | None = None, order_number: int | None = None, command_id: int | None = None,
        match_id: int = 0, reason: int = 0, flags: int = 0,
    ) -> None:  # fmt: skip
        """Appends an event about an order as it is now, or about the command where there is none."""
        about = order or Order(0, c.order_id, 0, 0, 0, c.symbol, c.participant, c.side, 0, 0)
        self.event_sequence += 1
        self.report[about.participant] += 1
        self._events.append((
            c.time_ns,
            self.event_sequence,
            self.command_sequence,
            self.report[about.participant],
            c.command_id if command_id is None else command_id,
            about.order_id if order_id is None else order_id,
            about.order_number if order_number is None else order_number,
            about.price_ticks if price_ticks is None else price_ticks,
            qty_lots,
            about.open_lots,
            match_id,
            about.symbol,
            about.participant,
            kind,
            about.side,
            reason,
            flags,
        ))  # fmt: skip

    # -- views ----------------------------------------------------------------------------------------------------

    def _resting(self) -> Iterator[Order]:
        """By symbol, side (bids first), price from best, time."""
        for bids, asks in self.books:
            yield from bids.orders()
            yield from asks.orders()

    def book(self, symbol: int = 0, depth: int = 0) -> tuple[Rows, Rows]:
        """(bids, asks) as LEVEL rows, best first; all of them with depth 0."""
        bids, asks = (np.array(list(side.sums(depth)), LEVEL) for side in self.books[symbol])
        return bids, asks

    def orders(self, symbol: int | None = None) -> Rows:
        """Resting orders as ORDER rows by symbol, side (bids first), price from best, time priority."""
        names = ORDER.names or ()
        found = [order for order in self._resting() if symbol is None or order.symbol == symbol]
        return np.array([tuple(getattr(order, name) for name in names) for order in found], ORDER)

    def snapshot(self) -> Snapshot:
        """A copy of everything that the market's future depends on."""
        last_command_id, report = np.array(self.last_command_id, np.int64), np.array(self.report, np.int64)
        used = participants_used(last_command_id, report)
        accounts = np.zeros((2, used, len(self.names)), np.int64)
        for amounts, balances in zip(accounts, (self.position_lots, self.cash_ticks), strict=True):
            for account, balance in balances.items():
                amounts[account] = balance
        counters = [self.event_sequence, self.match_id, self.order_number, self.command_sequence]
        return Snapshot(
            orders=self.orders(),
            counters=np.array(counters, np.int64),
            last_command_id=last_command_id[:used],
            report=report[:used],
            position_lots=accounts[0],
            cash_ticks=accounts[1],
            halted=np.array(self.halted, np.uint8),
        )

    @classmethod
    def restore(cls, snapshot: Snapshot, symbols: Sequence[str] | int = 1, *, limits: MarketLimits) -> Self:
        """The market that a snapshot was made of; its state hash is the same. Operators must be granted again."""
        market = cls(symbols, limits=limits)
        for row in snapshot.orders.tolist():
            order = Order(*row)
            market.books[order.symbol][order.side].add(order)
            market.open[order.participant, order.order_id] = order
        counters = snapshot.counters.tolist()
        market.event_sequence, market.match_id, market.order_number, market.command_sequence = counters
        used = len(snapshot.report)
        market.last_command_id[:used], market.report[:used] = (
            snapshot.last_command_id.tolist(),
            snapshot.report.tolist(),
        )
        for participant, symbol in np.ndindex(snapshot.position_lots.shape):
            market.position_lots[participant, symbol] = int(snapshot.position_lots[participant, symbol])
            market.cash_ticks[participant, symbol] = int(snapshot.cash_ticks[participant, symbol])
        market.halted = [bool(halted) for halted in snapshot.halted]
        return market

    def state_hash(self) -> str:
        """sha256 of the snapshot: the same for every implementation that was given the same commands."""
        return self.snapshot().digest()

    def validate(self) -> None:
        """AssertionError, saying what, if any invariant does not hold."""
        for symbol, (bids, asks) in enumerate(self.books):
            assert not bids.ranks or not asks.crosses(-bids.ranks[0]), f"symbol {symbol}: the book is crossed"
            bids.validate()
            asks.validate()
        resting = {(order.participant, order.order_id): order for order in self._resting()}
        assert resting == self.open, "the orders in the books are not those that can be cancelled"
        for order in resting.values():
            assert 0 < order.open_lots <= order.total_lots, f"{order}: open must be in 1..total"
            assert order.time_in_force in CAN_REST and not order.flags & MARKET, f"{order}: must not rest"
        for name in ("position_lots", "cash_ticks"):
            balances: dict[tuple[int, int], int] = getattr(self, name)
            for symbol in range(len(self.books)):
                total = sum(balance for account, balance in balances.items() if account[1] == symbol)
                assert total == 0, f"{name} of symbol {symbol} must sum to zero over participants, got {total}"


def _can_rest(command: Command) -> bool:
    return command.time_in_force in CAN_REST and not command.flags & MARKET


def _loses_priority(replace: Command, order: Order) -> bool:
    """Whether a REPLACE takes the order out and brings it to the market again."""
    filled = order.total_lots - order.open_lots
    return replace.qty_lots > filled and (
        replace.price_ticks != order.price_ticks or replace.qty_lots > order.total_lots
    )
