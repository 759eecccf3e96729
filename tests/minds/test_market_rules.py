"""Minds in a market whose quantities and prices have multiples."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.clients.book import Level
from serl.clients.session import Instrument
from serl.exchange.records import TimeInForce
from serl.exchange.symbol_rules import SymbolRules
from serl.minds.anonymous import Disguise
from serl.minds.checks import check_order
from serl.minds.decision import Decision
from serl.minds.errors import DecisionRefused
from serl.minds.exact_schema import exact_schema
from serl.minds.market_view import SymbolView
from serl.minds.portfolio import Portfolio
from serl.minds.prompts import Observation
from tests.minds.scripted import NOTHING, Answer, order, prompt_of, run, scripted, settings
from tests.researcher.llm.fake import fake_endpoint
from tests.server_fixture import start_exchange

RULES = SymbolRules(10, ((0, 2), (10_000, 5)))
OWNED = Portfolio(Decimal(10_000), Decimal(10_000), {"AMZN": 55}, {"AMZN": 55}, Decimal(0), Decimal(15_500))


def view(rules: SymbolRules = RULES) -> SymbolView:
    stock = Instrument(0, "AMZN", Decimal("0.01"), Decimal(1))
    return SymbolView(stock, [Level(9_990, 50, 1)], [Level(10_010, 50, 1)], 10_000, [], None, rules)


def plan(**fields: Any) -> Any:
    values = {"action": "buy", "symbol": "S1", "order_type": "limit", "price": "99.99", "quantity": 10} | fields
    return check_order(Decision.model_validate(values), "AMZN", "S1", {"AMZN": view()}, OWNED, 0, settings())


def test_prices_move_away_from_the_market_to_ones_that_an_order_can_have() -> None:
    assert (plan().price_ticks, plan(action="sell").price_ticks) == (9_998, 10_000)
    assert (plan(price="100.04").price_ticks, plan(action="sell", price="100.06").price_ticks) == (10_000, 10_010)
    market = plan(order_type="market")
    assert (market.price_ticks, market.time_in_force) == (10_210, TimeInForce.IOC)
    assert plan(order_type="market", action="sell").price_ticks == 9_792, "9,791 is between two prices"


def test_quantities_that_no_order_can_have_are_refused() -> None:
    with pytest.raises(DecisionRefused, match="expected a multiple of 10 lots of S1, got 15") as refused:
        plan(quantity=15)
    assert refused.value.reason == "quantity"


def test_the_exact_schema_has_only_quantities_and_prices_that_an_order_can_have() -> None:
    found = exact_schema(
        Observation(0, {"AMZN": view()}, OWNED, []), settings(), Disguise(["AMZN"], {}, 0, active=True)
    )
    sell = next(one["properties"] for one in found["anyOf"] if one["properties"]["action"]["enum"] == ["sell"])
    assert sell["quantity"] == {"type": "integer", "minimum": 10, "maximum": 50, "multipleOf": 10}
    assert sell["price"] == {"type": "number", "minimum": 80.0, "maximum": 120.0, "multipleOf": 0.1}
    below = view(SymbolRules(100))
    found = exact_schema(Observation(0, {"AMZN": below}, OWNED, []), settings(), Disguise(["AMZN"], {}, 0, active=True))
    assert [one["properties"]["action"]["enum"] for one in found["anyOf"]] == [["nothing"]], "55 shares, money for 97"


def test_no_order_of_a_mind_breaks_a_rule_of_the_market(tmp_path: Path) -> None:
    """Random minds draw only what is possible; a model is told what is not."""
    symbols = [{"name": "AMZN", "lot_multiple": 10, "tick_table": {"0": 2, "10000": 5}}]
    answers = iter([order("buy", 15, 100), order("buy", 20, 100.03)])

    def answer(request: dict[str, Any]) -> Answer:
        return next(answers, NOTHING)

    personas = [{"name": "asks"}, {"name": "chance", "count": 6, "decides": "random", "shares": {"AMZN": 50}}]
    with (
        start_exchange(symbols="", config={"symbols": symbols}, folder=tmp_path, clock="lockstep") as served,
        fake_endpoint(scripted(answer)) as fake,
    ):
        found = asyncio.run(run(settings(personas=personas, hours="09:30-09:38"), served.endpoint, fake))
    assert found["all"]["rejected"] == {} and found["personas"]["asks"]["refused"] == {"quantity": 1}
    assert found["personas"]["chance"]["orders"] > 10 and found["personas"]["asks"]["orders"] == 1
    prompts = [prompt_of(one) for one in fake.requests]
    assert (
        "quantities are multiples of 10" in prompts[0] and "expected a multiple of 10 lots of S1, got 15" in prompts[1]
    )
