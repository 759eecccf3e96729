"""The lots and ticks of a symbol, and orders that fit them."""

import numpy as np

from serl.agents.execution.order_rules import on_tick, rules_of_day, whole_lots
from serl.exchange.config import MarketRules
from serl.exchange.records import CommandKind, Rows, Rule, command
from serl.history.day import Day, Reference, SymbolReference


def rule(time_ns: int, kind: Rule, value: int, from_ticks: int = 0) -> Rows:
    return command(CommandKind.RULE, flags=kind, price_ticks=value, order_id=from_ticks, time_ns=time_ns)


def test_rules_of_a_day_until_a_time() -> None:
    """A value of 0 removes an entry of the tick table; the one below it then applies."""
    rows = np.concatenate(
        (
            rule(1, Rule.TICK, 10, 500),
            rule(2, Rule.TICK, 0, 500),
            rule(2, Rule.MAKER_PPM, 0),
            rule(3, Rule.LOT, 20),
            rule(4, Rule.TICK, 0),
        )
    )
    day = Day(rows, np.arange(len(rows)), Reference((SymbolReference("A"),), "", "generated"))
    before = MarketRules(lot_multiple=10, tick_table={0: 5})
    found = [rules_of_day(day, time_ns, before) for time_ns in range(5)]
    assert [one.lot_multiple for one in found] == [10, 10, 10, 20, 20]
    assert [one.tick_table for one in found] == [{0: 5}, {0: 5, 500: 10}, {0: 5}, {0: 5}, {}]


def test_orders_are_rounded_down_and_away_from_the_market() -> None:
    rules = MarketRules(lot_multiple=10, tick_table={500: 10, 100: 5})
    assert [whole_lots(rules, lots) for lots in (0, 9, 10, 39)] == [0, 0, 10, 30]
    assert [on_tick(rules, price, 1) for price in (99, 101, 105, 496, 501)] == [99, 105, 105, 500, 510]
    assert [on_tick(rules, price, -1) for price in (99, 101, 496, 504, 3)] == [99, 100, 495, 500, 3]
    coarse = MarketRules(tick_table={0: 50})
    assert on_tick(coarse, 49, -1) == 0, "no price: no order is sent"
