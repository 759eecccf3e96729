"""NEW, REDUCE, REPLACE and TERM."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.events import begin_active_event, reject_command
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.active_order import (
    FROM_NEW,
    FROM_REPLACE,
    NO_TRADE,
    activate,
    blocked_by_band,
    can_rest,
    check_dequeued,
    dequeue,
    phase_of,
    rest_remainder,
    target_queue,
    wants_to_trade,
)
from serl.exchange.kernel.rulebook.capacity import has_far_room, is_full
from serl.exchange.kernel.rulebook.checks import (
    SENT_TERMS,
    UNKNOWN_TERM,
    check_new,
    check_replace,
    could_rest,
    initial_stop_ticks,
    is_book_full,
    is_valid_qty,
    replaced_value,
    term_value,
)
from serl.exchange.kernel.rulebook.matching import counterparty
from serl.exchange.kernel.rulebook.order_events import begin_order_event, cancel, hidden_flag, reduce_resting
from serl.exchange.kernel.rulebook.orders import add_expiry, make_special, remove_expiry, schedule_triggers
from serl.exchange.kernel.rulebook.reserves import order_limit, total_open_lots
from serl.exchange.kernel.state import State
from serl.exchange.records import ACCOUNT_SELF_TRADE, Rows


@inner
def _take_terms(state: State, command: CommandRow) -> None:
    """The active order takes the terms of a NEW. Most have none: one branch instead of one for each."""
    active = state.active_order
    active.display_lots = active.min_lots = active.stop_ticks = active.touch_ticks = active.trail_ticks = 0
    active.peg = active.offset_ticks = active.expire_ns = active.link = active.updates = 0
    active.waits = active.child = 0
    active.self_trade_term = ACCOUNT_SELF_TRADE
    if command.flags & k.HAS_TERMS == 0:
        return
    active.display_lots = term_value(state, command, k.TERM_DISPLAY_LOTS)
    active.min_lots = term_value(state, command, k.TERM_MIN_LOTS)
    active.stop_ticks = initial_stop_ticks(state, command)
    active.touch_ticks = term_value(state, command, k.TERM_TOUCH_TICKS)
    active.trail_ticks = term_value(state, command, k.TERM_TRAIL_TICKS)
    active.peg = term_value(state, command, k.TERM_PEG)
    active.offset_ticks = term_value(state, command, k.TERM_OFFSET_TICKS)
    active.expire_ns = term_value(state, command, k.TERM_EXPIRE_NS)
    active.link = term_value(state, command, k.TERM_UPDATE_LINK)
    active.updates = active.link != 0
    active.waits, active.child = term_value(state, command, k.TERM_WAITS), term_value(state, command, k.TERM_CHILD)
    if active.link == 0:
        active.link = term_value(state, command, k.TERM_LINK)
    if state.terms[command.participant, SENT_TERMS] & 1 << k.TERM_SELF_TRADE:
        active.self_trade_term = state.terms[command.participant, k.TERM_SELF_TRADE]


@inner
def _activate_new(state: State, command: CommandRow) -> None:
    """Makes a NEW the active order."""
    active, symbol, side = state.active_order, int64(command.symbol), int64(command.side)
    active.symbol, active.side, active.participant = symbol, side, int64(command.participant)
    active.order_id, active.command_id = command.command_id, command.command_id
    active.time_in_force, active.flags = int64(command.time_in_force), int64(command.flags)
    active.price_ticks, active.leaves_lots, active.total_lots = command.price_ticks, command.qty_lots, command.qty_lots
    active.origin = FROM_NEW
    _take_terms(state, command)
    if command.flags & k.ALL_OR_NONE:
        active.min_lots = command.qty_lots
    activate(state)


@inner
def enter_new(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """Checks a NEW; it rests, or is the active order of the stage that follows."""
    active, symbol = state.active_order, int64(command.symbol)
    reason = check_new(state, command)
    if reason == 0:
        _activate_new(state, command)
        if command.flags & k.POST_ONLY and wants_to_trade(state):
            reason = k.REASON_WOULD_CROSS
        elif is_book_full(state, command, target_queue(state)[0]):
            reason = k.REASON_BOOK_FULL
        elif not has_far_room(state, symbol) or (
            could_rest(state, command) and (state.counters.free_order < 0 or state.counters.free_level < 0)
        ):
            active.is_active = 0
            return count, k.GROW
    if command.flags & k.HAS_TERMS:
        state.terms[command.participant, :] = 0
    if reason != 0:
        active.is_active = 0
        return reject_command(state, command, events, count, reason), k.DONE
    if active.link != 0:
        partner = order_index.find(state, active.participant, active.link)
        make_special(state, partner)
        state.extras[partner].link, state.extras[partner].updates = command.command_id, active.updates
    if active.child != 0:
        state.extras[order_index.find(state, active.participant, active.child)].parent = command.command_id
    schedule_triggers(state, symbol)
    state.counters.stage = k.STAGE_TRIGGERS
    trades = wants_to_trade(state)
    if not trades and can_rest(state) and not blocked_by_band(state):
        active.is_active = 0
        return rest_remainder(state, command, events, count, k.ACCEPTED), k.DONE
    if not trades:
        active.cancel_reason = NO_TRADE
    event = begin_active_event(state, command, events, count, k.ACCEPTED)
    event.command_id = command.command_id
    event.price_ticks = command.price_ticks
    event.qty_lots = command.qty_lots
    event.leaves_lots = command.qty_lots
    return count + 1, k.DONE


@inner
def enter_reduce(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> tuple[int, int]:
    """Checks a REDUCE: reduces the order or cancels it."""
    if not is_valid_qty(state, int64(state.orders[slot].symbol), command.qty_lots):
        return reject_command(state, command, events, count, k.REASON_BAD_QTY), k.DONE
    state.counters.stage = k.STAGE_TRIGGERS
    if command.qty_lots >= total_open_lots(state, slot):
        return cancel(state, command, events, count, slot, command.command_id, k.REASON_REQUESTED), k.DONE
    return reduce_resting(state, command, events, count, slot, command.qty_lots, command.command_id, 0), k.DONE


@inner
def _crosses(state: State, symbol: int, side: int, price: int, leaves_lots: int) -> bool:
    """Whether a post-only order at a new price would trade."""
    if phase_of(state, symbol) != k.CONTINUOUS:
        return False
    return counterparty(state, symbol, side, price, leaves_lots) >= 0


@inner
def enter_replace(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> tuple[int, int]:
    """Checks a REPLACE and carries it out; it consumes its terms."""
    count, status = _replace(state, command, events, count, slot)
    if status == k.DONE and command.flags & k.HAS_TERMS:
        state.terms[command.participant, :] = 0
    return count, status


@inner
def _changes_place(state: State, command: CommandRow, slot: int) -> bool:
    """Whether terms of a REPLACE are others than those of the order, the expiry aside."""
    extra = state.extras[slot]
    return (
        replaced_value(state, command, k.TERM_STOP_TICKS, extra.stop_ticks) != extra.stop_ticks
        or replaced_value(state, command, k.TERM_TOUCH_TICKS, extra.touch_ticks) != extra.touch_ticks
        or replaced_value(state, command, k.TERM_TRAIL_TICKS, extra.trail_ticks) != extra.trail_ticks
        or replaced_value(state, command, k.TERM_MIN_LOTS, extra.min_lots) != extra.min_lots
    )


@inner
def _set_expiry(state: State, command: CommandRow, slot: int) -> None:
    """The new expiry of an order that keeps its place."""
    extra = state.extras[slot]
    expire_ns = replaced_value(state, command, k.TERM_EXPIRE_NS, extra.expire_ns)
    if expire_ns != extra.expire_ns:
        remove_expiry(state, slot)
        extra.expire_ns = expire_ns
        add_expiry(state, slot)


@inner
def _replace_active_terms(state: State, command: CommandRow, slot: int) -> None:
    """The active order, which has just left `slot`, takes the terms of a REPLACE."""
    active, extra = state.active_order, state.extras[slot]
    active.stop_ticks = replaced_value(state, command, k.TERM_STOP_TICKS, extra.stop_ticks)
    active.touch_ticks = replaced_value(state, command, k.TERM_TOUCH_TICKS, extra.touch_ticks)
    active.trail_ticks = replaced_value(state, command, k.TERM_TRAIL_TICKS, extra.trail_ticks)
    active.min_lots = replaced_value(state, command, k.TERM_MIN_LOTS, extra.min_lots)
    active.expire_ns = replaced_value(state, command, k.TERM_EXPIRE_NS, extra.expire_ns)
    if active.flags & k.ALL_OR_NONE:
        active.min_lots = active.leaves_lots


@inner
def _replace(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> tuple[int, int]:
    """Keeps its place, or becomes the active order of the stage that follows."""
    order, active = state.orders[slot], state.active_order
    symbol, side = int64(order.symbol), int64(order.side)
    reason = check_replace(state, command, slot)
    if reason != 0:
        return reject_command(state, command, events, count, reason), k.DONE
    leaves_lots = command.qty_lots - (order.total_lots - total_open_lots(state, slot))
    if leaves_lots <= 0:
        state.counters.stage = k.STAGE_TRIGGERS
        return cancel(state, command, events, count, slot, command.command_id, k.REASON_REPLACED_BELOW_FILLED), k.DONE
    has_terms = command.flags & k.HAS_TERMS != 0
    reserve, limit = total_open_lots(state, slot) - order.open_lots, order_limit(state, slot)
    keeps = command.price_ticks == limit and command.qty_lots <= order.total_lots
    if keeps and not (has_terms and _changes_place(state, command, slot)):
        if has_terms:
            _set_expiry(state, command, slot)
        state.counters.stage = k.STAGE_TRIGGERS
        return reduce_resting(
            state, command, events, count, slot, order.total_lots - command.qty_lots, command.command_id, 0
        ), k.DONE
    waits = order.queue == k.STOP_QUEUE
    if order.flags & k.POST_ONLY and not waits and _crosses(state, symbol, side, command.price_ticks, leaves_lots):
        return reject_command(state, command, events, count, k.REASON_WOULD_CROSS), k.DONE
    if is_full(state, int64(order.queue), symbol):
        return reject_command(state, command, events, count, k.REASON_BOOK_FULL), k.DONE
    if not has_far_room(state, symbol):
        return count, k.GROW
    if reserve > 0:
        event = begin_order_event(state, command, events, count, k.REDUCED, slot)
        event.command_id = command.command_id
        event.price_ticks = limit
        event.qty_lots = reserve
        event.leaves_lots = order.open_lots
        event.flags = k.HIDDEN
        count += 1
    event = begin_order_event(state, command, events, count, k.REPLACED, slot)
    event.command_id = command.command_id
    event.price_ticks = limit
    event.qty_lots = order.open_lots
    event.leaves_lots = leaves_lots
    event.flags = hidden_flag(state, slot)
    count += 1
    dequeue(state, slot)
    schedule_triggers(state, symbol)
    active.price_ticks, active.leaves_lots, active.total_lots = command.price_ticks, leaves_lots, command.qty_lots
    active.command_id, active.origin = command.command_id, FROM_REPLACE
    if has_terms:
        _replace_active_terms(state, command, slot)
    activate(state)
    check_dequeued(state)
    state.counters.stage = k.STAGE_TRIGGERS
    return count, k.DONE


@inner
def store_term(state: State, command: CommandRow) -> None:
    """One more term for the participant's next order."""
    terms, which = state.terms[command.participant], int64(command.flags)
    if which <= k.TERM_MAX and which != SENT_TERMS:
        terms[which] = command.price_ticks
        terms[SENT_TERMS] |= 1 << which
    else:
        terms[SENT_TERMS] |= UNKNOWN_TERM
