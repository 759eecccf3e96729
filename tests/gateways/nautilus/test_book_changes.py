"""The displayed book, followed through the events of generated streams of every order type, phase and rule."""

from collections import defaultdict

import numpy as np
import pytest

from serl.exchange.market import Market
from serl.exchange.records import Rows
from serl.gateways.nautilus.book_changes import ADD, DELETE, UPDATE, BookChanges, BookTracker
from tests.exchange.generate import PROFILES
from tests.history.accounts_sample import random_batches

COMMANDS = 4_000


@pytest.mark.parametrize("profile", PROFILES)
def test_the_changes_lead_to_the_book_of_the_market(profile: str) -> None:
    market, parts = random_batches(profile, COMMANDS)
    for symbol in range(len(market.names)):
        orders, levels = BookTracker("l3"), BookTracker("l2")
        by_number: dict[int, tuple[int, int, int]] = {}
        by_price: dict[int, tuple[int, int, int]] = {}
        for _, events in parts:
            own = events[events["symbol"] == symbol]
            apply(by_number, orders.update(own), by_level=False)
            apply(by_price, levels.update(own), by_level=True)
        assert by_number == displayed(market, symbol)
        assert {key: lots for key, (*_, lots) in by_price.items()} == market_levels(market, symbol)


def apply(book: dict[int, tuple[int, int, int]], changes: BookChanges, *, by_level: bool) -> None:
    """Applies changes as a client does that knows nothing else."""
    columns = (changes.action, changes.key, changes.side, changes.price_ticks, changes.qty_lots)
    for action, number, side, ticks, lots in zip(*(column.tolist() for column in columns), strict=True):
        key = ticks * 2 + side if by_level else number
        if action == DELETE:
            assert lots == 0
            del book[key]
            continue
        assert (key in book) == (action == UPDATE) and action in (ADD, UPDATE) and lots > 0
        assert not by_level or not number
        book[key] = side, ticks, lots


def displayed(market: Market, symbol: int) -> dict[int, tuple[int, int, int]]:
    rows: Rows = market.orders(symbol)
    return {
        int(row["order_number"]): (int(row["side"]), int(row["price_ticks"]), int(row["open_lots"])) for row in rows
    }


def market_levels(market: Market, symbol: int) -> dict[int, int]:
    totals: dict[int, int] = defaultdict(int)
    for side, ticks, lots in displayed(market, symbol).values():
        totals[ticks * 2 + side] += lots
    return totals


def test_the_last_change_of_each_command_is_marked() -> None:
    _, parts = random_batches("sweep", 2_000)
    tracker, several = BookTracker("l3"), 0
    for _, events in parts:
        own = events[events["symbol"] == 0]
        changes = tracker.update(own)
        commands = own["command_sequence"][changes.event]
        assert np.array_equal(np.unique(commands), commands[changes.is_last])
        several += len(commands) - len(np.unique(commands))
    assert several > 10, "some commands change several orders"
