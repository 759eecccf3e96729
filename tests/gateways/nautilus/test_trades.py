"""Trades of a live node whose feed has a gap."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from serl.clients.values import Trade
from tests.gateways.nautilus import needs_nautilus

if needs_nautilus.args[0]:
    pytest.skip("nautilus_trader is not installed (extra nautilus; make interop)", allow_module_level=True)

from serl.gateways.nautilus.data import SerlDataClient
from tests.gateways.nautilus.scripts import DEMO


def trade(number: int) -> Trade:
    return Trade(number, 0, 100, 1, 0, 0)


def follower(published: list[int], replies: list["asyncio.Future[list[Trade]]"]) -> Any:
    """A data client without a node, which notes the numbers of the trades that it publishes; the test gives the replies."""

    async def trades(symbol: str, count: int) -> list[Trade]:
        replies.append(asyncio.get_running_loop().create_future())
        return await replies[-1]

    class Follower(SerlDataClient):
        def __init__(self) -> None:
            self._link: Any = SimpleNamespace(exchange=SimpleNamespace(trades=trades))
            self._heard, self._last_match, self._early, self._catching_up = {}, {DEMO: 0}, {}, Counter()
            self.tasks: list[asyncio.Task[None]] = []

        def create_task(self, work: Coroutine[Any, Any, None]) -> None:
            self.tasks.append(asyncio.ensure_future(work))

        def _publish_trades(self, instrument: Any, items: list[Any]) -> None:
            fresh = [item[0] for item in items if item[0] > self._last_match[instrument]]
            self._last_match[instrument] = max(fresh, default=self._last_match[instrument])
            published.extend(fresh)

    return Follower()


def test_trades_that_arrive_while_missed_ones_are_requested_are_published_once_and_in_order() -> None:
    """Those after the reply made it look like that of another exchange, so all were published again; and those that were missed were lost."""

    async def scenario() -> list[int]:
        published: list[int] = []
        replies: list[asyncio.Future[list[Trade]]] = []
        client = follower(published, replies)

        def feed(*numbers: int) -> None:
            for number in numbers:  # the number of a trade is also that of its event
                client._on_trades(DEMO, [115, 1, number - 1, number, 0, [trade(number)]])

        async def reply(place: int, newest: int) -> None:
            while len(replies) <= place:  # noqa: ASYNC110
                await asyncio.sleep(0)
            replies[place].set_result([trade(number) for number in range(1, newest + 1)])
            await client.tasks[place]

        feed(1, 2, 4, 5)  # 3 is missing
        await reply(0, 4)
        feed(6, 9)
        feed(11, 12)  # another gap while the trades before 9 are requested
        await reply(1, 9)
        await reply(2, 12)
        feed(13)
        return published

    assert asyncio.run(scenario()) == list(range(1, 14))
