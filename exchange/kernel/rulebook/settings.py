"""What an operator sets: an account's limits and fees, a symbol's rules."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel.constants import (
    DECREMENT,
    OWN,
    RULE_ACTION,
    RULE_FEES,
    RULE_LOT,
    RULE_MATCHING,
    RULE_TICK,
    S_COLLAR,
    S_FEES,
    S_KILLED,
    S_ORDERS,
    S_OWN_FEES,
    S_POSITION,
)
from serl.exchange.kernel.rulebook.active_order import phase_of
from serl.exchange.kernel.rulebook.orders import schedule_triggers
from serl.exchange.kernel.state import COUNTS_OPEN, OPEN_COUNTED, OWN_FEES, PRICE_MAX, QTY_MAX, SPECIAL_RULES, State
from serl.exchange.records import (
    BAND_ACTION,
    BAND_HIGH,
    BAND_LOW,
    FEE_COLUMNS,
    FEE_LOTS_MAX,
    FEE_PPM_MAX,
    HAS_FEES,
    LIMIT_COLUMNS,
    LOT,
    MAKER_FEE,
    MATCHING,
    SYMBOL_COLUMNS,
    TICKS,
)  # fmt: skip


@inner
def set_account(state: State, row: Any) -> bool:
    """Takes a setting over; False if it is none."""
    participant, which, value = row.order_id, int64(row.flags), row.price_ticks
    if not 0 <= participant < state.accounts.shape[0] or not _is_setting(state, which, value):
        return False
    if which == S_OWN_FEES:
        state.counter[OWN_FEES] += value - state.accounts[participant, which]
    state.accounts[participant, which] = value
    state.has_limits[participant] = 0
    for column in range(LIMIT_COLUMNS):
        if state.accounts[participant, column] != 0:
            state.has_limits[participant] = 1
    if (which == S_ORDERS or which == S_POSITION) and value != 0 and state.counter[COUNTS_OPEN] == 0:
        start_counting_open(state)
    if which == OWN or which == S_COLLAR:  # a minimum may be there now, a peg belong elsewhere
        for symbol in range(state.halted.size):
            if state.needs_full_book[symbol] != 0:
                schedule_triggers(state, symbol)
    return True


@inner
def _is_setting(state: State, which: int, value: int) -> bool:
    """Whether accounts have that setting, and it can have that value."""
    if which > S_OWN_FEES:
        return _is_fee(state, which - S_FEES, value)
    if which == OWN:
        return 0 <= value <= DECREMENT
    if which == S_KILLED or which == S_OWN_FEES:
        return 0 <= value <= 1
    return value >= 0


@inner
def _is_fee(state: State, which: int, value: int) -> bool:
    """Whether there is that fee, in the order of Rule: of a lot and of the notional in turn, and it can be so high or low."""
    most = FEE_PPM_MAX if which & 1 else FEE_LOTS_MAX // state.counter[QTY_MAX]
    return which < FEE_COLUMNS and -most <= value <= most


@inner
def start_counting_open(state: State) -> None:
    """From now on open orders are counted by account. O(orders), once."""
    state.counter[COUNTS_OPEN] = 1
    for slot in range(state.orders.size):
        order = state.orders[slot]
        if order.open_lots > 0:
            reserve = state.extras[slot].reserve_lots if order.special else 0
            state.open_lots[order.participant, order.symbol, order.side] += order.open_lots + reserve
            state.open_orders[order.participant] += 1
    for symbol in range(state.halted.size):
        state.needs_full_book[symbol] |= OPEN_COUNTED


@inner
def set_rule(state: State, row: Any) -> bool:
    """Takes a rule over; False if it is none."""
    symbol, which, value = int64(row.symbol), int64(row.flags), row.price_ticks
    instrument, most = state.symbols[symbol], state.counter[PRICE_MAX]
    if which == RULE_LOT:
        if not 1 <= value <= state.counter[QTY_MAX]:
            return False
        instrument[LOT] = value
    elif which == RULE_TICK:
        return _set_tick(state, symbol, row.order_id, value)
    elif which == RULE_MATCHING or which == RULE_ACTION:
        if not 0 <= value <= 1:
            return False
        instrument[MATCHING if which == RULE_MATCHING else BAND_ACTION] = value
    elif which < RULE_ACTION:
        if not 0 <= value <= most:
            return False
        instrument[BAND_LOW + which - RULE_MATCHING - 1] = value
    else:
        return _set_fee(state, symbol, which - RULE_FEES, value)
    return True


@inner
def _set_fee(state: State, symbol: int, which: int, value: int) -> bool:
    """One of the fees in the order of Rule."""
    instrument = state.symbols[symbol]
    if not _is_fee(state, which, value):
        return False
    instrument[MAKER_FEE + which] = value
    instrument[HAS_FEES] = 0
    for column in range(MAKER_FEE, MAKER_FEE + FEE_COLUMNS):
        if instrument[column] != 0:
            instrument[HAS_FEES] = 1
    return True


@inner
def _set_tick(state: State, symbol: int, start: int, multiple: int) -> bool:
    """An entry of the tick table, which is in order of prices; with multiple 0 there is none from that price any more."""
    instrument, most = state.symbols[symbol], state.counter[PRICE_MAX]
    if not 0 <= start <= most or not 0 <= multiple <= most:
        return False
    at = TICKS
    while at < SYMBOL_COLUMNS and instrument[at + 1] != 0 and instrument[at] < start:
        at += 2
    found = at < SYMBOL_COLUMNS and instrument[at + 1] != 0 and instrument[at] == start
    if multiple == 0:
        if found:
            _close_gap(instrument, at)
        return True
    if not found:
        if instrument[SYMBOL_COLUMNS - 1] != 0:
            return False
        for column in range(SYMBOL_COLUMNS - 1, at + 1, -1):
            instrument[column] = instrument[column - 2]
    instrument[at], instrument[at + 1] = start, multiple
    return True


@inner
def _close_gap(instrument: Any, at: int) -> None:
    """The tick table without the entry there."""
    for column in range(at, SYMBOL_COLUMNS - 2):
        instrument[column] = instrument[column + 2]
    instrument[SYMBOL_COLUMNS - 2] = instrument[SYMBOL_COLUMNS - 1] = 0


@inner
def update_special_rules(state: State, symbol: int) -> None:
    """Notes whether the plain rules are all there is to a symbol."""
    instrument = state.symbols[symbol]
    plain = (
        phase_of(state, symbol) == 0
        and instrument[LOT] == 1
        and instrument[MATCHING] == 0
        and instrument[BAND_LOW] == 0
    )
    plain = plain and instrument[BAND_HIGH] == 0 and instrument[BAND_ACTION] == 0 and instrument[TICKS + 1] == 0
    if plain:
        state.needs_full_book[symbol] &= ~SPECIAL_RULES
    else:
        state.needs_full_book[symbol] |= SPECIAL_RULES
