"""Accounts and market data that the exchange does not permit when it is back."""

import asyncio
from pathlib import Path

import pytest

from serl.clients.session import Instrument
from serl.exchange.wire import Kind
from serl.gateways.accounts import GatewayAccount
from serl.gateways.binance import market
from serl.gateways.binance.link import AccountLink
from serl.gateways.binance.listing import Listings
from serl.gateways.binance.market import Market
from serl.gateways.binance.order_file import OrderFile
from serl.gateways.binance.symbol import SymbolMarket
from tests.clients.stand_in import LIMITS, SYMBOLS, StandIn, stand_in

LISTINGS = Listings({"DEMO": Instrument.of(0, "DEMO", "1", "1")}, [["DEMO", "USD"]], "USDT", LIMITS)


def test_why_an_account_cannot_come_back_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As with a token that may not read data any more: the gateway tried for ever, and no line said why."""

    async def main(exchange: StandIn) -> None:
        account = GatewayAccount(participant="alice", secret="s")
        file = OrderFile(tmp_path, "alice")
        link = AccountLink(exchange.endpoint, None, account, file, LISTINGS, 0)
        running = asyncio.create_task(link.run())
        for _ in range(3):
            assert (await asyncio.to_thread(exchange.arrived))[0] == Kind.HELLO
            exchange.welcome()
            _, number, *_ = await asyncio.to_thread(exchange.arrived, "queries")
            exchange.send(Kind.ERROR, "not_permitted", "this token may not read data", number, socket="queries")
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await link.close()

    with stand_in() as exchange:
        asyncio.run(main(exchange))
    assert caplog.text.count("this token may not read data") == 1


def test_why_the_market_data_cannot_be_loaded_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(market, "RETRY_S", 0.05)

    async def main(exchange: StandIn) -> None:
        data = Market(exchange.endpoint, "", None, "USDT")
        connecting = asyncio.create_task(data._connect())
        _, number, *_ = await asyncio.to_thread(exchange.arrived, "queries")
        info = [1, SYMBOLS, ["live", 1.0, 0, 0], LIMITS]
        exchange.send(Kind.INFO + 16, number, 1, 0, 0, info, socket="queries")
        await connecting
        data._repair(SymbolMarket(LISTINGS.by_number[0], 0))
        for _ in range(3):
            _, number, *_ = await asyncio.to_thread(exchange.arrived, "queries")
            exchange.send(Kind.ERROR, "not_permitted", "this token may not read data", number, socket="queries")
        await asyncio.sleep(0.1)
        await data.close()

    with stand_in() as exchange:
        asyncio.run(main(exchange))
    assert caplog.text.count("this token may not read data") == 1
