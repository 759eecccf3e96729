"""Mass cancels: by a participant, an operator, the end of the day, a kill, or after an auction."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.active_order import ROOM
from serl.exchange.kernel.rulebook.auction import auction_cancel_reason
from serl.exchange.kernel.rulebook.matching import first_slot
from serl.exchange.kernel.rulebook.order_events import cancel
from serl.exchange.kernel.rulebook.orders import side_of
from serl.exchange.kernel.state import QUEUES, State
from serl.exchange.records import ALL_SYMBOLS, Rows

AUCTION_QUEUES = 2


@inner
def _cancel_reason(state: State, command: CommandRow, slot: int, phase: int) -> int:
    """Why the command cancels an order, 0 if it does not."""
    order = state.orders[slot]
    if command.kind == k.MASS_CANCEL or command.kind == k.PURGE:
        participant = command.order_id if command.kind == k.PURGE else int64(command.participant)
        if order.participant != participant or (command.flags != 0 and order.side != command.flags - 1):
            return 0
        return k.REASON_PURGED if command.kind == k.PURGE else (int64(command.reason) & 0xFF or k.REASON_MASS_CANCEL)
    if command.kind == k.END_DAY:
        tif = order.time_in_force
        return k.REASON_DAY_END if tif == k.DAY or tif == k.AT_OPEN or tif == k.AT_CLOSE else 0
    if command.kind == k.ACCOUNT:
        return k.REASON_KILL if order.participant == command.order_id else 0
    return auction_cancel_reason(state, slot, phase)


@inner
def _resume(state: State, book: int, side: int, price: int, previous: int, following: int) -> int:
    """Where a sweep goes on after an order whose linked orders went with it: at the next one of its price, -1 if there is none. `previous` and
    `following` were beside it; where both are gone too, it begins the price again."""
    if following >= 0 and state.orders[following].open_lots > 0:
        return following
    if previous >= 0 and state.orders[previous].open_lots > 0:
        return int64(state.orders[previous].next)
    return first_slot(state, book, side, price) if find_level(state, book, side, price) >= 0 else -1


@inner
def _cancel_side(
    state: State, command: CommandRow, events: Rows, count: int, book: int, side: int, phase: int
) -> tuple[int, int]:
    """(new count, DONE or EVENTS_FULL)."""
    price = state.best[book, side]
    while price != 0:
        slot = first_slot(state, book, side, price)
        while slot >= 0:
            order = state.orders[slot]
            previous, following = int64(order.previous), int64(order.next)
            reason = _cancel_reason(state, command, slot, phase)
            if reason != 0:
                if count + ROOM > events.size:
                    return count, k.EVENTS_FULL
                own = command.kind <= k.END_DAY and order.participant == command.participant
                linked = order.special and (state.extras[slot].link | state.extras[slot].child) != 0
                count = cancel(state, command, events, count, slot, command.command_id if own else 0, reason)
                state.counters.cancelled_orders += 1
                if linked:
                    following = _resume(state, book, side, price, previous, following)
            slot = following
        price = next_price(state, book, side, price)
    return count, k.DONE


@inner
def cancel_selected(state: State, command: CommandRow, events: Rows, count: int, phase: int) -> tuple[int, int]:
    """Cancels what the command cancels, by symbol, queue, side, price, time: (new count, DONE or EVENTS_FULL); it goes on when called again."""
    symbols, queues = state.halted.size, QUEUES
    first, last = 0, symbols
    if command.kind != k.END_DAY and command.kind != k.ACCOUNT and command.symbol != ALL_SYMBOLS:
        first, last = int64(command.symbol), int64(command.symbol) + 1
    if command.kind > k.END_DAY and command.kind != k.ACCOUNT and command.kind != k.PURGE:
        queues = AUCTION_QUEUES
    for symbol in range(first, last):
        for queue in range(queues):
            for side in range(2):
                book = queue * symbols + symbol
                count, status = _cancel_side(state, command, events, count, book, side_of(queue, side, 0), phase)
                if status != k.DONE:
                    return count, status
    return count, k.DONE
