"""What a trade does to the balances of both sides; docs/orders.md, Balances and Fees."""

from typing import Any

from serl.exchange.compiling import compiled, inlined
from serl.exchange.kernel.state import State
from serl.exchange.records import CASH, COST, FEE, FEE_MICRO, HAS_FEES, MICRO, POSITION

SMALL_AMOUNT, SMALL_PART = 1 << 40, 1 << 23
"""Below them a product fits into 63 bits."""


@compiled
def long_share(amount: int, part: int, whole: int) -> int:
    """floor(amount x part / whole) for amount >= 0 and 0 <= part <= whole < 2^62, bit by bit: no product can overflow."""
    share, rest = 0, 0  # of what is multiplied so far: share x whole + rest
    remainder = amount % whole
    for bit in range(62, -1, -1):
        share, rest = 2 * share, 2 * rest
        if part >> bit & 1:
            rest += remainder
        while rest >= whole:
            share, rest = share + 1, rest - whole
    return amount // whole * part + share


@compiled
def share_of(amount: int, part: int, whole: int) -> int:
    """amount x part / whole, rounded toward 0, for 0 <= part <= whole < 2^62."""
    size = abs(amount)
    if size < SMALL_AMOUNT and part < SMALL_PART:
        share = size * part // whole
    else:
        share = long_share(size, part, whole)
    return share if amount >= 0 else -share


@inlined
def _take_over(balance: Any, lots: int, notional: int, price: int) -> None:
    """A fill of `lots` (below 0: sold) for the balances of one account and symbol."""
    before = balance[POSITION]
    after = before + lots
    balance[POSITION] = after
    balance[CASH] -= notional
    if before == 0 or (before ^ lots) >= 0:
        balance[COST] += notional
    elif after == 0 or (after ^ lots) >= 0:
        balance[COST] = after * price
    else:
        balance[COST] -= share_of(balance[COST], abs(lots), abs(before))


@compiled
def _charge(balance: Any, known: Any, fee: int, lots: int, notional: int) -> None:
    """The fee of a fill by two columns of the symbol. Parted at whole ticks, so that nothing overflows before cash would."""
    per_lot, ppm = known[fee], known[fee + 1]
    micro = balance[FEE_MICRO] + lots * per_lot + notional % MICRO * ppm
    balance[FEE] += notional // MICRO * ppm + micro // MICRO
    balance[FEE_MICRO] = micro % MICRO


@inlined
def settle_trade(
    state: State, symbol: int, buyer: int, seller: int, price: int, lots: int, buyer_fee: int, seller_fee: int
) -> None:
    """Shares to the buyer, cash to the seller, fees by these columns of the symbol from both."""
    notional = lots * price
    _take_over(state.balances[buyer, symbol], lots, notional, price)
    _take_over(state.balances[seller, symbol], -lots, -notional, price)
    known = state.symbols[symbol]
    if known[HAS_FEES]:
        _charge(state.balances[buyer, symbol], known, buyer_fee, lots, notional)
        _charge(state.balances[seller, symbol], known, seller_fee, lots, notional)
