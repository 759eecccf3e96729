"""The connection of a node, without NautilusTrader."""

import asyncio
from collections.abc import Callable

import pytest

from serl.exchange.wire import Kind
from serl.gateways.nautilus.link import Address, Link
from tests.server_fixture import RawClient, free_endpoint, start_exchange


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@pytest.mark.long
def test_a_login_that_is_refused_while_another_session_is_there_is_tried_again() -> None:
    """The exchange restarts, somebody else is first, and the client that logs in again by itself is refused."""
    endpoint = free_endpoint()

    async def run() -> None:
        warnings: list[str] = []
        with start_exchange(symbols="DEMO", endpoint=endpoint) as served:
            link = Link(Address(endpoint, "nautilus", "", None))
            link.warn = warnings.append
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
