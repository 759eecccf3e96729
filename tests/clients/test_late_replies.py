"""Replies that come later than most, and refusals of what is asked for again and again."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from serl.clients import core as client_core
from serl.clients.core import ClientCore
from serl.clients.dashboard import link as dashboard_link
from serl.clients.dashboard.account import Account as DashboardAccount
from serl.clients.dashboard.board import Board
from serl.clients.dashboard.link import Link
from serl.clients.dashboard.standings import Standings
from serl.clients.errors import ExchangeUnreachable, FeedGap
from serl.clients.record import SILENCE_S, Recorder
from serl.clients.session import Session
from serl.clients.sockets import Sockets
from serl.exchange import request as exchange_request
from serl.exchange.account import Account
from serl.exchange.wire import FeedKind, Kind
from tests.clients.stand_in import LIMITS, SYMBOLS, StandIn, finish, logged_in, pause, stand_in

INFO = [1, SYMBOLS, ["live", 1.0, 0, 0], LIMITS]


@pytest.fixture
def exchange() -> Iterator[StandIn]:
    with stand_in() as exchange:
        yield exchange


def test_each_request_has_its_own_patience(exchange: StandIn) -> None:
    sockets, answers = Sockets(exchange.endpoint), list[str]()

    def ask(name: str, timeout_s: float) -> bool:
        return sockets.request(
            lambda reply, _: answers.append(name), Kind.INFO, timeout_s=timeout_s,
            on_timeout=lambda: answers.append(f"no {name}"),
        )  # fmt: skip

    deadline = time.monotonic() + 5
    while not ask("short", 0.1):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ask("long", 5.0)
    requests = [exchange.arrived("queries")[1] for _ in range(2)]
    time.sleep(0.15)
    sockets.process_replies()
    assert answers == ["no short"]
    for request in requests:
        exchange.send(Kind.INFO + 16, request, 1, 0, 0, INFO, socket="queries")
    sockets.wait(1000)
    time.sleep(0.1)
    sockets.process_replies()
    sockets.close()
    assert answers == ["no short", "long"]


def replies_to(exchange: StandIn, count: int) -> list[int]:
    """Answers this many queries, the last one first; their symbols, as they came."""
    asked = [exchange.arrived("queries") for _ in range(count)]
    for _, request, symbol, _ in reversed(asked):
        exchange.send(Kind.L2 + 16, request, 1, 0, symbol, [[], []], socket="queries")
    return [symbol for _, _, symbol, _ in asked]


def test_queries_are_sent_together_and_no_more_than_an_exchange_keeps_replies(
    exchange: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_core, "IN_FLIGHT_MAX", 3)
    with logged_in(exchange) as core:
        steps = core.ask_all([(Kind.L2, symbol, 1) for symbol in range(5)])
        next(steps)
        assert replies_to(exchange, 3) == [0, 1, 2] and exchange.arrived("queries", 100) == []
        with pytest.raises(AssertionError, match="did not return"):
            finish(core, steps, 0.3)
        assert replies_to(exchange, 2) == [3, 4]
        assert [reply[4] for reply in finish(core, steps)] == [0, 1, 2, 3, 4]


def test_only_queries_without_a_reply_are_asked_again(exchange: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_core, "REPLY_TIMEOUT_S", 0.6)
    with logged_in(exchange) as core:
        steps, route = core.ask_all([(Kind.L2, symbol, 1) for symbol in range(3)]), exchange.route
        next(steps)
        asked = [exchange.arrived("queries") for _ in range(3)]
        exchange.send(Kind.L2 + 16, asked[1][1], 1, 0, 1, [[], []], socket="queries")
        exchange.route = route
        for _ in range(4):  # an exchange that sends other messages is not unreachable
            time.sleep(0.3)
            exchange.send(Kind.HEARTBEAT, 0)
            pause(core, 1000)
            next(steps)
        assert [exchange.arrived("queries", 3000)[1] for _ in range(2)] == [asked[0][1], asked[2][1]]


def test_an_exchange_that_replies_to_some_queries_is_not_unreachable(
    exchange: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without a session gets nothing but replies, so it gave up a slow exchange in the middle of them."""
    monkeypatch.setattr(client_core, "REPLY_TIMEOUT_S", 0.6)
    core = ClientCore(exchange.endpoint, Session(""), None)
    try:
        steps = core.ask_all([(Kind.L2, symbol, 1) for symbol in range(4)])
        next(steps)
        asked = [exchange.arrived("queries") for _ in range(4)]
        for symbol, (_, request, *_) in enumerate(asked):
            time.sleep(0.3)
            exchange.send(Kind.L2 + 16, request, 1, 0, symbol, [[], []], socket="queries")
            if symbol < 3:
                pause(core, 1000)
                next(steps)
        assert [reply[4] for reply in finish(core, steps)] == [0, 1, 2, 3]
    finally:
        core.context.destroy(0)


def test_a_late_refusal_is_not_that_of_the_next_request(exchange: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_request, "REPLY_TIMEOUT_S", 0.5)
    monkeypatch.setattr(exchange_request, "CONNECT_TIMEOUT_MS", 500)
    with exchange_request.request_socket(exchange.endpoint, "queries") as ask:
        with pytest.raises(ExchangeUnreachable):
            ask(Kind.INFO)
        _, number, *_ = exchange.arrived("queries")
        exchange.send(Kind.ERROR, "malformed", "the first", number, socket="queries")
        exchange.send(Kind.INFO + 16, number + 1, 1, 0, 0, "the second", socket="queries")
        assert ask(Kind.INFO)[5] == "the second"


def test_a_recorder_waits_for_a_reply_as_long_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Busy(Sockets):
        def __init__(self) -> None:
            pass

        def request(self, on_reply: Any, *values: Any, **options: Any) -> bool:
            asked.append(options)
            on_reply([Kind.INFO + 16, 1, 1, 0, 0, INFO], 0.0)
            return True

        def wait(self, timeout_ms: int) -> None:
            pass

        def process_replies(self) -> None:
            pass

    recorder = Recorder.__new__(Recorder)
    recorder._sockets = Busy()
    recorder._ask(Kind.INFO)
    assert asked == [{"timeout_s": SILENCE_S}]


def test_a_recording_ends_before_an_exchange_without_its_journal() -> None:
    recorder = Recorder.__new__(Recorder)
    recorder.endpoint, recorder.epoch, recorder.time_ns, recorder._midnight_ns = "here", 1, 0, 0
    recorder._pending, recorder._complete_until = [], -1
    recorder.process(b"time/", [FeedKind.TIME, 1, 7, 7, 0, []])
    with pytest.raises(FeedGap, match="restarted without its journal"):
        recorder.process(b"time/", [FeedKind.TIME, 1, 3, 3, 0, []])


def test_a_dashboard_asks_what_is_listed_until_it_knows(exchange: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_link, "INFO_RETRY_S", 0.1)
    board = Board()
    link = Link(exchange.endpoint, board, DashboardAccount(exchange.endpoint, "d", "", None, active=False))
    counts = dict.fromkeys(("commands", "events", "orders_open", "sessions", "participants", "messages"), 1)
    link.start()
    asked, deadline = 0, time.monotonic() + 10
    try:
        while not board.views:
            assert time.monotonic() < deadline and link.is_alive()
            message = exchange.arrived("queries", 50)
            if message and message[0] == Kind.STATISTICS:
                statistics = {**counts, "uptime_s": time.monotonic()}
                exchange.send(Kind.STATISTICS + 16, message[1], 1, 0, 0, statistics, socket="queries")
            elif message and message[0] == Kind.INFO:
                asked += 1
                if asked == 2:
                    exchange.send(Kind.ERROR, "rate", "later", message[1], socket="queries")
                elif asked == 3:
                    exchange.send(Kind.INFO + 16, message[1], 1, 0, 0, INFO, socket="queries")
    finally:
        link.stop()
    assert list(board.views) == ["DEMO"]


def test_an_account_in_a_symbol_that_is_not_known_yet(exchange: StandIn) -> None:
    sockets = Sockets(exchange.endpoint)
    standings = Standings(sockets, lambda: "")
    standings._accounts = {"ann": [(5, 1, Account.from_balances([1, 1, 1, 1, 1]))]}
    assert standings.as_json({}, {})["rows"] == [["ann", 0.0, 0.0, {}]]
    sockets.close()
