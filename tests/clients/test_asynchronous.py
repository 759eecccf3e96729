"""The asyncio client against a real exchange: many tasks, no login, sessions that go on, and its end."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from serl.clients import asynchronous
from serl.clients.errors import (
    Rejected,
    SessionEnded,
)
from serl.clients.session import Session
from serl.exchange.records import EventKind, TimeInForce
from tests.server_fixture import Served, start_exchange


@pytest.fixture(scope="module")
def exchange() -> Iterator[Served]:
    with start_exchange(symbols="DEMO,AMZN") as served:
        yield served


def test_the_asyncio_client(exchange: Served) -> None:
    async def trade() -> None:
        async with await asynchronous.connect(exchange.endpoint, "dora") as dora:
            order = await dora.buy("DEMO", 3, 50)
            assert (await dora.book("DEMO"))[0][0] == (50, 3, 1)
            await dora.sell("DEMO", 3)
            assert order.filled_lots == 3
            assert (await dora.wait(1)) is not None
            with pytest.raises(Rejected):
                await dora.cancel(order)

    asyncio.run(trade())


def test_many_tasks_share_an_asyncio_client(exchange: Served) -> None:
    """Each call gets its own reply, also the refused ones, while another task takes every report from the inbox."""

    async def trade() -> None:
        async with await asynchronous.connect(exchange.endpoint, "erin") as erin:

            async def read_cancellations(count: int) -> None:
                while count:
                    report: Any = await erin.wait(10)
                    count -= report.kind == EventKind.CANCELLED

            reader = asyncio.create_task(read_cancellations(20))
            calls: list[Any] = [
                erin.buy("DEMO", n % 2, 10 + n) for n in range(40)
            ]  # those with an even n have no quantity
            calls += [erin.book("DEMO") for _ in range(10)]
            results: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
            assert [isinstance(result, Rejected) for result in results] == [n % 2 == 0 for n in range(40)] + [
                False
            ] * 10
            assert [order.price_ticks for order in results[1:40:2]] == list(range(11, 50, 2))
            erin.send(erin.session.mass_cancel()[1])
            await reader
            assert erin.open_orders() == []

    asyncio.run(asyncio.wait_for(trade(), 30))


def test_an_asyncio_client_watches_without_a_login(exchange: Served) -> None:
    async def follow() -> None:
        messages: list[str] = []
        watcher = await asynchronous.watch(exchange.endpoint)
        watcher.core.on_feed = lambda topic, message: messages.append(topic)
        watcher.subscribe("l2", "DEMO")
        async with watcher, await asynchronous.connect(exchange.endpoint, "gina") as gina:
            while "l2/DEMO/" not in messages:
                await gina.cancel(await gina.buy("DEMO", 1, 7))
                await watcher.wait(0.1)
            assert len(watcher.core.inbox) == 0 and not watcher.session.live

    asyncio.run(asyncio.wait_for(follow(), 30))


def test_a_session_of_ones_own_gets_every_report_once(exchange: Served) -> None:
    async def resume() -> None:
        kinds: list[int] = []
        session = Session("hana")
        session.on_report = lambda report: kinds.append(report.kind)
        async with await asynchronous.resume(exchange.endpoint, session) as hana:
            hana.send(session.new_order("DEMO", 0, 1, 6, TimeInForce.GTC, False)[1][0])
            while session.unanswered:
                await hana.wait(0.1)
        again = Session("hana")
        again.last_report = 0
        again.on_report = session.on_report
        async with await asynchronous.resume(exchange.endpoint, again) as hana:
            await hana.mass_cancel()
            while EventKind.MASS_CANCELLED not in kinds:
                await hana.wait(0.1)
        assert kinds == [EventKind.ACCEPTED, EventKind.ACCEPTED, EventKind.CANCELLED, EventKind.MASS_CANCELLED]

    asyncio.run(asyncio.wait_for(resume(), 30))


def test_closing_an_asyncio_client_ends_its_calls(exchange: Served) -> None:
    async def close() -> None:
        frank = await asynchronous.connect(exchange.endpoint, "frank")
        waiting = asyncio.create_task(frank.wait(60))
        await asyncio.sleep(0)
        await frank.close()
        with pytest.raises(SessionEnded):
            await waiting
        await frank.close()  # as at the end of `async with`

    asyncio.run(asyncio.wait_for(close(), 30))
