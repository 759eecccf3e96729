"""Strategies that come with NautilusTrader, unchanged, live on an exchange with simulated traders, twenty times as fast as real time."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from serl.clients.blocking import connect
from tests.gateways.nautilus import needs_nautilus
from tests.gateways.nautilus.backtests import ema_cross, order_book_imbalance
from tests.gateways.nautilus.nodes import live_node, until
from tests.server_fixture import Served, launch

pytestmark = [needs_nautilus, pytest.mark.long]
SPEED = 20


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    exchange = launch("--with", "liquid", "--clock", f"scaled:{SPEED}")
    yield exchange
    exchange.stop()


@pytest.mark.parametrize("example", ["ema cross", "order book imbalance"])
def test_an_example_of_the_library_trades(served: Served, example: str) -> None:
    strategy = ema_cross("200-MILLISECOND") if example == "ema cross" else order_book_imbalance("l2")
    name = example.replace(" ", "-")

    async def run() -> None:
        async with live_node(served.endpoint, strategy, participant=name) as node:
            cache = node.cache
            await until(
                lambda: filled(cache.orders()) >= 4 and all(order.is_closed for order in cache.orders()), wait_s=90
            )
            strategy.stop()  # closes its position
            await until(lambda: not cache.positions_open() and all(order.is_closed for order in cache.orders()))
            assert signed(cache.orders()) == 0

    asyncio.run(run())
    with connect(served.endpoint, name) as same:
        assert same.account()["DEMO"].position_lots == 0, "the exchange's account says the same"


def filled(orders: list[Any]) -> int:
    return sum(int(order.filled_qty) > 0 for order in orders)


def signed(orders: list[Any]) -> int:
    return sum(int(order.filled_qty) * (1 if order.side.name == "BUY" else -1) for order in orders)
