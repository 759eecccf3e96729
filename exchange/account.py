"""Position, cash and profit of an account in a symbol; docs/orders.md, Balances."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import (
    CASH,
    CASH_HIGH,
    COST,
    COST_HIGH,
    FEE,
    FEE_HIGH,
    FEE_MICRO,
    LAST_TICKS,
    MICRO,
    POSITION,
    WIDE_BALANCES,
)


class Account(NamedTuple):
    """The balances of one participant in one symbol, in exact integers of any size."""

    position_lots: int  # below 0: short
    cash_ticks: int  # ticks x lots
    cost_ticks: int  # ticks x lots, average cost of the open position, with its sign
    fees_microticks: int  # microticks x lots, not deducted from cash; below 0: rebates

    @classmethod
    def from_balances(cls, balances: Any) -> "Account":
        """Creates an account from a market's BALANCES or WIDE_BALANCES integers."""
        amounts = [int(amount) for amount in balances]
        if len(amounts) == WIDE_BALANCES:
            for place, high in ((CASH, CASH_HIGH), (COST, COST_HIGH), (FEE, FEE_HIGH)):
                amounts[place] += amounts[high] << 64
        return cls(amounts[POSITION], amounts[CASH], amounts[COST], amounts[FEE] * MICRO + amounts[FEE_MICRO])

    def after_fill(self, side: int, price_ticks: int, qty_lots: int) -> "Account":
        """The account after a fill without a fee; side: a Side."""
        sign = -1 if side else 1
        before, after = self.position_lots, self.position_lots + sign * qty_lots
        closed = min(qty_lots, abs(before)) if before * sign < 0 else 0
        share = abs(self.cost_ticks) * closed // max(abs(before), 1)
        kept = self.cost_ticks - share if self.cost_ticks > 0 else self.cost_ticks + share
        notional = sign * qty_lots * price_ticks
        cost = self.cost_ticks + notional if not closed else after * price_ticks if qty_lots >= abs(before) else kept
        return self._replace(position_lots=after, cash_ticks=self.cash_ticks - notional, cost_ticks=cost)

    @property
    def realised_ticks(self) -> int:
        """Profit of closed positions before fees, in ticks x lots."""
        return self.cash_ticks + self.cost_ticks

    def unrealised_ticks(self, mark_ticks: int) -> int:
        """Profit of the open position at a price of `mark_ticks`, in ticks x lots."""
        return self.position_lots * mark_ticks - self.cost_ticks


NOTHING = Account(0, 0, 0, 0)
"""The account of a participant who has not traded."""


def account_rows(balances: NDArray[np.int64], symbols: NDArray[np.int64]) -> list[list[int]]:
    """[symbol, last_ticks, balances ...] of every symbol in which a participant has a balance other than zero.

    balances: those of the participant, (S, BALANCES) or (S, WIDE_BALANCES). symbols: State.symbols, (S, SYMBOL_COLUMNS).
    """
    traded = np.flatnonzero(balances.any(axis=1)).tolist()
    return [[symbol, int(symbols[symbol, LAST_TICKS]), *balances[symbol].tolist()] for symbol in traded]
