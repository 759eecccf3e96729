"""A fresh market of each implementation for the tables."""

import pytest

from tests.exchange.tables import IMPLEMENTATIONS, LIMITS, OPERATOR, AnyMarket


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda implementation: implementation.__name__)
def market(request: pytest.FixtureRequest) -> AnyMarket:
    """Two symbols, an operator."""
    made: AnyMarket = request.param(["AAA", "BBB"], limits=LIMITS)
    made.grant_operator(OPERATOR)
    return made
