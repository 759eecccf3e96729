"""One command after the other: checks in the order of docs/orders.md, then the book, then the events."""

from typing import Any

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.kernel import ids
from serl.exchange.kernel.intrinsics import call
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.matching import RESTED, available, crosses, emit, match, rest_incoming, take_out
from serl.exchange.kernel.state import (
    ACTIVE,
    ASK,
    BID,
    CANCELLED_COUNT,
    COMMAND_SEQUENCE,
    FLAGS,
    FREE_LEVEL,
    FREE_ORDER,
    LEFT,
    LEVELS_MAX,
    LIMIT,
    MATCH_ID,
    NEXT_EXPIRY,
    ORDER_ID,
    ORDERS_MAX,
    ORDERS_OPEN,
    PARTICIPANT,
    PRICE,
    PRICE_MAX,
    QTY_MAX,
    SIDE,
    STAGE,
    SYMBOL,
    TIME_IN_FORCE,
    TOTAL,
    WANTS_FULL,
    State,
)  # fmt: skip
from serl.exchange.records import ALL_SYMBOLS, CommandFlag, CommandKind, EventFlag, EventKind, Reason, TimeInForce

DONE, EVENTS_FULL, GROW = 0, 1, 2
"""How `execute` ended: done; call again with room for events; call again after growing."""
EVENT_ROOM = 16
"""Rows that must be free for a command to begin."""

NEW, CANCEL, REDUCE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REDUCE)
REPLACE, MASS_CANCEL, END_DAY = int(CommandKind.REPLACE), int(CommandKind.MASS_CANCEL), int(CommandKind.END_DAY)
HALT, RESUME, PRINT = int(CommandKind.HALT), int(CommandKind.RESUME), int(CommandKind.PRINT)
TERM, PHASE, RULE = int(CommandKind.TERM), int(CommandKind.PHASE), int(CommandKind.RULE)
POST_ONLY, MARKET = int(CommandFlag.POST_ONLY), int(CommandFlag.MARKET)
DAY, GTC, IOC, FOK = int(TimeInForce.DAY), int(TimeInForce.GTC), int(TimeInForce.IOC), int(TimeInForce.FOK)
ACCEPTED, REJECTED, CANCELLED = int(EventKind.ACCEPTED), int(EventKind.REJECTED), int(EventKind.CANCELLED)
REDUCED, REPLACED, PRINTED = int(EventKind.REDUCED), int(EventKind.REPLACED), int(EventKind.PRINT)
HALTED, RESUMED = int(EventKind.HALTED), int(EventKind.RESUMED)
MASS_CANCELLED, DAY_ENDED = int(EventKind.MASS_CANCELLED), int(EventKind.DAY_ENDED)
RESTING = int(EventFlag.RESTING)
R_KIND, R_SYMBOL, R_SIDE = int(Reason.UNKNOWN_KIND), int(Reason.UNKNOWN_SYMBOL), int(Reason.BAD_SIDE)
R_QTY, R_PRICE = int(Reason.BAD_QTY), int(Reason.BAD_PRICE)
R_FLAGS, R_ORDER, R_CROSS = int(Reason.BAD_FLAGS), int(Reason.UNKNOWN_ORDER), int(Reason.WOULD_CROSS)
R_HALTED, R_OPERATOR, R_FULL = int(Reason.HALTED), int(Reason.NOT_PERMITTED), int(Reason.BOOK_FULL)
R_STALE, R_REQUESTED, R_IOC = int(Reason.STALE_COMMAND_ID), int(Reason.REQUESTED), int(Reason.IOC_REMAINDER)
R_FOK, R_MARKET, R_MASS = int(Reason.FOK_UNFILLABLE), int(Reason.MARKET_REMAINDER), int(Reason.MASS_CANCEL)
R_DAY, R_FILLED = int(Reason.DAY_END), int(Reason.REPLACED_BELOW_FILLED)
NEEDS_GROWTH = -1

UNTOUCHED = 3
"""A status between the two rule books: go on with the command."""
EXPIRE, EXECUTE = 0, 1
"""What the full rule book is asked for: what is due before a command, or what is left of one; the command itself."""


@inlined
def _level_room(state: State, symbol: int) -> int:
    """Whether one more level can be: 0, BOOK_FULL, or NEEDS_GROWTH.

    Levels are counted wherever they lie: where the window is does not outlive a restart, and must not be seen.
    """
    if state.level_count[symbol] >= state.counter[LEVELS_MAX]:
        return R_FULL
    far = max(state.far_count[symbol, BID], state.far_count[symbol, ASK])  # all of the window may move there as well
    return NEEDS_GROWTH if far + state.window.shape[2] + 1 > state.far_price.shape[2] else 0


@inlined
def _room(state: State, symbol: int) -> int:
    """Whether one more order can rest: 0, BOOK_FULL, or NEEDS_GROWTH."""
    if state.counter[ORDERS_OPEN] >= state.counter[ORDERS_MAX]:
        return R_FULL
    room = _level_room(state, symbol)
    if room == 0 and (state.counter[FREE_ORDER] < 0 or state.counter[FREE_LEVEL] < 0):
        return NEEDS_GROWTH
    return room


@inlined
def _check_price(state: State, price: int, market: bool) -> bool:
    return price == 0 if market else 1 <= price <= state.counter[PRICE_MAX]


@inlined
def _check_new(state: State, row: Any) -> int:
    """Why a plain NEW is rejected, 0 if it is not, or NEEDS_GROWTH."""
    tif, flags, side = int64(row.time_in_force), int64(row.flags), int64(row.side)
    market = flags & MARKET != 0
    if state.halted[row.symbol]:
        return R_HALTED
    if side > ASK:
        return R_SIDE
    if flags & POST_ONLY and (market or tif >= IOC):
        return R_FLAGS
    if not 1 <= row.qty_lots <= state.counter[QTY_MAX]:
        return R_QTY
    if not _check_price(state, row.price_ticks, market):
        return R_PRICE
    if flags & POST_ONLY and crosses(side, row.price_ticks, state.best[row.symbol, 1 - side]):
        return R_CROSS
    if market or tif >= IOC:
        return 0
    return _room(state, int64(row.symbol))


@compiled
def _reject(state: State, row: Any, events: Any, count: int, reason: int) -> int:
    order_id = row.command_id if row.kind == NEW else row.order_id
    return int64(emit(
        state, row, events, count, REJECTED, int64(row.participant), int64(row.symbol), int64(row.side), order_id,
        0, row.command_id, row.price_ticks, row.qty_lots, 0, reason, 0, 0,
    ))  # fmt: skip


@inlined
def _finish(state: State, row: Any, events: Any, count: int) -> int:
    """What happens to the rest of the incoming order; the new count, or -1 if the match must go on first."""
    incoming = state.incoming
    symbol, side, left = incoming[SYMBOL], incoming[SIDE], incoming[LEFT]
    if left > 0 and crosses(side, incoming[LIMIT], state.best[symbol, 1 - side]):
        return -1
    incoming[ACTIVE] = 0
    if left == 0:
        return count
    market, tif = incoming[FLAGS] & MARKET, incoming[TIME_IN_FORCE]
    if not market and tif < IOC:
        return int64(rest_incoming(state, row, events, count, RESTED))
    reason = R_FOK if tif == FOK else (R_MARKET if market else R_IOC)
    return int64(emit(
        state, row, events, count, CANCELLED, incoming[PARTICIPANT], symbol, side, incoming[ORDER_ID], 0,
        row.command_id, incoming[PRICE], left, 0, reason, 0, 0,
    ))  # fmt: skip


@inlined
def _go_on(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Matches and finishes the incoming order, or stops where the events have no room."""
    count = match(state, row, events, count)
    if count + 1 > events.size:
        return count, EVENTS_FULL
    finished = _finish(state, row, events, count)
    return (count, EVENTS_FULL) if finished < 0 else (finished, DONE)


@inlined
def _incoming(state: State, row: Any, side: int, price: int, left: int, total: int, market: bool) -> None:
    incoming = state.incoming
    incoming[SYMBOL] = row.symbol
    incoming[SIDE] = side
    incoming[PRICE] = price
    incoming[LIMIT] = price
    if market:
        incoming[LIMIT] = state.counter[PRICE_MAX] if side == BID else 1
    incoming[LEFT] = left
    incoming[TOTAL] = total
    incoming[PARTICIPANT] = row.participant


@inlined
def _new(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    reason = _check_new(state, row)
    if reason == NEEDS_GROWTH:
        return count, GROW
    if reason != 0:
        return _reject(state, row, events, count, reason), DONE
    incoming = state.incoming
    side, tif = int64(row.side), int64(row.time_in_force)
    market = row.flags & MARKET != 0
    _incoming(state, row, side, row.price_ticks, row.qty_lots, row.qty_lots, market)
    incoming[ORDER_ID] = row.command_id
    incoming[TIME_IN_FORCE] = tif
    incoming[FLAGS] = row.flags
    crossing = crosses(side, incoming[LIMIT], state.best[row.symbol, 1 - side])
    if not crossing and not market and tif < IOC:
        return rest_incoming(state, row, events, count, ACCEPTED), DONE
    count = int64(emit(
        state, row, events, count, ACCEPTED, incoming[PARTICIPANT], incoming[SYMBOL], side, row.command_id, 0,
        row.command_id, row.price_ticks, row.qty_lots, row.qty_lots, 0, 0, 0,
    ))  # fmt: skip
    if tif == FOK and not available(state, incoming[SYMBOL], side, incoming[LIMIT], row.qty_lots):
        incoming[LIMIT] = 0 if side == BID else state.counter[PRICE_MAX] + 1  # trades nowhere
    incoming[ACTIVE] = 1
    return _go_on(state, row, events, count)


@inlined
def _tell_cancel(state: State, row: Any, events: Any, count: int, slot: int, command_id: int, reason: int) -> int:
    """Takes an order out of the book and says so."""
    order = state.orders[slot]
    count = int64(emit(
        state, row, events, count, CANCELLED, int64(order.participant), int64(order.symbol), int64(order.side),
        order.order_id, order.order_number, command_id, order.price_ticks, order.open_lots, 0, reason, RESTING, 0,
    ))  # fmt: skip
    take_out(state, slot)
    return count


@inlined
def _take_off(state: State, row: Any, events: Any, count: int, slot: int, qty: int) -> int:
    """Takes `qty` lots off an order that keeps its place."""
    order = state.orders[slot]
    order.open_lots -= qty
    order.total_lots -= qty
    state.levels[order.level].qty_lots -= qty
    return int64(emit(
        state, row, events, count, REDUCED, int64(order.participant), int64(order.symbol), int64(order.side),
        order.order_id, order.order_number, row.command_id, order.price_ticks, qty, order.open_lots, 0, 0, 0,
    ))  # fmt: skip


@inlined
def _reduce(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    if not 1 <= row.qty_lots <= state.counter[QTY_MAX]:
        return _reject(state, row, events, count, R_QTY)
    if row.qty_lots >= state.orders[slot].open_lots:
        return _tell_cancel(state, row, events, count, slot, row.command_id, R_REQUESTED)
    return _take_off(state, row, events, count, slot, row.qty_lots)


@inlined
def _replace(state: State, row: Any, events: Any, count: int, slot: int) -> tuple[int, int]:
    order = state.orders[slot]
    symbol, side, price, total = int64(order.symbol), int64(order.side), row.price_ticks, row.qty_lots
    filled = order.total_lots - order.open_lots
    if state.halted[symbol]:
        return _reject(state, row, events, count, R_HALTED), DONE
    if not 1 <= total <= state.counter[QTY_MAX]:
        return _reject(state, row, events, count, R_QTY), DONE
    if not _check_price(state, price, False):
        return _reject(state, row, events, count, R_PRICE), DONE
    if total <= filled:
        return _tell_cancel(state, row, events, count, slot, row.command_id, R_FILLED), DONE
    if price == order.price_ticks and total <= order.total_lots:
        return _take_off(state, row, events, count, slot, order.total_lots - total), DONE
    crossing = crosses(side, price, state.best[symbol, 1 - side])
    if order.flags & POST_ONLY and crossing:
        return _reject(state, row, events, count, R_CROSS), DONE
    room = _level_room(state, symbol)
    if room == NEEDS_GROWTH:
        return count, GROW
    if room != 0:
        return _reject(state, row, events, count, room), DONE
    left = total - filled
    incoming = state.incoming
    incoming[TIME_IN_FORCE] = order.time_in_force
    incoming[FLAGS] = order.flags
    incoming[ORDER_ID] = order.order_id
    count = int64(emit(
        state, row, events, count, REPLACED, int64(order.participant), symbol, side, order.order_id, order.order_number,
        row.command_id, order.price_ticks, order.open_lots, left, 0, 0, 0,
    ))  # fmt: skip
    take_out(state, slot)
    _incoming(state, row, side, price, left, total, False)
    incoming[SYMBOL] = symbol
    incoming[ACTIVE] = 1
    return _go_on(state, row, events, count)


@compiled
def _mass_cancel(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """MASS_CANCEL and END_DAY; called again after EVENTS_FULL it goes on with what is still there."""
    ending = row.kind == END_DAY
    one = row.kind == MASS_CANCEL and row.symbol != ALL_SYMBOLS
    first, last = (int64(row.symbol), int64(row.symbol) + 1) if one else (0, state.halted.size)
    reason = R_DAY if ending else (int64(row.reason) & 0xFF or R_MASS)
    state.incoming[ACTIVE] = 1
    for symbol in range(first, last):
        for side in range(2):
            price = state.best[symbol, side]
            while price != 0:
                following_price = next_price(state, symbol, side, price)
                slot = int64(state.levels[find_level(state, symbol, side, price)].first)
                while slot >= 0:
                    order = state.orders[slot]
                    following = int64(order.next)
                    own = order.participant == row.participant
                    if order.time_in_force == DAY if ending else own:
                        if count + 2 > events.size:
                            return count, EVENTS_FULL
                        command_id = row.command_id if own else 0
                        count = _tell_cancel(state, row, events, count, slot, command_id, reason)
                        state.counter[CANCELLED_COUNT] += 1
                    slot = following
                price = following_price
    if count + 1 > events.size:
        return count, EVENTS_FULL
    count = int64(emit(
        state, row, events, count, DAY_ENDED if ending else MASS_CANCELLED, int64(row.participant),
        int64(row.symbol), int64(row.side), row.order_id, 0, row.command_id, 0, state.counter[CANCELLED_COUNT], 0, 0, 0, 0,
    ))  # fmt: skip
    state.counter[CANCELLED_COUNT] = 0
    state.incoming[ACTIVE] = 0
    return count, DONE


@compiled
def _operate(state: State, row: Any, events: Any, count: int) -> int:
    """HALT, RESUME and PRINT."""
    participant, symbol, side = int64(row.participant), int64(row.symbol), int64(row.side)
    if row.kind == PRINT:
        if side > ASK:
            return _reject(state, row, events, count, R_SIDE)
        if not 1 <= row.qty_lots <= state.counter[QTY_MAX]:
            return _reject(state, row, events, count, R_QTY)
        if not _check_price(state, row.price_ticks, False):
            return _reject(state, row, events, count, R_PRICE)
        state.counter[MATCH_ID] += 1
        return int64(emit(
            state, row, events, count, PRINTED, participant, symbol, side, row.order_id, 0, row.command_id,
            row.price_ticks, row.qty_lots, 0, 0, 0, state.counter[MATCH_ID],
        ))  # fmt: skip
    state.halted[symbol] = row.kind == HALT
    kind = HALTED if row.kind == HALT else RESUMED
    return int64(emit(
        state, row, events, count, kind, participant, symbol, side, row.order_id, 0, row.command_id, 0, 0, 0, 0, 0, 0,
    ))  # fmt: skip


ENTRY_AHEAD, ORDER_AHEAD, LINKS_AHEAD = 12, 7, 3
"""Commands between asking for a line of memory and needing it: about the time that memory takes."""


@inlined
def execute(state: State, commands: Any, index: int, events: Any, count: int) -> tuple[int, int]:
    """Executes COMMAND row `index`, appending EVENT rows from `count` on: (new count, DONE, EVENTS_FULL or GROW).

    After EVENTS_FULL or GROW it must be called again with the same row. O(log far levels + fills) a command.
    """
    row = commands[index]
    if count + EVENT_ROOM > events.size:
        return count, EVENTS_FULL
    kind = int64(row.kind)
    if state.counter[STAGE] != 0 or row.time_ns >= state.counter[NEXT_EXPIRY]:
        count, status = _fully(state, commands, index, events, count, EXPIRE)
        if status != UNTOUCHED:
            return count, status
    if state.incoming[ACTIVE]:
        if kind == MASS_CANCEL or kind == END_DAY:
            return _mass_cancel(state, row, events, count)
        return _go_on(state, row, events, count)
    state.counter[COMMAND_SEQUENCE] = row.sequence
    participant = int64(row.participant)
    previous = state.last_command_id[participant]
    if row.command_id != 0:
        if row.command_id <= previous:
            return _reject(state, row, events, count, R_STALE), DONE
        state.last_command_id[participant] = row.command_id
    result = _dispatch(state, commands, index, events, count)
    if result[1] == GROW and state.counter[STAGE] == 0:
        state.last_command_id[participant] = previous
    return result


@inlined
def _fully(state: State, commands: Any, index: int, events: Any, count: int, how: int) -> tuple[int, int]:
    """The same by the full rule book; GROW while it is not there. It stands behind a pointer, so that nobody else's code contains it."""
    if state.handle[0] == 0:
        state.counter[WANTS_FULL] = 1
        return count, GROW
    result = call(
        state.handle[0],
        state.handle.ctypes.data,
        commands.ctypes.data,
        index,
        events.ctypes.data,
        events.size,
        count,
        how,
    )
    return result >> 2, result & 3


@inlined
def _is_plain(state: State, row: Any) -> bool:
    """Whether a NEW needs no more than the plain rules."""
    special = row.flags & ~(POST_ONLY | MARKET) | (row.time_in_force > FOK)
    return (state.watched[row.symbol] | state.limited[row.participant] | special) == 0


@inlined
def _dispatch(state: State, commands: Any, index: int, events: Any, count: int) -> tuple[int, int]:
    row = commands[index]
    kind = int64(row.kind)
    known = row.symbol < state.halted.size
    if kind == NEW:
        if not known:
            return _reject(state, row, events, count, R_SYMBOL), DONE
        if not _is_plain(state, row):
            return _fully(state, commands, index, events, count, EXECUTE)
        return _new(state, row, events, count)
    if CANCEL <= kind <= REPLACE:
        slot = ids.find(state, int64(row.participant), row.order_id)
        if slot < 0:
            return _reject(state, row, events, count, R_ORDER), DONE
        if state.watched[state.orders[slot].symbol] | state.limited[row.participant]:
            return _fully(state, commands, index, events, count, EXECUTE)
        if kind == CANCEL:
            return _tell_cancel(state, row, events, count, slot, row.command_id, R_REQUESTED), DONE
        if kind == REDUCE:
            return _reduce(state, row, events, count, slot), DONE
        return _replace(state, row, events, count, slot)
    if kind == MASS_CANCEL:
        if not known and row.symbol != ALL_SYMBOLS:
            return _reject(state, row, events, count, R_SYMBOL), DONE
        if row.flags != 0 or state.extras.size > 0:
            return _fully(state, commands, index, events, count, EXECUTE)
        return _mass_cancel(state, row, events, count)
    if kind == TERM or PHASE <= kind <= RULE or (END_DAY <= kind <= RESUME and state.extras.size > 0):
        return _fully(state, commands, index, events, count, EXECUTE)
    if not END_DAY <= kind <= PRINT:
        return _reject(state, row, events, count, R_KIND), DONE
    if not state.operator[row.participant]:
        return _reject(state, row, events, count, R_OPERATOR), DONE
    if kind == END_DAY:
        return _mass_cancel(state, row, events, count)
    if not known:
        return _reject(state, row, events, count, R_SYMBOL), DONE
    return _operate(state, row, events, count), DONE


@inlined
def look_ahead(state: State, commands: Any, index: int, stop: int) -> None:
    """Brings near what the commands behind `index` will touch: with a million orders each would miss the caches thrice."""
    if index + ENTRY_AHEAD < stop:
        row = commands[index + ENTRY_AHEAD]
        name = row.command_id if row.kind == NEW else row.order_id
        ids.expect_entry(state, int64(row.participant), name)
    if index + ORDER_AHEAD < stop:
        row = commands[index + ORDER_AHEAD]
        if row.kind != NEW:
            ids.expect_order(state, int64(row.participant), row.order_id)
    if index + LINKS_AHEAD < stop:
        row = commands[index + LINKS_AHEAD]
        if row.kind != NEW:
            ids.expect_neighbours(state, int64(row.participant), row.order_id)


@compiled
def execute_batch(state: State, commands: Any, start: int, stop: int, events: Any, count: int) -> tuple[int, int, int]:
    """Executes rows start..stop: (the next row to execute, new event count, DONE, EVENTS_FULL or GROW)."""
    for index in range(start, stop):
        look_ahead(state, commands, index, stop)
        count, status = execute(state, commands, index, events, count)
        if status != DONE:
            return index, count, status
    return stop, count, DONE
