"""What a mind owns, according to the balances of its account."""

from decimal import Decimal

from serl.clients.session import Instrument
from serl.clients.values import Balance
from serl.minds.config import PersonaConfig
from serl.minds.portfolio import Loan, portfolio_of

NONE = Decimal(0)


def test_symbols_that_the_minds_do_not_trade_count_neither_as_cash_nor_as_shares() -> None:
    persona = PersonaConfig(name="solo", cash=Decimal(1000), shares={"AMZN": 5})
    balances = {
        "AMZN": Balance(2, Decimal(-200), NONE, NONE, Decimal(1)),
        "GOOG": Balance(4, Decimal(-400), NONE, NONE, Decimal(2)),
    }
    traded = {"AMZN": Instrument(0, "AMZN", Decimal("0.01"), Decimal(1))}
    owned = portfolio_of(persona, Loan(NONE, 0.0, 0), balances, [], traded, {"AMZN": Decimal(100)})
    assert (owned.cash, owned.lots, owned.wealth) == (Decimal(799), {"AMZN": 7}, Decimal(1499))
