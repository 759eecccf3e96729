"""The order that comes to the market: from a command, a trigger, a peg that moves or a minimum that can be met; what becomes of its rest."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel.book import crosses, emit
from serl.exchange.kernel.constants import (
    ACCEPTED,
    AT_CLOSE,
    CANCELLED,
    CLOSING,
    CONDITIONAL,
    CONTINUOUS,
    DONE,
    EVENTS_FULL,
    FOK,
    GROW,
    HIDDEN_QUEUE,
    HIDE,
    IOC,
    MARKET,
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
    SEEN,
    STOP_QUEUE,
    VOLATILITY,
    WAITING,
)
from serl.exchange.kernel.levels import next_price
from serl.exchange.kernel.rulebook.band import in_band
from serl.exchange.kernel.rulebook.capacity import far_room, is_full, pegs_room
from serl.exchange.kernel.rulebook.matching import counterparty, meet, obtainable, taker_not_reducing
from serl.exchange.kernel.rulebook.order_events import cancel_linked, tell, unlink_pair, veil
from serl.exchange.kernel.rulebook.orders import (
    drop,
    enlist,
    join_heap,
    limit_of,
    make_special,
    mark,
    move,
    open_of,
    put,
)
from serl.exchange.kernel.rulebook.pricing import collar_limit, peg_price, worst
from serl.exchange.kernel.state import ACCOUNT_MODE as OWN_MODE
from serl.exchange.kernel.state import (
    ACTIVE,
    BID,
    CLOSERS,
    COMMAND_ID,
    CUT,
    DISPLAY,
    EXPIRE,
    FLAGS,
    LEFT,
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
    RULED,
    SELF_TRADE,
    SHARE_OF,
    SIDE,
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
HELD = -1
"""incoming[CUT] of an order that does not trade now, but may rest."""


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
        limit_of(state, slot), order.open_lots, 0, reason, 0, 0,
    ))  # fmt: skip
    mark(state, int64(order.symbol))
    drop(state, slot)
    return cancel_linked(state, row, events, count, participant, link) if link != 0 else count


@inner
def take_up(state: State, slot: int) -> None:
    """Takes an order out of its queue and makes it the incoming one."""
    make_special(state, slot)  # a plain one has nothing to say there yet
    incoming, order, extra = state.incoming, state.orders[slot], state.extras[slot]
    participant = int64(order.participant)
    incoming[SYMBOL], incoming[SIDE], incoming[PARTICIPANT] = order.symbol, order.side, participant
    incoming[ORDER_ID], incoming[TIME_IN_FORCE], incoming[FLAGS] = order.order_id, order.time_in_force, order.flags
    incoming[PRICE] = extra.limit_ticks
    incoming[LEFT], incoming[TOTAL] = open_of(state, slot), order.total_lots
    incoming[DISPLAY], incoming[MIN], incoming[LINK] = extra.display_lots, extra.min_lots, extra.link
    incoming[PEG], incoming[OFFSET], incoming[EXPIRE] = extra.peg, extra.offset_ticks, extra.expire_ns
    incoming[OWN_MODE] = extra.self_trade
    incoming[STOP] = incoming[TRAIL] = 0
    incoming[COMMAND_ID], incoming[ORIGIN] = 0, FROM_QUEUE
    drop(state, slot)
    come(state)


@inner
def come(state: State) -> None:
    """Sets what follows from the incoming order's own terms."""
    incoming = state.incoming
    symbol, side = incoming[SYMBOL], incoming[SIDE]
    incoming[ACTIVE], incoming[CUT], incoming[SHARE_OF] = 1, 0, 0
    limit = incoming[PRICE] if incoming[PRICE] != 0 else collar_limit(state, incoming[PARTICIPANT], symbol, side)
    incoming[LIMIT] = limit if limit != 0 else worst(state, side)
    if incoming[PEG] != 0:
        incoming[LIMIT] = peg_price(state, symbol, side, incoming[PEG], incoming[OFFSET], limit)
    mode = incoming[OWN_MODE]
    incoming[SELF_TRADE] = state.accounts[incoming[PARTICIPANT], OWN] if mode == ACCOUNT_SELF_TRADE else mode


@inner
def can_rest(state: State) -> bool:
    """Whether the rest of the incoming order goes into a queue."""
    incoming = state.incoming
    if incoming[STOP] != 0:
        return True
    time_in_force = incoming[TIME_IN_FORCE]
    if time_in_force == IOC or time_in_force == FOK:
        return False
    if incoming[FLAGS] & MARKET == 0 or time_in_force == AT_CLOSE:
        return True
    return incoming[ORIGIN] == FROM_NEW and phase_of(state, incoming[SYMBOL]) != CONTINUOUS


@inner
def home(state: State) -> tuple[int, int]:
    """(queue, price) where the rest of the incoming order belongs."""
    incoming = state.incoming
    symbol, side = incoming[SYMBOL], incoming[SIDE]
    price = incoming[PRICE] if incoming[PRICE] != 0 else worst(state, side)
    phase = phase_of(state, symbol)
    if incoming[STOP] != 0:
        return STOP_QUEUE, incoming[STOP]
    if incoming[ORIGIN] == FROM_REPLACE:
        return (HIDDEN_QUEUE if incoming[FLAGS] & HIDE else SEEN), price
    if incoming[TIME_IN_FORCE] == AT_CLOSE and phase != CLOSING:
        return WAITING, price
    if incoming[PEG] != 0:
        if phase != CONTINUOUS or incoming[LIMIT] == 0:
            return WAITING, price
        return HIDDEN_QUEUE, incoming[LIMIT]
    if incoming[MIN] != 0:
        return CONDITIONAL, price
    return (HIDDEN_QUEUE if incoming[FLAGS] & (HIDE | MARKET) else SEEN), price


@inner
def wants_to_trade(state: State) -> bool:
    """Whether the incoming order meets anybody now."""
    incoming = state.incoming
    symbol, side, left = incoming[SYMBOL], incoming[SIDE], incoming[LEFT]
    if incoming[STOP] != 0 or phase_of(state, symbol) != CONTINUOUS or incoming[LIMIT] == 0:
        return False
    if incoming[TIME_IN_FORCE] == AT_CLOSE and incoming[ORIGIN] == FROM_NEW:
        return False
    if counterparty(state, symbol, side, incoming[LIMIT], left) < 0:
        return False
    due = left if incoming[TIME_IN_FORCE] == FOK else min(incoming[MIN], left)
    if due == 0:
        return True
    return (
        obtainable(
            state, symbol, side, incoming[LIMIT], left, incoming[PARTICIPANT], incoming[SELF_TRADE], incoming[LINK]
        )
        >= due
    )


@inner
def rest_rest(state: State, row: Any, events: Any, count: int, kind: int) -> int:
    """What is left of the incoming order goes into its queue, told as `kind` (ACCEPTED or RESTED)."""
    incoming = state.incoming
    queue, price = home(state)
    left, display = incoming[LEFT], incoming[DISPLAY]
    part = display if queue == SEEN and 0 < display < left else left
    special = (
        display | incoming[LINK] | incoming[EXPIRE] | (incoming[FLAGS] & REDUCE_ONLY) | (incoming[TIME_IN_FORCE] > FOK)
    ) != 0 or incoming[OWN_MODE] != ACCOUNT_SELF_TRADE
    slot = put(
        state, incoming[SYMBOL], queue, incoming[SIDE], price, left, incoming[TOTAL], incoming[PARTICIPANT],
        incoming[ORDER_ID], incoming[TIME_IN_FORCE], incoming[FLAGS], special,
    )  # fmt: skip
    order = state.orders[slot]
    if order.special:
        extra = state.extras[slot]
        extra.limit_ticks, extra.display_lots, extra.min_lots = incoming[PRICE], display, min(incoming[MIN], left)
        extra.stop_ticks, extra.trail_ticks = incoming[STOP], incoming[TRAIL]
        extra.peg, extra.offset_ticks = incoming[PEG], incoming[OFFSET]
        extra.link, extra.self_trade = incoming[LINK], incoming[OWN_MODE]
        if incoming[EXPIRE] != 0:
            extra.expire_ns = incoming[EXPIRE]
            join_heap(state, slot)
        if part < left:
            extra.reserve_lots = left - part
            order.open_lots = part
            state.levels[order.level].qty_lots -= left - part
        if incoming[PEG] != 0:
            enlist(state, slot, PEGS)
        elif incoming[TRAIL] != 0:
            enlist(state, slot, TRAILS)
        elif queue == WAITING:
            enlist(state, slot, CLOSERS)
    mark(state, incoming[SYMBOL])
    if incoming[PEG] != 0 and incoming[ORIGIN] == FROM_QUEUE and incoming[CUT] == HELD:
        return count  # it has moved, no more
    flags = veil(state, slot) | (RESTING if kind == ACCEPTED else 0)
    return tell(state, row, events, count, slot, kind, incoming[COMMAND_ID], incoming[PRICE], part, left, 0, flags, 0)


@inner
def barred(state: State) -> bool:
    """Whether the rest of the incoming order would cross another that stands outside a band of action 0."""
    incoming = state.incoming
    symbol, side = incoming[SYMBOL], incoming[SIDE]
    queue, price = home(state)
    if queue > CONDITIONAL or phase_of(state, symbol) != CONTINUOUS:
        return False
    return crosses_outside(state, symbol, side, price)


@inner
def crosses_outside(state: State, symbol: int, side: int, limit: int) -> bool:
    """Whether a limit crosses an order of SEEN or HIDDEN that stands outside a band of action 0."""
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
def _rest_reason(state: State) -> int:
    """Why the rest of the incoming order is cancelled, 0 if it rests."""
    incoming = state.incoming
    if incoming[CUT] > 0:
        return incoming[CUT]
    if not can_rest(state):
        if incoming[TIME_IN_FORCE] == FOK:
            return R_FOK
        return R_MARKET if incoming[FLAGS] & MARKET else R_IOC
    if barred(state):
        return R_BAND
    queue, _ = home(state)
    return R_NO_ROOM if incoming[ORIGIN] == FROM_QUEUE and is_full(state, queue, incoming[SYMBOL]) else 0


@inner
def _finish(state: State, row: Any, events: Any, count: int) -> int:
    """The rest of the incoming order rests or is cancelled. At most three events."""
    incoming = state.incoming
    incoming[ACTIVE] = 0
    if incoming[LEFT] == 0:
        return count
    reason = _rest_reason(state)
    if reason == 0:
        return rest_rest(state, row, events, count, RESTED)
    participant, link = incoming[PARTICIPANT], incoming[LINK]
    command_id = 0 if reason == R_LINKED else incoming[COMMAND_ID]
    count = int64(emit(
        state, row, events, count, CANCELLED, participant, incoming[SYMBOL], incoming[SIDE], incoming[ORDER_ID], 0,
        command_id, incoming[PRICE], incoming[LEFT], 0, reason, 0, 0,
    ))  # fmt: skip
    return cancel_linked(state, row, events, count, participant, link) if link != 0 else count


@inner
def interrupt(state: State, row: Any, events: Any, count: int) -> int:
    """A band stops the incoming order and the symbol's continuous trading."""
    incoming = state.incoming
    symbol = incoming[SYMBOL]
    leave_continuous(state, symbol)
    if incoming[FLAGS] & MARKET:
        incoming[CUT] = R_MARKET
    state.symbols[symbol, PHASE] = VOLATILITY
    state.watched[symbol] |= RULED
    return int64(emit(
        state, row, events, count, PHASED, incoming[PARTICIPANT], symbol, incoming[SIDE], 0, 0, 0, 0, 0, 0, 0, VOLATILITY, 0,
    ))  # fmt: skip


@inner
def leave_continuous(state: State, symbol: int) -> None:
    """Pegged orders wait, without a price, until trading is continuous again."""
    last, slot = int64(state.lists[symbol, PEGS, 1]), int64(state.lists[symbol, PEGS, 0])
    while slot >= 0:
        following = int64(state.extras[slot].next)
        if state.orders[slot].queue == HIDDEN_QUEUE:
            limit = state.extras[slot].limit_ticks
            move(state, slot, WAITING, limit if limit != 0 else worst(state, int64(state.orders[slot].side)))
        if slot == last:
            break
        slot = following


@inner
def go_on(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """The incoming order trades on and finishes: (new count, DONE, EVENTS_FULL or GROW); to be called again if not DONE."""
    incoming = state.incoming
    symbol, side = incoming[SYMBOL], incoming[SIDE]
    while incoming[LEFT] > 0 and incoming[CUT] == 0 and phase_of(state, symbol) == CONTINUOUS:
        if count + ROOM > events.size:
            return count, EVENTS_FULL
        slot = counterparty(state, symbol, side, incoming[LIMIT], incoming[LEFT])
        if slot < 0:
            break
        if not in_band(state, symbol, state.orders[slot].price_ticks):
            if not pegs_room(state, symbol):
                return count, GROW
            count = interrupt(state, row, events, count)
            break
        if not far_room(state, symbol):
            return count, GROW
        count = meet(state, row, events, count, slot)
    if count + ROOM > events.size:
        return count, EVENTS_FULL
    if not far_room(state, symbol):
        return count, GROW
    return _finish(state, row, events, count), DONE


@inner
def begin(state: State) -> None:
    """An order that was in a queue has come to the market: what it must not do."""
    if not wants_to_trade(state):
        state.incoming[CUT] = HELD
    elif taker_not_reducing(state):
        state.incoming[CUT] = R_NOT_REDUCING
