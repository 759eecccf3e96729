"""The connection of a node, without NautilusTrader."""

import asyncio
from collections.abc import Callable

import pytest

from serl.exchange.wire import Kind
from serl.gateways.nautilus.link import Address, Link
from tests.clients.stand_in import StandIn, stand_in
from tests.server_fixture import RawClient, free_endpoint, start_exchange


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def link_to(endpoint: str) -> tuple[Link, list[str]]:
    """A link that is not open, and its warnings."""
    warnings: list[str] = []
    link = Link(Address(endpoint, "nautilus", "", None))
    link.warn = warnings.append
    return link, warnings


@pytest.mark.long
def test_a_login_that_is_refused_while_another_session_is_there_is_tried_again() -> None:
    """The exchange restarts, somebody else is first, and the client that logs in again by itself is refused."""
    endpoint = free_endpoint()

    async def run() -> None:
        link, warnings = link_to(endpoint)
        with start_exchange(symbols="DEMO", endpoint=endpoint) as served:
            await link.open()
            served.kill()
        with start_exchange(symbols="DEMO", endpoint=endpoint), RawClient(endpoint) as other:
            other.login("nautilus")
            link.exchange.core.ping()
            await until(lambda: any("duplicate_login" in warning for warning in warnings))
            assert not link.is_open
            other.send(Kind.BYE)
            await until(lambda: link.is_open)
            await link.close()

    asyncio.run(run())


def test_an_exchange_that_comes_back_with_other_symbols_is_waited_for() -> None:
    """The numbers of symbols would name others. The task that takes reports ended, and every order went without an answer."""
    endpoint = free_endpoint()

    async def run() -> None:
        link, warnings = link_to(endpoint)
        with start_exchange(symbols="DEMO,OTHER", endpoint=endpoint) as served:
            await link.open()
            link.listen("l2", "OTHER", lambda message: None)
            served.stop()
        with start_exchange(symbols="DEMO", endpoint=endpoint):
            await until(lambda: any("expected the same symbols as before" in warning for warning in warnings))
            assert not link.is_open
        with start_exchange(symbols="DEMO,OTHER", endpoint=endpoint):
            await until(lambda: link.is_open)
            await link.close()

    asyncio.run(run())


def test_a_query_does_not_fail_with_an_order_that_the_exchange_throttles() -> None:
    """It was refused in place of the order: trades that the feed had missed stayed unknown."""

    async def test(exchange: StandIn) -> None:
        link, warnings = link_to(exchange.endpoint)
        opening = asyncio.create_task(link.open())
        assert (await asyncio.to_thread(exchange.arrived))[0] == Kind.HELLO
        exchange.welcome()
        await opening
        query = asyncio.create_task(link.exchange.trades("DEMO"))
        await asyncio.sleep(0.1)
        exchange.send(Kind.ERROR, "throttled", "command 1 was not accepted")
        await until(lambda: bool(warnings))
        _, number, *_ = await asyncio.to_thread(exchange.arrived, "queries")
        exchange.send(Kind.TRADES, number, 0, 0, 0, [], socket="queries")
        assert await query == [] and "throttled" in warnings[0]
        await link.close()

    with stand_in() as exchange:
        asyncio.run(test(exchange))
