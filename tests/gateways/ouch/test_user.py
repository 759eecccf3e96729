"""A user of the gateway whose login the exchange refuses when it is back."""

import asyncio
from pathlib import Path

from serl.exchange.wire import Kind
from serl.gateways.accounts import GatewayAccount
from serl.gateways.ouch.user import User
from tests.clients.stand_in import StandIn, stand_in


def test_why_a_user_cannot_come_back_is_reported_once(tmp_path: Path) -> None:
    """As after a change of its token: the gateway tried for ever, and no line said why."""

    async def refuse(exchange: StandIn) -> None:
        assert (await asyncio.to_thread(exchange.arrived))[0] == Kind.HELLO
        exchange.send(Kind.ERROR, "login", "participant 'alice' has another token")

    async def test(exchange: StandIn) -> None:
        lines: list[str] = []
        account = GatewayAccount(participant="alice", secret="s")
        user = User(tmp_path, account, exchange.endpoint, None, lines.append)
        opened = asyncio.create_task(user.open())
        assert (await asyncio.to_thread(exchange.arrived))[0] == Kind.HELLO
        exchange.welcome()
        await opened
        running = asyncio.create_task(user.run())
        exchange.send(Kind.GOODBYE, "shutdown", "the exchange stops")
        for _ in range(3):
            await refuse(exchange)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await user.close()
        assert ["shutdown" in lines[0], *("has another token" in line for line in lines[1:])] == [True, True], lines

    with stand_in() as exchange:
        asyncio.run(test(exchange))
