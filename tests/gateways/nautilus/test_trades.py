"""Trades of a live node whose feed has a gap."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from serl.clients.trade_feed import TradeFeed
from tests.gateways.nautilus import needs_nautilus

if needs_nautilus.args[0]:
    pytest.skip("nautilus_trader is not installed (extra nautilus; make interop)", allow_module_level=True)

from serl.gateways.nautilus.data import SerlDataClient
from tests.gateways.nautilus.scripts import DEMO


def trade(number: int) -> list[int]:
    return [number, 0, 100, 1, 0, 0]


def follower(published: list[int], replies: list["asyncio.Future[list[Any]]"]) -> Any:
    """A data client without a node, which notes the numbers of the trades that it publishes; the test gives the replies."""

    async def ask(kind: int, symbol: int, count: int) -> list[Any]:
        replies.append(asyncio.get_running_loop().create_future())
        return await replies[-1]

    class Follower(SerlDataClient):
        def __init__(self) -> None:
            session = SimpleNamespace(instrument=lambda name: SimpleNamespace(number=0))
            self._link: Any = SimpleNamespace(exchange=SimpleNamespace(ask=ask), session=session)
            self._filling, self.tasks = set(), set[asyncio.Future[None]]()

        def create_task(self, work: Coroutine[Any, Any, None]) -> None:
            self.tasks.add(asyncio.ensure_future(work))

        def _publish_trades(self, instrument: Any, items: list[Any]) -> None:
            published.extend(item[0] for item in items)

    return Follower()


def test_trades_that_arrive_while_missed_ones_are_requested_are_published_once_and_in_order() -> None:
    """Those after the reply made it look like that of another exchange, so all were published again; and those that were missed were lost."""

    async def scenario() -> list[int]:
        published: list[int] = []
        replies: list[asyncio.Future[list[Any]]] = []
        client, trades = follower(published, replies), TradeFeed(trade(2))

        def feed(*numbers: int) -> None:
            for number in numbers:  # the number of a trade is also that of its event
                client._on_trades(DEMO, trades, [115, 1, number - 1, number, 0, [trade(number)]])

        async def reply(place: int, newest: int) -> None:
            while len(replies) <= place:  # noqa: ASYNC110
                await asyncio.sleep(0)
            replies[place].set_result([147, 0, 1, newest, 0, [trade(number) for number in range(1, newest + 1)]])
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        feed(3)  # before the first reply
        await reply(0, 2)
        feed(4, 6, 7)  # 5 is missing
        await reply(1, 6)
        feed(8, 11)
        feed(13, 14)  # another gap while the trades before 11 are requested
        await reply(2, 11)
        await reply(3, 14)
        feed(15)
        return published

    assert asyncio.run(scenario()) == list(range(3, 16))
