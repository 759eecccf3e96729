"""The compiled part of a host process: traders that live on what the exchange tells, and a copy of its book."""

from typing import Any

from serl.agents.traders.engine import has_room, hear, land, next_arrival, next_wake, observe, wake
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled
from serl.exchange.feed import ADD, book_action
from serl.exchange.kernel.commands import DONE, execute
from serl.exchange.records import CommandKind, TimeInForce

NEW, REDUCE, GTC = int(CommandKind.NEW), int(CommandKind.REDUCE), int(TimeInForce.GTC)
# Why `live` and `collect` came back
FINISHED, TRADERS_FULL, BOOK_FULL = 0, 1, 2


@compiled(nogil=True)
def live(
    traders: Traders, book: Any, change: Any, scratch: Any, public: Any, private: Any, at: Any, until_ns: int
) -> int:
    """Lets the traders live up to `until_ns` (exclusive) on EVENT rows in order of time: FINISHED, TRADERS_FULL or BOOK_FULL.

    public: of the feed; private: their own reports; at: (2,) the rows of each taken so far, so that it can be called again.
    book: the state of a market that holds the exchange's orders under their public numbers; change: one COMMAND row;
    scratch: EVENT rows of no further use.
    """
    while True:
        wake_ns = next_wake(traders)
        public_ns = public[at[0]].time_ns if at[0] < public.size else until_ns
        private_ns = private[at[1]].time_ns if at[1] < private.size else until_ns
        if min(public_ns, private_ns) <= wake_ns and min(public_ns, private_ns) < until_ns:
            if private_ns < public_ns:
                hear(traders, private[at[1]])
                at[1] += 1
                continue
            event = public[at[0]]
            action = book_action(event)
            if action != 0:
                row = change[0]
                row.kind = NEW if action == ADD else REDUCE
                row.time_in_force = GTC
                row.symbol, row.side, row.price_ticks = event.symbol, event.side, event.price_ticks
                row.qty_lots = event.leaves_lots if action == ADD else event.qty_lots
                row.command_id = event.order_number if action == ADD else 0
                row.order_id = 0 if action == ADD else event.order_number
                if (action == ADD or event.qty_lots > 0) and execute(book, change, 0, scratch, 0)[1] != DONE:
                    return BOOK_FULL
            observe(traders, event)
            at[0] += 1
            continue
        if wake_ns >= until_ns:
            while at[1] < private.size:
                hear(traders, private[at[1]])
                at[1] += 1
            return FINISHED
        if not has_room(traders):
            return TRADERS_FULL
        wake(traders, book)


@compiled
def collect(traders: Traders, before_ns: int, out: Any) -> int:
    """Writes the commands that arrive before `before_ns` to the COMMAND rows of `out` as far as they go; how many."""
    count = 0
    while count < out.size and next_arrival(traders) < before_ns:
        out[count] = traders.flight[traders.flight_item[1]]
        land(traders)
        count += 1
    return count


__all__ = ["BOOK_FULL", "FINISHED", "TRADERS_FULL", "collect", "live", "next_wake"]
