"""The public tape of a market: what everybody can see of its events, and the commands that make the same tape again.

A live session and the replay of its recording have the same tape hash, though those who traded stay unknown: the tape says what
stood in the book, what traded and what was taken off, not who did it nor how they were called.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, int64
from serl.exchange.records import EventFlag, EventKind, Rows
from serl.history.named_book import ROW, TIME_NS, NamedBook, find, room
from serl.history.named_play import crowd, enter, halt, publish, resume, retire, take_off, trade

_ACCEPTED, _FILL, _CANCELLED = int(EventKind.ACCEPTED), int(EventKind.FILL), int(EventKind.CANCELLED)
_REDUCED, _REPLACED, _RESTED = int(EventKind.REDUCED), int(EventKind.REPLACED), int(EventKind.RESTED)
_PRINT, _HALTED, _RESUMED = int(EventKind.PRINT), int(EventKind.HALTED), int(EventKind.RESUMED)
_RESTING, _MAKER, _HIDDEN = int(EventFlag.RESTING), int(EventFlag.MAKER), int(EventFlag.HIDDEN)
ADDED, TRADED, TAKEN_OFF, PRINTED, HALTED, RESUMED = range(1, 7)
NOTHING = 0
HASH = "tape_sha256"
"""The parameter of a recorded day that holds its tape hash."""


def public(events: Rows) -> Rows:
    """The events that everybody sees, as they are seen: of hidden orders only that they traded, as a PRINT; of an iceberg what is displayed."""
    kind, flags = events["kind"], events["flags"]
    unseen = ((flags & _HIDDEN) > 0) & (kind <= _RESTED)
    printed = unseen & (kind == _FILL) & ((flags & _MAKER) > 0)
    seen = events[~unseen | printed].copy()
    seen["kind"][printed[~unseen | printed]] = _PRINT
    added = ((seen["kind"] == _ACCEPTED) & ((seen["flags"] & _RESTING) > 0)) | (seen["kind"] == _RESTED)
    seen["leaves_lots"][added] = seen["qty_lots"][added]
    return seen


def actions(events: Rows) -> NDArray[np.int64]:
    """[event of `public`] ADDED .. RESUMED; NOTHING for what changes nothing."""
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
    return np.select(choices, [ADDED, TRADED, TAKEN_OFF, PRINTED, HALTED, RESUMED], NOTHING)


class Tape:
    """Hashes the public part of events as they come. Orders are named by their place among all that were added."""

    def __init__(self) -> None:
        self.rows = 0
        self._hash = hashlib.sha256()
        self._names: dict[int, int] = {}
        self._added = 0

    def update(self, events: Rows) -> None:
        """Takes EVENT rows in their order."""
        events = public(events)
        action = actions(events)
        told = events[action != NOTHING]
        action = action[action != NOTHING]
        if not len(told):
            return
        book = action <= TAKEN_OFF
        halt = action >= HALTED
        columns = [
            told["time_ns"], action, told["symbol"], np.where(halt, 0, told["side"]), self._named(told, action, book),
            np.where(halt, 0, told["price_ticks"]), np.where(halt, 0, told["qty_lots"]),
        ]  # fmt: skip
        self._hash.update(np.stack(columns, 1).astype("<i8").tobytes())
        self.rows += len(told)

    def _named(self, events: Rows, action: NDArray[np.int64], book: NDArray[np.bool_]) -> NDArray[np.int64]:
        names = np.zeros(len(events), np.int64)
        for index in np.flatnonzero(book):
            number = int(events["order_number"][index])
            if action[index] == ADDED:
                self._added += 1
                self._names[number] = self._added
            names[index] = self._names[number]
            if action[index] != ADDED and events["leaves_lots"][index] == 0:
                del self._names[number]
        return names

    def hexdigest(self) -> str:
        """Of everything so far."""
        return self._hash.hexdigest()


@compiled
def play_public(book: NamedBook, events: Any, action: Any, first: int) -> int:
    """Writes the commands that make these events again, from events[first] on; where it stopped for room."""
    for index in range(first, events.size):
        event, what = events[index], action[index]
        if what == NOTHING:
            continue
        symbol, side = int64(event.symbol), int64(event.side)
        slot = find(book, event.order_number) if what == TRADED or what == TAKEN_OFF else 0
        if not room(book, crowd(book, slot) if slot else int64(book.waiting[symbol, 2])):
            return index
        book.counter[TIME_NS] = event.time_ns
        if what == ADDED:
            enter(book, event.order_number, symbol, side, event.price_ticks, event.qty_lots)
        elif what == PRINTED:
            publish(book, symbol, side, event.price_ticks, event.qty_lots)
        elif what == HALTED:
            halt(book, symbol)
        elif what == RESUMED:
            resume(book, symbol)
        else:
            if what == TRADED:
                trade(book, slot, event.qty_lots)
            else:
                take_off(book, slot, event.qty_lots)
            if book.orders[slot].known_lots == 0:
                retire(book, slot)
        book.counter[ROW] += 1
    return events.size
