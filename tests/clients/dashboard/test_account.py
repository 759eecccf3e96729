"""The dashboard's account: open orders, also of earlier sessions, their cancellation, its trades, its fees."""

import json
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from serl.clients.blocking import connect
from serl.clients.dashboard.account import Account
from serl.clients.dashboard.open_orders import OpenOrders
from serl.clients.session import Instrument, Report
from serl.exchange.records import EventFlag, EventKind
from tests.clients.dashboard.server_fixture import OpenPage, dashboard, wait_until
from tests.clients.dashboard.test_server import action_reply, page
from tests.server_fixture import start_exchange

CONFIG: dict[str, object] = {"symbols": [{"name": "DEMO", "fees": {"maker_microticks": -2_000_000, "taker_ppm": 5}}]}


def report(kind: EventKind, order_id: int, leaves_lots: int, price_ticks: int = 100, flags: int = 0) -> Report:
    zeros = dict.fromkeys(Report._fields, 0)
    of_order = {"order_id": order_id, "leaves_lots": leaves_lots, "price_ticks": price_ticks}
    return Report(**zeros | {"kind": kind, "flags": flags} | of_order)


@pytest.mark.parametrize(
    ("reports", "open_orders"),
    [
        ([report(EventKind.ACCEPTED, 1, 9)], {1: (9, 100)}),
        ([report(EventKind.ACCEPTED, 1, 9), report(EventKind.FILL, 1, 4, 98)], {1: (4, 100)}),
        ([report(EventKind.ACCEPTED, 1, 9), report(EventKind.FILL, 1, 0)], {}),
        ([report(EventKind.ACCEPTED, 1, 9), report(EventKind.CANCELLED, 1, 0)], {}),
        ([report(EventKind.ACCEPTED, 1, 9), report(EventKind.REDUCED, 1, 5)], {1: (5, 100)}),
        (
            [report(EventKind.ACCEPTED, 1, 9), report(EventKind.REPLACED, 1, 7), report(EventKind.RESTED, 1, 7, 103)],
            {1: (7, 103)},
        ),
        ([report(EventKind.ACCEPTED, 1, 9), report(EventKind.REJECTED, 1, 0)], {1: (9, 100)}),
        ([report(EventKind.FILL, 1, 4, flags=EventFlag.MAKER)], {}),
    ],
)
def test_open_orders_follow_from_reports(reports: list[Report], open_orders: dict[int, tuple[int, int]]) -> None:
    orders = OpenOrders()
    for each in reports:
        orders.apply(each)
    assert {number: (order.open_lots, order.price_ticks) for number, order in orders.items()} == open_orders


def test_a_login_clears_the_problem_of_the_login_before() -> None:
    account = Account("tcp://127.0.0.1:5570", "me", "", None, active=True)
    account.problem = "login refused (duplicate_login): another session has the name"
    session = account._session
    core: Any = SimpleNamespace(inbox=deque(), receive=lambda: setattr(session, "live", True))
    account._core, account._login_s = core, time.monotonic()
    account.update()
    assert account.live and account.problem == ""


def read_until(socket: ClientConnection, wanted: Callable[[dict[str, Any]], bool], description: str) -> None:
    """Acknowledges frames until one is as wanted; sections accumulate."""
    shown: dict[str, Any] = {}
    deadline = time.monotonic() + 60
    while not wanted(shown):
        assert time.monotonic() < deadline, (description, shown)
        frame = json.loads(socket.recv(60))
        shown |= frame
        if "n" in frame:  # else it is the reply to an action
            socket.send(json.dumps({"seen": frame["n"]}))


@pytest.mark.long
def test_orders_of_an_earlier_session_are_shown_and_cancelled(tmp_path: Path) -> None:
    with start_exchange(symbols="", config=CONFIG, folder=tmp_path) as served:
        with connect(served.endpoint, "me") as client:
            first, second = client.buy("DEMO", 10, 99).order_id, client.sell("DEMO", 5, 105).order_id
        with (
            dashboard(served.endpoint, "--account", "me") as shown,
            page(shown) as socket,
            connect(served.endpoint, "other") as other,
        ):
            orders = [[first, "DEMO", 0, 10, 99], [second, "DEMO", 1, 5, 105]]
            read_until(socket, lambda seen: seen.get("account", {}).get("orders") == orders, "both orders")
            match = other.sell("DEMO", 4, 99).fills[0].match_id
            token = shown.operator.partition("=")[2]
            cancel = {"do": "cancel", "id": 1, "token": token, "order": second}
            socket.send(json.dumps(cancel | {"token": "guess"}))
            assert "operator token" in action_reply(socket, [], 60)["text"]
            frames: list[dict[str, Any]] = []
            socket.send(json.dumps(cancel))
            assert action_reply(socket, frames, 60)["text"] == f"order {second} cancelled"
            assert other.book("DEMO", 9)[1] == []
            socket.send(json.dumps(cancel))
            assert "expected an open order of me" in action_reply(socket, frames, 60)["text"]
        with (
            dashboard(served.endpoint, "--account", "me") as shown,
            page(shown) as socket,
            connect(served.endpoint, "other") as other,
        ):
            left = [[first, "DEMO", 0, 6, 99]]
            read_until(socket, lambda seen: seen.get("account", {}).get("orders") == left, "a part of the first")
            order = {"do": "order", "symbol": "DEMO", "side": 0, "qty_lots": 1, "price_ticks": 106}
            other.sell("DEMO", 1, 106)
            socket.send(json.dumps(order | {"id": 3, "token": shown.operator.partition("=")[2]}))
            frames = []
            assert "accepted" in action_reply(socket, frames, 60)["text"]
            trades: list[list[Any]] = []

            def both(seen: dict[str, Any]) -> bool:
                trades[:] = seen.get("account_trades", [])
                fees = [row["fees"] for row in seen.get("account", {}).get("rows", [])]
                return len(trades) == 2 and fees == [4 * -2_000_000 + 106 * 5]

            read_until(socket, both, "both trades, and their fees")
            assert [[trade[0], *trade[3:]] for trade in trades] == [
                ["DEMO", 0, 4, 99, "maker"],
                ["DEMO", 0, 1, 106, "taker"],
            ]
            assert trades[0][1] == match and 0 <= trades[0][2] < 86_400


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(1280, 800, "dark"), (1920, 1080, "light")],
)
def test_the_operator_cancels_an_order_on_the_page(
    opened: Any, tmp_path: Path, screenshots: Path, width: int, height: int, scheme: str
) -> None:
    with start_exchange(symbols="DEMO", clock="scaled:1") as served:
        with connect(served.endpoint, "me") as client:
            orders = [client.sell("DEMO", lots, 1000 + lots) for lots in range(1, 30)]
            client.buy("DEMO", 500, 990)
        with (
            dashboard(served.endpoint, "--account", "me") as shown,
            connect(served.endpoint, "other") as other,
            OpenPage(opened, shown.operator, width, height, scheme) as looked,
        ):
            other.buy("DEMO", 2, 1002)
            own = looked.page.locator("#account")
            own.locator(".own .row:has-text('maker')").nth(1).wait_for()
            assert own.locator("[data-order]").count() == 29
            own.locator(f"[data-order='{orders[9].order_id}'] button").click()
            own.locator(f"[data-order='{orders[9].order_id}']").wait_for(state="detached")
            wait_until(lambda: [1010, 10] not in looked.levels("ask"), "it is not in the book")
            assert own.locator("[data-order]").count() == 28
            own.scroll_into_view_if_needed()
            looked.page.screenshot(path=str(screenshots / f"account-{width}-{scheme}.png"))
            assert looked.console == []
            with OpenPage(opened, shown.address, width, height, scheme) as reader:
                cancel = reader.page.get_by_role("button", name=f"Cancel order {orders[5].order_id}")
                cancel.wait_for()
                assert cancel.is_disabled(), "without the operator's token"


def test_an_order_that_the_exchange_refused_is_not_sent_again(tmp_path: Path) -> None:
    """The operator was told that it failed, and may have sent another one meanwhile."""
    limited: dict[str, object] = {"symbols": [{"name": "DEMO"}], "limits": {"messages_per_s_max": 2}}
    with start_exchange(symbols="", config=limited, folder=tmp_path) as served:
        account = Account(served.endpoint, "me", "", None, active=True)

        def wait(condition: Callable[[], bool], description: str) -> None:
            def updated() -> bool:
                account.update()
                return condition()

            wait_until(updated, description, 10.0)

        wait(lambda: account.live, "it logs in")
        replies: list[Future[str]] = [Future() for _ in range(6)]
        began = time.monotonic()
        for price, reply in enumerate(replies, 1000):
            account.order(reply, "DEMO", 0, 1, price)
        wait(lambda: all(reply.done() for reply in replies), "all are answered")
        assert time.monotonic() - began < 4.0, "at once, not after a timeout"
        refused = [reply for reply in replies if reply.exception() is not None]
        assert refused and all("throttled" in str(reply.exception()) for reply in refused)
        assert account.problem == "", "the account itself has none"
        time.sleep(1.1)
        account._disconnect("")
        wait(lambda: account.live, "it logs in again")
        last: Future[str] = Future()
        account.order(last, "DEMO", 0, 1, 999)
        wait(last.done, "the exchange has executed everything that was sent")
        assert len(account._open) == len(replies) - len(refused) + 1
        account.order(gone := Future(), "GONE", 0, 1, 1)
        account.update()
        assert "GONE" in str(gone.exception()), "a symbol of an exchange before"
        account.close()


def test_an_order_without_a_reply_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account("tcp://127.0.0.1:5570", "me", "", None, active=True)
    session, reply = account._session, Future[str]()
    session.live, session.instruments = True, {"DEMO": Instrument.of(0, "DEMO", "0.01", "1")}
    sent: list[bytes] = []
    core: Any = SimpleNamespace(inbox=deque(), receive=lambda: None, send=sent.append)
    account._core = core
    account.order(reply, "DEMO", 0, 1, 1000)
    account.update()
    assert len(sent) == len(session.unanswered) == 1
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 6.0)
    account.update()
    assert "it may still carry this out" in str(reply.exception()) and not session.unanswered
