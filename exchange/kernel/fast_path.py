"""The plain rule book: limit and market orders on symbols without anything special. The order of checks is that of docs/orders.md."""

from typing import Any

from serl.exchange.compiling import inlined, inner, int64, merged
from serl.exchange.kernel.book import crosses, emit, has_available_lots, match_displayed, remove_order, rest_displayed
from serl.exchange.kernel.constants import (
    ACCEPTED,
    CANCELLED,
    DAY,
    DAY_ENDED,
    DONE,
    END_DAY,
    EVENTS_FULL,
    FOK,
    GROW,
    HALT,
    HALT_REASON_MAX,
    HALTED,
    IOC,
    MARKET,
    MASS_CANCEL,
    MASS_CANCELLED,
    NEW,
    POST_ONLY,
    PRINT,
    PRINTED,
    R_CROSS,
    R_DAY,
    R_FILLED,
    R_FLAGS,
    R_FOK,
    R_FULL,
    R_HALTED,
    R_IOC,
    R_MARKET,
    R_MASS,
    R_PRICE,
    R_QTY,
    R_REQUESTED,
    R_SIDE,
    REDUCED,
    REJECTED,
    REPLACED,
    RESTED,
    RESTING,
    RESUMED,
)
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.state import (
    ACTIVE,
    ASK,
    BID,
    CANCELLED_ORDERS,
    FLAGS,
    FREE_LEVEL,
    FREE_ORDER,
    LEAVES_LOTS,
    LEVELS_MAX,
    LIMIT,
    MATCH_ID,
    ORDER_ID,
    ORDERS_MAX,
    ORDERS_OPEN,
    PARTICIPANT,
    PRICE,
    PRICE_MAX,
    QTY_MAX,
    SIDE,
    SYMBOL,
    TIME_IN_FORCE,
    TOTAL,
    State,
)  # fmt: skip
from serl.exchange.records import ALL_SYMBOLS, HALT_REASON

NEEDS_GROWTH = -1


@merged
def _check_level_room(state: State, symbol: int) -> int:
    """Whether one more level can be: 0, BOOK_FULL, or NEEDS_GROWTH.

    Levels are counted wherever they lie: where the window is does not outlive a restart, and must not be seen.
    """
    if state.level_count[symbol] >= state.counter[LEVELS_MAX]:
        return R_FULL
    far = max(state.far_count[symbol, BID], state.far_count[symbol, ASK])  # all of the window may move there as well
    return NEEDS_GROWTH if far + state.window.shape[2] + 1 > state.far_price.shape[2] else 0


@merged
def _check_room(state: State, symbol: int) -> int:
    """Whether one more order can rest: 0, BOOK_FULL, or NEEDS_GROWTH."""
    if state.counter[ORDERS_OPEN] >= state.counter[ORDERS_MAX]:
        return R_FULL
    room = _check_level_room(state, symbol)
    if room == 0 and (state.counter[FREE_ORDER] < 0 or state.counter[FREE_LEVEL] < 0):
        return NEEDS_GROWTH
    return room


@merged
def _check_price(state: State, price: int, market: bool) -> bool:
    return price == 0 if market else 1 <= price <= state.counter[PRICE_MAX]


@merged
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
    return _check_room(state, int64(row.symbol))


@inner
def reject_command(state: State, row: Any, events: Any, count: int, reason: int) -> int:
    """REJECTED, with what was sent."""
    order_id = row.command_id if row.kind == NEW else row.order_id
    return int64(emit(
        state, row, events, count, REJECTED, int64(row.participant), int64(row.symbol), int64(row.side), order_id,
        0, row.command_id, row.price_ticks, row.qty_lots, 0, reason, 0, 0,
    ))  # fmt: skip


@merged
def _finish_remainder(state: State, row: Any, events: Any, count: int) -> int:
    """What happens to the rest of the active order; the new count, or -1 if the match must go on first."""
    active = state.active_order
    symbol, side, leaves_lots = active[SYMBOL], active[SIDE], active[LEAVES_LOTS]
    if leaves_lots > 0 and crosses(side, active[LIMIT], state.best[symbol, 1 - side]):
        return -1
    active[ACTIVE] = 0
    if leaves_lots == 0:
        return count
    market, tif = active[FLAGS] & MARKET, active[TIME_IN_FORCE]
    if not market and tif < IOC:
        return int64(rest_displayed(state, row, events, count, RESTED))
    reason = R_FOK if tif == FOK else (R_MARKET if market else R_IOC)
    return int64(emit(
        state, row, events, count, CANCELLED, active[PARTICIPANT], symbol, side, active[ORDER_ID], 0,
        row.command_id, active[PRICE], leaves_lots, 0, reason, 0, 0,
    ))  # fmt: skip


@inner
def match_and_finish(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Matches and finishes the active order, or stops where the events have no room."""
    count = match_displayed(state, row, events, count)
    if count + 1 > events.size:
        return count, EVENTS_FULL
    finished = _finish_remainder(state, row, events, count)
    return (count, EVENTS_FULL) if finished < 0 else (finished, DONE)


@merged
def _set_active_order(
    state: State, row: Any, side: int, price: int, leaves_lots: int, total: int, market: bool
) -> None:
    active = state.active_order
    active[SYMBOL] = row.symbol
    active[SIDE] = side
    active[PRICE] = price
    active[LIMIT] = price
    if market:
        active[LIMIT] = state.counter[PRICE_MAX] if side == BID else 1
    active[LEAVES_LOTS] = leaves_lots
    active[TOTAL] = total
    active[PARTICIPANT] = row.participant


@merged
def place_order(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """NEW: (new count, DONE, EVENTS_FULL or GROW)."""
    reason = _check_new(state, row)
    if reason == NEEDS_GROWTH:
        return count, GROW
    if reason != 0:
        return reject_command(state, row, events, count, reason), DONE
    active = state.active_order
    side, tif = int64(row.side), int64(row.time_in_force)
    market = row.flags & MARKET != 0
    _set_active_order(state, row, side, row.price_ticks, row.qty_lots, row.qty_lots, market)
    active[ORDER_ID] = row.command_id
    active[TIME_IN_FORCE] = tif
    active[FLAGS] = row.flags
    crossing = crosses(side, active[LIMIT], state.best[row.symbol, 1 - side])
    if not crossing and not market and tif < IOC:
        return rest_displayed(state, row, events, count, ACCEPTED), DONE
    count = int64(emit(
        state, row, events, count, ACCEPTED, active[PARTICIPANT], active[SYMBOL], side, row.command_id, 0,
        row.command_id, row.price_ticks, row.qty_lots, row.qty_lots, 0, 0, 0,
    ))  # fmt: skip
    if tif == FOK and not has_available_lots(state, active[SYMBOL], side, active[LIMIT], row.qty_lots):
        active[LIMIT] = 0 if side == BID else state.counter[PRICE_MAX] + 1  # trades nowhere
    active[ACTIVE] = 1
    return match_and_finish(state, row, events, count)


@inlined
def cancel_displayed(state: State, row: Any, events: Any, count: int, slot: int, command_id: int, reason: int) -> int:
    """Takes an order out of the book and says so."""
    order = state.orders[slot]
    count = int64(emit(
        state, row, events, count, CANCELLED, int64(order.participant), int64(order.symbol), int64(order.side),
        order.order_id, order.order_number, command_id, order.price_ticks, order.open_lots, 0, reason, RESTING, 0,
    ))  # fmt: skip
    remove_order(state, slot)
    return count


@inlined
def _reduce_in_place(state: State, row: Any, events: Any, count: int, slot: int, qty: int) -> int:
    """Takes `qty` lots off an order that keeps its place."""
    order = state.orders[slot]
    order.open_lots -= qty
    order.total_lots -= qty
    state.levels[order.level].qty_lots -= qty
    return int64(emit(
        state, row, events, count, REDUCED, int64(order.participant), int64(order.symbol), int64(order.side),
        order.order_id, order.order_number, row.command_id, order.price_ticks, qty, order.open_lots, 0, 0, 0,
    ))  # fmt: skip


@merged
def reduce_order(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    """REDUCE: the new count."""
    if not 1 <= row.qty_lots <= state.counter[QTY_MAX]:
        return reject_command(state, row, events, count, R_QTY)
    if row.qty_lots >= state.orders[slot].open_lots:
        return cancel_displayed(state, row, events, count, slot, row.command_id, R_REQUESTED)
    return _reduce_in_place(state, row, events, count, slot, row.qty_lots)


@merged
def replace_order(state: State, row: Any, events: Any, count: int, slot: int) -> tuple[int, int]:
    """REPLACE: (new count, DONE, EVENTS_FULL or GROW)."""
    order = state.orders[slot]
    symbol, side, price, total = int64(order.symbol), int64(order.side), row.price_ticks, row.qty_lots
    filled = order.total_lots - order.open_lots
    if state.halted[symbol]:
        return reject_command(state, row, events, count, R_HALTED), DONE
    if not 1 <= total <= state.counter[QTY_MAX]:
        return reject_command(state, row, events, count, R_QTY), DONE
    if not _check_price(state, price, False):
        return reject_command(state, row, events, count, R_PRICE), DONE
    if total <= filled:
        return cancel_displayed(state, row, events, count, slot, row.command_id, R_FILLED), DONE
    if price == order.price_ticks and total <= order.total_lots:
        return _reduce_in_place(state, row, events, count, slot, order.total_lots - total), DONE
    crossing = crosses(side, price, state.best[symbol, 1 - side])
    if order.flags & POST_ONLY and crossing:
        return reject_command(state, row, events, count, R_CROSS), DONE
    room = _check_level_room(state, symbol)
    if room == NEEDS_GROWTH:
        return count, GROW
    if room != 0:
        return reject_command(state, row, events, count, room), DONE
    leaves_lots = total - filled
    active = state.active_order
    active[TIME_IN_FORCE] = order.time_in_force
    active[FLAGS] = order.flags
    active[ORDER_ID] = order.order_id
    count = int64(emit(
        state, row, events, count, REPLACED, int64(order.participant), symbol, side, order.order_id, order.order_number,
        row.command_id, order.price_ticks, order.open_lots, leaves_lots, 0, 0, 0,
    ))  # fmt: skip
    remove_order(state, slot)
    _set_active_order(state, row, side, price, leaves_lots, total, False)
    active[SYMBOL] = symbol
    active[ACTIVE] = 1
    return match_and_finish(state, row, events, count)


@inner
def mass_cancel_displayed(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """MASS_CANCEL and END_DAY; called again after EVENTS_FULL it goes on with what is still there."""
    ending = row.kind == END_DAY
    one = row.kind == MASS_CANCEL and row.symbol != ALL_SYMBOLS
    first, last = (int64(row.symbol), int64(row.symbol) + 1) if one else (0, state.halted.size)
    reason = R_DAY if ending else (int64(row.reason) & 0xFF or R_MASS)
    state.active_order[ACTIVE] = 1
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
                        count = cancel_displayed(state, row, events, count, slot, command_id, reason)
                        state.counter[CANCELLED_ORDERS] += 1
                    slot = following
                price = following_price
    if count + 1 > events.size:
        return count, EVENTS_FULL
    count = int64(emit(
        state, row, events, count, DAY_ENDED if ending else MASS_CANCELLED, int64(row.participant),
        int64(row.symbol), int64(row.side), row.order_id, 0, row.command_id, 0, state.counter[CANCELLED_ORDERS], 0, 0, 0, 0,
    ))  # fmt: skip
    state.counter[CANCELLED_ORDERS] = 0
    state.active_order[ACTIVE] = 0
    return count, DONE


@inner
def execute_operator_command(state: State, row: Any, events: Any, count: int) -> int:
    """HALT, RESUME and PRINT."""
    participant, symbol, side = int64(row.participant), int64(row.symbol), int64(row.side)
    if row.kind == PRINT:
        if side > ASK:
            return reject_command(state, row, events, count, R_SIDE)
        if not 1 <= row.qty_lots <= state.counter[QTY_MAX]:
            return reject_command(state, row, events, count, R_QTY)
        if not _check_price(state, row.price_ticks, False):
            return reject_command(state, row, events, count, R_PRICE)
        state.counter[MATCH_ID] += 1
        return int64(emit(
            state, row, events, count, PRINTED, participant, symbol, side, row.order_id, 0, row.command_id,
            row.price_ticks, row.qty_lots, 0, 0, 0, state.counter[MATCH_ID],
        ))  # fmt: skip
    halts = row.kind == HALT
    why = int64(row.flags) if halts else 0
    if why > HALT_REASON_MAX:
        return reject_command(state, row, events, count, R_FLAGS)
    state.halted[symbol], state.symbols[symbol, HALT_REASON] = halts, why
    return int64(emit(
        state, row, events, count, HALTED if halts else RESUMED, participant, symbol, side, row.order_id, 0,
        row.command_id, 0, 0, 0, 0, why, 0,
    ))  # fmt: skip
