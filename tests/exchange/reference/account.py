"""The balances of an account of the reference market; docs/orders.md, Balances and Fees."""

import dataclasses

from serl.exchange.account import Account
from serl.exchange.records import MICRO


@dataclasses.dataclass(slots=True)
class Balances:
    """Of one participant and symbol; units as in Account."""

    position_lots: int = 0
    cash_ticks: int = 0
    cost_ticks: int = 0
    fees_microticks: int = 0

    def trade(self, lots: int, price_ticks: int) -> None:
        """A fill; lots below 0 are sold."""
        held = self.position_lots
        self.position_lots += lots
        self.cash_ticks -= lots * price_ticks
        if held * lots >= 0:
            self.cost_ticks += lots * price_ticks
        elif abs(lots) < abs(held):
            closed = abs(self.cost_ticks) * abs(lots) // abs(held)
            self.cost_ticks -= closed if self.cost_ticks > 0 else -closed
        else:
            self.cost_ticks = self.position_lots * price_ticks

    def is_wide(self) -> bool:
        """Whether a sum is beyond 64 bits."""
        sums = self.cash_ticks, self.cost_ticks, self.fees_microticks // MICRO
        return not all(-(2**63) <= amount < 2**63 for amount in sums)

    def account(self) -> Account:
        """As it is now."""
        return Account(*dataclasses.astuple(self))
