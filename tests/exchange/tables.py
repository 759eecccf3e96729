"""Runs the tables of this folder. A case is its name, setup commands (whose events are not shown), the commands under test, and their events.

tests/exchange/notation.py explains the notation. Participant 9 is an operator. At most 32 orders are open, quantities are up to 1000,
prices up to 10000, symbols are 0 and 1.
"""

from collections.abc import Sequence

import pytest

from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from tests.exchange.notation import assert_numbered, parse_all, show
from tests.exchange.reference import ReferenceMarket

Case = tuple[str, str, str, str]
AnyMarket = Market | ReferenceMarket
IMPLEMENTATIONS = [Market, ReferenceMarket]
OPERATOR = 9
LIMITS = MarketLimits(
    qty_lots_max=1000, price_ticks_max=10_000, orders_open_max=32, participants_max=16, window_ticks=128
)


def cases(*tables: Sequence[Case]) -> pytest.MarkDecorator:
    """Parametrises a test with (before, text, expected) of all cases."""
    parameters = [pytest.param(*case[1:], id=case[0]) for table in tables for case in table]
    return pytest.mark.parametrize(("before", "text", "expected"), parameters)


def assert_case(market: AnyMarket, before: str, text: str, expected: str) -> None:
    """Asserts that the commands have exactly the expected events."""
    commands = parse_all(before + "\n" + text)
    events = market.submit(commands)
    market.validate()
    assert_numbered(commands, events)
    tested = events[events["command_sequence"] > len(parse_all(before))]
    assert [show(event) for event in tested] == [line.strip() for line in expected.strip().splitlines()]


def last_reason(market: AnyMarket, text: str) -> int:
    """The reject reason of the last command; 0 if it was accepted."""
    events = market.submit(parse_all(text))
    market.validate()
    return int(events[events["command_sequence"] == events["command_sequence"].max()][0]["reason"])
