"""What an operator sets: an account's limits and fees, a symbol's rules."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.active_order import phase_of
from serl.exchange.kernel.rulebook.orders import schedule_triggers
from serl.exchange.kernel.rulebook.pegs import forget_settled
from serl.exchange.kernel.rulebook.reserves import start_counting_reserves
from serl.exchange.kernel.state import OPEN_COUNTED, SPECIAL_RULES, State
from serl.exchange.records import (
    ASSET_COLUMNS,
    FEE_COLUMNS,
    FEE_LOTS_MAX,
    FEE_PPM_MAX,
    LIMIT_SETTINGS,
    TICK_ENTRIES_MAX,
    UNITS_MAX,
)


@inner
def set_account(state: State, command: CommandRow) -> bool:
    """Sets a setting of an account; False if there is no such setting or value."""
    participant, which, value = command.order_id, int64(command.flags), command.price_ticks
    if not 0 <= participant < state.accounts.shape[0] or not _is_setting(state, which, value):
        return False
    if which == k.SETTING_OWN_FEES:
        state.counters.own_fee_accounts += value - state.accounts[participant, which]
    state.accounts[participant, which] = value
    state.has_limits[participant] = 0
    for column in LIMIT_SETTINGS:
        if state.accounts[participant, column] != 0:
            state.has_limits[participant] = 1
    if (
        (which == k.SETTING_ORDERS_OPEN_MAX or which == k.SETTING_POSITION_LOTS_MAX)
        and value != 0
        and state.counters.counts_open == 0
    ):
        start_counting_open(state)
    if which == k.SETTING_BALANCE_CHECKS and value != 0:
        start_counting_reserves(state)
    if (
        which == k.SETTING_SELF_TRADE or which == k.SETTING_COLLAR_TICKS
    ):  # they decide what trades, and where pegs stand
        for symbol in range(state.halted.size):
            if which == k.SETTING_COLLAR_TICKS:
                forget_settled(state, symbol)
            if state.needs_full_book[symbol] != 0:
                schedule_triggers(state, symbol)
    return True


@inner
def _is_setting(state: State, which: int, value: int) -> bool:
    """Whether accounts have that setting, and it can have that value."""
    if which == k.SETTING_BALANCE_CHECKS or which == k.SETTING_SHORT_SALES:
        return 0 <= value <= 1
    if which > k.SETTING_OWN_FEES:
        return _is_fee(state, which - k.SETTING_FEES, value)
    if which == k.SETTING_SELF_TRADE:
        return 0 <= value <= k.DECREMENT
    if which == k.SETTING_KILLED or which == k.SETTING_OWN_FEES:
        return 0 <= value <= 1
    return value >= 0


@inner
def _is_fee(state: State, which: int, value: int) -> bool:
    """Whether there is that fee, in the order of Rule: of a lot and of the notional in turn, and it can be so high or low."""
    most = FEE_PPM_MAX if which & 1 else FEE_LOTS_MAX // state.counters.qty_lots_max
    return which < FEE_COLUMNS and -most <= value <= most


@inner
def start_counting_open(state: State) -> None:
    """From now on open orders are counted by account. O(orders), once."""
    state.counters.counts_open = 1
    for slot in range(state.orders.size):
        order = state.orders[slot]
        if order.open_lots > 0:
            reserve = state.extras[slot].reserve_lots if order.special else 0
            state.open_lots[order.participant, order.symbol, order.side] += order.open_lots + reserve
            state.open_orders[order.participant] += 1
    for symbol in range(state.halted.size):
        state.needs_full_book[symbol] |= OPEN_COUNTED


@inner
def set_rule(state: State, command: CommandRow) -> bool:
    """Sets a rule of a symbol; False if there is no such rule or value."""
    symbol, which, value = int64(command.symbol), int64(command.flags), command.price_ticks
    instrument = state.symbols[symbol]
    if which == k.RULE_TICK:
        return _set_tick(state, symbol, command.order_id, value)
    if which >= k.RULE_ASSETS:
        return _set_asset(state, symbol, which - k.RULE_ASSETS, value)
    if which >= k.RULE_FEES:
        return _set_fee(state, symbol, which - k.RULE_FEES, value)
    least, most = 0, state.counters.price_ticks_max
    if which == k.RULE_LOT:
        least, most = 1, state.counters.qty_lots_max
    elif which == k.RULE_MATCHING or which == k.RULE_BAND_ACTION:
        most = 1
    if not least <= value <= most:
        return False
    if which == k.RULE_LOT:
        instrument.lot_multiple = value
    elif which == k.RULE_MATCHING:
        instrument.matching = value
    elif which == k.RULE_BAND_LOW:
        instrument.band_low_ticks = value
    elif which == k.RULE_BAND_HIGH:
        instrument.band_high_ticks = value
    else:
        instrument.band_action = value
    return True


@inner
def _set_fee(state: State, symbol: int, which: int, value: int) -> bool:
    """Sets one of the fees, in the order of Rule."""
    instrument = state.symbols[symbol]
    if not _is_fee(state, which, value):
        return False
    instrument.fees[which] = value
    instrument.has_fees = 0
    for place in range(FEE_COLUMNS):
        if instrument.fees[place] != 0:
            instrument.has_fees = 1
    return True


@inner
def _has_deposits(state: State) -> bool:
    """Whether any account has deposits."""
    for participant in range(state.deposits.shape[0]):
        for place in range(state.deposits.shape[1]):
            if state.deposits[participant, place] != 0:
                return True
    return False


@inner
def _set_asset(state: State, symbol: int, which: int, value: int) -> bool:
    """Sets a column of the assets, in the order of Rule; only to what it is while anybody has a deposit. O(participants x symbols)."""
    if which >= ASSET_COLUMNS:
        return False
    if value != state.assets[symbol, which] and _has_deposits(state):
        return False
    most = state.deposits.shape[1] if which < ASSET_COLUMNS // 2 else UNITS_MAX
    if not 0 <= value <= most:
        return False
    state.assets[symbol, which] = value
    return True


@inner
def _set_tick(state: State, symbol: int, start: int, multiple: int) -> bool:
    """Sets an entry of the tick table, which is sorted by price; multiple 0 removes the entry."""
    table, most = state.symbols[symbol].tick_table, state.counters.price_ticks_max
    if not 0 <= start <= most or not 0 <= multiple <= most:
        return False
    at, last = 0, TICK_ENTRIES_MAX - 1
    while at <= last and table[at, 1] != 0 and table[at, 0] < start:
        at += 1
    found = at <= last and table[at, 1] != 0 and table[at, 0] == start
    if multiple == 0:
        if found:
            for entry in range(at, last):
                table[entry, 0], table[entry, 1] = table[entry + 1, 0], table[entry + 1, 1]
            table[last, 0] = table[last, 1] = 0
        return True
    if not found:
        if table[last, 1] != 0:
            return False
        for entry in range(last, at, -1):
            table[entry, 0], table[entry, 1] = table[entry - 1, 0], table[entry - 1, 1]
    table[at, 0], table[at, 1] = start, multiple
    return True


@inner
def update_special_rules(state: State, symbol: int) -> None:
    """Notes whether the plain rules are all there is to a symbol."""
    instrument = state.symbols[symbol]
    plain = (
        phase_of(state, symbol) == 0
        and instrument.lot_multiple == 1
        and instrument.matching == 0
        and instrument.band_low_ticks == 0
    )
    plain = (
        plain and instrument.band_high_ticks == 0 and instrument.band_action == 0 and instrument.tick_table[0, 1] == 0
    )
    if plain:
        state.needs_full_book[symbol] &= ~SPECIAL_RULES
    else:
        state.needs_full_book[symbol] |= SPECIAL_RULES
