"""The fast path: limit and market orders on symbols without anything special. The order of checks is that of docs/orders.md."""

from serl.exchange.compiling import apart, inlined, inner, int64, merged
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.book import crosses, has_available_lots, match_displayed, remove_order, rest_displayed
from serl.exchange.kernel.events import append_active_event, append_order_event, begin_answer, reject_command
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.state import ASK, BID, State
from serl.exchange.records import ALL_SYMBOLS, Rows

NEEDS_GROWTH = -1


@merged
def _check_level_room(state: State, symbol: int) -> int:
    """Whether one more level can be: 0, BOOK_FULL, or NEEDS_GROWTH.

    Levels are counted wherever they lie: where the window is does not outlive a restart, and must not be seen.
    """
    if state.level_count[symbol] >= state.counters.levels_max:
        return k.REASON_BOOK_FULL
    far = max(state.far_count[symbol, BID], state.far_count[symbol, ASK])  # all of the window may move there as well
    return NEEDS_GROWTH if far + state.window.shape[2] + 1 > state.far_price.shape[2] else 0


@merged
def _check_room(state: State, symbol: int) -> int:
    """Whether one more order can rest: 0, BOOK_FULL, or NEEDS_GROWTH."""
    if state.counters.orders_open >= state.counters.orders_open_max:
        return k.REASON_BOOK_FULL
    room = _check_level_room(state, symbol)
    if room == 0 and (state.counters.free_order < 0 or state.counters.free_level < 0):
        return NEEDS_GROWTH
    return room


@merged
def _check_price(state: State, price: int, market: bool) -> bool:
    return price == 0 if market else 1 <= price <= state.counters.price_ticks_max


@merged
def _check_new(state: State, command: CommandRow) -> int:
    """Why a plain NEW is rejected, 0 if it is not, or NEEDS_GROWTH."""
    tif, flags, side = int64(command.time_in_force), int64(command.flags), int64(command.side)
    market = flags & k.MARKET != 0
    if state.halted[command.symbol]:
        return k.REASON_HALTED
    if side > ASK:
        return k.REASON_BAD_SIDE
    if flags & k.POST_ONLY and (market or tif >= k.IOC):
        return k.REASON_BAD_FLAGS
    if not 1 <= command.qty_lots <= state.counters.qty_lots_max:
        return k.REASON_BAD_QTY
    if not _check_price(state, command.price_ticks, market):
        return k.REASON_BAD_PRICE
    if flags & k.POST_ONLY and crosses(side, command.price_ticks, state.best[command.symbol, 1 - side]):
        return k.REASON_WOULD_CROSS
    if market or tif >= k.IOC:
        return 0
    return _check_room(state, int64(command.symbol))


@merged
def _finish_remainder(state: State, command: CommandRow, events: Rows, count: int) -> int:
    """What happens to the rest of the active order; the new count, or -1 if the match must go on first."""
    active = state.active_order
    symbol, side, leaves_lots = active.symbol, active.side, active.leaves_lots
    if leaves_lots > 0 and crosses(side, active.limit_ticks, state.best[symbol, 1 - side]):
        return -1
    active.is_active = 0
    if leaves_lots == 0:
        return count
    market, tif = active.flags & k.MARKET, active.time_in_force
    if not market and tif < k.IOC:
        return int64(rest_displayed(state, command, events, count, k.RESTED))
    reason = (
        k.REASON_FOK_UNFILLABLE if tif == k.FOK else (k.REASON_MARKET_REMAINDER if market else k.REASON_IOC_REMAINDER)
    )
    return int64(append_active_event(state, command, events, count, k.CANCELLED, leaves_lots, 0, reason))


@inner
def match_and_finish(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """Matches and finishes the active order, or stops where the events have no room."""
    count = match_displayed(state, command, events, count)
    if count + 1 > events.size:
        return count, k.EVENTS_FULL
    finished = _finish_remainder(state, command, events, count)
    return (count, k.EVENTS_FULL) if finished < 0 else (finished, k.DONE)


@merged
def _set_active_order(
    state: State, command: CommandRow, side: int, price: int, leaves_lots: int, total: int, market: bool
) -> None:
    active = state.active_order
    active.symbol = command.symbol
    active.side = side
    active.price_ticks = price
    active.limit_ticks = price
    if market:
        active.limit_ticks = state.counters.price_ticks_max if side == BID else 1
    active.leaves_lots = leaves_lots
    active.total_lots = total
    active.participant = command.participant


@merged
def place_order(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """NEW: (new count, DONE, EVENTS_FULL or GROW)."""
    reason = _check_new(state, command)
    if reason == NEEDS_GROWTH:
        return count, k.GROW
    if reason != 0:
        return reject_command(state, command, events, count, reason), k.DONE
    active = state.active_order
    side, tif = int64(command.side), int64(command.time_in_force)
    market = command.flags & k.MARKET != 0
    _set_active_order(state, command, side, command.price_ticks, command.qty_lots, command.qty_lots, market)
    active.order_id = command.command_id
    active.time_in_force = tif
    active.flags = command.flags
    crossing = crosses(side, active.limit_ticks, state.best[command.symbol, 1 - side])
    if not crossing and not market and tif < k.IOC:
        return rest_displayed(state, command, events, count, k.ACCEPTED), k.DONE
    count = append_active_event(state, command, events, count, k.ACCEPTED, command.qty_lots, command.qty_lots, 0)
    if tif == k.FOK and not has_available_lots(state, active.symbol, side, active.limit_ticks, command.qty_lots):
        active.limit_ticks = 0 if side == BID else state.counters.price_ticks_max + 1  # trades nowhere
    active.is_active = 1
    return match_and_finish(state, command, events, count)


@inlined
def cancel_displayed(
    state: State, command: CommandRow, events: Rows, count: int, slot: int, command_id: int, reason: int
) -> int:
    """Removes an order from the book and reports it."""
    qty = state.orders[slot].open_lots
    count = append_order_event(state, command, events, count, k.CANCELLED, slot, command_id, qty, 0, reason, k.RESTING)
    remove_order(state, slot)
    return count


@apart
def cancel_apart(
    state: State, command: CommandRow, events: Rows, count: int, slot: int, command_id: int, reason: int
) -> int:
    """`cancel_displayed` for all but CANCEL: a call takes a little longer, one more copy of the code takes long to compile."""
    return cancel_displayed(state, command, events, count, slot, command_id, reason)


@inlined
def _reduce_in_place(state: State, command: CommandRow, events: Rows, count: int, slot: int, qty: int) -> int:
    """Reduces an order by `qty` lots; it keeps its place."""
    order = state.orders[slot]
    order.open_lots -= qty
    order.total_lots -= qty
    state.levels[order.level].qty_lots -= qty
    return append_order_event(
        state, command, events, count, k.REDUCED, slot, command.command_id, qty, order.open_lots, 0, 0
    )


@inlined
def reduce_order(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> int:
    """REDUCE: the new count."""
    if not 1 <= command.qty_lots <= state.counters.qty_lots_max:
        return reject_command(state, command, events, count, k.REASON_BAD_QTY)
    if command.qty_lots >= state.orders[slot].open_lots:
        return cancel_apart(state, command, events, count, slot, command.command_id, k.REASON_REQUESTED)
    return _reduce_in_place(state, command, events, count, slot, command.qty_lots)


@inlined
def replace_order(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> tuple[int, int]:
    """REPLACE: (new count, DONE, EVENTS_FULL or GROW)."""
    order = state.orders[slot]
    symbol, side, price, total = int64(order.symbol), int64(order.side), command.price_ticks, command.qty_lots
    filled = order.total_lots - order.open_lots
    if state.halted[symbol]:
        return reject_command(state, command, events, count, k.REASON_HALTED), k.DONE
    if not 1 <= total <= state.counters.qty_lots_max:
        return reject_command(state, command, events, count, k.REASON_BAD_QTY), k.DONE
    if not _check_price(state, price, False):
        return reject_command(state, command, events, count, k.REASON_BAD_PRICE), k.DONE
    if total <= filled:
        return cancel_apart(
            state, command, events, count, slot, command.command_id, k.REASON_REPLACED_BELOW_FILLED
        ), k.DONE
    if price == order.price_ticks and total <= order.total_lots:
        return _reduce_in_place(state, command, events, count, slot, order.total_lots - total), k.DONE
    crossing = crosses(side, price, state.best[symbol, 1 - side])
    if order.flags & k.POST_ONLY and crossing:
        return reject_command(state, command, events, count, k.REASON_WOULD_CROSS), k.DONE
    room = _check_level_room(state, symbol)
    if room == NEEDS_GROWTH:
        return count, k.GROW
    if room != 0:
        return reject_command(state, command, events, count, room), k.DONE
    leaves_lots = total - filled
    active = state.active_order
    active.time_in_force = order.time_in_force
    active.flags = order.flags
    active.order_id = order.order_id
    qty = order.open_lots
    count = append_order_event(
        state, command, events, count, k.REPLACED, slot, command.command_id, qty, leaves_lots, 0, 0
    )
    remove_order(state, slot)
    _set_active_order(state, command, side, price, leaves_lots, total, False)
    active.symbol = symbol
    active.is_active = 1
    return match_and_finish(state, command, events, count)


@apart
def mass_cancel_displayed(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """MASS_CANCEL and END_DAY; called again after EVENTS_FULL it goes on with what is still there."""
    ending = command.kind == k.END_DAY
    one = command.kind == k.MASS_CANCEL and command.symbol != ALL_SYMBOLS
    first, last = (int64(command.symbol), int64(command.symbol) + 1) if one else (0, state.halted.size)
    reason = k.REASON_DAY_END if ending else (int64(command.reason) & 0xFF or k.REASON_MASS_CANCEL)
    state.active_order.is_active = 1
    for symbol in range(first, last):
        for side in range(2):
            price = state.best[symbol, side]
            while price != 0:
                following_price = next_price(state, symbol, side, price)
                slot = int64(state.levels[find_level(state, symbol, side, price)].first)
                while slot >= 0:
                    order = state.orders[slot]
                    following = int64(order.next)
                    own = order.participant == command.participant
                    if order.time_in_force == k.DAY if ending else own:
                        if count + 2 > events.size:
                            return count, k.EVENTS_FULL
                        command_id = command.command_id if own else 0
                        count = cancel_apart(state, command, events, count, slot, command_id, reason)
                        state.counters.cancelled_orders += 1
                    slot = following
                price = following_price
    if count + 1 > events.size:
        return count, k.EVENTS_FULL
    event = begin_answer(state, command, events, count, k.DAY_ENDED if ending else k.MASS_CANCELLED)
    event.qty_lots = state.counters.cancelled_orders
    count += 1
    state.counters.cancelled_orders = 0
    state.active_order.is_active = 0
    return count, k.DONE


@apart
def execute_operator_command(state: State, command: CommandRow, events: Rows, count: int) -> int:
    """HALT, RESUME and PRINT."""
    symbol, side = int64(command.symbol), int64(command.side)
    if command.kind == k.PRINT:
        if side > ASK:
            return reject_command(state, command, events, count, k.REASON_BAD_SIDE)
        if not 1 <= command.qty_lots <= state.counters.qty_lots_max:
            return reject_command(state, command, events, count, k.REASON_BAD_QTY)
        if not _check_price(state, command.price_ticks, False):
            return reject_command(state, command, events, count, k.REASON_BAD_PRICE)
        state.counters.match_id += 1
        event = begin_answer(state, command, events, count, k.PRINTED)
        event.price_ticks = command.price_ticks
        event.qty_lots = command.qty_lots
        event.match_id = state.counters.match_id
        return count + 1
    halts = command.kind == k.HALT
    why = int64(command.flags) if halts else 0
    if why > k.HALT_REASON_MAX:
        return reject_command(state, command, events, count, k.REASON_BAD_FLAGS)
    state.halted[symbol], state.symbols[symbol].halt_reason = halts, why
    event = begin_answer(state, command, events, count, k.HALTED if halts else k.RESUMED)
    event.flags = why
    return count + 1
