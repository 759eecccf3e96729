"""A participant's orders, followed through its reports alone, in generated streams of every order type."""

from typing import Any

import pytest

from serl.clients.session import Report
from serl.exchange.market import Market
from serl.exchange.records import CommandKind, EventKind, Rows
from serl.exchange.wire import event_lists
from serl.gateways.nautilus.own_orders import ENDED_MAX, OwnOrders
from tests.history.accounts_sample import random_batches


@pytest.mark.parametrize("profile", ["deep", "terms", "phases", "crowded"])
def test_open_orders_and_fills_are_those_of_the_market(profile: str) -> None:
    market, parts = random_batches(profile, 3_000)
    owners: dict[int, OwnOrders] = {}
    bought: dict[int, int] = {}
    for commands, events in parts:
        for row in commands[commands["kind"] == CommandKind.REPLACE]:
            own = owners.setdefault(int(row["participant"]), OwnOrders())
            own.replacing[int(row["command_id"])] = int(row["price_ticks"])
        for row, values in zip(events, event_lists(events), strict=True):
            report = Report._make(values)
            owner = int(row["participant"])
            owners.setdefault(owner, OwnOrders()).apply(report)
            if report.kind == EventKind.FILL and not report.side:
                bought[owner] = bought.get(owner, 0) + report.qty_lots
    seen = 0
    for participant, own in owners.items():
        expected = open_orders(market, participant)
        assert {order.order_id: order.open_lots for order in own.open()} == expected
        seen += len(expected)
        ended = [order for order in own.orders.values() if not order.open_lots]
        assert len(ended) <= ENDED_MAX
    assert seen > 20 and sum(bought.values()) > 100


def open_orders(market: Market, participant: int) -> dict[int, int]:
    """Open lots by order id, reserves of icebergs included."""
    found: dict[int, int] = {}
    specials: Rows = market.specials()
    for row in market.orders():
        if row["participant"] == participant:
            found[int(row["order_id"])] = int(row["open_lots"])
    for row in specials[specials["participant"] == participant]:
        found[int(row["order_id"])] = int(row["open_lots"]) + int(row["reserve_lots"])
    return found


def reports(*values: dict[str, Any]) -> list[Report]:
    first = dict.fromkeys(Report._fields, 0) | {"order_id": 7, "symbol": 1}
    return [Report(**{**first, **one}) for one in values]


def test_the_limit_of_a_replaced_order_is_the_new_one() -> None:
    own = OwnOrders()
    own.replacing[8] = 105
    accepted, replaced, fill, rested = reports(
        {"kind": EventKind.ACCEPTED, "qty_lots": 10, "leaves_lots": 10, "price_ticks": 100, "flags": 1},
        {"kind": EventKind.REPLACED, "command_id": 8, "qty_lots": 10, "leaves_lots": 12, "price_ticks": 100},
        {"kind": EventKind.FILL, "command_id": 8, "qty_lots": 2, "leaves_lots": 10, "price_ticks": 104, "match_id": 1},
        {"kind": EventKind.RESTED, "command_id": 8, "qty_lots": 10, "leaves_lots": 10, "price_ticks": 105},
    )
    own.apply(accepted)
    order = own.apply(replaced)
    assert order is not None and (order.price_ticks, order.qty_lots, order.open_lots) == (105, 12, 12)
    own.apply(fill)
    own.apply(rested)
    assert (order.filled_lots, order.open_lots, order.qty_lots) == (2, 10, 12)


def test_both_sides_of_a_trade_with_oneself_have_ids_of_their_own() -> None:
    own = OwnOrders()
    told = reports(
        {"kind": EventKind.ACCEPTED, "order_id": 1, "leaves_lots": 5},
        {"kind": EventKind.ACCEPTED, "order_id": 2, "leaves_lots": 5},
        {"kind": EventKind.FILL, "order_id": 1, "qty_lots": 5, "match_id": 3, "flags": 2},
        {"kind": EventKind.FILL, "order_id": 2, "qty_lots": 5, "match_id": 3},
    )
    for report in told:
        own.apply(report)
    assert [own.orders[number].fills[0].trade_id for number in (1, 2)] == ["3", "3-2"]
    assert [own.orders[number].fills[0].is_maker for number in (1, 2)] == [True, False]
