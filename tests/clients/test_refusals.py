"""What the fault simulation (tests/sim) found in the client: each defect on its own."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
import zmq

from serl.clients import core as client_core
from serl.clients.asynchronous import connect as connect_async
from serl.clients.blocking import connect
from serl.clients.core import ClientCore
from serl.clients.errors import RequestRejected, SessionEnded
from serl.clients.session import Order, Session
from serl.exchange.records import SelfTrade
from serl.exchange.terms import NO_TERMS, Terms
from serl.exchange.wire import Kind
from tests.server_fixture import Served, start_exchange


@pytest.fixture(scope="module")
def exchange() -> Iterator[Served]:
    with start_exchange(symbols="A") as served:
        yield served


def logged_in(exchange: Served, name: str) -> ClientCore:
    core = ClientCore(exchange.endpoint, Session(name), None)
    for _ in core.login():
        core.orders.poll(100)
        core.receive()
    return core


def test_what_arrived_behind_a_refusal_is_not_lost(exchange: Served) -> None:
    core = logged_in(exchange, "ann")
    order, messages = core.session.new_order("A", 0, 1, 100, 1, False)
    core.send(msgpack.packb([250]))
    core.send(messages[0])
    arrived, core_orders = core.context.socket(zmq.PAIR), core.orders
    arrived.bind("inproc://arrived")
    kinds: set[int] = set()
    while not {Kind.ERROR, Kind.REPORTS} <= kinds:
        messages.append(core_orders.recv())
        kinds.add(msgpack.unpackb(messages[-1])[0])
    core.orders = core.context.socket(zmq.PAIR)  # where both answers are there at once
    core.orders.connect("inproc://arrived")
    for message in messages[1:]:
        arrived.send(message)
    with pytest.raises(RequestRejected, match="malformed"):
        core.receive()
    core.receive()
    assert order.state == "open"
    for socket in (arrived, core.orders):
        socket.close()
    core.orders = core_orders
    core.close()


def test_a_command_during_a_login_does_not_overtake_those_without_an_answer(exchange: Served) -> None:
    core = logged_in(exchange, "bob")
    first, _ = core.session.new_order("A", 0, 1, 100, 1, False)  # its message was lost with a connection
    core.session.live = False  # the answer was not_logged_in, and HELLO is on its way
    second = core.order("A", 0, 1, 101, 1, False, NO_TERMS)
    next(second)
    core.send(msgpack.packb([Kind.BYE]))
    core.send(core.session.hello())
    while "sent" in (first.state, core.session.orders[2].state):
        assert core.orders.poll(2000), "an order got no answer"
        with contextlib.suppress(SessionEnded):  # the answer to BYE
            core.receive()
    for _ in second:
        core.orders.poll(1000)
    assert [each.state for each in core.session.orders.values()] == ["open", "open"]
    core.close()


def test_a_query_without_a_reply_is_asked_again(exchange: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_core, "REPLY_TIMEOUT_S", 0.3)
    core = logged_in(exchange, "carol")
    query = core.ask(Kind.L2, 0, 0)
    next(query)
    core.queries.poll(5000)
    core.queries.recv()  # the reply is lost with its connection; heartbeats go on
    reply = None
    while reply is None:
        core.queries.poll(50)
        core.receive()
        core.send(msgpack.packb([Kind.PING, 0]))
        try:
            next(query)
        except StopIteration as done:
            reply = done.value
    assert reply[0] == Kind.L2 + 16
    core.close()


def test_an_order_does_not_get_the_terms_of_a_refused_one(tmp_path: Path) -> None:
    """The rate limit refused the order after its terms, and the next order with terms became an iceberg."""
    with (
        start_exchange(symbols="A", config={"limits": {"messages_per_s_max": 2}}, folder=tmp_path) as served,
        connect(served.endpoint, "ann") as ann,
    ):
        first = ann.buy("A", 1, 10)  # after which there is room for one message
        with pytest.raises(RequestRejected, match="throttled"):
            ann.sell("A", 100, 50, terms=Terms(display_lots=10))
        ann.cancel(first)
        order = None
        while order is None:
            ann.wait(1.1)  # until there is room for a whole second
            with contextlib.suppress(RequestRejected):
                order = ann.sell("A", 100, 60, terms=Terms(self_trade=SelfTrade.NEWEST))
        assert ann.book("A")[1] == [(60, 100, 1)]


def test_an_order_for_which_there_is_no_room_is_refused_alone(tmp_path: Path) -> None:
    """With a latency: the refusal did not say of which order, all calls raised it, and the refused order was sent again at the next login."""
    settings: dict[str, object] = {
        "limits": {"bulk_rows_max": 4, "staged_rows_per_participant_max": 4, "participants_max": 64},
        "latency": {"orders": {"kind": "constant", "delay_us": 300_000.0}},
    }

    async def trade(endpoint: str) -> None:
        async with await connect_async(endpoint, "ann") as ann:
            sent = [ann.buy("A", 1, price) for price in range(1, 7)]
            found = await asyncio.gather(*sent, return_exceptions=True)
            assert [order.state for order in found[:4] if isinstance(order, Order)] == ["open"] * 4
            assert [each.code for each in found[4:] if isinstance(each, RequestRejected)] == ["throttled"] * 2
            assert not ann.core.session.unanswered

    with start_exchange(symbols="A", config=settings, folder=tmp_path) as served:
        asyncio.run(trade(served.endpoint))
