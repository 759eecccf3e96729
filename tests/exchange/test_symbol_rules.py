"""What quantities and prices of a symbol must fit."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from serl.clients import asynchronous
from serl.clients.blocking import connect
from serl.exchange.errors import RequestRejected
from serl.exchange.market import Market
from serl.exchange.records import CommandKind, Reason, Rule, Side, TimeInForce, command
from serl.exchange.request import request_socket
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.wire import Kind
from tests.server_fixture import start_exchange


def test_orders_are_rounded_down_and_away_from_the_market() -> None:
    rules = SymbolRules(10, ((100, 5), (500, 10)))
    assert [rules.whole_lots(lots) for lots in (0, 9, 10, 39)] == [0, 0, 10, 30]
    assert [rules.on_tick(price, Side.SELL) for price in (99, 101, 105, 496, 501)] == [99, 105, 105, 500, 510]
    assert [rules.on_tick(price, Side.BUY) for price in (99, 101, 496, 504, 3)] == [99, 100, 495, 500, 3]
    assert SymbolRules(tick_table=((0, 50),)).on_tick(49, Side.BUY) == 0, "no price: no order is sent"
    assert [SymbolRules(tick_table=table).common_multiple for table in ((), ((0, 4), (9, 6)), ((100, 5),))] == [
        1,
        12,
        5,
    ]


def test_a_price_is_moved_to_the_next_one_of_any_table() -> None:
    random = Random(1)
    for _ in range(300):
        starts = sorted(random.sample(range(60), random.randrange(4)))
        rules = SymbolRules(tick_table=tuple((start, random.randrange(1, 40)) for start in starts))
        fits = [price for price in range(1, 200) if price % rules.multiple_at(price) == 0]
        for price in range(1, 90):
            assert rules.on_tick(price, Side.SELL) == next(fit for fit in fits if fit >= price), (rules, price)
            assert rules.on_tick(price, Side.BUY) == max((fit for fit in fits if fit <= price), default=0), (
                rules,
                price,
            )
    assert SymbolRules(tick_table=((0, 10**12),)).on_tick(1, Side.SELL) == 10**12, "at once"


def test_rules_are_those_by_which_the_market_accepts_orders() -> None:
    """Every quantity and price that they allow, and no other."""
    market = Market(["A", "B"])
    market.grant_operator(0)
    changes = [(Rule.LOT, 3, 0), (Rule.TICK, 7, 50), (Rule.TICK, 2, 10), (Rule.TICK, 5, 30), (Rule.TICK, 0, 30), (Rule.BAND_LOW, 8, 0), (Rule.BAND_HIGH, 77, 0)]  # fmt: skip
    for number, (rule, value, start) in enumerate(changes, start=1):
        market.submit(
            command(CommandKind.RULE, symbol=1, flags=rule, price_ticks=value, order_id=start, command_id=number)
        )
    rules = SymbolRules.of_row(market.state.symbols[1])
    assert rules == SymbolRules(3, ((10, 2), (50, 7)), 8, 77)
    assert SymbolRules.of_reply(rules.reply() | {"later": 1}) == rules
    assert SymbolRules.of_row(market.state.symbols[0]) == SymbolRules()
    number = len(changes)
    for qty in range(1, 7):
        for price in range(1, 90):
            number += 1
            row = command(CommandKind.NEW, symbol=1, side=Side.BUY, qty_lots=qty, price_ticks=price, time_in_force=TimeInForce.GTC, command_id=number)  # fmt: skip
            reason = Reason(int(market.submit(row)["reason"][0]))
            fits = qty % rules.lot_multiple == 0 and price % rules.multiple_at(price) == 0
            inside = rules.band_low_ticks <= price <= rules.band_high_ticks
            assert (reason == Reason.NONE) == (fits and inside), (qty, price, reason)


def test_an_exchange_tells_its_rules(tmp_path: Path) -> None:
    symbols = [
        {"name": "A"},
        {"name": "B", "lot_multiple": 10, "tick_table": {"0": 1, "1000": 5}, "band_low_ticks": 50},
    ]
    with start_exchange(symbols="", config={"symbols": symbols}, folder=tmp_path) as served:
        with connect(served.endpoint, "bot") as bot:
            assert bot.rules("A") == SymbolRules()
            assert bot.rules("B") == SymbolRules(10, ((0, 1), (1000, 5)), 50, 0)

        async def ask() -> SymbolRules:
            async with await asynchronous.connect(served.endpoint, "bot") as bot:
                return await bot.rules("B")

        assert asyncio.run(ask()).lot_multiple == 10


def test_rules_need_a_token_where_there_are_participants(tmp_path: Path) -> None:
    config: dict[str, object] = {"symbols": [{"name": "A", "lot_multiple": 3}], "login": {"participants": {"bot": {"token": "right"}}}}  # fmt: skip
    with start_exchange(symbols="", config=config, folder=tmp_path) as served:
        with connect(served.endpoint, "bot", "right") as bot:
            assert bot.rules("A") == SymbolRules(3)
        with request_socket(served.endpoint, "queries") as ask:
            with pytest.raises(RequestRejected, match="login"):
                ask(Kind.RULES, "wrong", 0)
            assert ask(Kind.RULES, "right", 0)[5] == SymbolRules(3).reply() | {"tick_table": []}
            with pytest.raises(RequestRejected, match="expected a symbol number from 0 to 0, got 7"):
                ask(Kind.RULES, "right", 7)
            with pytest.raises(RequestRejected, match=r"malformed: expected \[141, request, token, symbol\]"):
                ask(Kind.RULES, "right", "A")
