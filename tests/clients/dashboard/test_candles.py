"""Candles: right, whichever way the trades arrive; bounded; a page gets only what has changed."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from serl.clients.blocking import connect
from serl.clients.dashboard.account import Account
from serl.clients.dashboard.board import Board, Cursor
from serl.clients.dashboard.candles import CANDLES, PERIODS_S, Candles
from serl.clients.dashboard.link import Link
from serl.clients.dashboard.symbol import SymbolView
from serl.exchange.wire import Kind
from tests.clients.dashboard.server_fixture import OpenPage, dashboard, wait_until
from tests.server_fixture import start_exchange

SECOND_NS = 1_000_000_000
Trades = list[list[Any]]


def random_trades(count: int, seed: int) -> Trades:
    """About two each second, some outside the book."""
    random = np.random.default_rng(seed)
    times_ns = 34_200 * SECOND_NS + np.cumsum(random.exponential(SECOND_NS / 2, count)).astype(np.int64)
    return [
        [match, time_ns, int(random.integers(95, 106)), int(random.integers(1, 9)), 0, int(random.integers(5) == 0)]
        for match, time_ns in enumerate(times_ns.tolist(), 1)
    ]


def expected_candles(trades: Trades, period_s: int) -> list[list[int]]:
    """The definition, without any state."""
    by_number: dict[int, Trades] = defaultdict(list)
    for trade in trades:
        if trade[5] != 1:
            by_number[trade[1] // (period_s * SECOND_NS)].append(trade)
    return [
        [number, of[0][2], max(row[2] for row in of), min(row[2] for row in of), of[-1][2], sum(row[3] for row in of)]
        for number, of in sorted(by_number.items())
    ]


@pytest.mark.parametrize("parts", [1, 7, 400])
def test_candles_are_those_of_the_trades_however_they_arrive(parts: int) -> None:
    trades = random_trades(2000, seed=parts)
    candles = Candles()
    for part in np.array_split(np.arange(len(trades)), parts):
        candles.add([trades[place] for place in part])
    shown = candles.since({})
    for period_s in PERIODS_S:
        assert shown[str(period_s)] == expected_candles(trades, period_s)[-CANDLES:]


def test_a_page_puts_the_candles_together_from_what_has_changed() -> None:
    trades = random_trades(3000, seed=1)
    view, board, cursor = SymbolView(0, "DEMO", "0.01"), Board(), Cursor()
    view.book.apply_snapshot([145, 1, 1, 10, 0, [[], []]])
    view.apply_trades([147, 1, 1, 0, 0, []])
    board.views = {"DEMO": view}
    page: dict[str, dict[int, list[int]]] = defaultdict(dict)
    sent = 0
    for step in range(0, len(trades), 3):
        view.apply([115, 1, 0, step + 1, 0, trades[step : step + 3]])
        view.add_column(trades[step][1])
        if step % 2:  # a page may miss some
            for period, candles in board.frame(cursor).get("candles", {}).items():
                page[period] |= {candle[0]: candle for candle in candles}
                sent += len(candles)
            assert board.frame(cursor) == {}, "nothing twice"
    for period, candles in board.frame(cursor).get("candles", {}).items():
        page[period] |= {candle[0]: candle for candle in candles}
    for period_s in PERIODS_S:
        assert list(page[str(period_s)].values()) == expected_candles(trades, period_s)
    assert sent < 3 * len(trades), "only what has changed"


def test_trades_before_the_first_of_the_feed_count_once() -> None:
    trades = random_trades(20, seed=2)
    view = SymbolView(0, "DEMO", "0.01")
    view.book.apply_snapshot([145, 1, 1, 10, 0, [[], []]])
    view.apply([115, 1, 9, 15, 0, trades[10:15]])  # number and event of a trade are the same here
    view.apply_trades([147, 1, 1, 15, 0, trades[:15]])
    view.apply([115, 1, 15, 20, 0, trades[15:]])
    view.add_column(trades[-1][1])
    assert view.candles.since({})["300"] == expected_candles(trades, 300)
    assert [trade[0] for trade in view.trades.since(0)] == list(range(1, 21))
    view.reset()
    assert view.candles.since({}) == {}


def test_the_page_gets_the_trades_before_the_feed_and_those_that_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy exchange the feed was often faster than the reply to TRADES, which was then dropped: the page lacked the last 200 trades.
    What the feed dropped later was lost."""
    trades = random_trades(30, seed=2)
    board = Board()
    requests: dict[Kind, Any] = {}
    link = Link("tcp://127.0.0.1:5570", board, Account("tcp://127.0.0.1:5570", "a", "", None, active=False))
    monkeypatch.setattr(link._sockets, "request", lambda on_reply, kind, *_: requests.update({kind: on_reply}))
    limits = {"qty_lots_max": 1000, "depth_max": 100}
    link._on_info([Kind.INFO, 1, 1, 0, 0, [1, [[0, "DEMO", "0.01", "1"]], ["live", 1.0], limits]], 0.0)
    for epoch in (1, 2):  # the second time after a restart of the exchange
        view = board.views["DEMO"]

        def feed(first: int, last: int, epoch: int = epoch, view: SymbolView = view) -> None:
            """The number of a trade is also that of its event."""
            view.apply([115, epoch, first - 1, last, 0, trades[first - 1 : last]])
            view.add_column(trades[last - 1][1])

        def reply(newest: int, epoch: int = epoch) -> None:
            link._snapshot_requested_s.clear()
            link._request_snapshots()
            requests.pop(Kind.TRADES)([Kind.TRADES, 1, epoch, newest, 0, trades[:newest]], 0.0)

        feed(11, 13)
        reply(12)
        feed(14, 20)
        feed(25, 26)  # 21 to 24 are missing
        requests[Kind.L2]([Kind.L2, 1, epoch, 26, 0, [[], []]], 0.0)
        reply(26)
        feed(27, 30)
        assert [trade[0] for trade in view.trades.since(0)] == list(range(1, 31))
        assert view.candles.since({})["300"] == expected_candles(trades, 300)
        link._reset()
    link._sockets.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(1280, 800, "light"), (1920, 1080, "dark")],
)
def test_the_page_shows_candles_instead_of_the_line(
    opened: Any, screenshots: Any, width: int, height: int, scheme: str
) -> None:
    random = np.random.default_rng(1)
    with (
        start_exchange(symbols="DEMO", clock="scaled:60") as served,
        dashboard(served.endpoint) as shown,
        connect(served.endpoint, "me") as client,
        OpenPage(opened, shown.address, width, height, scheme) as looked,
    ):
        page, price = looked.page, 1000
        page.get_by_label("Price as").select_option("10")
        legend = page.locator("#price-panel .u-legend:visible")

        def trade() -> bool:
            """Trades until candles are drawn in both colours."""
            nonlocal price
            for _ in range(5):
                price += int(random.integers(-3, 4))
                client.sell("DEMO", 5, price)
                client.buy("DEMO", 5, price)
            painted = page.evaluate("""() => {
                const canvas = document.querySelector("#price-panel .chart:not([hidden]) canvas");
                const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                const seen = new Set();
                for (let at = 0; at < pixels.length; at += 4) seen.add(pixels.slice(at, at + 3).join());
                const colours = ["--buy", "--sell"].map(name => getComputedStyle(document.documentElement).getPropertyValue(name).trim());
                return colours.every(hex => seen.has([1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)).join()));
            }""")
            return bool(painted)

        wait_until(trade, "rising and falling candles are painted")
        assert "lots" in legend.inner_text() and "close" in legend.inner_text()
        page.screenshot(path=str(screenshots / f"candles-{width}-{scheme}.png"))
        page.reload()
        legend.filter(has_text="close").wait_for()  # the choice is kept
        page.get_by_label("Price as").select_option("line")
        assert "mid" in legend.inner_text()
        assert [text for text in looked.console if "Canvas2D" not in text] == []  # it warns of reading the pixels above
