"""One command by the full rule book, in stages that can be taken up again where events or memory ran out."""

from typing import Any

from numba import cfunc, types

from serl.exchange.compiling import inner, inner_inlined, int64
from serl.exchange.kernel import ids
from serl.exchange.kernel.handle import commands_at, events_at, state_at
from serl.exchange.kernel.matching import emit
from serl.exchange.kernel.rulebook.auction import collects, enter_close, uncross
from serl.exchange.kernel.rulebook.checks import (
    GIVEN,
    POST_ONLY,
    R_FLAGS,
    R_FULL,
    R_PHASE,
    R_QTY,
    S_KILLED,
    T_DISPLAY,
    T_EXPIRE,
    T_LINK,
    T_MIN,
    T_OFFSET,
    T_PEG,
    T_SELF,
    T_STOP,
    T_TRAIL,
    TERMED,
    UNKNOWN,
    check_new,
    check_replace,
    good_qty,
    no_place,
    rests,
    term,
)  # fmt: skip
from serl.exchange.kernel.rulebook.incoming import (
    ACCEPTED,
    ALL_OR_NONE,
    CLOSED,
    CLOSING,
    CONTINUOUS,
    DONE,
    EVENTS_FULL,
    FROM_NEW,
    FROM_REPLACE,
    GROW,
    HELD,
    OWN,
    PHASED,
    ROOM,
    barred,
    begin,
    can_rest,
    come,
    far_room,
    is_full,
    leave_continuous,
    pegs_room,
    phase_of,
    rest_rest,
    take_up,
    wants_to_trade,
)  # fmt: skip
from serl.exchange.kernel.rulebook.meeting import counterparty, in_band
from serl.exchange.kernel.rulebook.orders import limit_of, make_special, mark, open_of
from serl.exchange.kernel.rulebook.settings import set_account, set_rule, set_ruled
from serl.exchange.kernel.rulebook.settling import expire, settle
from serl.exchange.kernel.rulebook.sweeping import ACCOUNT, END_DAY, MASS_CANCEL, sweep
from serl.exchange.kernel.rulebook.telling import HIDDEN, REDUCED, cancel, take_off, tell, veil
from serl.exchange.kernel.state import ACCOUNT_MODE as OWN_MODE
from serl.exchange.kernel.state import (
    ACTIVE,
    AUCTION_FIRST_TICKS,
    AUCTION_LOTS,
    AUCTION_TICKS,
    BID,
    CANCELLED_COUNT,
    COMMAND_ID,
    CUT,
    DISPLAY,
    EXPIRE,
    FLAGS,
    FREE_LEVEL,
    FREE_ORDER,
    LEFT,
    LINK,
    MIN,
    OFFSET,
    ORDER_ID,
    ORIGIN,
    PARTICIPANT,
    PEG,
    PRICE,
    PRICE_MAX,
    SIDE,
    STAGE,
    STOP,
    SYMBOL,
    TIME_IN_FORCE,
    TOTAL,
    TRAIL,
    State,
)  # fmt: skip
from serl.exchange.records import (
    ACCOUNT_SELF_TRADE,
    BAND_ACTION,
    LAST_TICKS,
    PHASE,
    CommandKind,
    EventKind,
    Reason,
)  # fmt: skip

UNTOUCHED = 3
EXPIRE_FIRST = 0
"""The caller asks for what is due before a command, or for the rest of one; else for the command."""

EXPIRING, EXPIRED, SETTLING, SWEEPING, UNCROSSING, CLEARING, ENTERING = range(1, 8)
"""State.counter[STAGE]."""

NEW, CANCEL, REDUCE, REPLACE, TERM = (
    int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REDUCE), int(CommandKind.REPLACE), int(CommandKind.TERM)
)  # fmt: skip
HALT, RESUME, SET_PHASE, UNCROSS, TIME, RULE = (
    int(CommandKind.HALT), int(CommandKind.RESUME), int(CommandKind.PHASE), int(CommandKind.UNCROSS), int(CommandKind.TIME),
    int(CommandKind.RULE),
)  # fmt: skip
REJECTED, REPLACED, SET = int(EventKind.REJECTED), int(EventKind.REPLACED), int(EventKind.SET)
HALTED, RESUMED = int(EventKind.HALTED), int(EventKind.RESUMED)
MASS_CANCELLED, DAY_ENDED = int(EventKind.MASS_CANCELLED), int(EventKind.DAY_ENDED)
R_REQUESTED, R_FILLED, R_CROSS = (
    int(Reason.REQUESTED), int(Reason.REPLACED_BELOW_FILLED), int(Reason.WOULD_CROSS)
)  # fmt: skip
R_OPERATOR, R_SYMBOL, R_SETTING = (
    int(Reason.NOT_PERMITTED), int(Reason.UNKNOWN_SYMBOL), int(Reason.BAD_SETTING)
)  # fmt: skip


@inner
def _answer(
    state: State,
    row: Any,
    events: Any,
    count: int,
    kind: int,
    order_id: int,
    price: int,
    qty: int,
    reason: int,
    flags: int,
) -> int:
    """An event about the command itself: symbol and side as they were sent."""
    return int64(emit(
        state, row, events, count, kind, int64(row.participant), int64(row.symbol), int64(row.side), order_id, 0,
        row.command_id, price, qty, 0, reason, flags, 0,
    ))  # fmt: skip


@inner
def _reject(state: State, row: Any, events: Any, count: int, reason: int) -> tuple[int, int]:
    order_id = row.command_id if row.kind == NEW else row.order_id
    return _answer(state, row, events, count, REJECTED, order_id, row.price_ticks, row.qty_lots, reason, 0), DONE


# -- orders -----------------------------------------------------------------------------------------------------------


@inner
def _load(state: State, row: Any) -> None:
    """Makes a NEW the incoming order."""
    incoming, symbol, side = state.incoming, int64(row.symbol), int64(row.side)
    incoming[SYMBOL], incoming[SIDE], incoming[PARTICIPANT] = symbol, side, int64(row.participant)
    incoming[ORDER_ID], incoming[COMMAND_ID] = row.command_id, row.command_id
    incoming[TIME_IN_FORCE], incoming[FLAGS] = int64(row.time_in_force), int64(row.flags)
    incoming[PRICE], incoming[LEFT], incoming[TOTAL] = row.price_ticks, row.qty_lots, row.qty_lots
    incoming[ORIGIN] = FROM_NEW
    incoming[DISPLAY], incoming[MIN] = term(state, row, T_DISPLAY), term(state, row, T_MIN)
    incoming[STOP], incoming[TRAIL] = term(state, row, T_STOP), term(state, row, T_TRAIL)
    incoming[PEG], incoming[OFFSET] = term(state, row, T_PEG), term(state, row, T_OFFSET)
    incoming[EXPIRE], incoming[LINK] = term(state, row, T_EXPIRE), term(state, row, T_LINK)
    if row.flags & ALL_OR_NONE:
        incoming[MIN] = row.qty_lots
    if incoming[TRAIL] != 0 and incoming[STOP] == 0:
        last = state.symbols[symbol, LAST_TICKS]
        stop = last + incoming[TRAIL] if side == BID else last - incoming[TRAIL]
        incoming[STOP] = max(1, min(state.counter[PRICE_MAX], stop))
    given = state.terms[row.participant, GIVEN] if row.flags & TERMED else 0
    own = given & 1 << T_SELF != 0
    incoming[OWN_MODE] = state.terms[row.participant, T_SELF] if own else ACCOUNT_SELF_TRADE
    come(state)


@inner
def _new(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    incoming, symbol = state.incoming, int64(row.symbol)
    reason = check_new(state, row)
    if reason == 0:
        _load(state, row)
        if row.flags & POST_ONLY and wants_to_trade(state):
            reason = R_CROSS
        elif no_place(state, row):
            reason = R_FULL
        elif not far_room(state, symbol) or (
            rests(state, row) and (state.counter[FREE_ORDER] < 0 or state.counter[FREE_LEVEL] < 0)
        ):
            incoming[ACTIVE] = 0
            return count, GROW
    if row.flags & TERMED:
        state.terms[row.participant, :] = 0
    if reason != 0:
        incoming[ACTIVE] = 0
        return _reject(state, row, events, count, reason)
    if incoming[LINK] != 0:
        partner = ids.find(state, incoming[PARTICIPANT], incoming[LINK])
        make_special(state, partner)
        state.extras[partner].link = row.command_id
    mark(state, symbol)
    state.counter[STAGE] = SETTLING
    wants = wants_to_trade(state)
    if not wants and can_rest(state) and not barred(state):
        incoming[ACTIVE] = 0
        return rest_rest(state, row, events, count, ACCEPTED), DONE
    if not wants:
        incoming[CUT] = HELD
    return int64(emit(
        state, row, events, count, ACCEPTED, incoming[PARTICIPANT], symbol, incoming[SIDE], row.command_id, 0,
        row.command_id, row.price_ticks, row.qty_lots, row.qty_lots, 0, 0, 0,
    )), DONE  # fmt: skip


@inner
def _reduce(state: State, row: Any, events: Any, count: int, slot: int) -> tuple[int, int]:
    if not good_qty(state, int64(state.orders[slot].symbol), row.qty_lots):
        return _reject(state, row, events, count, R_QTY)
    state.counter[STAGE] = SETTLING
    if row.qty_lots >= open_of(state, slot):
        return cancel(state, row, events, count, slot, row.command_id, R_REQUESTED), DONE
    return take_off(state, row, events, count, slot, row.qty_lots, row.command_id, 0), DONE


@inner_inlined
def _crosses(state: State, symbol: int, side: int, price: int, left: int) -> bool:
    """Whether a post-only order at a new price would trade."""
    if phase_of(state, symbol) != CONTINUOUS:
        return False
    slot = counterparty(state, symbol, side, price, left)
    return slot >= 0 and (
        state.symbols[symbol, BAND_ACTION] != 0 or in_band(state, symbol, state.orders[slot].price_ticks)
    )


@inner
def _replace(state: State, row: Any, events: Any, count: int, slot: int) -> tuple[int, int]:
    order, incoming = state.orders[slot], state.incoming
    symbol, side = int64(order.symbol), int64(order.side)
    reason = check_replace(state, row, slot)
    if reason != 0:
        return _reject(state, row, events, count, reason)
    left = row.qty_lots - (order.total_lots - open_of(state, slot))
    if left <= 0:
        state.counter[STAGE] = SETTLING
        return cancel(state, row, events, count, slot, row.command_id, R_FILLED), DONE
    if row.price_ticks == order.price_ticks and row.qty_lots <= order.total_lots:
        state.counter[STAGE] = SETTLING
        return take_off(state, row, events, count, slot, order.total_lots - row.qty_lots, row.command_id, 0), DONE
    if order.flags & POST_ONLY and _crosses(state, symbol, side, row.price_ticks, left):
        return _reject(state, row, events, count, R_CROSS)
    if is_full(state, int64(order.queue), symbol):
        return _reject(state, row, events, count, R_FULL)
    if not far_room(state, symbol):
        return count, GROW
    reserve, limit = open_of(state, slot) - order.open_lots, limit_of(state, slot)
    if reserve > 0:
        count = tell(
            state, row, events, count, slot, REDUCED, row.command_id, limit, reserve, order.open_lots, 0, HIDDEN, 0
        )
    count = tell(
        state, row, events, count, slot, REPLACED, row.command_id, limit, order.open_lots, left, 0, veil(state, slot), 0
    )
    take_up(state, slot)
    mark(state, symbol)
    incoming[PRICE], incoming[LEFT], incoming[TOTAL] = row.price_ticks, left, row.qty_lots
    incoming[COMMAND_ID], incoming[ORIGIN] = row.command_id, FROM_REPLACE
    come(state)
    begin(state)
    state.counter[STAGE] = SETTLING
    return count, DONE


@inner_inlined
def _term(state: State, row: Any) -> None:
    """One more term for the participant's next order."""
    terms, which = state.terms[row.participant], int64(row.flags)
    if which < GIVEN:
        terms[which] = row.price_ticks
        terms[GIVEN] |= 1 << which
    else:
        terms[GIVEN] |= UNKNOWN


# -- operators --------------------------------------------------------------------------------------------------------


@inner
def _operate(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """HALT, RESUME, PHASE, UNCROSS, TIME, RULE, ACCOUNT, END_DAY."""
    kind, symbol, flags = int64(row.kind), int64(row.symbol), int64(row.flags)
    own = kind == ACCOUNT and flags == OWN and row.order_id == row.participant
    if not state.operator[row.participant] and not own:
        return _reject(state, row, events, count, R_OPERATOR)
    if kind != END_DAY and kind != TIME and kind != ACCOUNT and symbol >= state.halted.size:
        return _reject(state, row, events, count, R_SYMBOL)
    if kind == TIME:
        return count, DONE
    if kind == END_DAY:
        state.counter[STAGE] = SWEEPING
        return count, DONE
    if kind == SET_PHASE and flags > CLOSED:
        return _reject(state, row, events, count, R_FLAGS)
    if kind == UNCROSS and not collects(phase_of(state, symbol)):
        return _reject(state, row, events, count, R_PHASE)
    if (kind == RULE and not set_rule(state, row)) or (kind == ACCOUNT and not set_account(state, row)):
        return _reject(state, row, events, count, R_SETTING)
    state.counter[STAGE] = SETTLING
    if kind == ACCOUNT:
        if flags == S_KILLED and row.price_ticks != 0:
            state.counter[STAGE] = SWEEPING
            return count, DONE
        return _answer(state, row, events, count, SET, row.order_id, row.price_ticks, 0, 0, flags), DONE
    mark(state, symbol)
    if kind == RULE:
        set_ruled(state, symbol)
        return _answer(state, row, events, count, SET, row.order_id, row.price_ticks, 0, 0, flags), DONE
    if kind == HALT or kind == RESUME:
        state.halted[symbol] = kind == HALT
        return _answer(state, row, events, count, HALTED if kind == HALT else RESUMED, row.order_id, 0, 0, 0, 0), DONE
    state.counter[AUCTION_TICKS] = state.counter[AUCTION_FIRST_TICKS] = state.counter[AUCTION_LOTS] = 0
    ends = collects(phase_of(state, symbol)) and (flags == CONTINUOUS or flags == CLOSED)
    state.counter[STAGE] = UNCROSSING if kind == UNCROSS or ends else ENTERING
    return count, DONE


@inner_inlined
def _enter(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """The new phase begins: (new count, DONE, EVENTS_FULL or GROW)."""
    symbol = int64(row.symbol)
    if row.kind == SET_PHASE:
        if phase_of(state, symbol) == CONTINUOUS and row.flags != CONTINUOUS:
            if not pegs_room(state, symbol):
                return count, GROW
            leave_continuous(state, symbol)
        state.symbols[symbol, PHASE] = row.flags
        set_ruled(state, symbol)
        if row.flags == CLOSING:
            count, status = enter_close(state, row, events, count, symbol)
            if status != DONE:
                return count, status
    if count + ROOM > events.size:
        return count, EVENTS_FULL
    price, lots = state.counter[AUCTION_FIRST_TICKS], state.counter[AUCTION_LOTS]
    phase = phase_of(state, symbol)
    return _answer(state, row, events, count, PHASED, row.order_id, price, lots, 0, phase), DONE


# -- stages -----------------------------------------------------------------------------------------------------------


@inner_inlined
def _begin(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Checks the command and does what is at once; sets the stage that follows. GROW: nothing was changed."""
    kind = int64(row.kind)
    if kind == NEW:
        return _new(state, row, events, count)
    if CANCEL <= kind <= REPLACE:
        slot = ids.find(state, int64(row.participant), row.order_id)
        if kind == REDUCE:
            return _reduce(state, row, events, count, slot)
        if kind == REPLACE:
            return _replace(state, row, events, count, slot)
        state.counter[STAGE] = SETTLING
        return cancel(state, row, events, count, slot, row.command_id, R_REQUESTED), DONE
    if kind == TERM:
        _term(state, row)
        return count, DONE
    if kind == MASS_CANCEL:
        if row.flags > 2:
            return _reject(state, row, events, count, R_FLAGS)
        state.counter[STAGE] = SWEEPING
        return count, DONE
    return _operate(state, row, events, count)


@inner_inlined
def _swept(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """A sweep, and its answer: (new count, DONE or EVENTS_FULL)."""
    count, status = sweep(state, row, events, count, 0)
    if status != DONE or count + ROOM > events.size:
        return count, EVENTS_FULL
    cancelled = state.counter[CANCELLED_COUNT]
    state.counter[CANCELLED_COUNT] = 0
    if row.kind == ACCOUNT:
        return _answer(
            state, row, events, count, SET, row.order_id, row.price_ticks, cancelled, 0, int64(row.flags)
        ), DONE
    kind = DAY_ENDED if row.kind == END_DAY else MASS_CANCELLED
    return _answer(state, row, events, count, kind, row.order_id, 0, cancelled, 0, 0), DONE


@inner
def _stage(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Goes through one stage: (new count, DONE, EVENTS_FULL or GROW); after DONE the next one is set."""
    counter = state.counter
    stage = counter[STAGE]
    if stage == EXPIRING:
        count, status = expire(state, row, events, count)
    elif stage == SWEEPING:
        count, status = _swept(state, row, events, count)
    elif stage == UNCROSSING:
        count, status = uncross(state, row, events, count, int64(row.symbol))
    elif stage == CLEARING:
        count, status = sweep(state, row, events, count, phase_of(state, int64(row.symbol)))
        if status == DONE:
            counter[CANCELLED_COUNT] = 0
    elif stage == ENTERING:
        count, status = _enter(state, row, events, count)
    else:
        count, status = settle(state, row, events, count)
    if status == DONE:
        if stage == EXPIRING or stage == UNCROSSING or stage == CLEARING:
            counter[STAGE] = stage + 1
        else:
            counter[STAGE] = 0 if stage == EXPIRED or stage == SETTLING else SETTLING
    return count, status


@cfunc(types.int64(*[types.int64] * 7), cache=True, _nrt=False, error_model="numpy")
def execute_fully(handle: int, commands: int, index: int, events: int, size: int, count: int, how: int) -> int:
    """`execute` by the full rule book, of arrays at addresses: new count << 2 | status; UNTOUCHED if what was due before the command is done."""
    state = state_at(handle)
    rows, written = commands_at(commands, index + 1), events_at(events, size)
    row = rows[index]
    status = DONE
    before = how == EXPIRE_FIRST
    if before and state.counter[STAGE] == 0:
        state.counter[STAGE] = EXPIRING
    first = state.counter[STAGE]
    if not before:
        count, status = _begin(state, row, written, count)
    while status == DONE and state.counter[STAGE] != 0:
        count, status = _stage(state, row, written, count)
    if before and status == DONE and (first == EXPIRING or first == EXPIRED):
        status = UNTOUCHED
    return count << 2 | status
