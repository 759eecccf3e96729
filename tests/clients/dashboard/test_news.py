"""News and forecasts on the market page."""

import json
from pathlib import Path
from typing import Any

import pytest

from serl.clients.dashboard.account import Account
from serl.clients.dashboard.board import Board
from serl.clients.dashboard.link import Link
from serl.clients.dashboard.news_board import SHOWN, NewsBoard, leans_of
from serl.clients.dashboard.symbol import LEANS_S, SymbolView
from serl.exchange.calendar import SECOND_NS
from serl.exchange.config import local_operator_token
from serl.exchange.news import News, NewsKind
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from tests.clients.dashboard.server_fixture import OpenPage, dashboard, wait_until
from tests.server_fixture import start_exchange

HOSTILE = "<img src=x onerror='window.hurt = true'>"
BODY = {"horizons_s": [1, 10], "down": [0.2, 0.5], "flat": [0.5, 0.25], "up": [0.3, 0.25]}


def signal(body: object, symbol: str = "DEMO", time_ns: int = 5 * SECOND_NS) -> News:
    text = body if isinstance(body, str) else json.dumps(body)
    return News(1, time_ns, NewsKind.SIGNAL, symbol, "", text, None, "model")


def test_a_forecast_leans_up_or_down() -> None:
    assert leans_of(signal(BODY)) == {"1 s": pytest.approx(0.1), "10 s": -0.25}


@pytest.mark.parametrize(
    "body",
    [
        "no JSON", "[]", "null", "{}", "[" * 100_000, {**BODY, "up": [1]}, {**BODY, "up": [1, "x"]}, {**BODY, "up": [float("nan"), 0]},
        {**BODY, "up": [float("inf"), 0]}, {**BODY, "up": [5, 0]}, {**BODY, "horizons_s": [None, 1]}, {**BODY, "down": 3},
        {name: [0.1] * 50 if name != "horizons_s" else list(range(50)) for name in BODY},
    ],
)  # fmt: skip
def test_what_is_no_forecast_is_not_shown(body: object) -> None:
    assert leans_of(signal(body)) == {}


def test_a_forecast_is_drawn_until_it_is_old() -> None:
    view, board = SymbolView(0, "DEMO", "0.01"), NewsBoard("")
    board._add([signal(BODY), signal(BODY, "OTHER"), signal("rubbish", "OTHER")], {"DEMO": view})
    for time_ns in (5 * SECOND_NS, round((5 + LEANS_S) * SECOND_NS), round((5 + LEANS_S) * SECOND_NS) + 1):
        view.add_column(time_ns)
    assert [bool(column["leans"]) for column in view.columns.since(0)] == [True, True, False]
    assert board.as_json() == [], "forecasts are no headlines"
    view.set_leans({"1 s": 0.5}, 100 * SECOND_NS)
    view.reset()
    view.add_column(101 * SECOND_NS)
    assert view.columns.since(0)[-1]["leans"] == {}


def test_the_page_shows_news_and_forecasts(opened: Any, screenshots: Path) -> None:
    with (
        start_exchange(symbols="DEMO,OTHER", clock="scaled:1") as served,
        request_socket(served.endpoint, "admin") as ask,
    ):

        def publish(kind: NewsKind, symbol: str, headline: str, body: str = "", value: float | None = None) -> None:
            ask(
                Kind.PUBLISH_NEWS,
                local_operator_token(served.endpoint),
                int(kind),
                symbol,
                headline,
                body,
                value,
                "desk",
            )

        for number in range(SHOWN + 10):
            publish(NewsKind.NEWS, "DEMO", f"message {number}")
        with dashboard(served.endpoint) as shown, OpenPage(opened, shown.address) as looked:
            page = looked.page
            page.wait_for_selector(f".message p:text('message {SHOWN + 9}')")
            assert page.locator(".message").count() == SHOWN, "those before the dashboard's start, the last ones"
            publish(NewsKind.MACRO, "", HOSTILE, value=0.0425)
            publish(NewsKind.SIGNAL, "DEMO", "Forecast", json.dumps(BODY))
            page.wait_for_selector(".message:first-child .tag:text('macro')")
            first = page.inner_text(".message:first-child")
            assert HOSTILE in first and "0.0425" in first and "desk" in first
            publish(NewsKind.VALUE, "DEMO", "", value=10_150)
            page.wait_for_selector(".message:first-child .value:text('101.50')")
            page.wait_for_selector("#spread .u-legend :text('forecast 10 s, up − down')")
            page.screenshot(path=str(screenshots / "news.png"), full_page=True)
            assert page.evaluate("window.hurt") is None and looked.console == []


def test_news_continues_with_a_new_process_of_the_exchange(tmp_path: Path) -> None:
    options: dict[str, Any] = {"journal": tmp_path / "journal", "symbols": "DEMO"}
    board = Board()

    def publish(endpoint: str, headline: str) -> None:
        with request_socket(endpoint, "admin") as ask:
            ask(Kind.PUBLISH_NEWS, local_operator_token(endpoint), int(NewsKind.NEWS), "", headline, "", None, "")

    def shown() -> list[str]:
        with board.lock:
            return [headline for _, _, _, _, headline, _, _ in board.section("news") or []]

    with start_exchange(**options) as served:
        publish(served.endpoint, "first")
        link = Link(served.endpoint, board, Account(served.endpoint, "me", "", None, active=False))
        link.start()
        try:
            wait_until(lambda: shown() == ["first"], "what was published before")
            publish(served.endpoint, "second")
            wait_until(lambda: shown() == ["second", "first"], "what is published")
            served.stop()
            with start_exchange(endpoint=served.endpoint, **options) as again:
                publish(again.endpoint, "third")
                wait_until(lambda: shown() == ["third", "second", "first"], "what a new process publishes")
        finally:
            link.stop()
