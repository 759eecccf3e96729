"""The exchange's side of a session, without a connection."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from serl.clients.asynchronous import AsyncExchange, resume
from serl.clients.blocking import connect
from serl.gateways.accounts import GatewayAccount
from serl.gateways.fix.settings import Settings
from serl.gateways.fix.store import REPORT, SessionStore
from serl.gateways.fix.trading import Trading
from tests.gateways.fix.server_fixture import PASSWORD
from tests.server_fixture import Served


class NoOwner:
    """A connection that nothing is written to; it notes that there was something."""

    def __init__(self) -> None:
        self.flushed = asyncio.Event()

    def flush(self) -> None:
        self.flushed.set()

    async def drain(self) -> None:
        pass


def test_reports_that_come_with_the_login_are_still_to_be_told(
    exchange: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that was killed before it told of them, on a busy machine: they are in the inbox when the login returns."""
    with connect(exchange.endpoint, "tardy") as client:
        for _ in range(3):
            client.buy("MSFT", 1, 1)
    store = SessionStore(tmp_path, "tardy")
    assert not list(store.load())
    store.append([REPORT, 1])
    store.close()

    async def slow_resume(*arguments: Any, **options: Any) -> AsyncExchange:
        client = await resume(*arguments, **options)
        while len(client.core.inbox) < 2:
            client.core.receive()
            await asyncio.sleep(0.01)
        return client

    async def numbers() -> tuple[int, int]:
        trading = Trading(GatewayAccount(participant="tardy", secret=PASSWORD), Settings(exchange.endpoint, tmp_path))
        trading.load()
        owner = NoOwner()
        await trading.open(owner)
        told = trading.store.last_report
        trading.start()
        while trading.store.last_report < 3:
            await owner.flushed.wait()
            owner.flushed.clear()
        await trading.close()
        trading.store.close()
        return told, trading.store.last_report

    monkeypatch.setattr("serl.gateways.fix.trading.resume", slow_resume)
    assert asyncio.run(numbers()) == (1, 3)
