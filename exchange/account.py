"""What an account has made of its trades in a symbol; docs/orders.md, Balances."""

from typing import Any, NamedTuple

from serl.exchange.records import CASH, COST, FEE, FEE_MICRO, MICRO, POSITION


class Account(NamedTuple):
    """Of one participant and symbol, in exact integers of any size."""

    position_lots: int  # below 0: short
    cash_ticks: int  # ticks x lots
    cost_ticks: int  # ticks x lots, of the open position by average cost, signed like it
    fees_microticks: int  # microticks x lots, not taken off cash; below 0: rebates

    @classmethod
    def of(cls, balances: Any) -> "Account":
        """From the BALANCES integers that a market keeps."""
        amounts = [int(amount) for amount in balances]
        return cls(amounts[POSITION], amounts[CASH], amounts[COST], amounts[FEE] * MICRO + amounts[FEE_MICRO])

    @property
    def realised_ticks(self) -> int:
        """Profit of what was closed, without fees, in ticks x lots."""
        return self.cash_ticks + self.cost_ticks

    def unrealised_ticks(self, mark_ticks: int) -> int:
        """Profit of the open position if it is worth `mark_ticks` a lot, in ticks x lots."""
        return self.position_lots * mark_ticks - self.cost_ticks
