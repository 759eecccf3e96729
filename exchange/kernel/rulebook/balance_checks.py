"""Whether an account has what an order could spend; docs/orders.md, Assets and balance checks."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import wide
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.reserves import (
    price_to_reserve,
    reserved_price,
    shared_lots,
    shared_with,
    total_open_lots,
)
from serl.exchange.kernel.state import ASK, BID, RESERVED_BUYS, RESERVED_HIGH, RESERVED_LOW, RESERVED_SELLS, State
from serl.exchange.records import DEPOSITS_MAX, FEE_COLUMNS, MICRO

BASE, QUOTE, BASE_UNITS, QUOTE_UNITS = range(4)
"""Columns of State.assets."""


@inner
def asset_of(state: State, symbol: int, which: int) -> int:
    """The number of a symbol's base or quote asset."""
    asset = state.assets[symbol, which]
    if asset != 0:
        return asset
    return symbol + 1 if which == BASE else int64(state.halted.size) + 1


@inner
def _highest_fee(state: State, participant: int, symbol: int, first: int) -> int:
    """The highest of an account's fees, per lot (first = 0) or by notional (1); 0 if all are rebates."""
    highest, account = 0, state.accounts[participant]
    for place in range(first, FEE_COLUMNS, 2):
        fee = state.symbols[symbol].fees[place]
        if account[k.SETTING_OWN_FEES]:
            fee = account[k.SETTING_FEES + place]
        highest = max(highest, fee)
    return highest


@inner
def _spent_ticks(state: State, participant: int, symbol: int, lots: int, notional: int) -> tuple[int, int]:
    """Ticks x lots (two words) that an account has spent in a symbol, or that its open buys and one more of `lots` could spend."""
    reserves, balance = state.reserves[participant, symbol], state.balances[participant, symbol]
    carries = state.carries[participant, symbol]
    high, low = wide.add(reserves[RESERVED_HIGH], reserves[RESERVED_LOW], notional)
    fee_high, fee_low = wide.times(high, low, _highest_fee(state, participant, symbol, 1))
    per_lot = _highest_fee(state, participant, symbol, 0)
    by_lots_high, by_lots_low = wide.times(0, reserves[RESERVED_BUYS] + lots, per_lot)
    fee_high, fee_low = wide.plus(fee_high, fee_low, by_lots_high, by_lots_low)
    paid_high, paid_low = wide.times(carries[2], balance.fee_ticks, MICRO)
    fee_high, fee_low = wide.plus(fee_high, fee_low, paid_high, paid_low)
    fee_high, fee_low = wide.add(fee_high, fee_low, balance.fee_microticks)
    fee_high, fee_low = wide.millionths_up(fee_high, fee_low)
    high, low = wide.plus(high, low, fee_high, fee_low)
    return wide.minus(high, low, carries[0], balance.cash_ticks)


@inner
def is_free(
    state: State, participant: int, asset: int, amount: int, symbol: int, side: int, lots: int, notional: int
) -> bool:
    """Whether `amount` units of an asset and what one more order of `symbol` reserves are free. O(symbols)."""
    high, low = 0, state.deposits[participant, asset - 1]
    high, low = wide.add(high, low, -amount)
    for each in range(state.halted.size):
        buys, sells = each == symbol and side == BID, each == symbol and side == ASK
        if asset_of(state, each, QUOTE) == asset:
            more, at = (lots, notional) if buys else (0, 0)
            spent_high, spent_low = _spent_ticks(state, participant, each, more, at)
            spent_high, spent_low = wide.times(spent_high, spent_low, max(state.assets[each, QUOTE_UNITS], 1))
            high, low = wide.minus(high, low, spent_high, spent_low)
        if asset_of(state, each, BASE) == asset:
            left = state.balances[participant, each].position_lots
            left -= state.reserves[participant, each, RESERVED_SELLS] + (lots if sells else 0)
            held_high, held_low = wide.times(0, left, max(state.assets[each, BASE_UNITS], 1))
            high, low = wide.plus(high, low, held_high, held_low)
    return not wide.is_negative(high, low)


@inner
def _exceeds(state: State, participant: int, symbol: int, side: int, lots: int, notional: int) -> bool:
    """Whether one more order, or the growth of one, would spend more than is free."""
    if lots <= 0 and notional <= 0:
        return False
    if side == ASK and state.accounts[participant, k.SETTING_SHORT_SALES] != 0:
        return False
    asset = asset_of(state, symbol, QUOTE if side == BID else BASE)
    return not is_free(state, participant, asset, 0, symbol, side, lots, notional)


@inner
def exceeds_balance(
    state: State, participant: int, symbol: int, side: int, lots: int, price: int, link: int, back: int
) -> bool:
    """Whether an order that reserves `lots` at a price, and shares with a linked one, would spend more than is free."""
    shared, at = shared_with(state, participant, symbol, side, link, back, lots, price)
    return _exceeds(state, participant, symbol, side, lots - shared, lots * price - shared * at)


@inner
def new_exceeds_balance(state: State, command: CommandRow, trigger: int, link: int) -> bool:
    """Whether a NEW of an account with checks is LIMIT_BALANCE."""
    symbol, participant, side = int64(command.symbol), int64(command.participant), int64(command.side)
    price = price_to_reserve(state, command.price_ticks, trigger)
    continuous = state.symbols[symbol].phase == k.CONTINUOUS and command.time_in_force != k.AT_CLOSE
    if command.flags & k.MARKET and trigger == 0 and continuous:
        price = max(state.best[symbol, ASK], 1)
    return exceeds_balance(state, participant, symbol, side, command.qty_lots, price, link, 0)


@inner
def active_exceeds_balance(state: State) -> bool:
    """The same of the active order, which has waited for its parent."""
    active = state.active_order
    trigger = active.stop_ticks | active.touch_ticks
    price = price_to_reserve(state, active.price_ticks, trigger)
    if active.flags & k.MARKET and trigger == 0:
        price = max(state.best[active.symbol, ASK], 1)
    return exceeds_balance(
        state, active.participant, active.symbol, active.side, active.leaves_lots, price, active.link, active.order_id
    )


@inner
def replace_exceeds_balance(state: State, slot: int, lots: int, limit: int, trigger: int) -> bool:
    """Whether a REPLACE of an order to so many open lots, another limit and stop or touch price is LIMIT_BALANCE, of an account with checks."""
    order = state.orders[slot]
    symbol, participant, side = int64(order.symbol), int64(order.participant), int64(order.side)
    link = state.extras[slot].link if order.special else 0
    price, open_lots = price_to_reserve(state, limit, trigger), total_open_lots(state, slot)
    shared, at = shared_with(state, participant, symbol, side, link, order.order_id, lots, price)
    shared_before, at_before = shared_lots(state, slot)
    before = open_lots * reserved_price(state, slot) - shared_before * at_before
    more = lots - shared - (open_lots - shared_before)
    return _exceeds(state, participant, symbol, side, more, lots * price - shared * at - before)


@inner
def affordable_price(state: State, participant: int, symbol: int, lots: int, link: int, back: int) -> int:
    """The highest price at which free pays for a buy of so many lots, 0 if there is none."""
    low, high = 0, state.counters.price_ticks_max
    while low < high:
        price = (low + high + 1) >> 1
        if exceeds_balance(state, participant, symbol, BID, lots, price, link, back):
            high = price - 1
        else:
            low = price
    return low


@inner
def deposit(state: State, command: CommandRow) -> int:
    """DEPOSIT: why it is rejected, 0 if it is done."""
    participant, asset, amount = command.order_id, command.qty_lots, command.price_ticks
    if not (0 <= participant < state.accounts.shape[0] and 1 <= asset <= state.deposits.shape[1]):
        return k.REASON_BAD_SETTING
    before = state.deposits[participant, asset - 1]
    within = -DEPOSITS_MAX <= amount <= DEPOSITS_MAX and -DEPOSITS_MAX <= before + amount <= DEPOSITS_MAX
    if amount == 0 or not within:
        return k.REASON_BAD_SETTING
    checked = state.accounts[participant, k.SETTING_BALANCE_CHECKS] != 0
    if checked and amount < 0 and not is_free(state, participant, asset, -amount, -1, BID, 0, 0):
        return k.REASON_LIMIT_BALANCE
    state.deposits[participant, asset - 1] += amount
    return 0
