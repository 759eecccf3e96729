"""The events of a book that gives way, in real prices, for callers that need all events and not only the trades."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import inlined
from serl.exchange.records import EVENT, EventFlag, EventKind, Reason, Rows

EVENTS_MAX = 1 << 18
"""The most events of one command and all that the rules do because of it. Unused rows take no physical memory."""
# Indices into `counts`: rows written, rows that had no room, sequence of the command
WRITTEN, LOST, COMMAND_SEQUENCE = range(3)
SET, CANCELLED = int(EventKind.SET), int(EventKind.CANCELLED)
RESTING, NO_ROOM = int(EventFlag.RESTING), int(Reason.NO_ROOM)


class Tape(NamedTuple):
    """The events since the owner last emptied the tape."""

    rows: Rows
    """(EVENTS_MAX,) EVENT."""
    counts: NDArray[np.int64]
    """(3,) WRITTEN, LOST and COMMAND_SEQUENCE."""

    @classmethod
    def new(cls) -> "Tape":
        """An empty tape."""
        return cls(np.zeros(EVENTS_MAX, EVENT), np.zeros(3, np.int64))


@inlined
def append_events(tape: Any, events: Any, count: int, shift_ticks: int) -> None:
    """Appends the first `count` events of the book with their prices shifted."""
    if tape.counts[WRITTEN] + count > tape.rows.size:
        tape.counts[LOST] += count
        return
    for index in range(count):
        tape.rows[tape.counts[WRITTEN]] = events[index]
        event = tape.rows[tape.counts[WRITTEN]]
        event.command_sequence = tape.counts[COMMAND_SEQUENCE]
        if event.price_ticks != 0 and event.kind != SET:
            event.price_ticks += shift_ticks
        tape.counts[WRITTEN] += 1


@inlined
def append_cancellation(tape: Any, order: Any, time_ns: int, shift_ticks: int) -> None:
    """Appends the cancellation of a resting order whose price does not exist in the book."""
    if tape.counts[WRITTEN] == tape.rows.size:
        tape.counts[LOST] += 1
        return
    event = tape.rows[tape.counts[WRITTEN]]
    event.time_ns, event.command_sequence = time_ns, tape.counts[COMMAND_SEQUENCE]
    event.kind, event.reason, event.flags, event.side = CANCELLED, NO_ROOM, RESTING, order.side
    event.symbol, event.participant = order.symbol, order.participant
    event.command_id, event.order_id, event.order_number = 0, order.order_id, order.order_number
    event.price_ticks, event.qty_lots = order.price_ticks + shift_ticks, order.open_lots
    event.leaves_lots = event.match_id = 0
    tape.counts[WRITTEN] += 1
