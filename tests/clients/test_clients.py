"""Both clients against a real exchange; the session on its own."""

import asyncio
import inspect
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import serl.clients.core
from serl.clients import asynchronous
from serl.clients.blocking import Exchange, connect
from serl.clients.errors import (
    ExchangeUnreachable,
    LoginRefused,
    PriceOffTick,
    Rejected,
    ReportGap,
    SessionEnded,
    UnknownChannel,
    UnknownSymbol,
)
from serl.clients.instrument import Instrument
from serl.clients.session import Report, Session
from serl.exchange.errors import ConfigError
from serl.exchange.records import EVENT, EventKind, Side, TimeInForce
from serl.exchange.terms import Terms
from serl.exchange.wire import Kind
from tests.server_fixture import Served, free_endpoint, launch, start_exchange

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def exchange() -> Iterator[Served]:
    with start_exchange(symbols="DEMO,AMZN,JS") as served:
        yield served


def test_channels_that_the_feed_does_not_have_are_refused(exchange: Served) -> None:
    with connect(exchange.endpoint, "eve") as eve:
        for call in (eve.subscribe, eve.unsubscribe):
            with pytest.raises(
                UnknownChannel, match="expected a channel of l1, l2, l3, trade, status, rows, auction, got 'x'"
            ):
                call("x", "DEMO")
        with pytest.raises(UnknownChannel, match="expected a channel of l2, l3 for a book, got 'trade'"):
            eve.follow("DEMO", "trade")


@pytest.mark.parametrize(
    "price", [float("nan"), float("inf"), "-Infinity", "sNaN", "1e400", "1e999999999999999999", 1e17]
)
def test_prices_that_no_exchange_can_have_are_refused(price: Any) -> None:
    instrument = Instrument.of(0, "DEMO", "0.01", "1")
    with pytest.raises(PriceOffTick, match=r"DEMO: expected a (finite )?price( of at most 90071992547409\.92)?, got "):
        instrument.ticks(price)


def test_the_blocking_client(exchange: Served) -> None:
    with connect(exchange.endpoint, "alice") as alice, connect(exchange.endpoint, "bob") as bob:
        price = alice.instrument("AMZN").ticks("223.45")
        order = alice.buy("AMZN", 10, price)
        assert (order.state, order.open_lots) == ("open", 10)
        taken = bob.sell("AMZN", 4, price, time_in_force=TimeInForce.IOC)
        assert (taken.state, taken.filled_lots, bob.position("AMZN")) == ("done", 4, -4)
        assert bob.book("AMZN") == ([(price, 6, 1)], [])
        assert [trade[2:5] for trade in bob.trades("AMZN")][-1] == (price, 4, 1)
        alice.reduce(order, 1)
        alice.replace(order, 20, price - 1)
        assert (order.open_lots, order.filled_lots) == (16, 4)
        alice.cancel(order)
        assert order.state == "done"
        assert alice.position("AMZN") == 4 == sum(fill.qty_lots for fill in alice.fills())


def test_terms_are_replaced(exchange: Served) -> None:
    with connect(exchange.endpoint, "careful") as client:
        stop = client.sell("AMZN", 4, terms=Terms(stop_ticks=100))
        touched = client.sell("AMZN", 4, terms=Terms(touch_ticks=900_000, link=stop.order_id))
        client.replace(stop, 6, terms=Terms(stop_ticks=120))
        assert (stop.state, stop.open_lots) == ("open", 6)
        client.replace(touched, 4, terms=Terms(touch_ticks=800_000))
        with pytest.raises(Rejected, match="BAD_TERMS"):
            client.replace(touched, 4, terms=Terms(stop_ticks=120))
        with pytest.raises(Rejected, match="NOT_REPLACEABLE"):
            client.replace(stop, 5)
        assert not client.session.unanswered and not client.session.term_ids
        client.cancel(stop)
        assert (stop.state, client.open_orders()) == ("done", [])


def test_a_market_to_limit_order_rests_at_its_price(exchange: Served) -> None:
    with connect(exchange.endpoint, "converted") as client:
        client.sell("DEMO", 2, 9950)
        order = client.buy("DEMO", 5, terms=Terms(to_limit=True))
        assert (order.state, order.filled_lots, order.open_lots, order.price_ticks) == ("open", 2, 3, 9950)
        client.replace(order, 4)
        assert client.book("DEMO")[0] == [(9950, 2, 1)]
        client.cancel(order)


def test_a_client_that_stood_still_finds_the_reply(exchange: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asked whether the exchange had been silent for too long before it looked for the reply."""
    with connect(exchange.endpoint, "stopped") as client:
        number = client.instrument("DEMO").number
        steps = client.core.ask(Kind.STATUS, number)
        next(steps)
        assert client.core.queries.poll(10_000), "the reply has arrived"
        monkeypatch.setattr(serl.clients.core, "REPLY_TIMEOUT_S", -1.0)  # as if the process had been stopped meanwhile
        client.core.receive()
        with pytest.raises(StopIteration) as returned:
            next(steps)
        assert returned.value.value[5][0] == 0, "not halted"


def test_prices_in_money(exchange: Served) -> None:
    with connect(exchange.endpoint, "moneyed") as client:
        order = client.buy("DEMO", 10, price="99.50")
        assert order.price_ticks == 9950
        client.replace(order, 10, price=Decimal("99.25"))
        assert client.book("DEMO")[0][0][:2] == (9925, 10)
        client.replace(order, 8)
        assert client.book("DEMO")[0][0][:2] == (9925, 8), "it keeps its price"
        with pytest.raises(PriceOffTick, match=r"nearest prices are 99.50 and 99.51"):
            client.buy("DEMO", 1, price=99.505)
        with pytest.raises(ConfigError, match="expected price_ticks or price, got 9950 and"):
            client.sell("DEMO", 1, 9950, price="99.50")
        client.cancel(order)
        assert not client.book("DEMO")[0]


def test_an_account_in_money_is_that_of_all_sessions(exchange: Served) -> None:
    with connect(exchange.endpoint, "saver") as saver, connect(exchange.endpoint, "other") as other:
        assert saver.account() == {}
        other.sell("JS", 10, price="20.00")
        saver.buy("JS", 10, price="20.00")
        other.buy("JS", 4, price="20.50")
        saver.sell("JS", 4, price="20.50")
    with connect(exchange.endpoint, "saver") as saver:
        assert saver.fills() == [], "of this session"
        assert list(saver.account()) == ["JS"]
        balance = saver.account()["JS"]
        assert balance == (6, Decimal("-118"), Decimal("2"), Decimal("3"), Decimal(0))
        assert str(balance.fees) == "0"
        assert (balance.position_lots, balance.cash) == (6, Decimal("-118"))

    async def ask() -> Any:
        async with await asynchronous.connect(exchange.endpoint, "saver") as client:
            return await client.account()

    assert asyncio.run(ask())["JS"] == balance


def test_an_order_of_an_earlier_session_is_kept_up_to_date(exchange: Served) -> None:
    with connect(exchange.endpoint, "dora") as dora:
        order = dora.buy("JS", 3, 50)
    with connect(exchange.endpoint, "dora") as dora:
        assert dora.reduce(order, 1).open_lots == 2
        assert dora.cancel(order).state == "done" and order.reason == "REQUESTED"


def test_errors_name_the_reason(exchange: Served) -> None:
    with connect(exchange.endpoint, "carol") as carol:
        with pytest.raises(Rejected, match="BAD_QTY"):
            carol.sell("AMZN", 0, 5)
        with pytest.raises(UnknownSymbol, match="DEMO, AMZN"):
            carol.buy("NONE", 1, 5)
        with pytest.raises(PriceOffTick, match=r"1\.00 and 1\.01"):
            carol.instrument("AMZN").ticks("1.005")
        assert carol.instrument("AMZN").ticks(0.07) == 7
        with pytest.raises(
            PriceOffTick, match=r"got 100\.5; convert a price with instrument\('AMZN'\)\.ticks\(price\)"
        ):
            carol.buy("AMZN", 1, 100.5)  # pyrefly: ignore[bad-argument-type]
        with pytest.raises(ConfigError, match=r"qty_lots: expected an integer, got 1\.5"):
            carol.buy("AMZN", 1.5, 100)  # pyrefly: ignore[bad-argument-type]
        assert (taken := carol.sell("JS", 1)).state == "done" and taken.reason == "MARKET_REMAINDER"
        order = carol.buy("DEMO", 1, 5, post_only=True)
        with pytest.raises(ConfigError, match=r"price_ticks: expected an integer, got 4\.5"):
            carol.replace(order, 1, 4.5)  # pyrefly: ignore[bad-argument-type]
        with pytest.raises(Rejected, match="WOULD_CROSS"):
            carol.sell("DEMO", 1, 5, post_only=True)
        carol.cancel(order)
        with pytest.raises(Rejected, match="UNKNOWN_ORDER"):
            carol.cancel(order)
        with pytest.raises(LoginRefused, match="duplicate_login"):
            connect(exchange.endpoint, "carol")


@pytest.mark.parametrize("call", ["book", "trades", "news"])
def test_numbers_of_levels_trades_and_news_are_checked(exchange: Served, call: str) -> None:
    """numpy's integers were a TypeError, and a followed book took a depth of -1."""
    with connect(exchange.endpoint, "erin") as erin:
        erin.follow("DEMO")
        arguments = [] if call == "news" else ["DEMO"]
        ask = getattr(erin, call)
        for invalid in (-1, 1.5, "2", True):
            with pytest.raises(ConfigError, match="expected an integer"):
                ask(*arguments, invalid)
        assert ask(*arguments, np.int64(2)) == ask(*arguments, 2)


def test_orders_in_a_session_with_rows(exchange: Served) -> None:
    with connect(exchange.endpoint, "erin", rows=True) as erin, connect(exchange.endpoint, "fred") as fred:
        order = erin.buy("DEMO", 5, 30)
        assert (order.state, order.open_lots) == ("open", 5)
        with pytest.raises(Rejected, match="WOULD_CROSS"):
            erin.sell("DEMO", 1, 30, post_only=True)
        fred.sell("DEMO", 2, 30)
        assert erin.reduce(order, 1).open_lots == 2 and order.filled_lots == 2
        kinds = []
        while (rows := erin.wait(0)) is not None:
            assert isinstance(rows, np.ndarray)
            kinds += [EventKind(kind).name for kind in rows["kind"]]
        assert [kind for kind in kinds if kind in ("REJECTED", "FILL")] == ["REJECTED", "FILL"], (
            "rows are still returned"
        )
        assert erin.cancel(order).state == "done" and erin.session.orders == {}
        with pytest.raises(Rejected, match="UNKNOWN_ORDER"):
            erin.cancel(order)
        erin.mass_cancel()
        assert erin.session.unanswered == {} == erin.session.orders


def test_results_print_names(exchange: Served) -> None:
    with connect(exchange.endpoint, "gina") as gina:
        order = gina.sell("JS", 3, 60, time_in_force=TimeInForce.DAY)
        assert gina.open_orders() == [order]
        assert "side=<Side.SELL: 1>" in repr(order) and "time_in_force=<TimeInForce.DAY: 0>" in repr(order)
        gina.buy("JS", 1)
        assert repr(order.fills[0]).startswith("Report(kind=FILL, ") and "side=SELL, " in repr(order.fills[0])
        status = gina.status("JS")
        assert (status.halted, status.phase.name, status.reason.name) == (False, "CONTINUOUS", "NONE")
        assert "phase=<Phase.CONTINUOUS: 0>" in repr(status)
        gina.cancel(order)
        assert gina.open_orders() == []


def api(client: type) -> dict[str, tuple[str, str | None]]:
    """Signature and documentation of every public method."""
    methods = {name: method for name, method in vars(client).items() if not name.startswith("_")}
    return {name: (str(inspect.signature(method)), method.__doc__) for name, method in methods.items()}


def test_both_clients_have_the_same_api() -> None:
    assert len(api(Exchange)) > 10
    assert api(Exchange) == api(asynchronous.AsyncExchange)
    assert inspect.signature(connect).parameters == inspect.signature(asynchronous.connect).parameters


def test_no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serl.clients.core.REPLY_TIMEOUT_S", 0.2)
    with pytest.raises(ExchangeUnreachable, match="serl exchange start"):
        connect(free_endpoint(), "lonely")


def test_a_client_survives_a_restart_of_the_exchange(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    options = ("--symbols", "DEMO", "--journal", str(tmp_path / "journal"))
    first = launch(*options, endpoint=endpoint)
    client = connect(endpoint, "loyal")
    order = client.buy("DEMO", 5, 40)
    first.kill()
    assert first.process.stdout is not None
    first.process.stdout.close()
    second = launch(*options, endpoint=endpoint)
    assert client.buy("DEMO", 1, 39).state == "open"
    client.cancel(order)
    assert client.book("DEMO")[0] == [(39, 1, 1)]
    second.stop()
    with pytest.raises(SessionEnded, match="shutdown"):
        while True:
            client.wait(0.1)
    client.core.context.destroy(0)


def events(first: int, *kinds: int) -> bytes:
    return bytes(msgpack.packb([80, first, [[kind, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0] for kind in kinds]]))


def test_a_followed_book_notices_a_restart_after_which_nothing_happens(tmp_path: Path) -> None:
    """The orders of a lost session are cancelled before anybody can hear of it."""
    endpoint, options = free_endpoint(), ("--symbols", "AMZN", "--journal", str(tmp_path / "journal"))
    first = launch(*options, endpoint=endpoint)
    ann, bob = connect(endpoint, "ann"), connect(endpoint, "bob", cancel_on_disconnect=True)
    ann.follow("AMZN")
    bob.buy("AMZN", 5, 100)
    while not ann.book("AMZN")[0]:
        ann.wait(0.1)
    first.kill()
    assert first.process.stdout is not None
    first.process.stdout.close()
    bob.core.context.destroy(0)
    second = launch(*options, endpoint=endpoint)
    until = time.monotonic() + 10
    while ann.book("AMZN")[0] and time.monotonic() < until:
        ann.wait(0.1)
    assert ann.book("AMZN") == ([], [])
    ann.close()
    second.stop()


def test_a_session_counts_every_report_once() -> None:
    session = Session("x")
    session.last_report = 0
    assert len(session.receive(events(1, 3, 3))) == 2
    assert len(session.receive(events(2, 3, 3))) == 1
    with pytest.raises(ReportGap, match="expected report 4, got 5"):
        session.receive(events(5, 3))


def test_a_session_counts_every_row_once() -> None:
    session, rows = Session("x", rows=True), np.zeros(3, EVENT)
    rows["report"] = [1, 2, 3]
    session.last_report = 0
    received = [
        session.receive(msgpack.packb([Kind.REPORT_ROWS, first, rows[first - 1 : stop].tobytes()]))
        for first, stop in ((1, 2), (2, 3), (2, 3))
    ]
    assert [[part["report"].tolist() for part in parts] for parts in received] == [[[1, 2]], [[3]], []]
    with pytest.raises(ReportGap, match="expected report 4, got 5"):
        session.receive(msgpack.packb([Kind.REPORT_ROWS, 5, rows[:1].tobytes()]))


def test_a_sale_makes_a_position_smaller() -> None:
    session, nothing = Session("x"), Report._make([0] * len(Report._fields))
    for side, lots in ((Side.BUY, 5), (Side.SELL, 7)):
        session.apply(nothing._replace(kind=EventKind.FILL, symbol=3, side=side, qty_lots=lots))
    assert session.positions == {3: -2} and len(session.fills) == 2


@pytest.mark.parametrize("channel", ["l2", "l3"])
def test_waiting_fills_the_gaps_of_followed_books(exchange: Served, channel: str) -> None:
    """A message that was missed, as on a busy machine; no later one comes, and nobody asks for the book."""
    with connect(exchange.endpoint, "gapped", token="") as client:
        book = client.follow("JS", channel)
        client.buy("JS", 5, 100)
        deadline = time.monotonic() + 20
        while not book.levels(0):
            assert time.monotonic() < deadline
            client.wait(0.05)
        last = book.sequence
        book.sequence = last - 1
        book._load([[], []] if channel == "l2" else [])
        client.core._receive_feed(
            f"{channel}/JS/", [113, book.epoch, last, last, 0, []]
        )  # as a quiet topic is repeated
        assert book.needs_snapshot and not book.levels(0)
        while book.needs_snapshot:
            assert time.monotonic() < deadline
            client.wait(0.05)
        assert book.levels(0) == [(100, 5, 1)]
        client.mass_cancel()


def test_books_of_random_deltas_equal_the_snapshot(exchange: Served) -> None:
    rng = np.random.default_rng(3)
    with connect(exchange.endpoint, "random") as trader, connect(exchange.endpoint, "observer") as observer:
        observer.follow("AMZN")
        for _ in range(150):
            side = trader.buy if rng.random() < 0.5 else trader.sell
            side("AMZN", int(rng.integers(1, 9)), int(rng.integers(995, 1005)))
        wanted = trader.book("AMZN", 0)
        deadline = time.monotonic() + 20
        while observer.book("AMZN", 0) != wanted:
            observer.wait(0.05)
            assert time.monotonic() < deadline
        trader.mass_cancel()


def test_the_example_bot_quotes(exchange: Served) -> None:
    arguments = [sys.executable, str(ROOT / "examples" / "bot.py"), exchange.endpoint, "DEMO"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as bot:
        try:
            assert bot.stdout is not None
            assert "quoting 9996 / 10004" in bot.stdout.readline()
            with connect(exchange.endpoint, "visitor") as visitor:
                visitor.buy("DEMO", 10)
                assert "position -10" in bot.stdout.readline()
        finally:
            bot.kill()


def test_the_javascript_client(exchange: Served, tmp_path: Path) -> None:
    try:
        subprocess.run(["node", "--version"], check=True, capture_output=True)
        subprocess.run(["npm", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("node and npm are not installed")
    for name in ("client.js", "package.json"):
        (tmp_path / name).write_text((ROOT / "examples" / "javascript" / name).read_text())
    install = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund"], cwd=tmp_path, capture_output=True, text=True
    )
    if install.returncode:
        pytest.skip(f"npm cannot install zeromq and @msgpack/msgpack here: {install.stderr[-200:]}")
    client = subprocess.run(
        ["node", "client.js", exchange.endpoint, "JS"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "trade on the feed: 5 lots at 4321 ticks" in client.stdout, client.stderr
    assert "goodbye" in client.stdout
