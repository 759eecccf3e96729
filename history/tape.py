"""The public tape of a market: the public part of its events, and the commands that reproduce it.

A live session and the replay of its recording have the same tape hash. The tape contains what was added, traded and removed, but neither the
participants nor the exchange's order numbers.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, int64
from serl.exchange.records import EventFlag, EventKind, Rows
from serl.history.stream_book import ROW, TIME_NS, StreamBook, find_order, has_room, has_room_to_enter
from serl.history.stream_commands import (
    cancel_lots,
    enter_order,
    forget_order,
    halt,
    orders_at_price,
    print_trade,
    resume,
    trade,
)

_ACCEPTED, _FILL, _CANCELLED = int(EventKind.ACCEPTED), int(EventKind.FILL), int(EventKind.CANCELLED)
_REDUCED, _REPLACED, _RESTED = int(EventKind.REDUCED), int(EventKind.REPLACED), int(EventKind.RESTED)
_PRINT, _HALTED, _RESUMED = int(EventKind.PRINT), int(EventKind.HALTED), int(EventKind.RESUMED)
_RESTING, _MAKER, _HIDDEN = int(EventFlag.RESTING), int(EventFlag.MAKER), int(EventFlag.HIDDEN)
ADDED, TRADED, REMOVED, PRINTED, HALTED, RESUMED = range(1, 7)
NO_ACTION = 0
HASH = "tape_sha256"
"""Name of the parameter of a recorded day that contains its tape hash."""


def public_view(events: Rows) -> Rows:
    """The public part of events: a hidden order's trade is a PRINT, and an iceberg shows only its displayed part."""
    kind, flags = events["kind"], events["flags"]
    hidden = ((flags & _HIDDEN) > 0) & (kind <= _RESTED)
    printed = hidden & (kind == _FILL) & ((flags & _MAKER) > 0)
    shown = events[~hidden | printed].copy()
    shown["kind"][printed[~hidden | printed]] = _PRINT
    added = ((shown["kind"] == _ACCEPTED) & ((shown["flags"] & _RESTING) > 0)) | (shown["kind"] == _RESTED)
    shown["leaves_lots"][added] = shown["qty_lots"][added]
    return shown


def tape_actions(events: Rows) -> NDArray[np.int64]:
    """For each event of `public_view`: ADDED .. RESUMED, or NO_ACTION if it changes nothing."""
    kind, flags, lots = events["kind"], events["flags"], events["qty_lots"]
    resting = (flags & _RESTING) > 0
    choices = [
        ((kind == _ACCEPTED) & resting) | (kind == _RESTED),
        (kind == _FILL) & ((flags & _MAKER) > 0),
        (((kind == _CANCELLED) & resting) | (kind == _REDUCED) | (kind == _REPLACED)) & (lots > 0),
        kind == _PRINT,
        kind == _HALTED,
        kind == _RESUMED,
    ]
    return np.select(choices, [ADDED, TRADED, REMOVED, PRINTED, HALTED, RESUMED], NO_ACTION)


class Tape:
    """Hashes the public part of events. Orders are numbered in the order in which they were added."""

    def __init__(self) -> None:
        self.rows = 0
        self._hash = hashlib.sha256()
        self._orders: dict[int, tuple[int, int]] = {}
        """Displayed orders by the exchange's number: (number on the tape, displayed lots)."""
        self._added = 0

    def update(self, events: Rows) -> None:
        """Adds EVENT rows, which must come in order."""
        events = public_view(events)
        action = tape_actions(events)
        visible = events[action != NO_ACTION]
        action = action[action != NO_ACTION]
        if not len(visible):
            return
        book = action <= REMOVED
        halt = action >= HALTED
        columns = [
            visible["time_ns"], action, visible["symbol"], np.where(halt, 0, visible["side"]), self._order_numbers(visible, action, book),
            np.where(halt, 0, visible["price_ticks"]), np.where(halt, 0, visible["qty_lots"]),
        ]  # fmt: skip
        self._hash.update(np.stack(columns, 1).astype("<i8").tobytes())
        self.rows += len(visible)

    def _order_numbers(self, events: Rows, action: NDArray[np.int64], book: NDArray[np.bool_]) -> NDArray[np.int64]:
        names = np.zeros(len(events), np.int64)
        for index in np.flatnonzero(book):
            number, lots = int(events["order_number"][index]), int(events["qty_lots"][index])
            if action[index] == ADDED:
                self._added += 1
                self._orders[number] = self._added, lots
                names[index] = self._added
                continue
            names[index], open_lots = self._orders.pop(number)
            if lots < open_lots:
                self._orders[number] = int(names[index]), open_lots - lots
        return names

    def hexdigest(self) -> str:
        """The hash of everything so far."""
        return self._hash.hexdigest()


@compiled
def write_public_commands(book: StreamBook, events: Any, action: Any, first: int) -> int:
    """Writes the commands that reproduce events[first:]; returns where it stopped because the book needs room."""
    for index in range(first, events.size):
        event, kind = events[index], action[index]
        if kind == NO_ACTION:
            continue
        symbol, side = int64(event.symbol), int64(event.side)
        slot = find_order(book, event.order_number) if kind == TRADED or kind == REMOVED else 0
        if not (
            has_room_to_enter(book, symbol)
            if kind == RESUMED
            else has_room(book, orders_at_price(book, slot) if slot else 0)
        ):
            return index
        book.counter[TIME_NS] = event.time_ns
        if kind == ADDED:
            enter_order(book, event.order_number, symbol, side, event.price_ticks, event.qty_lots)
        elif kind == PRINTED:
            print_trade(book, symbol, side, event.price_ticks, event.qty_lots)
        elif kind == HALTED:
            halt(book, symbol)
        elif kind == RESUMED:
            resume(book, symbol)
        else:
            if kind == TRADED:
                trade(book, slot, event.qty_lots)
            else:
                cancel_lots(book, slot, event.qty_lots)
            if book.orders[slot].source_lots == 0:
                forget_order(book, slot)
        book.counter[ROW] += 1
    return events.size
