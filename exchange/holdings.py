"""An account's balance of each asset, and the part that its orders reserve; docs/orders.md, Assets and balance checks."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.account import Account
from serl.exchange.kernel.state import RESERVED_BUYS, RESERVED_HIGH, RESERVED_LOW, RESERVED_SELLS, State
from serl.exchange.records import FEE_COLUMNS, MAKER_FEE, MICRO, WIDE_BALANCES, Setting


class Holding(NamedTuple):
    """An account's balance of an asset, in millionths of its units.

    Attributes:
        balance: deposits plus the effect of trades and fees; below 0: short, or in debt.
        reserved: the amount that open orders could spend, fees included; 0 for accounts without balance checks.
    """

    balance: int
    reserved: int


def holdings(state: State, participant: int) -> dict[int, Holding]:
    """By asset number, an account's holding of each asset that it ever had or that its orders reserve. O(symbols)."""
    found: dict[int, list[int]] = {}
    symbols = len(state.halted)
    for place in np.flatnonzero(state.deposits[participant]).tolist():
        found[place + 1] = [int(state.deposits[participant, place]) * MICRO, 0]
    checked = bool(state.accounts[participant, Setting.BALANCE_CHECKS])
    used = state.balances[participant].any(axis=1)
    if checked:
        used |= state.reserves[participant].any(axis=1)
    for symbol in np.flatnonzero(used).tolist():
        base, quote, base_units, quote_units = state.assets[symbol].tolist()
        account = Account.from_balances(_balances(state, participant, symbol))
        in_base = found.setdefault(base or symbol + 1, [0, 0])
        in_quote = found.setdefault(quote or symbols + 1, [0, 0])
        in_base[0] += account.position_lots * (base_units or 1) * MICRO
        in_quote[0] += (account.cash_ticks * MICRO - account.fees_microticks) * (quote_units or 1)
        if checked:
            reserves = [int(each) for each in state.reserves[participant, symbol]]
            notional = (reserves[RESERVED_HIGH] << 64) + reserves[RESERVED_LOW]
            per_lot, ppm = _highest_fees(state, participant, symbol)
            in_base[1] += reserves[RESERVED_SELLS] * (base_units or 1) * MICRO
            in_quote[1] += (notional * (MICRO + ppm) + reserves[RESERVED_BUYS] * per_lot) * (quote_units or 1)
    return {asset: Holding(*amounts) for asset, amounts in sorted(found.items())}


def _balances(state: State, participant: int, symbol: int) -> NDArray[np.int64]:
    row = np.concatenate([state.balances[participant, symbol], state.carries[participant, symbol]])
    assert len(row) == WIDE_BALANCES
    return row


def _highest_fees(state: State, participant: int, symbol: int) -> tuple[int, int]:
    """(per lot, by notional); rebates count as 0."""
    account = state.accounts[participant]
    first, row = (
        (int(Setting.MAKER_MICROTICKS), account) if account[Setting.OWN_FEES] else (MAKER_FEE, state.symbols[symbol])
    )
    fees = row[first : first + FEE_COLUMNS].tolist()
    return max(0, *fees[::2]), max(0, *fees[1::2])
