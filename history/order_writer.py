"""Keeps the orders of a source by their ids, and writes the commands that give the market the same book.

For readers in plain Python: they report changes of orders, which are passed to the compiled book in batches, as records of Databento's reader.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import CASH_MAX, Rows
from serl.history import dbn, stream_book
from serl.history.level_book import SourceBook
from serl.history.source import Sink, flush, make_room
from serl.history.stream_book import BUY, FIRST_NS, ROW, TIME_NS, has_room_to_enter
from serl.history.stream_commands import halt, resume

BATCH_RECORDS = 1 << 16
OPENING_ROW = -1
"""Source row of the orders of a snapshot: of the opening book, or of the book after a lost connection."""
RAISED_NS_MAX = 60 * 1_000_000_000
COUNT_NAMES = (
    "modifies",
    "trades_hidden",  # against orders that were not displayed: printed
    "executions_other_price",  # at a price other than the order's: reduced and printed
    "orders_out_of_date",  # removed, because an order of the other side would trade with them
    "orders_unknown",  # events of orders that the source has not shown: omitted
    "times_raised",  # to the time of the row before, which was later
)


class InvalidOrder(ValueError):
    """An invalid event. The text says what was expected; the reader adds the position."""


@dataclass(slots=True)
class Order:
    """An open order of the source."""

    number: int
    symbol: int
    side: int
    price_ticks: int
    lots: int


class OrderWriter:
    """Writes the commands of a source's orders. Events name orders by the source's ids and raise `InvalidOrder`.

    removes_crossed: if true, orders with which a new order of the other side would trade are out of date, and are removed. If false, the new
    order is held until it would not trade.
    """

    def __init__(self, sink: Sink, symbols_max: int, *, removes_crossed: bool) -> None:
        self.counts = dict.fromkeys(COUNT_NAMES, 0)
        self.orders: dict[Hashable, Order] = {}
        self.last_time_ns = 0
        self._sink = _RowSink(sink)
        self._book = stream_book.empty_book(symbols_max)
        self._dbn_counts = np.zeros(len(dbn.COUNT_NAMES), np.int64)
        self._removes_crossed = removes_crossed
        self._levels: dict[int, SourceBook] = {}
        self._ids: dict[int, dict[int, Hashable]] = {}
        """[symbol] ids of the open orders by order number."""
        self._halted: set[int] = set()
        self._records: list[tuple[int, ...]] = []
        self._rows: list[int] = []
        self._row = 0
        self._numbers = 0

    def stamp(self, row: int, time_ns: int) -> None:
        """Sets the source row and the time after midnight of the next events; time never runs backwards."""
        require_raisable(time_ns, self.last_time_ns)
        self._row = row
        if time_ns < self.last_time_ns:
            self.counts["times_raised"] += 1
        else:
            self.last_time_ns = time_ns

    def add(self, order_id: Hashable, symbol: int, side: int, price_ticks: int, lots: int) -> None:
        """Adds a new order."""
        if order_id in self.orders:
            raise InvalidOrder("an order id that is not open yet")
        require_tradable(price_ticks, lots)
        self._numbers += 1
        order = Order(self._numbers, symbol, side, price_ticks, lots)
        if self._removes_crossed and symbol not in self._halted:
            self._remove_crossed(order)
        self.orders[order_id] = order
        self._ids.setdefault(symbol, {})[order.number] = order_id
        self._level(order, lots)
        self._record(dbn.ADD, order, price_ticks, lots)

    def reduce(self, order_id: Hashable, lots: int) -> None:
        """Cancels lots of an order."""
        order = self._open(order_id, lots)
        if order is not None:
            self._cancel(order_id, order, lots)

    def delete(self, order_id: Hashable) -> None:
        """Cancels the rest of an order."""
        order = self._open(order_id)
        if order is not None:
            self._cancel(order_id, order, order.lots)

    def execute(self, order_id: Hashable, lots: int) -> None:
        """Executes lots of an order at its price."""
        order = self._open(order_id, lots)
        if order is not None:
            self._record(dbn.FILL, order, order.price_ticks, lots)
            self._cancel(order_id, order, lots)

    def execute_at(self, order_id: Hashable, lots: int, price_ticks: int, lots_left: int) -> None:
        """Executes lots of an order at a price that may differ from its own; lots_left: open after the trade."""
        order = self._open(order_id, lots)
        if order is None:
            return
        require_tradable(price_ticks, lots)
        self.counts["executions_other_price"] += price_ticks != order.price_ticks
        self._record(dbn.FILL, order, price_ticks, lots)
        self._cancel(order_id, order, lots)
        if order.lots > lots_left:
            self._cancel(order_id, order, order.lots - lots_left)
        elif order.lots < lots_left:  # more is displayed than before the trade: the order joins the end of the queue
            if order.lots:
                self._cancel(order_id, order, order.lots)
            self.add(order_id, order.symbol, order.side, order.price_ticks, lots_left)

    def modify(self, order_id: Hashable, price_ticks: int, lots: int, *, keeps_priority: bool) -> None:
        """Changes the price or size of an order. It keeps its place in the queue only with `keeps_priority`, at the same price, and if its size does
        not increase."""
        order = self._open(order_id)
        if order is None:
            return
        require_tradable(price_ticks, lots)
        self.counts["modifies"] += 1
        if keeps_priority and price_ticks == order.price_ticks and lots <= order.lots:
            if lots < order.lots:
                self._cancel(order_id, order, order.lots - lots)
            return
        self._cancel(order_id, order, order.lots)
        self.add(order_id, order.symbol, order.side, price_ticks, lots)

    def trade_hidden(self, symbol: int, side: int, price_ticks: int, lots: int) -> None:
        """Prints a trade against an order of `side` that was not displayed."""
        require_tradable(price_ticks, lots)
        self.counts["trades_hidden"] += 1
        self._record(dbn.FILL, Order(0, symbol, side, price_ticks, lots), price_ticks, lots)

    def clear(self, symbol: int) -> None:
        """Cancels all orders of a symbol."""
        for order_id in list(self._ids.get(symbol, {}).values()):
            self.delete(order_id)

    def set_halted(self, symbol: int, halted: bool) -> None:
        """Halts or resumes a symbol; new orders are held meanwhile."""
        if halted == (symbol in self._halted):
            return
        self.flush()
        self._sink.rows = np.array([self._row])
        self._book.counter[ROW], self._book.counter[TIME_NS] = 0, self.last_time_ns
        while not has_room_to_enter(self._book, symbol):
            self._book = make_room(self._book, self._sink)
        if halted:
            self._halted.add(symbol)
            halt(self._book, symbol)
        else:
            self._halted.discard(symbol)
            resume(self._book, symbol)
        flush(self._book, self._sink)

    def flush(self) -> None:
        """Writes the commands of all events so far."""
        if not self._records:
            return
        records = np.array(self._records, np.int64)
        self._sink.rows = np.array(self._rows)
        symbols = np.ascontiguousarray(records[:, dbn.INSTRUMENT])
        at, why = 0, dbn.APPLIED
        while at < len(records) or why == dbn.NEEDS_ROOM:
            # private, because any change in its file recompiles everything
            at, why = dbn._apply(self._book, records, at, 0, symbols, 1, 0, self._dbn_counts)
            if why not in (dbn.APPLIED, dbn.NEEDS_ROOM):
                raise AssertionError(f"record {at}: {dbn.EXPECTED[why]}")
            if why == dbn.NEEDS_ROOM:
                self._book = make_room(self._book, self._sink)
        flush(self._book, self._sink)  # the row numbers of this batch end with it
        self._records.clear()
        self._rows.clear()

    @property
    def first_time_ns(self) -> int:
        """Time of the first command."""
        return int(self._book.counter[FIRST_NS])

    def all_counts(self) -> dict[str, int]:
        """How often each rule applied."""
        return dict(zip(stream_book.COUNT_NAMES, self._book.counts.tolist(), strict=True)) | self.counts

    def _open(self, order_id: Hashable, lots: int = 1) -> Order | None:
        """The order, from which `lots` are about to be removed; None, and counted, if the source has not shown it."""
        order = self.orders.get(order_id)
        if order is None:
            self.counts["orders_unknown"] += 1
        elif lots <= 0:
            raise InvalidOrder("a quantity above 0")
        elif lots > order.lots:
            raise InvalidOrder(f"at most the {order.lots:,} open lots of the order")
        return order

    def _cancel(self, order_id: Hashable, order: Order, lots: int) -> None:
        self._record(dbn.CANCEL, order, order.price_ticks, lots)
        self._level(order, -lots)
        order.lots -= lots
        if not order.lots:
            del self.orders[order_id], self._ids[order.symbol][order.number]

    def _remove_crossed(self, newer: Order) -> None:
        levels = self._levels.get(newer.symbol)
        prices = levels.prices_up_to(1 - newer.side, newer.price_ticks) if levels is not None else []
        if not prices:
            return
        stale = set(prices)
        for order_id in list(self._ids[newer.symbol].values()):
            order = self.orders[order_id]
            if order.side != newer.side and order.price_ticks in stale:
                self.counts["orders_out_of_date"] += 1
                self._cancel(order_id, order, order.lots)

    def _level(self, order: Order, lots: int) -> None:
        """Changes the quantity at the price of an order; only needed with `removes_crossed`."""
        if not self._removes_crossed:
            return
        levels = self._levels.get(order.symbol)
        if levels is None:
            levels = self._levels[order.symbol] = SourceBook()
        before = levels.lots[order.side].get(order.price_ticks, 0)
        levels.change(order.side, order.price_ticks, before + lots)

    def _record(self, action: int, order: Order, price_ticks: int, lots: int) -> None:
        flags = 0 if order.symbol in self._halted else dbn.LAST  # at a last record, held orders enter
        side = dbn.BID if order.side == BUY else dbn.ASK
        self._records.append(
            (self.last_time_ns, action, side, price_ticks, lots, order.number, flags, order.symbol)
        )  # fmt: skip
        self._rows.append(self._row)
        if len(self._records) >= BATCH_RECORDS:
            self.flush()


def require_raisable(time_ns: int, last_ns: int) -> None:
    """Raises `InvalidOrder` if a time is so far behind the previous one that the difference cannot be a delay."""
    if last_ns - time_ns > RAISED_NS_MAX:
        seconds = (last_ns - time_ns) / 1_000_000_000
        raise InvalidOrder(
            f"a time at most a minute before the latest of the messages above, it is {seconds:,.3f} s before it; sort them by time"
        )


def require_tradable(price_ticks: int, lots: int) -> None:
    """Raises `InvalidOrder` unless an order could have this price and size."""
    if lots <= 0:
        raise InvalidOrder("a quantity above 0")
    if price_ticks <= 0 or price_ticks * lots > CASH_MAX:
        raise InvalidOrder("a price above 0, and at most 2^53 ticks x lots")


class _RowSink:
    """Passes commands on with the rows of the source instead of their positions in a batch."""

    def __init__(self, sink: Sink) -> None:
        self.rows: NDArray[Any] = np.zeros(0, np.int64)
        self._sink = sink

    def write(self, commands: Rows, rows: NDArray[np.int64]) -> None:
        """Receives COMMAND rows and their positions in the batch."""
        self._sink.write(commands, self.rows[rows])
