"""Position, cash and profit of an account in a symbol; docs/orders.md, Balances."""

from typing import Any, NamedTuple

from serl.exchange.records import (
    CASH,
    CASH_HIGH,
    COST,
    COST_HIGH,
    FEE,
    FEE_HIGH,
    FEE_MICRO,
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

    @property
    def realised_ticks(self) -> int:
        """Profit of closed positions before fees, in ticks x lots."""
        return self.cash_ticks + self.cost_ticks

    def unrealised_ticks(self, mark_ticks: int) -> int:
        """Profit of the open position at a price of `mark_ticks`, in ticks x lots."""
        return self.position_lots * mark_ticks - self.cost_ticks
