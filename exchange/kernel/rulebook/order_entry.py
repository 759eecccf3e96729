"""NEW, REDUCE, REPLACE and TERM."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.book import emit
from serl.exchange.kernel.constants import (
    ACCEPTED,
    ALL_OR_NONE,
    CONTINUOUS,
    DONE,
    GROW,
    HIDDEN,
    POST_ONLY,
    R_CROSS,
    R_FILLED,
    R_FULL,
    R_QTY,
    R_REQUESTED,
    REDUCED,
    REPLACED,
    SETTLING,
    T_DISPLAY,
    T_EXPIRE,
    T_LINK,
    T_MIN,
    T_OFFSET,
    T_PEG,
    T_SELF,
    T_TRAIL,
    TERMED,
)
from serl.exchange.kernel.rulebook.active_order import (
    FROM_NEW,
    FROM_REPLACE,
    HELD,
    barred,
    begin,
    can_rest,
    come,
    home,
    phase_of,
    rest_rest,
    take_up,
    wants_to_trade,
)
from serl.exchange.kernel.rulebook.capacity import far_room, is_full
from serl.exchange.kernel.rulebook.checks import (
    GIVEN,
    UNKNOWN,
    check_new,
    check_replace,
    first_stop,
    good_qty,
    no_place,
    rests,
    term,
)
from serl.exchange.kernel.rulebook.command_events import reject
from serl.exchange.kernel.rulebook.matching import counterparty
from serl.exchange.kernel.rulebook.order_events import cancel, take_off, tell, veil
from serl.exchange.kernel.rulebook.orders import limit_of, make_special, mark, open_of
from serl.exchange.kernel.state import ACCOUNT_MODE as OWN_MODE
from serl.exchange.kernel.state import (
    ACTIVE,
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
    SIDE,
    STAGE,
    STOP,
    SYMBOL,
    TIME_IN_FORCE,
    TOTAL,
    TRAIL,
    State,
)  # fmt: skip
from serl.exchange.records import ACCOUNT_SELF_TRADE


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
    incoming[STOP], incoming[TRAIL] = first_stop(state, row), term(state, row, T_TRAIL)
    incoming[PEG], incoming[OFFSET] = term(state, row, T_PEG), term(state, row, T_OFFSET)
    incoming[EXPIRE], incoming[LINK] = term(state, row, T_EXPIRE), term(state, row, T_LINK)
    if row.flags & ALL_OR_NONE:
        incoming[MIN] = row.qty_lots
    given = state.terms[row.participant, GIVEN] if row.flags & TERMED else 0
    own = given & 1 << T_SELF != 0
    incoming[OWN_MODE] = state.terms[row.participant, T_SELF] if own else ACCOUNT_SELF_TRADE
    come(state)


@inner
def new(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Checks a NEW; it rests, or is the incoming order of the stage that follows."""
    incoming, symbol = state.incoming, int64(row.symbol)
    reason = check_new(state, row)
    if reason == 0:
        _load(state, row)
        if row.flags & POST_ONLY and wants_to_trade(state):
            reason = R_CROSS
        elif no_place(state, row, home(state)[0]):
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
        return reject(state, row, events, count, reason)
    if incoming[LINK] != 0:
        partner = order_index.find(state, incoming[PARTICIPANT], incoming[LINK])
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
def reduce(state: State, row: Any, events: Any, count: int, slot: int) -> tuple[int, int]:
    """Takes lots off, or cancels."""
    if not good_qty(state, int64(state.orders[slot].symbol), row.qty_lots):
        return reject(state, row, events, count, R_QTY)
    state.counter[STAGE] = SETTLING
    if row.qty_lots >= open_of(state, slot):
        return cancel(state, row, events, count, slot, row.command_id, R_REQUESTED), DONE
    return take_off(state, row, events, count, slot, row.qty_lots, row.command_id, 0), DONE


@inner
def _crosses(state: State, symbol: int, side: int, price: int, left: int) -> bool:
    """Whether a post-only order at a new price would trade."""
    if phase_of(state, symbol) != CONTINUOUS:
        return False
    return counterparty(state, symbol, side, price, left) >= 0


@inner
def replace(state: State, row: Any, events: Any, count: int, slot: int) -> tuple[int, int]:
    """Keeps its place, or becomes the incoming order of the stage that follows."""
    order, incoming = state.orders[slot], state.incoming
    symbol, side = int64(order.symbol), int64(order.side)
    reason = check_replace(state, row, slot)
    if reason != 0:
        return reject(state, row, events, count, reason)
    left = row.qty_lots - (order.total_lots - open_of(state, slot))
    if left <= 0:
        state.counter[STAGE] = SETTLING
        return cancel(state, row, events, count, slot, row.command_id, R_FILLED), DONE
    if row.price_ticks == order.price_ticks and row.qty_lots <= order.total_lots:
        state.counter[STAGE] = SETTLING
        return take_off(state, row, events, count, slot, order.total_lots - row.qty_lots, row.command_id, 0), DONE
    if order.flags & POST_ONLY and _crosses(state, symbol, side, row.price_ticks, left):
        return reject(state, row, events, count, R_CROSS)
    if is_full(state, int64(order.queue), symbol):
        return reject(state, row, events, count, R_FULL)
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


@inner
def keep_term(state: State, row: Any) -> None:
    """One more term for the participant's next order."""
    terms, which = state.terms[row.participant], int64(row.flags)
    if which < GIVEN:
        terms[which] = row.price_ticks
        terms[GIVEN] |= 1 << which
    else:
        terms[GIVEN] |= UNKNOWN
