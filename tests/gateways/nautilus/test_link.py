"""A node whose exchange goes away, throttles it, or has a clock that it cannot follow."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.errors import LoginRefused
from serl.exchange.errors import ConfigError
from tests.gateways.nautilus import needs_nautilus
from tests.gateways.nautilus.nodes import live_node, until
from tests.server_fixture import free_endpoint, start_exchange

if needs_nautilus.args[0]:
    pytest.skip("nautilus_trader is not installed (extra nautilus; make interop)", allow_module_level=True)

from nautilus_trader.model.data import OrderBookDeltas, TradeTick
from nautilus_trader.model.enums import BookType, OrderSide, TimeInForce
from nautilus_trader.model.objects import Price, Quantity

from serl.gateways.nautilus.link import Address, Link
from tests.gateways.nautilus.scripts import DEMO, Script, levels_of

pytestmark = pytest.mark.long
FIRST, SECOND = 0, 1


def limit(script: Script, side: OrderSide, lots: int, price: str, **options: Any) -> Any:
    return script.order_factory.limit(DEMO, side, Quantity.from_int(lots), Price.from_str(price), **options)


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_an_exchange_that_comes_back(tmp_path: Path, ending: str) -> None:
    """What was sent before stays, fills that came while it was away are told, and everything goes on."""
    endpoint, script = free_endpoint(), Script(BookType.L3_MBO)

    async def run() -> None:
        with start_exchange(symbols="DEMO", journal=tmp_path / "journal", endpoint=endpoint) as served:
            async with live_node(endpoint, script):
                order = script.send(limit(script, OrderSide.BUY, 10, "99.00"))
                await until(lambda: order.is_open)
                served.kill() if ending == "kill" else served.stop()
                await until(lambda: not link_of(script).is_open)
                refused = script.send(limit(script, OrderSide.BUY, 10, "99.10"))
                await until(lambda: refused.is_closed)
                assert "no connection to" in script.events[-1].reason
                with start_exchange(symbols="DEMO", journal=tmp_path / "journal", endpoint=endpoint):
                    with connect(endpoint, "maker") as maker:  # before the node is back
                        assert maker.sell("DEMO", 4, 9900).filled_lots == 4
                        await until(lambda: order.filled_qty == 4)
                        book = script.cache.order_book(DEMO)
                        await until(lambda: levels_of(book.bids()) == [(9900, 6)])
                        await until(lambda: len(script.of(TradeTick)) == 1)
                        maker.sell("DEMO", 30, 10100)
                        await until(lambda: levels_of(book.asks()) == [(10100, 30)])
                    again = script.send(limit(script, OrderSide.BUY, 10, "98.00"))
                    await until(lambda: again.is_open)
                    script.cancel_all_orders(DEMO)
                    await until(lambda: order.is_closed and again.is_closed)
                    assert script.of(OrderBookDeltas)[0].is_snapshot

    asyncio.run(run())


def test_an_order_that_the_node_gave_up_is_not_sent_later(tmp_path: Path) -> None:
    """The exchange is back at once; what changed in the book while it was away is seen too."""
    endpoint, script = free_endpoint(), Script(BookType.L2_MBP)

    async def run() -> None:
        with start_exchange(symbols="DEMO", journal=tmp_path / "journal", endpoint=endpoint) as served:
            async with live_node(endpoint, script, inflight_ms=200):
                await until(lambda: script.statuses)  # the last subscription
                book = script.cache.order_book(DEMO)
                with connect(endpoint, "leaving", cancel_on_disconnect=True) as leaving:
                    leaving.buy("DEMO", 3, 9700)
                    await until(lambda: levels_of(book.bids()) == [(9700, 3)])
                    served.kill()
                lost = script.send(limit(script, OrderSide.BUY, 10, "99.00", display_qty=Quantity.from_int(2)))
                await until(lambda: lost.is_closed)
                assert script.said(lost) == ["OrderSubmitted", "OrderRejected"]
                with start_exchange(symbols="DEMO", journal=tmp_path / "journal", endpoint=endpoint):
                    expiry = script.clock.utc_now() + timedelta(hours=1)
                    kept = limit(script, OrderSide.BUY, 7, "98.00", time_in_force=TimeInForce.GTD, expire_time=expiry)
                    await until(lambda: link_of(script).session.logins >= 2 and link_of(script).is_open)
                    await until(lambda: not book.bids())
                    script.send(kept)
                    await until(lambda: kept.is_open)
                    with connect(endpoint, "maker") as maker:
                        shown = [level[:2] for level in maker.book("DEMO")[0]]
                        assert shown == [(9800, 7)], "and its terms go to no other order"

    asyncio.run(run())


def link_of(script: Script) -> Link:
    from serl.gateways.nautilus import link

    return list(link._LINKS.values())[-1]


def test_throttled_orders_are_sent_again(tmp_path: Path) -> None:
    script = Script()

    async def run() -> None:
        config: dict[str, object] = {"limits": {"messages_per_s_max": 20}}
        with start_exchange(symbols="DEMO", config=config, folder=tmp_path) as served:
            async with live_node(served.endpoint, script):
                orders = [script.send(limit(script, OrderSide.BUY, 1, "99.00")) for _ in range(40)]
                await until(lambda: all(order.is_open or order.is_closed for order in orders))
                accepted = sum(order.is_open for order in orders)
                with connect(served.endpoint, "other") as other:
                    (level,) = other.book("DEMO")[0]
                assert level.orders == accepted == 40, "what the node takes for open is, and nothing else"

    asyncio.run(run())


def test_participants_with_tokens(tmp_path: Path) -> None:
    script = Script(BookType.L2_MBP)
    config: dict[str, object] = {
        "login": {"participants": {"nautilus": {"token": "right"}, "maker": {"token": "other"}}}
    }

    async def run() -> None:
        with start_exchange(symbols="DEMO", config=config, folder=tmp_path) as served:
            with pytest.raises(LoginRefused):
                await Link(Address(served.endpoint, "nautilus", "wrong", None)).open()
            async with live_node(served.endpoint, script, token="right"):
                order = script.send(limit(script, OrderSide.BUY, 10, "99.00"))
                await until(lambda: order.is_open)
                await until(lambda: levels_of(script.cache.order_book(DEMO).bids()) == [(9900, 10)])
                with connect(served.endpoint, "maker", "other") as maker:
                    maker.sell("DEMO", 10, 9900)
                await until(lambda: order.is_closed and script.of(TradeTick))
                await until(lambda: script.cache.order_book(DEMO).best_bid_price() is None)

    asyncio.run(run())


def test_a_lockstep_clock_is_refused() -> None:
    async def run() -> None:
        with (
            start_exchange(symbols="DEMO", clock="lockstep") as served,
            pytest.raises(ConfigError, match="expected a live or scaled clock, got lockstep"),
        ):
            await Link(Address(served.endpoint, "nautilus", "", None)).open()

    asyncio.run(run())


def test_a_scaled_clock_shows_the_time_of_today() -> None:
    async def run() -> None:
        with start_exchange(symbols="DEMO", clock="scaled:10") as served:
            link = Link(Address(served.endpoint, "nautilus", "", None))
            await link.open()
            now_ns = time.time_ns()
            midnight_ns = now_ns - now_ns % 86_400_000_000_000
            assert 0 <= link.unix_ns(link.exchange_time(now_ns, now_ns)) - midnight_ns < 600 * 10**9
            ahead_ns = link.exchange_time(now_ns + 10**9, now_ns) - link.exchange_time(now_ns, now_ns)
            assert 9 * 10**9 < ahead_ns < 11 * 10**9
            await link.close()

    asyncio.run(run())
