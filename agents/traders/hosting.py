"""The compiled part of a host process: traders that react to the exchange's events, and a copy of the exchange's book."""

from typing import Any

from serl.agents.traders.engine import (
    WAKEUPS_A_CALL,
    apply_report,
    has_capacity,
    next_arrival_ns,
    next_wake_ns,
    observe_public,
    remove_arrived,
    wake_next,
)
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled, inlined
from serl.exchange.gateway.feed_items import ADD, book_action
from serl.exchange.kernel.commands import DONE, execute
from serl.exchange.records import CommandKind, EventKind, TimeInForce

NEW, REDUCE, GTC = int(CommandKind.NEW), int(CommandKind.REDUCE), int(TimeInForce.GTC)
PHASE, PHASED = int(CommandKind.PHASE), int(EventKind.PHASED)
# Statuses that run_traders returns
FINISHED, TRADERS_FULL, BOOK_FULL, PAUSED = 0, 1, 2, 3


@inlined
def _change_phase(book: Any, command: Any, scratch: Any, event: Any) -> bool:
    """Sets the phase of a symbol of the copy to that of the exchange. While orders are collected, nothing in the copy may trade; the auction's
    trades came before. Returns False if the book is full."""
    row = command[0]
    row.kind, row.flags, row.symbol = PHASE, event.flags, event.symbol
    row.command_id = row.order_id = 0
    return execute(book, command, 0, scratch, 0)[1] == DONE


@compiled(nogil=True)
def run_traders(
    traders: Traders, book: Any, command: Any, scratch: Any, public: Any, private: Any, positions: Any, until_ns: int
) -> int:
    """Runs the traders up to `until_ns` (exclusive) on events in order of time. Returns FINISHED, TRADERS_FULL, BOOK_FULL, or PAUSED after
    WAKEUPS_A_CALL wake-ups.

    public: EVENT rows of the feed; private: EVENT rows of the traders' own reports; positions: (2,) number of rows of each used so far, so that
    the caller can grow the arrays and call again. book: state of a market with the exchange's orders under their public numbers. command: one
    COMMAND row, scratch: EVENT rows; both are buffers.
    """
    wakeups_left = WAKEUPS_A_CALL
    while True:
        wake_ns = next_wake_ns(traders)
        public_ns = public[positions[0]].time_ns if positions[0] < public.size else until_ns
        private_ns = private[positions[1]].time_ns if positions[1] < private.size else until_ns
        if min(public_ns, private_ns) <= wake_ns and min(public_ns, private_ns) < until_ns:
            if private_ns < public_ns:
                apply_report(traders, private[positions[1]])
                positions[1] += 1
                continue
            event = public[positions[0]]
            if event.kind == PHASED and not _change_phase(book, command, scratch, event):
                return BOOK_FULL
            action = book_action(event)
            if action != 0:
                row = command[0]
                row.kind = NEW if action == ADD else REDUCE
                row.time_in_force, row.flags = GTC, 0
                row.symbol, row.side, row.price_ticks = event.symbol, event.side, event.price_ticks
                row.qty_lots = event.qty_lots  # the displayed part of an iceberg
                row.command_id = event.order_number if action == ADD else 0
                row.order_id = 0 if action == ADD else event.order_number
                if (action == ADD or event.qty_lots > 0) and execute(book, command, 0, scratch, 0)[1] != DONE:
                    return BOOK_FULL
            observe_public(traders, event)
            positions[0] += 1
            continue
        if wake_ns >= until_ns:
            while positions[1] < private.size:
                apply_report(traders, private[positions[1]])
                positions[1] += 1
            return FINISHED
        if not has_capacity(traders):
            return TRADERS_FULL
        if wakeups_left == 0:
            return PAUSED
        wakeups_left -= 1
        wake_next(traders, book)


@compiled
def collect_commands(traders: Traders, before_ns: int, out: Any) -> int:
    """Moves the commands that arrive before `before_ns` into the COMMAND rows of `out`, as many as fit; returns their number."""
    count = 0
    while count < out.size and next_arrival_ns(traders) < before_ns:
        out[count] = traders.in_flight[traders.in_flight_item[1]]
        remove_arrived(traders)
        count += 1
    return count
