"""Applies a trade to the balances of both sides; docs/orders.md, Balances and Fees."""

from serl.exchange.compiling import apart, inlined, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.rows import AccountRow, BalanceRow, InstrumentRow
from serl.exchange.kernel.state import State
from serl.exchange.records import MICRO

EXACT_FLOAT = float(1 << 53)
"""Below it a float holds every integer."""


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


@apart
def _charge_fee(
    balance: BalanceRow, account: AccountRow, instrument: InstrumentRow, place: int, lots: int, notional: int
) -> None:
    """The fee of a fill by two columns of the symbol, or by the account's two in their place. Parted at whole ticks, so that nothing
    overflows before cash would."""
    if account[k.SETTING_OWN_FEES]:
        per_lot, ppm = account[k.SETTING_FEES + place], account[k.SETTING_FEES + place + 1]
    else:
        per_lot, ppm = instrument.fees[place], instrument.fees[place + 1]
    micro = balance.fee_microticks + lots * per_lot + notional % MICRO * ppm
    balance.fee_ticks += notional // MICRO * ppm + micro // MICRO
    balance.fee_microticks = micro % MICRO


@inlined
def settle_trade(
    state: State, symbol: int, buyer: int, seller: int, price: int, lots: int, buyer_fee: int, seller_fee: int
) -> None:
    """Shares to the buyer, cash to the seller, fees from both: these columns of the symbol, if the account has none of its own."""
    notional = lots * price
    _apply_fill(state.balances[buyer, symbol], lots, notional, price)
    _apply_fill(state.balances[seller, symbol], -lots, -notional, price)
    instrument = state.symbols[symbol]
    if instrument.has_fees | state.counters.own_fee_accounts:
        _charge_fee(state.balances[buyer, symbol], state.accounts[buyer], instrument, buyer_fee, lots, notional)
        _charge_fee(state.balances[seller, symbol], state.accounts[seller], instrument, seller_fee, lots, notional)
