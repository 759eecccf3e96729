"""What a mind owns: its initial portfolio plus the exchange's balances, and its loan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from serl.clients.session import Instrument, Order
from serl.clients.values import Balance
from serl.exchange.records import Side
from serl.minds.config import PersonaConfig
from serl.minds.errors import DecisionRefused

YEAR_NS = 365 * 86_400 * 10**9
CENT = Decimal("0.01")


@dataclass(frozen=True)
class Portfolio:
    """Cash and shares at one time. Money that open buy orders need, and lots that open sell orders offer, are not free."""

    cash: Decimal
    free_cash: Decimal
    lots: Mapping[str, int]
    free_lots: Mapping[str, int]
    loan: Decimal
    wealth: Decimal
    """Cash and shares at their prices, minus the loan."""


class Loan:
    """Borrowed money. Interest accrues in exchange time, and is paid from cash."""

    def __init__(self, principal: Decimal, rate_per_year: float, time_ns: int) -> None:
        self.principal = principal
        self.interest_paid = Decimal(0)
        self._rate, self._time_ns = Decimal(str(rate_per_year)), time_ns

    @property
    def rate_per_year(self) -> float:
        """The present rate."""
        return float(self._rate)

    def accrue(self, time_ns: int) -> None:
        """Charges the interest up to a time; earlier times change nothing."""
        elapsed_ns = max(0, time_ns - self._time_ns)
        self.interest_paid += self.principal * self._rate * elapsed_ns / YEAR_NS
        self._time_ns = max(self._time_ns, time_ns)

    def change_rate(self, rate_per_year: float, time_ns: int) -> None:
        """Accrues at the former rate up to `time_ns`, then at the new one."""
        self.accrue(time_ns)
        self._rate = Decimal(str(rate_per_year))

    def borrow(self, amount: Decimal, portfolio: Portfolio, share_max: float) -> None:
        """Increases the loan. Raises DecisionRefused if it would exceed `share_max` of the mind's wealth."""
        limit = max(Decimal(0), portfolio.wealth * Decimal(str(share_max)))
        if amount <= 0 or self.principal + amount > limit:
            raise DecisionRefused(
                "loan",
                f"expected an amount above 0 that keeps your loan at or below {limit:.2f}, got {amount} "
                f"in addition to {self.principal:.2f}; borrow less",
            )
        self.principal += amount

    def repay(self, amount: Decimal, portfolio: Portfolio) -> None:
        """Repays a part of the loan. Raises DecisionRefused if the loan or the free cash is smaller."""
        limit = min(self.principal, portfolio.free_cash)
        if not 0 < amount <= limit:
            raise DecisionRefused(
                "loan", f"expected to repay an amount above 0 and at most {limit:.2f}, got {amount}; repay less"
            )
        self.principal -= amount


def portfolio_of(
    persona: PersonaConfig,
    loan: Loan,
    balances: Mapping[str, Balance],
    open_orders: Sequence[Order],
    instruments: Mapping[str, Instrument],
    prices: Mapping[str, Decimal],
) -> Portfolio:
    """The portfolio according to the exchange's balances. instruments: what the minds trade; what the account made with other symbols does not count.
    prices: of the shares, by symbol; shares without a price count as worthless."""
    cash = persona.cash + loan.principal - loan.interest_paid
    cash += sum((balance.cash - balance.fees for name, balance in balances.items() if name in instruments), Decimal(0))
    names = {instrument.number: name for name, instrument in instruments.items()}
    lots = {
        name: persona.shares.get(name, 0) + (balances[name].position_lots if name in balances else 0)
        for name in instruments
    }
    free_cash, free_lots = cash, dict(lots)
    for order in open_orders:
        name = names[order.symbol]
        left_lots = order.open_lots if order.state == "open" else order.qty_lots - order.filled_lots
        if order.side == Side.BUY:
            free_cash -= money(instruments[name], left_lots, order.price_ticks)
        else:
            free_lots[name] -= left_lots
    shares = (lots[name] * instruments[name].lot_size * price for name, price in prices.items() if name in lots)
    return Portfolio(cash, free_cash, lots, free_lots, loan.principal, cash + sum(shares, Decimal(0)) - loan.principal)


def money(instrument: Instrument, qty_lots: int, price_ticks: int) -> Decimal:
    """The value of lots at a price, in money."""
    return qty_lots * instrument.lot_size * price_ticks * instrument.tick_size
