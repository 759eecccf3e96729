"""The order that comes to the market: from a command, a trigger, a peg that moves or a minimum that can be met; what becomes of its rest."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel.book import crosses, emit
from serl.exchange.kernel.constants import (
    ACCEPTED,
    AT_CLOSE,
    CANCELLED,
    CLOSING,
    CONTINUOUS,
    DISPLAYED_QUEUE,
    DONE,
    EVENTS_FULL,
    FOK,
    GROW,
    HIDDEN_QUEUE,
    HIDE,
    INACTIVE_QUEUE,
    IOC,
    MARKET,
    MIN_QTY_QUEUE,
    OWN,
    PHASED,
    R_BAND,
    R_FOK,
    R_IOC,
    R_LINKED,
    R_MARKET,
    R_NO_ROOM,
    R_NOT_REDUCING,
    REDUCE_ONLY,
    RESTED,
    RESTING,
    STOP_QUEUE,
    VOLATILITY,
)
from serl.exchange.kernel.levels import next_price
from serl.exchange.kernel.rulebook.band import in_band
from serl.exchange.kernel.rulebook.capacity import has_far_room, has_room_for_pegs, is_full
from serl.exchange.kernel.rulebook.matching import (
    counterparty,
    is_active_order_not_reducing,
    meet_counterparty,
    obtainable_lots,
)
from serl.exchange.kernel.rulebook.order_events import cancel_linked, hidden_flag, tell, unlink_pair
from serl.exchange.kernel.rulebook.orders import (
    add_expiry,
    append_to_list,
    enqueue,
    make_special,
    order_limit,
    remove_from_everywhere,
    requeue,
    schedule_triggers,
    total_open_lots,
)
from serl.exchange.kernel.rulebook.pricing import collar_limit, peg_price, worst_price
from serl.exchange.kernel.state import ACCOUNT_MODE as OWN_MODE
from serl.exchange.kernel.state import (
    ACTIVE,
    BID,
    CANCEL_REASON,
    CLOSERS,
    COMMAND_ID,
    DISPLAY,
    EXPIRE,
    FLAGS,
    LEAVES_LOTS,
    LIMIT,
    LINK,
    MIN,
    OFFSET,
    ORDER_ID,
    ORIGIN,
    PARTICIPANT,
    PEG,
    PEGS,
    PRICE,
    SELF_TRADE,
    SHARE_OF,
    SIDE,
    SPECIAL_RULES,
    STOP,
    SYMBOL,
    TIME_IN_FORCE,
    TOTAL,
    TRAIL,
    TRAILS,
    State,
)  # fmt: skip
from serl.exchange.records import (
    ACCOUNT_SELF_TRADE,
    BAND_ACTION,
    BAND_HIGH,
    BAND_LOW,
    PHASE,
)  # fmt: skip

ROOM = 12
"""Events that a step may make."""
FROM_NEW, FROM_REPLACE, FROM_QUEUE = 0, 1, 2
"""Incoming by a command, or out of a queue: then it may find no room, and its events answer no command."""
NO_TRADE = -1
"""CANCEL_REASON of an order that does not trade now, but may rest."""


@inner
def phase_of(state: State, symbol: int) -> int:
    """The symbol's phase."""
    return state.symbols[symbol, PHASE]


@inner
def cancel_unplaced(state: State, row: Any, events: Any, count: int, slot: int, reason: int) -> int:
    """Cancels an order that was taken out of its queue and found no other."""
    order = state.orders[slot]
    participant, link = int64(order.participant), unlink_pair(state, slot)
    count = int64(emit(
        state, row, events, count, CANCELLED, participant, int64(order.symbol), int64(order.side), order.order_id, 0, 0,
        order_limit(state, slot), order.open_lots, 0, reason, 0, 0,
    ))  # fmt: skip
    schedule_triggers(state, int64(order.symbol))
    remove_from_everywhere(state, slot)
    return cancel_linked(state, row, events, count, participant, link) if link != 0 else count


@inner
def dequeue(state: State, slot: int) -> None:
    """Takes an order out of its queue and makes it the active order."""
    make_special(state, slot)  # a plain one has nothing to say there yet
    active, order, extra = state.active_order, state.orders[slot], state.extras[slot]
    participant = int64(order.participant)
    active[SYMBOL], active[SIDE], active[PARTICIPANT] = order.symbol, order.side, participant
    active[ORDER_ID], active[TIME_IN_FORCE], active[FLAGS] = order.order_id, order.time_in_force, order.flags
    active[PRICE] = extra.limit_ticks
    active[LEAVES_LOTS], active[TOTAL] = total_open_lots(state, slot), order.total_lots
    active[DISPLAY], active[MIN], active[LINK] = extra.display_lots, extra.min_lots, extra.link
    active[PEG], active[OFFSET], active[EXPIRE] = extra.peg, extra.offset_ticks, extra.expire_ns
    active[OWN_MODE] = extra.self_trade
    active[STOP] = active[TRAIL] = 0
    active[COMMAND_ID], active[ORIGIN] = 0, FROM_QUEUE
    remove_from_everywhere(state, slot)
    activate(state)


@inner
def activate(state: State) -> None:
    """Sets what follows from the active order's own terms."""
    active = state.active_order
    symbol, side = active[SYMBOL], active[SIDE]
    active[ACTIVE], active[CANCEL_REASON], active[SHARE_OF] = 1, 0, 0
    limit = active[PRICE] if active[PRICE] != 0 else collar_limit(state, active[PARTICIPANT], symbol, side)
    active[LIMIT] = limit if limit != 0 else worst_price(state, side)
    if active[PEG] != 0:
        active[LIMIT] = peg_price(state, symbol, side, active[PEG], active[OFFSET], limit)
    mode = active[OWN_MODE]
    active[SELF_TRADE] = state.accounts[active[PARTICIPANT], OWN] if mode == ACCOUNT_SELF_TRADE else mode


@inner
def can_rest(state: State) -> bool:
    """Whether the rest of the active order goes into a queue."""
    active = state.active_order
    if active[STOP] != 0:
        return True
    time_in_force = active[TIME_IN_FORCE]
    if time_in_force == IOC or time_in_force == FOK:
        return False
    if active[FLAGS] & MARKET == 0 or time_in_force == AT_CLOSE:
        return True
    return active[ORIGIN] == FROM_NEW and phase_of(state, active[SYMBOL]) != CONTINUOUS


@inner
def target_queue(state: State) -> tuple[int, int]:
    """(queue, price) where the rest of the active order belongs."""
    active = state.active_order
    symbol, side = active[SYMBOL], active[SIDE]
    price = active[PRICE] if active[PRICE] != 0 else worst_price(state, side)
    phase = phase_of(state, symbol)
    if active[STOP] != 0:
        return STOP_QUEUE, active[STOP]
    if active[ORIGIN] == FROM_REPLACE:
        return (HIDDEN_QUEUE if active[FLAGS] & HIDE else DISPLAYED_QUEUE), price
    if active[TIME_IN_FORCE] == AT_CLOSE and phase != CLOSING:
        return INACTIVE_QUEUE, price
    if active[PEG] != 0:
        if phase != CONTINUOUS or active[LIMIT] == 0:
            return INACTIVE_QUEUE, price
        return HIDDEN_QUEUE, active[LIMIT]
    if active[MIN] != 0:
        return MIN_QTY_QUEUE, price
    return (HIDDEN_QUEUE if active[FLAGS] & (HIDE | MARKET) else DISPLAYED_QUEUE), price


@inner
def wants_to_trade(state: State) -> bool:
    """Whether the active order meets anybody now."""
    active = state.active_order
    symbol, side, leaves_lots = active[SYMBOL], active[SIDE], active[LEAVES_LOTS]
    if active[STOP] != 0 or phase_of(state, symbol) != CONTINUOUS or active[LIMIT] == 0:
        return False
    if active[TIME_IN_FORCE] == AT_CLOSE and active[ORIGIN] == FROM_NEW:
        return False
    if counterparty(state, symbol, side, active[LIMIT], leaves_lots) < 0:
        return False
    required = leaves_lots if active[TIME_IN_FORCE] == FOK else min(active[MIN], leaves_lots)
    if required == 0:
        return True
    return (
        obtainable_lots(
            state, symbol, side, active[LIMIT], leaves_lots, active[PARTICIPANT], active[SELF_TRADE], active[LINK]
        )
        >= required
    )


@inner
def rest_remainder(state: State, row: Any, events: Any, count: int, kind: int) -> int:
    """What is left of the active order goes into its queue, told as `kind` (ACCEPTED or RESTED)."""
    active = state.active_order
    queue, price = target_queue(state)
    leaves_lots, display = active[LEAVES_LOTS], active[DISPLAY]
    part = display if queue == DISPLAYED_QUEUE and 0 < display < leaves_lots else leaves_lots
    special = (
        display | active[LINK] | active[EXPIRE] | (active[FLAGS] & REDUCE_ONLY) | (active[TIME_IN_FORCE] > FOK)
    ) != 0 or active[OWN_MODE] != ACCOUNT_SELF_TRADE
    slot = enqueue(
        state, active[SYMBOL], queue, active[SIDE], price, leaves_lots, active[TOTAL], active[PARTICIPANT],
        active[ORDER_ID], active[TIME_IN_FORCE], active[FLAGS], special,
    )  # fmt: skip
    order = state.orders[slot]
    if order.special:
        extra = state.extras[slot]
        extra.limit_ticks, extra.display_lots, extra.min_lots = active[PRICE], display, min(active[MIN], leaves_lots)
        extra.stop_ticks, extra.trail_ticks = active[STOP], active[TRAIL]
        extra.peg, extra.offset_ticks = active[PEG], active[OFFSET]
        extra.link, extra.self_trade = active[LINK], active[OWN_MODE]
        if active[EXPIRE] != 0:
            extra.expire_ns = active[EXPIRE]
            add_expiry(state, slot)
        if part < leaves_lots:
            extra.reserve_lots = leaves_lots - part
            order.open_lots = part
            state.levels[order.level].qty_lots -= leaves_lots - part
        if active[PEG] != 0:
            append_to_list(state, slot, PEGS)
        elif active[TRAIL] != 0:
            append_to_list(state, slot, TRAILS)
        elif queue == INACTIVE_QUEUE:
            append_to_list(state, slot, CLOSERS)
    schedule_triggers(state, active[SYMBOL])
    if active[PEG] != 0 and active[ORIGIN] == FROM_QUEUE and active[CANCEL_REASON] == NO_TRADE:
        return count  # it has moved, no more
    flags = hidden_flag(state, slot) | (RESTING if kind == ACCEPTED else 0)
    return tell(
        state, row, events, count, slot, kind, active[COMMAND_ID], active[PRICE], part, leaves_lots, 0, flags, 0
    )


@inner
def blocked_by_band(state: State) -> bool:
    """Whether the rest of the active order would cross another that stands outside a band of action 0."""
    active = state.active_order
    symbol, side = active[SYMBOL], active[SIDE]
    queue, price = target_queue(state)
    if queue > MIN_QTY_QUEUE or phase_of(state, symbol) != CONTINUOUS:
        return False
    return crosses_outside(state, symbol, side, price)


@inner
def crosses_outside(state: State, symbol: int, side: int, limit: int) -> bool:
    """Whether a limit crosses an order of DISPLAYED or HIDDEN that stands outside a band of action 0."""
    if state.symbols[symbol, BAND_ACTION] != 0:
        return False
    hidden_book = HIDDEN_QUEUE * state.halted.size + symbol
    return _crosses_outside(state, symbol, symbol, side, limit) or _crosses_outside(
        state, symbol, hidden_book, side, limit
    )


@inner
def _crosses_outside(state: State, symbol: int, book: int, side: int, limit: int) -> bool:
    """Whether a limit crosses an order of a book that stands outside the band: before it, or behind it."""
    other = 1 - side
    best = state.best[book, other]
    if not crosses(side, limit, best):
        return False
    edge = state.symbols[symbol, BAND_HIGH if side == BID else BAND_LOW]
    return not in_band(state, symbol, best) or (
        edge != 0 and crosses(side, limit, next_price(state, book, other, edge))
    )


@inner
def _remainder_cancel_reason(state: State) -> int:
    """Why the rest of the active order is cancelled, 0 if it rests."""
    active = state.active_order
    if active[CANCEL_REASON] > 0:
        return active[CANCEL_REASON]
    if not can_rest(state):
        if active[TIME_IN_FORCE] == FOK:
            return R_FOK
        return R_MARKET if active[FLAGS] & MARKET else R_IOC
    if blocked_by_band(state):
        return R_BAND
    queue, _ = target_queue(state)
    return R_NO_ROOM if active[ORIGIN] == FROM_QUEUE and is_full(state, queue, active[SYMBOL]) else 0


@inner
def _finish_active_order(state: State, row: Any, events: Any, count: int) -> int:
    """The rest of the active order rests or is cancelled. At most three events."""
    active = state.active_order
    active[ACTIVE] = 0
    if active[LEAVES_LOTS] == 0:
        return count
    reason = _remainder_cancel_reason(state)
    if reason == 0:
        return rest_remainder(state, row, events, count, RESTED)
    participant, link = active[PARTICIPANT], active[LINK]
    command_id = 0 if reason == R_LINKED else active[COMMAND_ID]
    count = int64(emit(
        state, row, events, count, CANCELLED, participant, active[SYMBOL], active[SIDE], active[ORDER_ID], 0,
        command_id, active[PRICE], active[LEAVES_LOTS], 0, reason, 0, 0,
    ))  # fmt: skip
    return cancel_linked(state, row, events, count, participant, link) if link != 0 else count


@inner
def interrupt(state: State, row: Any, events: Any, count: int) -> int:
    """A band stops the active order and the symbol's continuous trading."""
    active = state.active_order
    symbol = active[SYMBOL]
    leave_continuous(state, symbol)
    if active[FLAGS] & MARKET:
        active[CANCEL_REASON] = R_MARKET
    state.symbols[symbol, PHASE] = VOLATILITY
    state.needs_full_book[symbol] |= SPECIAL_RULES
    return int64(emit(
        state, row, events, count, PHASED, active[PARTICIPANT], symbol, active[SIDE], 0, 0, 0, 0, 0, 0, 0, VOLATILITY, 0,
    ))  # fmt: skip


@inner
def leave_continuous(state: State, symbol: int) -> None:
    """Pegged orders wait, without a price, until trading is continuous again."""
    last, slot = int64(state.lists[symbol, PEGS, 1]), int64(state.lists[symbol, PEGS, 0])
    while slot >= 0:
        following = int64(state.extras[slot].next)
        if state.orders[slot].queue == HIDDEN_QUEUE:
            limit = state.extras[slot].limit_ticks
            requeue(
                state, slot, INACTIVE_QUEUE, limit if limit != 0 else worst_price(state, int64(state.orders[slot].side))
            )
        if slot == last:
            break
        slot = following


@inner
def trade_active_order(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """The active order trades on and finishes: (new count, DONE, EVENTS_FULL or GROW); to be called again if not DONE."""
    active = state.active_order
    symbol, side = active[SYMBOL], active[SIDE]
    while active[LEAVES_LOTS] > 0 and active[CANCEL_REASON] == 0 and phase_of(state, symbol) == CONTINUOUS:
        if count + ROOM > events.size:
            return count, EVENTS_FULL
        slot = counterparty(state, symbol, side, active[LIMIT], active[LEAVES_LOTS])
        if slot < 0:
            break
        if not in_band(state, symbol, state.orders[slot].price_ticks):
            if not has_room_for_pegs(state, symbol):
                return count, GROW
            count = interrupt(state, row, events, count)
            break
        if not has_far_room(state, symbol):
            return count, GROW
        count = meet_counterparty(state, row, events, count, slot)
    if count + ROOM > events.size:
        return count, EVENTS_FULL
    if not has_far_room(state, symbol):
        return count, GROW
    return _finish_active_order(state, row, events, count), DONE


@inner
def check_dequeued(state: State) -> None:
    """An order that was in a queue has come to the market: what it must not do."""
    if not wants_to_trade(state):
        state.active_order[CANCEL_REASON] = NO_TRADE
    elif is_active_order_not_reducing(state):
        state.active_order[CANCEL_REASON] = R_NOT_REDUCING
