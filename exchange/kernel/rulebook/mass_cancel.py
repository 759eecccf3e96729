"""Many cancels at once: by account, by an operator, by the end of the day, by a kill, behind an auction."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel.book import side_of
from serl.exchange.kernel.constants import (
    ACCOUNT,
    AT_CLOSE,
    AT_OPEN,
    DAY,
    DONE,
    END_DAY,
    EVENTS_FULL,
    MASS_CANCEL,
    PURGE,
    R_DAY,
    R_KILL,
    R_MASS,
    R_PURGED,
)
from serl.exchange.kernel.levels import next_price
from serl.exchange.kernel.rulebook.active_order import ROOM
from serl.exchange.kernel.rulebook.auction import auction_cancel_reason
from serl.exchange.kernel.rulebook.matching import first_slot
from serl.exchange.kernel.rulebook.order_events import cancel
from serl.exchange.kernel.state import CANCELLED_ORDERS, QUEUES, State
from serl.exchange.records import ALL_SYMBOLS

AUCTION_QUEUES = 2


@inner
def _cancel_reason(state: State, row: Any, slot: int, phase: int) -> int:
    """Why the command cancels an order, 0 if it does not."""
    order = state.orders[slot]
    if row.kind == MASS_CANCEL or row.kind == PURGE:
        participant = row.order_id if row.kind == PURGE else int64(row.participant)
        if order.participant != participant or (row.flags != 0 and order.side != row.flags - 1):
            return 0
        return R_PURGED if row.kind == PURGE else (int64(row.reason) & 0xFF or R_MASS)
    if row.kind == END_DAY:
        tif = order.time_in_force
        return R_DAY if tif == DAY or tif == AT_OPEN or tif == AT_CLOSE else 0
    if row.kind == ACCOUNT:
        return R_KILL if order.participant == row.order_id else 0
    return auction_cancel_reason(state, slot, phase)


@inner
def _cancel_side(
    state: State, row: Any, events: Any, count: int, book: int, side: int, phase: int
) -> tuple[int, int, bool]:
    """(new count, DONE or EVENTS_FULL, whether more than the orders themselves went: then the side is to be swept again)."""
    price = state.best[book, side]
    while price != 0:
        following_price = next_price(state, book, side, price)
        slot = first_slot(state, book, side, price)
        while slot >= 0:
            order = state.orders[slot]
            following = int64(order.next)
            reason = _cancel_reason(state, row, slot, phase)
            if reason != 0:
                if count + ROOM > events.size:
                    return count, EVENTS_FULL, False
                own = row.kind <= END_DAY and order.participant == row.participant
                linked = order.special and state.extras[slot].link != 0
                count = cancel(state, row, events, count, slot, row.command_id if own else 0, reason)
                state.counter[CANCELLED_ORDERS] += 1
                if linked:
                    return count, DONE, True
            slot = following
        price = following_price
    return count, DONE, False


@inner
def cancel_selected(state: State, row: Any, events: Any, count: int, phase: int) -> tuple[int, int]:
    """Cancels what the command cancels, by symbol, queue, side, price, time: (new count, DONE or EVENTS_FULL); it goes on when called again."""
    symbols, queues = state.halted.size, QUEUES
    first, last = 0, symbols
    if row.kind != END_DAY and row.kind != ACCOUNT and row.symbol != ALL_SYMBOLS:
        first, last = int64(row.symbol), int64(row.symbol) + 1
    if row.kind > END_DAY and row.kind != ACCOUNT and row.kind != PURGE:
        queues = AUCTION_QUEUES
    for symbol in range(first, last):
        for queue in range(queues):
            for side in range(2):
                again = True
                while again:
                    book = queue * symbols + symbol
                    count, status, again = _cancel_side(state, row, events, count, book, side_of(queue, side), phase)
                    if status != DONE:
                        return count, status
    return count, DONE
