"""The fixture of the tables: a fresh market of each implementation."""

import pytest

from tests.exchange.tables import IMPLEMENTATIONS, LIMITS, OPERATOR, AnyMarket


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda implementation: implementation.__name__)
def market(request: pytest.FixtureRequest) -> AnyMarket:
    """A market with two symbols and an operator."""
    market: AnyMarket = request.param(["AAA", "BBB"], limits=LIMITS)
    market.grant_operator(OPERATOR)
    return market
