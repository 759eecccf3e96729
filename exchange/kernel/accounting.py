"""Applies a trade to the balances of both sides; docs/orders.md, Balances and Fees."""

import numpy as np

from serl.exchange.compiling import apart, inlined, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import wide
from serl.exchange.kernel.rows import BalanceRow
from serl.exchange.kernel.state import State
from serl.exchange.records import MICRO

EXACT_FLOAT = float(1 << 53)
"""Below it a float holds every integer."""


NEAR = np.uint64(1 << 61)
"""A sum below it is beyond 64 bits after no trade."""


@apart
def long_share(amount: int, part: int, total: int) -> int:
    """floor(amount x part / total) for amount >= 0 and 0 <= part <= total, bit by bit: no product and no sum can overflow."""
    share, rest = 0, 0  # of what is multiplied so far: share x total + rest
    remainder = amount % total
    for bit in range(62, -1, -1):
        share *= 2
        if rest >= total - rest:
            share, rest = share + 1, rest - (total - rest)
        else:
            rest += rest
        if part >> bit & 1:
            if rest >= total - remainder:
                share, rest = share + 1, rest - (total - remainder)
            else:
                rest += remainder
    return amount // total * part + share


@inlined
def share_of(amount: int, part: int, total: int) -> int:
    """floor(amount x part / total) for amount >= 0 and 0 <= part <= total.

    Of integers below 2^53 the quotient of floats is never rounded up to a whole number, and takes a third of the time.
    """
    product = float(amount) * float(part)
    if product < EXACT_FLOAT:
        return int64(product / float(total))
    return int64(long_share(amount, part, total))


@inlined
def _apply_fill(balance: BalanceRow, lots: int, notional: int, price: int) -> None:
    """A fill of `lots` (below 0: sold) for the balances of one account and symbol.

    All that cost could become is computed and one of it chosen: a jump would be guessed wrong every other time.
    """
    before, cost = balance.position_lots, balance.cost_ticks
    after = before + lots
    share = share_of(abs(cost), min(abs(lots), abs(before)), max(abs(before), 1))
    closed = cost - share if cost > 0 else cost + share
    opens = (before == 0) | ((before ^ lots) >= 0)
    crosses = (after == 0) | ((after ^ before) < 0)
    balance.cost_ticks = cost + notional if opens else after * price if crosses else closed
    balance.position_lots = after
    balance.cash_ticks -= notional


@inlined
def _is_near_edge(one: BalanceRow, other: BalanceRow) -> bool:
    """Whether cash or cost of one of them is beyond NEAR. In unsigned words, because these sums may wrap."""
    found = (np.uint64(one.cash_ticks) + NEAR) | (np.uint64(one.cost_ticks) + NEAR)
    found |= (np.uint64(other.cash_ticks) + NEAR) | (np.uint64(other.cost_ticks) + NEAR)
    return bool(found >= NEAR + NEAR)


@apart
def _apply_wide_fill(state: State, participant: int, symbol: int, lots: int, notional: int, price: int) -> None:
    """`_apply_fill` in two words, for the rare account whose sums one may not hold."""
    balance, carries = state.balances[participant, symbol], state.carries[participant, symbol]
    before, high, low = balance.position_lots, carries[1], balance.cost_ticks
    after = before + lots
    if before == 0 or (before ^ lots) >= 0:
        high, low = wide.add(high, low, notional)
    elif after == 0 or (after ^ before) < 0:
        high, low = 0, after * price
    elif wide.is_negative(high, low):
        size_high, size_low = wide.subtract(-high, 0, low)
        share_high, share_low = wide.share_of_wide(size_high, size_low, abs(lots), abs(before))
        high, low = wide.add(high + share_high, low, share_low)
    else:
        share_high, share_low = wide.share_of_wide(high, low, abs(lots), abs(before))
        high, low = wide.subtract(high - share_high, low, share_low)
    carries[1], balance.cost_ticks = high, low
    carries[0], balance.cash_ticks = wide.subtract(carries[0], balance.cash_ticks, notional)
    balance.position_lots = after
    if carries[0] | carries[1]:
        state.counters.wide_balances = 1


@apart
def _charge_fee(state: State, participant: int, symbol: int, place: int, lots: int, notional: int) -> None:
    """The fee of a fill by two columns of the symbol, or by the account's two in their place. Parted at whole ticks, so that no
    product overflows."""
    balance, carries = state.balances[participant, symbol], state.carries[participant, symbol]
    account, instrument = state.accounts[participant], state.symbols[symbol]
    if account[k.SETTING_OWN_FEES]:
        per_lot, ppm = account[k.SETTING_FEES + place], account[k.SETTING_FEES + place + 1]
    else:
        per_lot, ppm = instrument.fees[place], instrument.fees[place + 1]
    micro = balance.fee_microticks + lots * per_lot + notional % MICRO * ppm
    amount = notional // MICRO * ppm + micro // MICRO
    carries[2], balance.fee_ticks = wide.add(carries[2], balance.fee_ticks, amount)
    if carries[2]:
        state.counters.wide_balances = 1
    balance.fee_microticks = micro % MICRO


@inlined
def settle_trade(
    state: State, symbol: int, buyer: int, seller: int, price: int, lots: int, buyer_fee: int, seller_fee: int
) -> None:
    """Shares to the buyer, cash to the seller, fees from both: these columns of the symbol, if the account has none of its own."""
    notional = lots * price
    bought, sold = state.balances[buyer, symbol], state.balances[seller, symbol]
    if state.counters.wide_balances | _is_near_edge(bought, sold):
        _apply_wide_fill(state, buyer, symbol, lots, notional, price)
        _apply_wide_fill(state, seller, symbol, -lots, -notional, price)
    else:
        _apply_fill(bought, lots, notional, price)
        _apply_fill(sold, -lots, -notional, price)
    instrument = state.symbols[symbol]
    if instrument.has_fees | state.counters.own_fee_accounts:
        _charge_fee(state, buyer, symbol, buyer_fee, lots, notional)
        _charge_fee(state, seller, symbol, seller_fee, lots, notional)
