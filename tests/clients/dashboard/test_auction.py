"""Auctions on the page: the phase, the indicative auction, and its removal when the auction is over."""

from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import Exchange, connect
from serl.clients.replay import set_clock
from serl.exchange.clock import CURRENT_TIME
from serl.exchange.wire import Kind
from tests.clients.dashboard.server_fixture import OpenPage, dashboard, wait_until
from tests.server_fixture import start_exchange

CONFIG: dict[str, object] = {
    "clock": {"kind": "scaled", "start": "09:29:50", "speed": 10.0, "held": True},
    "symbols": [
        {"name": "DEMO", "day": [{"at": "09:25", "phase": "pre_open"}, {"at": "09:30", "phase": "continuous"}]}
    ],
    "full_rule_book": True,
}
BUYS = ((10_003, 50), (10_002, 70), (10_001, 40), (9_998, 90), (9_997, 60))
SELLS = ((9_999, 60), (10_000, 30), (10_001, 80), (10_004, 50), (10_005, 70))
"""(price_ticks, lots): at 10001 160 lots are bought and 170 sold, more than at any other price."""
PRICE, AUCTION = "100.01", ["pre-open · 100.01", "160 lots · 10 more to sell"]


def enter_orders(buyer: Exchange, seller: Exchange) -> None:
    for price, qty in BUYS:
        buyer.buy("DEMO", qty, price)
    for price, qty in SELLS:
        seller.sell("DEMO", qty, price)


def middle_of_ladder(looked: OpenPage) -> list[str]:
    return [text for text in looked.page.locator("#ladder .middle span").all_inner_texts() if text]


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(390, 844, "dark"), (390, 844, "light"), (1440, 900, "dark"), (1440, 900, "light")],
)
def test_an_opening_auction(
    opened: Any, tmp_path: Path, screenshots: Path, width: int, height: int, scheme: str
) -> None:
    with (
        start_exchange(symbols="", clock="", config=CONFIG, folder=tmp_path) as served,
        dashboard(served.endpoint) as shown,
        connect(served.endpoint, "ann") as ann,
        connect(served.endpoint, "bob") as bob,
        OpenPage(opened, shown.operator, width, height, scheme) as looked,
    ):
        page = looked.page
        page.wait_for_selector("#state:text('paused · pre-open')")
        wait_until(lambda: middle_of_ladder(looked) == ["pre-open", "nothing crosses"], "no orders yet")
        enter_orders(ann, bob)
        wait_until(lambda: middle_of_ladder(looked) == AUCTION, "the indicative auction is shown")
        assert ann.ask(Kind.INDICATIVE, 0)[5] == [10_001, 160, -10]
        assert page.inner_text("#quote .phase") == PRICE
        assert page.locator(".level.trades").count() == 6, "three levels of each side would trade"
        page.get_by_role("button", name="Halt").click()
        page.wait_for_selector("#state:text('halted: operator · pre-open')")
        page.get_by_role("button", name="Resume").click()
        page.wait_for_selector("#state:text('paused · pre-open')")
        looked.page.screenshot(path=str(screenshots / f"auction-{width}-{scheme}.png"), full_page=True)
        set_clock(served.endpoint, "", CURRENT_TIME, run=True)
        page.wait_for_selector("#state:text('scaled')")
        wait_until(lambda: middle_of_ladder(looked) == ["spread 0.03 · 3 ticks"], "the auction is no longer shown")
        assert page.locator(".level.trades, #quote .phase").count() == 0
        prices = page.locator("#tape .trade.phase .price")  # trades have their own messages, after those of the book
        wait_until(lambda: set(prices.all_inner_texts()) == {PRICE}, "the trades of the auction are shown")
        wait_until(lambda: page.inner_text("#last") == PRICE, "its price is the last one")
        looked.page.screenshot(path=str(screenshots / f"auction-over-{width}-{scheme}.png"), full_page=True)
        chart = page.locator("#price")
        plot, legend = chart.locator(".u-wrap").bounding_box(), chart.locator(".u-legend").bounding_box()
        assert abs(plot["height"] + legend["height"] - chart.bounding_box()["height"]) < 5, "the plot fills its panel"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert looked.console == []
