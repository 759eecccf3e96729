"""A client whose session the exchange no longer knows: what is lost, sent again, and told to the caller."""

import time
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.clients import core as client_core
from serl.clients.blocking import Exchange
from serl.clients.book import L2Book
from serl.clients.core import ClientCore
from serl.clients.errors import (
    ExchangeUnreachable,
    LoginRefused,
    Rejected,
    ReportGap,
    RequestRejected,
    SessionEnded,
    UnknownSymbol,
)
from serl.clients.lockstep import take_turn
from serl.clients.session import Order
from serl.exchange.errors import ConfigError
from serl.exchange.records import COMMAND, EVENT, CommandKind, EventKind, Reason, command
from serl.exchange.terms import NO_TERMS, Terms
from serl.exchange.wire import FeedKind, Kind
from tests.clients.stand_in import StandIn, finish, logged_in, pause, receive_until, stand_in


@pytest.fixture
def exchange() -> Iterator[StandIn]:
    with stand_in() as exchange:
        yield exchange


@pytest.fixture
def core(exchange: StandIn) -> Iterator[ClientCore]:
    with logged_in(exchange) as core:
        yield core


def buy(core: ClientCore, terms: Terms = NO_TERMS) -> client_core.Steps[Order]:
    """A call in progress, whose messages are sent."""
    steps = core.order("DEMO", 0, 1, 10, 1, False, terms, None)
    next(steps)
    return steps


def lose_session(exchange: StandIn, core: ClientCore) -> None:
    """Returns with the client's HELLO."""
    exchange.send(Kind.ERROR, "not_logged_in", "restarted")
    receive_until(core, lambda: not core.session.live)
    assert exchange.arrived()[0] == Kind.HELLO


def test_an_exchange_without_its_journal_numbers_reports_from_1(exchange: StandIn, core: ClientCore) -> None:
    for number in (1, 2):
        steps = buy(core)
        exchange.arrived()
        exchange.report(number, number)
        finish(core, steps)
    lose_session(exchange, core)
    exchange.welcome(next_report=1)
    exchange.send(Kind.ERROR, "replay_gone", "reports after 2 are no longer stored")
    with pytest.raises(ReportGap):
        receive_until(core, lambda: False)
    assert core.session.last_report == 2, "what was asked for, for whoever gets the error"
    steps = buy(core)
    assert exchange.arrived()[1] == 3
    exchange.report(1, 3)
    assert finish(core, steps).state == "open"
    lose_session(exchange, core)
    assert core.session.last_report == 1, "and the next login misses nothing"


def test_a_followed_book_is_asked_for_anew_after_a_restart(exchange: StandIn, core: ClientCore) -> None:
    def answer() -> None:
        request = exchange.arrived("queries")
        exchange.send(Kind.L2 + 16, request[1], 1, 100, 0, [[[50, 5, 1]], []], socket="queries")

    following = core.follow("DEMO", "l2")
    next(following)
    orders_route = exchange.route
    answer()
    book = finish(core, following)
    assert finish(core, core.follow("DEMO", "l2")) is book, "of each channel and symbol there is one"
    core._receive_feed("time/", [FeedKind.TIME, 1, 100, 100, 0, []])
    assert not book.needs_snapshot
    core._receive_feed("time/", [FeedKind.TIME, 1, 3, 3, 0, []])
    assert book.needs_snapshot, "without its journal, the exchange is in the same epoch"
    core.receive()
    answer()
    receive_until(core, lambda: not book.needs_snapshot)
    exchange.route = orders_route
    lose_session(exchange, core)
    exchange.welcome(next_report=5)  # reports 1 to 4 are not to be had
    receive_until(core, lambda: book.needs_snapshot)


def test_a_followed_book_of_a_symbol_that_is_gone_concerns_no_other_call(exchange: StandIn, core: ClientCore) -> None:
    """Every few seconds each call raised UnknownSymbol, also one whose order for another symbol was accepted."""
    book = core.books["l2/GONE/"] = L2Book()
    core._stale.note("l2/GONE/", book)
    steps = buy(core)
    exchange.arrived()
    exchange.report(1, 1)
    assert finish(core, steps).state == "open"
    with pytest.raises(UnknownSymbol):
        finish(core, core.book("GONE", 1))


def test_every_command_without_an_answer_is_sent_again(exchange: StandIn, core: ClientCore) -> None:
    messages = [core.session.new_order("DEMO", 0, 1, 10, 1, False)[1][0] for _ in range(5000)]
    lose_session(exchange, core)
    exchange.welcome()
    receive_until(core, lambda: core.session.live)
    assert [exchange.arrived()[1] for _ in messages] == [*range(1, 5001)]


@pytest.mark.parametrize("code", ["throttled", "disk_full"])
def test_a_refused_order_is_not_sent_again(code: str, exchange: StandIn, core: ClientCore) -> None:
    steps = buy(core, Terms(stop_ticks=12))
    kind, rows = exchange.arrived()
    term, order = np.frombuffer(rows, COMMAND)
    assert (kind, term["kind"], order["kind"]) == (Kind.BULK, CommandKind.TERM, CommandKind.NEW)
    exchange.send(Kind.ERROR, code, f"command {term['command_id']} was not accepted: resend it later")
    with pytest.raises(RequestRejected, match=f"{code}: command {term['command_id']} was not"):
        finish(core, steps)
    refused = core.session.orders[int(order["command_id"])]
    assert (refused.state, refused.reason) == ("rejected", code)
    assert not core.session.unanswered and not core.session.open_orders()
    lose_session(exchange, core)
    exchange.welcome()
    receive_until(core, lambda: core.session.live)
    assert exchange.arrived(timeout_ms=200) == []


def test_a_refused_command_for_which_no_call_waits_is_kept(exchange: StandIn, core: ClientCore) -> None:
    _, (message,) = core.session.new_order("DEMO", 0, 1, 10, 1, False)
    core.send_command(message)
    exchange.arrived()
    exchange.send(Kind.ERROR, "throttled", "command 1 was not accepted: resend it later")
    with pytest.raises(RequestRejected):
        receive_until(core, lambda: False)
    assert core.session.unanswered == {1: message}, "for its sender, who may send it again"


def test_a_refusal_is_that_of_its_own_call(exchange: StandIn, core: ClientCore) -> None:
    first, second = buy(core), buy(core)
    assert exchange.arrived()[1] == 1
    exchange.send(Kind.ERROR, "throttled", "command 1 was not accepted")
    exchange.report(1, 2)
    assert finish(core, second).state == "open"
    with pytest.raises(RequestRejected):
        finish(core, first)


def bought_before_a_login(exchange: StandIn, core: ClientCore) -> client_core.Steps[Order]:
    """A call whose order was executed, and whose session was lost before its report came."""
    steps = buy(core)
    exchange.arrived()
    lose_session(exchange, core)
    exchange.welcome(last_command_id=1)
    receive_until(core, lambda: core.session.live)
    return steps


def test_a_call_waits_for_the_report_that_a_login_brings(exchange: StandIn, core: ClientCore) -> None:
    steps = bought_before_a_login(exchange, core)
    next(steps)  # the order is answered, but not here yet
    assert not core.session.unanswered and exchange.arrived()[1] == 1, "sent again, in case it was skipped"
    exchange.report(1, 1, EventKind.REJECTED, Reason.HALTED)
    with pytest.raises(Rejected, match="HALTED"):
        finish(core, steps)


def test_a_call_whose_report_is_gone_returns_with_the_duplicate(exchange: StandIn, core: ClientCore) -> None:
    steps = bought_before_a_login(exchange, core)
    exchange.arrived()
    exchange.send(Kind.DUPLICATE, 1, 0, [])
    finish(core, steps)
    assert not core.session.replayed


def test_a_lost_hello_is_sent_again(exchange: StandIn, core: ClientCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_core, "REPLY_TIMEOUT_S", 0.2)
    lose_session(exchange, core)
    time.sleep(0.25)
    core.receive()
    assert exchange.arrived()[0] == Kind.HELLO
    exchange.send(Kind.ERROR, "duplicate_login", "a later HELLO ended this one")  # the first one was only slow
    exchange.welcome()
    receive_until(core, lambda: core.session.live)
    assert core.logins == 2


def test_a_lost_welcome_is_told(exchange: StandIn, core: ClientCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exchange then takes every later HELLO of this connection for a second one."""
    monkeypatch.setattr(client_core, "REPLY_TIMEOUT_S", 0.2)
    lose_session(exchange, core)
    for attempt in range(2):
        time.sleep(0.25)
        core.receive()
        assert exchange.arrived()[0] == Kind.HELLO
        exchange.send(Kind.ERROR, "duplicate_login", "this connection is logged in already; send BYE first")
        if attempt == 0:
            core.orders.poll(5000)
            core.receive()  # perhaps WELCOME was only slow
    with pytest.raises(LoginRefused):
        receive_until(core, lambda: False)


def test_a_refused_login_is_tried_again_until_goodbye(
    exchange: StandIn, core: ClientCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_core, "REPLY_TIMEOUT_S", 0.2)
    lose_session(exchange, core)
    for _ in range(2):
        exchange.send(Kind.ERROR, "login", "the name has a live session")
        with pytest.raises(LoginRefused):
            receive_until(core, lambda: False)
        time.sleep(0.25)
        core.receive()
        assert exchange.arrived()[0] == Kind.HELLO
    exchange.send(Kind.GOODBYE, "shutdown", "the exchange stops")
    with pytest.raises(SessionEnded):
        receive_until(core, lambda: False)
    time.sleep(0.25)
    core.receive()
    assert exchange.arrived(timeout_ms=100) == []


def test_what_is_sent_after_goodbye_is_refused_at_once(exchange: StandIn, core: ClientCore) -> None:
    steps = buy(core)
    exchange.arrived()
    exchange.report(1, 1)
    order = finish(core, steps)
    exchange.send(Kind.GOODBYE, "shutdown", "the exchange stops")
    with pytest.raises(SessionEnded, match="the exchange stops"):
        receive_until(core, lambda: False)
    calls = [
        lambda: buy(core),
        lambda: next(core.amend(order, CommandKind.CANCEL)),
        lambda: next(core.mass_cancel(None)),
    ]
    for call in [*calls, lambda: next(take_turn(core, 5))]:
        with pytest.raises(SessionEnded, match=r"\(shutdown\): it is over; connect again"):
            call()
    assert list(core.session.orders) == [1] and not core.session.unanswered


def test_terms_and_times_in_force_that_are_none_are_refused(exchange: StandIn, core: ClientCore) -> None:
    terms: Any = {"stop_ticks": 5}
    tif: Any = "GTC"
    order = core.session.new_order("DEMO", 0, 1, 10, 1, False)[0]
    for send, message in (
        (
            lambda: core.order("DEMO", 0, 1, 10, tif, False, NO_TERMS),
            "time_in_force: expected a TimeInForce, got 'GTC'",
        ),
        (lambda: core.order("DEMO", 0, 1, None, 1, False, terms), "terms: expected Terms, got {'stop_ticks': 5}"),
        (lambda: core.amend(order, CommandKind.REPLACE, 1, 10, terms=terms), "terms: expected Terms, got {'stop"),
    ):
        with pytest.raises(ConfigError, match=message):
            next(send())
    assert list(core.session.orders) == [order.order_id] and list(core.session.unanswered) == [order.order_id]


def test_a_closed_client_says_so(exchange: StandIn, core: ClientCore) -> None:
    client = Exchange(core)
    client.close()
    for call in (lambda: client.buy("DEMO", 1, 10), lambda: client.wait(0), client.account):
        with pytest.raises(SessionEnded, match="the client was closed"):
            call()


def test_rows_that_a_session_would_lose_are_refused(exchange: StandIn, core: ClientCore) -> None:
    lose_session(exchange, core)
    rows = core.session.rows(command(CommandKind.NEW, qty_lots=1, price_ticks=10, command_id=1))
    with pytest.raises(SessionEnded, match="expected a session that takes rows"):
        core.send_command(rows)
    core.session.unanswered[1] = rows
    core.send_command(rows)
    core.send_command(msgpack.packb([Kind.PING, 0]))


def test_queries_to_an_absent_exchange_do_not_block_and_leave_nothing(exchange: StandIn, core: ClientCore) -> None:
    exchange.context.destroy(0)
    for _ in range(20):
        pause(core)  # until the connection is gone
    started_s = time.monotonic()
    with pytest.raises(ExchangeUnreachable, match="accepts no messages"):
        for _ in range(3000):
            query = core.ask(Kind.L2, 0, 0)
            next(query)
            query.close()  # its caller has given up
    assert time.monotonic() - started_s < 5
    assert not core._queries._replies


def test_a_login_brings_the_rows_of_a_single_order(exchange: StandIn, core: ClientCore) -> None:
    core.session.options["rows"] = True
    order, messages = core.session.new_order("DEMO", 0, 1, 10, 1, False)
    core.send_command(messages[0])
    exchange.arrived()
    lose_session(exchange, core)
    exchange.welcome(last_command_id=1)
    receive_until(core, lambda: core.session.live)
    assert core.session.replayed
    events = np.zeros(1, EVENT)
    events["kind"], events["command_id"], events["order_id"], events["leaves_lots"] = EventKind.ACCEPTED, 1, 1, 1
    exchange.send(Kind.REPORT_ROWS, 1, events.tobytes())
    receive_until(core, lambda: order.state == "open")
    assert not core.session.replayed
