"""The watchlist: all symbols at a glance, a click shows one; hidden if there is only one."""

from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.dashboard.symbol import SymbolView
from serl.exchange.records import HaltReason, Phase
from tests.clients.dashboard.server_fixture import OpenPage, dashboard, wait_until
from tests.server_fixture import start_exchange

SYMBOLS = [f"SYM{number}" for number in range(12)]


def trade(match: int, price_ticks: int, qty_lots: int, off_book: int = 0) -> list[int]:
    return [match, match, price_ticks, qty_lots, 0, off_book]


def test_changes_count_from_the_last_price_at_the_start() -> None:
    view = SymbolView(0, "DEMO", "0.01")
    assert view.watch_row() == ["DEMO", None, None, None, None, 0, None, None, None]
    view.book.apply_snapshot([145, 1, 1, 10, 0, [[[99, 5, 1]], [[101, 4, 1]]]])
    view.apply_trades([147, 1, 1, 10, 0, [trade(1, 90, 5), trade(2, 100, 5)]])
    view.apply([115, 1, 0, 11, 0, [trade(3, 103, 2), trade(4, 500, 9, off_book=1), trade(5, 102, 3, off_book=2)]])
    view.add_column(1)
    view.apply([116, 1, 11, 12, 0, [1, Phase.CONTINUOUS, HaltReason.OPERATOR]])
    assert view.watch_row() == ["DEMO", 102, 2, 99, 101, 5, True, "continuous", "operator"]
    view.add_column(2)
    assert view.watch_row()[5] == 5
    view.reset()
    view.apply_trades([147, 1, 2, 0, 0, []])
    view.apply([115, 2, 0, 11, 0, [trade(1, 50, 2), trade(2, 47, 1)]])
    view.add_column(1)
    assert view.watch_row()[1:6] == [47, -3, None, None, 3]


@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [
        (1280, 800, "dark"),
        pytest.param(1920, 1080, "light", marks=pytest.mark.long),
        pytest.param(1920, 1080, "dark", marks=pytest.mark.long),
        pytest.param(1280, 800, "light", marks=pytest.mark.long),
        pytest.param(390, 844, "dark", marks=pytest.mark.long),
        pytest.param(1000, 800, "dark", marks=pytest.mark.long),
    ],
)
def test_a_click_in_the_watchlist_shows_the_symbol(
    opened: Any, screenshots: Path, width: int, height: int, scheme: str
) -> None:
    with (
        start_exchange(symbols=",".join(SYMBOLS), clock="scaled:1") as served,
        dashboard(served.endpoint) as shown,
        connect(served.endpoint, "me") as client,
        OpenPage(opened, shown.operator, width, height, scheme) as looked,
    ):
        page = looked.page
        for number, name in enumerate(SYMBOLS):
            for level in range(1, 10):
                client.buy(name, 10 * level, 1000 + number - level)
                client.sell(name, 10 * level, 1000 + number + level)
            client.buy(name, 5)
        client.buy("SYM7", 10)
        row = page.locator("#watch tr[data-symbol=SYM7]")
        cells = ["10.09", "+0.01", "+0.10", "10.06", "10.09", "0.03", "15", "–"]
        wait_until(lambda: row.locator("td").all_inner_texts()[1:] == cells, "its row")
        assert page.locator("#watch tbody tr").count() == len(SYMBOLS)
        row.click()
        wait_until(lambda: page.input_value("#symbol") == "SYM7", "the symbol is shown")
        wait_until(lambda: [1009, 15] in looked.levels("ask"), "with its book")
        assert page.locator("#watch tr[aria-current]").get_attribute("data-symbol") == "SYM7"
        page.click("#freeze")
        assert page.inner_text("#state").lower() == "frozen"
        page.keyboard.press("[")
        page.keyboard.press("]")
        wait_until(lambda: page.inner_text("#state").lower() != "frozen", "another symbol unfreezes the page")
        wait_until(lambda: page.input_value("#symbol") == "SYM7", "the symbol is shown again")
        page.get_by_role("button", name="Halt").click()
        wait_until(lambda: row.locator("td").last.inner_text() == "halted: operator", "the halt")
        page.screenshot(path=str(screenshots / f"watchlist-{width}-{scheme}.png"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = {name: page.locator(f".panel.{name}").bounding_box() for name in ("heat", "watch", "tape", "ladder")}
        assert not overlapping(list(boxes.values())), boxes
        if width > 1180:
            assert page.evaluate("document.documentElement.scrollHeight") <= height, "panels scroll by themselves"
        assert looked.console == []


def overlapping(boxes: list[dict[str, float]]) -> bool:
    """Whether any two rectangles overlap."""
    return any(
        one["x"] < other["x"] + other["width"] and other["x"] < one["x"] + one["width"]
        and one["y"] < other["y"] + other["height"] and other["y"] < one["y"] + one["height"]
        for place, one in enumerate(boxes) for other in boxes[:place]
    )  # fmt: skip


def test_one_symbol_needs_no_watchlist(opened: Any) -> None:
    with (
        start_exchange(symbols="DEMO") as served,
        dashboard(served.endpoint) as shown,
        OpenPage(opened, shown.address) as looked,
    ):
        wait_until(lambda: looked.page.input_value("#symbol") == "DEMO", "the symbol is shown")
        assert not looked.page.locator("#watch").is_visible()
