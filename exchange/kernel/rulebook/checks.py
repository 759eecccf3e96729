"""Why a command is rejected: the section Checks of docs/orders.md, in its order."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.constants import (
    ALL_OR_NONE,
    AT_CLOSE,
    AT_OPEN,
    CLOSED,
    CONTINUOUS,
    DECREMENT,
    DISPLAYED_QUEUE,
    FOK,
    GTT,
    HIDDEN_QUEUE,
    HIDE,
    IOC,
    MARKET,
    MID,
    OPENING,
    POST_ONLY,
    PRE_OPEN,
    R_BAND,
    R_FIXED,
    R_FLAGS,
    R_HALTED,
    R_KILLED,
    R_LIMIT_NOTIONAL,
    R_LIMIT_ORDERS,
    R_LIMIT_POSITION,
    R_LIMIT_PRICE,
    R_LIMIT_QTY,
    R_PHASE,
    R_PRICE,
    R_QTY,
    R_REDUCE,
    R_SIDE,
    R_TERMS,
    R_TIF,
    REDUCE_ONLY,
    S_COLLAR,
    S_KILLED,
    S_LOTS,
    S_NOTIONAL,
    S_ORDERS,
    S_POSITION,
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
)
from serl.exchange.kernel.rulebook.active_order import phase_of
from serl.exchange.kernel.rulebook.auction import is_collecting
from serl.exchange.kernel.rulebook.band import in_band
from serl.exchange.kernel.rulebook.capacity import is_full
from serl.exchange.kernel.rulebook.matching import reducing_lots
from serl.exchange.kernel.rulebook.orders import total_open_lots
from serl.exchange.kernel.rulebook.pricing import collar_limit
from serl.exchange.kernel.state import ASK, BID, ORDERS_MAX, ORDERS_OPEN, PRICE_MAX, QTY_MAX, State
from serl.exchange.records import (
    BAND_ACTION,
    LAST_TICKS,
    LOT,
    POSITION,
    TICK_ENTRIES_MAX,
    TICKS,
    CommandFlag,
    Term,
)  # fmt: skip

KNOWN_FLAGS = int(sum(CommandFlag))
SENT_TERMS = len(Term)
"""Column of State.terms with a bit for each that was given."""
UNKNOWN_TERM = 1 << len(Term)


@inner
def is_on_tick(state: State, symbol: int, price: int) -> bool:
    """Whether a price is a multiple of what the symbol's tick table says there."""
    instrument, step = state.symbols[symbol], 1
    for entry in range(TICK_ENTRIES_MAX):
        multiple = instrument[TICKS + 2 * entry + 1]
        if multiple != 0 and price >= instrument[TICKS + 2 * entry]:
            step = multiple
    return price % step == 0


@inner
def is_valid_price(state: State, symbol: int, price: int) -> bool:
    """Whether a limit can be that price."""
    return 1 <= price <= state.counter[PRICE_MAX] and is_on_tick(state, symbol, price)


@inner
def is_valid_qty(state: State, symbol: int, qty: int) -> bool:
    """Whether an order can have that quantity."""
    return 1 <= qty <= state.counter[QTY_MAX] and qty % state.symbols[symbol, LOT] == 0


@inner
def _has_bad_flags(row: Any) -> bool:
    """Whether flags and time in force of a NEW do not go together."""
    flags, tif = int64(row.flags), int64(row.time_in_force)
    instant, auction = tif == IOC or tif == FOK, tif == AT_OPEN or tif == AT_CLOSE
    market = flags & MARKET != 0
    if flags & ~KNOWN_FLAGS:
        return True
    if flags & (POST_ONLY | HIDE) and (market or instant or auction or flags & ALL_OR_NONE):
        return True
    if flags & ALL_OR_NONE and (market or instant or auction):
        return True
    return flags & REDUCE_ONLY != 0 and auction


@inner
def term_value(state: State, row: Any, which: int) -> int:
    """The value of a term that a NEW takes, 0 if it was not given."""
    sent = state.terms[row.participant]
    return sent[which] if row.flags & TERMED and sent[SENT_TERMS] >> which & 1 else 0


@inner
def initial_stop_ticks(state: State, row: Any) -> int:
    """Where the stop of a NEW begins, 0 if it is none."""
    stop, trail = term_value(state, row, T_STOP), term_value(state, row, T_TRAIL)
    if stop != 0 or trail == 0:
        return stop
    last = state.symbols[row.symbol, LAST_TICKS]
    return max(1, min(state.counter[PRICE_MAX], last + trail if row.side == BID else last - trail))


@inner
def _has_bad_values(state: State, row: Any, sent: int) -> bool:
    """Whether a term has a value that no order could have."""
    values, symbol, most = state.terms[row.participant], int64(row.symbol), state.counter[PRICE_MAX]
    lot = state.symbols[symbol, LOT]
    if sent & 1 << T_DISPLAY and (values[T_DISPLAY] < 1 or values[T_DISPLAY] % lot != 0):
        return True
    if sent & 1 << T_MIN and (not 1 <= values[T_MIN] <= row.qty_lots or values[T_MIN] % lot != 0):
        return True
    if sent & 1 << T_STOP and not is_valid_price(state, symbol, values[T_STOP]):
        return True
    if sent & 1 << T_TRAIL and not 1 <= values[T_TRAIL] <= most:
        return True
    if sent & 1 << T_PEG and not 1 <= values[T_PEG] <= MID:
        return True
    if sent & 1 << T_OFFSET and not 0 <= values[T_OFFSET] <= most:
        return True
    if sent & 1 << T_EXPIRE and values[T_EXPIRE] <= row.time_ns:
        return True
    return sent & 1 << T_SELF != 0 and not 0 <= values[T_SELF] <= DECREMENT


@inner
def _has_bad_terms(state: State, row: Any) -> bool:
    """Whether terms are missing, out of range, or do not go together with the order."""
    flags, tif, participant = int64(row.flags), int64(row.time_in_force), int64(row.participant)
    sent = state.terms[participant, SENT_TERMS] if flags & TERMED else 0
    if (flags & TERMED and sent == 0) or sent & UNKNOWN_TERM or _has_bad_values(state, row, sent):
        return True
    instant, market = tif == IOC or tif == FOK, flags & MARKET != 0
    stops, peg = sent & (1 << T_STOP | 1 << T_TRAIL) != 0, sent & 1 << T_PEG != 0
    display, least = sent & 1 << T_DISPLAY != 0, sent & 1 << T_MIN != 0
    if (tif == GTT) != (sent & 1 << T_EXPIRE != 0):
        return True
    if display and (flags & (HIDE | ALL_OR_NONE) or least or market or instant):
        return True
    if least and (flags & (ALL_OR_NONE | POST_ONLY | HIDE) or tif == FOK or market):
        return True
    if stops and (flags & POST_ONLY or peg):
        return True
    if peg and (flags & (POST_ONLY | HIDE | ALL_OR_NONE | REDUCE_ONLY) or least or display or market or instant):
        return True
    if sent & 1 << T_OFFSET and not peg:
        return True
    if (tif == AT_OPEN or tif == AT_CLOSE) and sent & ~(1 << T_SELF | 1 << T_LINK):
        return True
    if sent & 1 << T_LINK:
        slot = order_index.find(state, participant, state.terms[participant, T_LINK])
        if slot < 0 or (state.orders[slot].special and state.extras[slot].link != 0):
            return True
    trails = sent & 1 << T_TRAIL and not sent & 1 << T_STOP
    return trails != 0 and state.symbols[row.symbol, LAST_TICKS] == 0


@inner
def _is_wrong_phase(state: State, row: Any) -> bool:
    """Whether the symbol's phase does not take such an order."""
    phase, tif = phase_of(state, int64(row.symbol)), int64(row.time_in_force)
    if phase == CLOSED:
        return True
    if tif == AT_OPEN:
        return not PRE_OPEN <= phase <= OPENING
    return is_collecting(phase) and (tif == IOC or tif == FOK or row.flags & (POST_ONLY | REDUCE_ONLY) != 0)


@inner
def could_rest(state: State, row: Any) -> bool:
    """Whether a NEW could rest."""
    if term_value(state, row, T_STOP) | term_value(state, row, T_TRAIL):
        return True
    tif = int64(row.time_in_force)
    if tif == IOC or tif == FOK:
        return False
    return row.flags & MARKET == 0 or tif == AT_CLOSE or phase_of(state, int64(row.symbol)) != CONTINUOUS


@inner
def limit_reason(state: State, participant: int, symbol: int, side: int, qty: int, price: int) -> int:
    """Why an order is beyond the band or its account's limits of an order, 0 if it is not."""
    instrument, limits = state.symbols[symbol], state.accounts[participant]
    if price != 0 and instrument[BAND_ACTION] == 0 and not in_band(state, symbol, price):
        return R_BAND
    if limits[S_LOTS] != 0 and qty > limits[S_LOTS]:
        return R_LIMIT_QTY
    if limits[S_NOTIONAL] != 0 and price != 0 and qty * price > limits[S_NOTIONAL]:
        return R_LIMIT_NOTIONAL
    if limits[S_COLLAR] != 0 and price != 0 and instrument[LAST_TICKS] != 0:
        beyond = price - instrument[LAST_TICKS] if side == BID else instrument[LAST_TICKS] - price
        if beyond > limits[S_COLLAR]:
            return R_LIMIT_PRICE
    return 0


@inner
def _exceeds_notional(state: State, row: Any) -> bool:
    """Whether a NEW without a price is above its account's notional, at the highest of the prices that are known of it."""
    symbol, participant, side = int64(row.symbol), int64(row.participant), int64(row.side)
    most = state.accounts[participant, S_NOTIONAL]
    if most == 0:
        return False
    price = max(state.symbols[symbol, LAST_TICKS], state.best[symbol, 1 - side])
    price = max(price, collar_limit(state, participant, symbol, side), initial_stop_ticks(state, row))
    return row.qty_lots * price > most


@inner
def exceeds_position(state: State, participant: int, symbol: int, side: int, held: int, leaves_lots: int) -> bool:
    """Whether the position could go beyond the account's limit. `held` of the order's lots are open already, `left` will be."""
    most = state.accounts[participant, S_POSITION]
    if most == 0:
        return False
    position = state.balances[participant, symbol, POSITION]
    required = state.open_lots[participant, symbol, side] - held + leaves_lots
    return (position if side == BID else -position) + required > most


@inner
def check_new(state: State, row: Any) -> int:
    """Why a NEW is rejected before WOULD_CROSS and BOOK_FULL, 0 if it is not."""
    symbol, participant, side = int64(row.symbol), int64(row.participant), int64(row.side)
    if state.halted[symbol]:
        return R_HALTED
    if state.accounts[participant, S_KILLED]:
        return R_KILLED
    if side > ASK:
        return R_SIDE
    if row.time_in_force > AT_CLOSE:
        return R_TIF
    if _has_bad_flags(row):
        return R_FLAGS
    if _has_bad_terms(state, row):
        return R_TERMS
    if _is_wrong_phase(state, row):
        return R_PHASE
    if not is_valid_qty(state, symbol, row.qty_lots):
        return R_QTY
    if row.flags & MARKET:
        if row.price_ticks != 0:
            return R_PRICE
    elif not is_valid_price(state, symbol, row.price_ticks) and not (
        row.price_ticks == 0 and term_value(state, row, T_PEG)
    ):
        return R_PRICE
    reason = limit_reason(state, participant, symbol, side, row.qty_lots, row.price_ticks)
    if reason != 0:
        return reason
    if row.price_ticks == 0 and _exceeds_notional(state, row):
        return R_LIMIT_NOTIONAL
    most = state.accounts[participant, S_ORDERS]
    if most != 0 and could_rest(state, row) and state.open_orders[participant] >= most:
        return R_LIMIT_ORDERS
    if exceeds_position(state, participant, symbol, side, 0, row.qty_lots):
        return R_LIMIT_POSITION
    if row.flags & REDUCE_ONLY and row.qty_lots > reducing_lots(state, participant, symbol, side):
        return R_REDUCE
    return 0


@inner
def is_book_full(state: State, row: Any, queue: int) -> bool:
    """Whether a NEW that would rest in a queue meets BOOK_FULL."""
    if not could_rest(state, row):
        return False
    return state.counter[ORDERS_OPEN] >= state.counter[ORDERS_MAX] or is_full(state, queue, int64(row.symbol))


@inner
def check_replace(state: State, row: Any, slot: int) -> int:
    """Why a REPLACE is rejected before what depends on its total, 0 if it is not."""
    order = state.orders[slot]
    symbol, participant, side = int64(order.symbol), int64(order.participant), int64(order.side)
    if state.halted[symbol]:
        return R_HALTED
    if state.accounts[participant, S_KILLED]:
        return R_KILLED
    plain = order.queue == DISPLAYED_QUEUE or (order.queue == HIDDEN_QUEUE and order.flags & HIDE != 0)
    if not plain:
        return R_FIXED
    if phase_of(state, symbol) == CLOSED:
        return R_PHASE
    if not is_valid_qty(state, symbol, row.qty_lots):
        return R_QTY
    if not is_valid_price(state, symbol, row.price_ticks):
        return R_PRICE
    open_lots = total_open_lots(state, slot)
    leaves_lots = row.qty_lots - (order.total_lots - open_lots)
    if leaves_lots <= 0:
        return 0
    reason = limit_reason(state, participant, symbol, side, row.qty_lots, row.price_ticks)
    if reason != 0:
        return reason
    return R_LIMIT_POSITION if exceeds_position(state, participant, symbol, side, open_lots, leaves_lots) else 0
