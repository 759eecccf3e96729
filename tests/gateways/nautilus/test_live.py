"""A live node of NautilusTrader on a served exchange, with a counterparty that uses serl's own client."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from serl.clients.blocking import Exchange, connect
from serl.exchange.records import CommandKind, Phase
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from tests.gateways.nautilus import needs_nautilus
from tests.gateways.nautilus.nodes import live_node, until
from tests.server_fixture import Served, start_exchange

if needs_nautilus.args[0]:
    pytest.skip("nautilus_trader is not installed (extra nautilus; make interop)", allow_module_level=True)

from nautilus_trader.core.uuid import UUID4
from nautilus_trader.execution.messages import GenerateFillReports, GeneratePositionStatusReports
from nautilus_trader.model.data import OrderBookDeltas, QuoteTick, TradeTick
from nautilus_trader.model.enums import (
    BookType,
    ContingencyType,
    MarketStatusAction,
    OrderSide,
    TimeInForce,
    TrailingOffsetType,
)
from nautilus_trader.model.objects import Price, Quantity

from tests.gateways.nautilus.scripts import Script, levels_of

BUY, SELL = OrderSide.BUY, OrderSide.SELL
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with start_exchange(symbols="DEMO") as exchange:
        yield exchange


@pytest.fixture
def maker(served: Served) -> Iterator[Exchange]:
    """A counterparty that bids 100 lots at 99.90 and offers 100 at 100.10, and cancels all at the end."""
    with connect(served.endpoint, "maker") as client:
        client.buy("DEMO", 100, 9990)
        client.sell("DEMO", 100, 10010)
        yield client
        client.mass_cancel()


def price(text: str) -> Any:
    return Price.from_str(text)


def lots(count: int) -> Any:
    return Quantity.from_int(count)


def is_over(order: Any) -> bool:
    return bool(order.is_closed)


def is_book(levels: Any, wanted: list[tuple[int, int]]) -> bool:
    return levels_of(levels()) == wanted


@pytest.mark.parametrize("book_type", [BookType.L2_MBP, BookType.L3_MBO])
def test_market_data(served: Served, maker: Exchange, book_type: Any) -> None:
    script = Script(book_type)

    async def run() -> None:
        async with live_node(served.endpoint, script, participant=f"data{book_type.value}"):
            await until(
                lambda: script.of(OrderBookDeltas) and script.of(QuoteTick) and script.statuses
            )  # the last subscription
            book = script.cache.order_book(script.instrument.id)
            assert [level.size() for level in book.bids()] == [100.0]
            maker.buy("DEMO", 30, 9990)
            maker.sell("DEMO", 40, 10020)
            taken = maker.buy("DEMO", 60, 10010)  # trades with itself
            maker.sell("DEMO", 110, 9990)
            assert taken.filled_lots == 60
            await until(lambda: len(script.of(TradeTick)) == 3)
            bids, asks = maker.book("DEMO")
            for ours, theirs in ((bids, book.bids), (asks, book.asks)):
                await until(partial(is_book, theirs, [(level.price_ticks, level.qty_lots) for level in ours]))
            trades = script.of(TradeTick)
            assert [(str(tick.price), int(tick.size), tick.aggressor_side.name) for tick in trades] == [
                ("100.10", 60, "BUYER"), ("99.90", 100, "SELLER"), ("99.90", 10, "SELLER"),
            ]  # fmt: skip
            assert [tick.trade_id.value for tick in trades] == [
                str(trade.match_id) for trade in maker.trades("DEMO", 3)
            ]
            assert [tick.ts_event for tick in trades] == [trade.time_ns for trade in maker.trades("DEMO", 3)]
            quote = script.of(QuoteTick)[-1]
            assert (quote.bid_price, quote.bid_size, quote.ask_size) == (price("99.90"), lots(20), lots(40))
            if book_type == BookType.L3_MBO:
                assert [len(level.orders()) for level in book.bids()] == [1]

    asyncio.run(run())


def test_halts_and_a_book_that_is_requested_anew(served: Served, maker: Exchange) -> None:
    script = Script(BookType.L2_MBP)

    def operate(kind: CommandKind, flags: int = 0) -> None:
        with request_socket(served.endpoint, "admin") as ask:
            ask(Kind.OPERATE, served.operator, int(kind), 0, flags)

    async def run() -> None:
        async with live_node(served.endpoint, script, participant="halted"):
            await until(lambda: script.statuses)
            operate(CommandKind.HALT, 2)
            await until(lambda: len(script.statuses) == 2)
            operate(CommandKind.RESUME)
            operate(CommandKind.PHASE, Phase.INTRADAY)
            maker.buy("DEMO", 30, 10010)
            operate(CommandKind.PHASE, Phase.CONTINUOUS)  # an auction: the feed has a gap
            action = MarketStatusAction
            wanted = [action.TRADING, action.HALT, action.TRADING, action.CROSS, action.TRADING]
            await until(lambda: [status.action for status in script.statuses] == wanted)
            assert script.statuses[1].reason == "NEWS"
            book = script.cache.order_book(script.instrument.id)
            await until(lambda: levels_of(book.asks()) == [(10010, 70)])
            assert len([one for one in script.of(OrderBookDeltas) if one.is_snapshot]) >= 1

    asyncio.run(run())


def run_script(served: Served, script: Script, act: Any, participant: str, **options: Any) -> None:
    async def run() -> None:
        async with live_node(served.endpoint, script, participant=participant, **options) as node:
            await act(node)

    asyncio.run(run())


def test_orders_of_every_kind(served: Served, maker: Exchange) -> None:
    script = Script()

    async def act(_: Any) -> None:
        make, name = script.order_factory, script.instrument.id
        market = script.send(make.market(name, BUY, lots(5)))
        await until(lambda: market.is_closed)
        assert (
            script.said(market) == ["OrderSubmitted", "OrderAccepted", "OrderFilled"] and str(market.avg_px) == "100.1"
        )
        ioc = script.send(make.limit(name, BUY, lots(500), price("100.10"), TimeInForce.IOC))
        await until(lambda: ioc.is_closed)
        assert int(ioc.filled_qty) == 95 and script.said(ioc)[-1] == "OrderCanceled"
        maker.sell("DEMO", 100, 10010)
        fok = script.send(make.limit(name, BUY, lots(500), price("100.10"), TimeInForce.FOK))
        await until(lambda: fok.is_closed)
        assert script.said(fok) == ["OrderSubmitted", "OrderAccepted", "OrderCanceled"]
        crossing = script.send(make.limit(name, BUY, lots(5), price("100.10"), post_only=True))
        await until(lambda: crossing.is_closed)
        rejected = script.events[-1]
        assert rejected.reason == "WOULD_CROSS" and rejected.due_post_only
        reducing = script.send(make.limit(name, BUY, lots(5), price("99.00"), reduce_only=True))
        await until(lambda: reducing.is_closed)
        assert script.events[-1].reason == "REDUCE_ONLY"
        iceberg = script.send(make.limit(name, BUY, lots(50), price("99.95"), display_qty=lots(10)))
        hidden = script.send(make.limit(name, BUY, lots(50), price("99.96"), display_qty=lots(0)))
        await until(lambda: iceberg.is_open and hidden.is_open)
        assert [level[:2] for level in maker.book("DEMO", 1)[0]] == [(9995, 10)]
        script.cancel_order(iceberg)
        script.cancel_order(hidden)
        await until(lambda: iceberg.is_closed and hidden.is_closed)
        now = script.clock.utc_now()
        expiring = script.send(
            make.limit(name, BUY, lots(5), price("99.00"), TimeInForce.GTD, expire_time=now + timedelta(seconds=1))
        )
        await until(lambda: expiring.is_closed)
        assert script.said(expiring)[-1] == "OrderExpired"

    run_script(served, script, act, "kinds")


def test_stops(served: Served, maker: Exchange) -> None:
    script = Script()

    async def act(_: Any) -> None:
        make, name = script.order_factory, script.instrument.id
        maker.buy("DEMO", 1, 10010)  # the last trade
        stop = script.send(make.stop_market(name, BUY, lots(5), price("100.20")))
        limit = script.send(make.stop_limit(name, BUY, lots(7), price("100.25"), price("100.20")))
        trailing = make.trailing_stop_market(name, SELL, lots(5), trailing_offset=Decimal("0.15"), trailing_offset_type=TrailingOffsetType.PRICE)  # fmt: skip
        script.send(trailing)
        await until(lambda: stop.is_open and limit.is_open and trailing.is_open)
        maker.buy("DEMO", 99, 10010)
        maker.sell("DEMO", 1, 10020)
        maker.buy("DEMO", 1, 10020)
        await until(lambda: script.said(limit)[-1] == "OrderTriggered")
        assert script.said(stop) == ["OrderSubmitted", "OrderAccepted", "OrderCanceled"], "nobody offers any more"
        maker.sell("DEMO", 7, 10025)
        await until(lambda: limit.is_closed)
        assert str(limit.avg_px) == "100.25"
        maker.buy("DEMO", 10, 9980)
        maker.sell("DEMO", 100, 9990)  # the stop price has followed to 100.10
        await until(lambda: trailing.is_closed)
        assert str(trailing.avg_px) == "99.8"

    run_script(served, script, act, "stops")


def test_orders_that_wait_for_a_stop_price_change(served: Served, maker: Exchange) -> None:
    script = Script()

    async def act(_: Any) -> None:
        make, name = script.order_factory, script.instrument.id
        maker.buy("DEMO", 1, 10010)  # the last trade
        stop = script.send(make.stop_market(name, BUY, lots(5), price("100.20")))
        limit = script.send(make.stop_limit(name, BUY, lots(30), price("100.25"), price("100.20")))
        trailing = make.trailing_stop_market(name, SELL, lots(5), trailing_offset=Decimal("0.50"), trailing_offset_type=TrailingOffsetType.PRICE)  # fmt: skip
        script.send(trailing)
        await until(lambda: stop.is_open and limit.is_open and trailing.is_open)
        script.modify_order(stop, lots(4), trigger_price=price("100.40"))
        script.modify_order(limit, price=price("100.45"), trigger_price=price("100.40"))
        script.modify_order(trailing, lots(3))
        await until(lambda: all(script.said(order)[-1] == "OrderUpdated" for order in (stop, limit, trailing)))
        assert (stop.quantity, trailing.quantity, limit.price) == (4, 3, price("100.45"))
        assert stop.trigger_price == limit.trigger_price == price("100.40")
        maker.buy("DEMO", 99, 10010)
        maker.sell("DEMO", 1, 10020)
        maker.buy("DEMO", 1, 10020)  # the former stop price
        maker.sell("DEMO", 20, 10040)
        maker.buy("DEMO", 1, 10040)
        await until(lambda: stop.is_closed and int(limit.filled_qty) == 15)
        assert script.said(stop) == ["OrderSubmitted", "OrderAccepted", "OrderUpdated", "OrderFilled"]
        assert str(stop.avg_px) == "100.4"
        script.modify_order(limit, trigger_price=price("100.60"))
        await until(lambda: script.said(limit)[-1] == "OrderModifyRejected")
        assert "does not wait for a stop price" in script.events[-1].reason
        script.modify_order(limit, lots(20))
        await until(lambda: limit.quantity == 20)
        script.cancel_all_orders(name)
        await until(lambda: limit.is_closed and trailing.is_closed)

    run_script(served, script, act, "restops")


def test_changes_and_cancellations(served: Served, maker: Exchange) -> None:
    script, other = Script(), Script(tag="002")

    async def run() -> None:
        async with live_node(served.endpoint, script, other, participant="changes"):
            make, name = script.order_factory, script.instrument.id
            order = script.send(make.limit(name, BUY, lots(50), price("99.00")))
            await until(lambda: order.is_open)
            script.modify_order(order, lots(20))
            await until(lambda: order.quantity == 20)
            script.modify_order(order, lots(30), price("99.50"))
            await until(lambda: order.quantity == 30 and order.price == price("99.50"))
            script.modify_order(order, lots(30), price("100.10"))  # crosses
            await until(lambda: order.is_closed)
            assert int(order.filled_qty) == 30 and script.said(order).count("OrderUpdated") == 3
            maker.sell("DEMO", 30, 10010)
            iceberg = script.send(make.limit(name, BUY, lots(50), price("99.00"), display_qty=lots(10)))
            await until(lambda: iceberg.is_open)
            script.modify_order(iceberg, lots(40), price("99.10"))
            await until(lambda: iceberg.price == price("99.10"))
            assert iceberg.quantity == 40 and script.said(iceberg).count("OrderUpdated") == 1
            late = script.send(make.limit(name, BUY, lots(5), price("99.20")))
            await until(lambda: late.is_open)
            theirs = other.send(other.order_factory.limit(name, BUY, lots(5), price("99.00")))
            sell = script.send(make.limit(name, SELL, lots(5), price("101.00")))
            await until(lambda: theirs.is_open and sell.is_open)
            script.cancel_all_orders(name, BUY)
            await until(lambda: iceberg.is_closed and late.is_closed)
            assert sell.is_open and theirs.is_open
            script.cancel_all_orders(name)
            await until(lambda: sell.is_closed)
            assert theirs.is_open

    asyncio.run(run())


def test_what_the_exchange_does_not_have_is_denied(served: Served, maker: Exchange) -> None:
    script = Script()

    async def act(_: Any) -> None:
        make, name = script.order_factory, script.instrument.id
        touched = script.send(make.market_if_touched(name, BUY, lots(5), price("99.00")))
        bracket = make.bracket(name, BUY, lots(5), sl_trigger_price=price("98.00"), tp_price=price("103.00"))
        script.submit_order_list(bracket)
        await until(lambda: touched.is_closed and all(order.is_closed for order in bracket.orders))
        denied = [event for event in script.events if type(event).__name__ == "OrderDenied"]
        assert len(denied) == 4
        assert "got MARKET_IF_TOUCHED; let the node emulate it" in denied[0].reason
        assert "order list" in denied[1].reason

    run_script(served, script, act, "denied")


def test_one_cancels_the_other(served: Served, maker: Exchange) -> None:
    from nautilus_trader.model.identifiers import OrderListId
    from nautilus_trader.model.orders import OrderList

    script = Script()

    async def act(_: Any) -> None:
        ids = [script.order_factory.generate_client_order_id() for _ in range(2)]
        orders = [
            script.limit_order(own, other, BUY if own == ids[0] else SELL, text)
            for own, other, text in ((ids[0], ids[1], "99.50"), (ids[1], ids[0], "100.50"))
        ]
        script.submit_order_list(OrderList(OrderListId("pair"), orders))
        await until(lambda: all(order.is_open for order in orders))
        maker.sell("DEMO", 100, 9990)
        maker.sell("DEMO", 5, 9950)
        await until(lambda: all(order.is_closed for order in orders))
        assert script.said(orders[0])[-1] == "OrderFilled" and script.said(orders[1])[-1] == "OrderCanceled"
        assert orders[0].contingency_type == ContingencyType.OCO

    run_script(served, script, act, "pair")


def test_the_account_follows_the_fills(served: Served, maker: Exchange) -> None:
    script = Script()

    async def act(_: Any) -> None:
        make, name = script.order_factory, script.instrument.id
        assert script.money() == 50_000
        for side in (BUY, SELL):
            order = script.send(make.market(name, side, lots(10)))
            await until(partial(is_over, order))
        await until(lambda: script.money() == 49_998)

    run_script(served, script, act, "account", starting_balances=("50000 USD",))


def test_reports_of_one_instrument_and_of_one_order(served: Served, maker: Exchange) -> None:
    script = Script()

    async def act(node: Any) -> None:
        make, name = script.order_factory, script.instrument.id
        orders = [script.send(make.market(name, BUY, lots(count))) for count in (5, 6)]
        await until(lambda: all(map(is_over, orders)))
        (client,) = node.kernel.exec_engine._clients.values()
        one = orders[0].venue_order_id
        when = {"start": None, "end": None, "command_id": UUID4(), "ts_init": 0}
        for chosen in (name, None):
            of_positions = GeneratePositionStatusReports(instrument_id=chosen, **when)
            assert [report.quantity for report in await client.generate_position_status_reports(of_positions)] == [11]
        for order, quantities in ((one, [5]), (None, [5, 6])):
            of_fills = GenerateFillReports(instrument_id=name, venue_order_id=order, **when)
            assert [report.last_qty for report in await client.generate_fill_reports(of_fills)] == quantities

    run_script(served, script, act, "reports")


def test_positions_are_right_although_old_orders_are_forgotten(
    served: Served, maker: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Script(), Script(external=True)

    async def trade(_: Any) -> None:
        for count in (5, 6, 7):
            order = first.send(first.order_factory.market(first.instrument.id, BUY, lots(count)))
            await until(partial(is_over, order))

    async def look(_: Any) -> None:
        assert second.portfolio.net_position(second.instrument.id) == 18
        assert len(second.cache.orders()) < 3

    run_script(served, first, trade, "many")
    monkeypatch.setattr("serl.gateways.nautilus.own_orders.ENDED_MAX", 1)
    run_script(served, second, look, "many")


def test_a_new_node_finds_orders_and_positions_of_an_earlier_one(served: Served, maker: Exchange) -> None:
    first, second = Script(), Script(external=True)

    async def trade(_: Any) -> None:
        make, name = first.order_factory, first.instrument.id
        bought = first.send(make.market(name, BUY, lots(25)))
        await until(lambda: bought.is_closed)
        order = first.send(make.limit(name, SELL, lots(10), price("100.05")))
        await until(lambda: order.is_open)
        maker.buy("DEMO", 4, 10005)
        await until(lambda: order.filled_qty == 4)

    async def go_on(node: Any) -> None:
        name = second.instrument.id
        (order,) = second.cache.orders_open(instrument_id=name)
        assert (int(order.quantity), int(order.filled_qty), str(order.price), order.side) == (10, 4, "100.05", SELL)
        (position,) = second.cache.positions_open(instrument_id=name)
        assert position.signed_qty == 21
        maker.buy("DEMO", 1, 10005)
        await until(lambda: order.filled_qty == 5)
        second.cancel_order(order)
        await until(lambda: order.is_closed)
        assert not maker.book("DEMO")[1] or maker.book("DEMO")[1][0].price_ticks == 10010

    run_script(served, first, trade, "twice")
    run_script(served, second, go_on, "twice")
