"""The dashboard in a browser: a real exchange, a real dashboard, a real browser."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.clients.blocking import Exchange, connect
from tests.clients.dashboard.server_fixture import SIZES_AND_THEMES, Dashboard, OpenPage, dashboard, wait_until
from tests.server_fixture import RawClient, free_endpoint, launch, start_exchange

TRADES, LATENCY_MS, ROUNDS = 40, 200, 3
AXIS_PX = 62
"""Of the heat map: right of its newest column."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with start_exchange(symbols="DEMO,ABC", clock="scaled:1") as served:
        yield served.endpoint


@pytest.fixture(scope="module")
def shown(opened: Any, endpoint: str) -> Iterator[Dashboard]:
    with dashboard(endpoint) as found:
        yield found


def quote(client: Exchange, symbol: str = "DEMO") -> None:
    """Enters six levels on each side."""
    for level in range(1, 7):
        client.buy(symbol, 10 * level, 1000 - level)
        client.sell(symbol, 20 * level, 1000 + level)


def book_of(client: Exchange, side: int) -> list[list[int]]:
    return [[price, qty] for price, qty, _ in client.book("DEMO", 14)[side]]


def test_the_book_on_the_page_is_the_book_of_the_exchange(opened: Any, endpoint: str, shown: Dashboard) -> None:
    with connect(endpoint, "quoter") as client, OpenPage(opened, shown.address) as looked:
        client.mass_cancel()
        quote(client)
        random = np.random.default_rng(1)
        for _ in range(60):
            side, qty = random.integers(2), int(random.integers(1, 50))
            price = int(1000 + (1 if side else -1) * random.integers(1, 20))
            (client.sell if side else client.buy)("DEMO", qty, price)
        client.buy("DEMO", 45)
        client.sell("DEMO", 25)
        wait_until(lambda: looked.levels("bid") == book_of(client, 0), "bids")
        wait_until(lambda: looked.levels("ask") == book_of(client, 1), "asks")
        assert len(looked.levels("bid")) > 5
        assert looked.console == []
        assert {url.split("/")[2] for url in looked.requests} == {shown.address.split("/")[2]}, (
            "no requests to other hosts"
        )


@pytest.mark.parametrize("percentile", [50, pytest.param(95, marks=pytest.mark.long)])
def test_a_trade_appears_within_200_ms(percentile: int, opened: Any, endpoint: str, shown: Dashboard) -> None:
    """On a machine that does much else the slowest of them take longer."""
    with connect(endpoint, "quoter") as client, OpenPage(opened, shown.address) as looked:
        client.mass_cancel()
        client.sell("DEMO", 10_000, 1001)
        client.buy("DEMO", 10_000, 999)
        wait_until(lambda: looked.levels("ask") == [[1001, 10_000]], "the book is shown")
        looked.page.evaluate("""() => {
            window.seenAt = {};
            new MutationObserver(changes => {
                for (const { addedNodes } of changes) for (const node of addedNodes) if (node.dataset?.match) window.seenAt[node.dataset.match] ??= Date.now();
            }).observe(document.getElementById("tape"), { childList: true });
        }""")
        for _ in range(ROUNDS):
            latency_ms = np.percentile(latencies_ms(looked, client), percentile)
            if latency_ms <= LATENCY_MS:
                break
        assert latency_ms <= LATENCY_MS


def latencies_ms(looked: OpenPage, client: Exchange) -> list[float]:
    """The times from orders to their trades on the page."""
    sent = {}
    for _ in range(TRADES):
        started_s = time.time()
        order = client.buy("DEMO", 1)
        sent[str(order.fills[0].match_id)] = started_s * 1e3
        time.sleep(0.07)
    wait_until(lambda: sent.keys() <= looked.page.evaluate("window.seenAt").keys(), "every trade appears")
    seen = looked.page.evaluate("window.seenAt")
    found = [float(seen[match] - sent_ms) for match, sent_ms in sent.items()]
    print(f"trade to page: p50 {np.percentile(found, 50):.0f} ms, p95 {np.percentile(found, 95):.0f} ms")
    return found


def test_freezing_stops_the_page_and_it_catches_up(opened: Any, endpoint: str, shown: Dashboard) -> None:
    with connect(endpoint, "quoter") as client, OpenPage(opened, shown.address) as looked:
        client.mass_cancel()
        quote(client)
        wait_until(lambda: looked.levels("bid")[:1] == [[999, 10]], "the book is shown")
        looked.page.keyboard.press("Space")
        client.buy("DEMO", 5, 1000)
        time.sleep(0.5)
        assert looked.levels("bid")[0] == [999, 10]
        assert looked.page.inner_text("#state").lower() == "frozen"
        looked.page.keyboard.press("Space")
        wait_until(lambda: looked.levels("bid")[0] == [1000, 5], "it continues with the newest state")


def test_looking_back_shows_the_book_and_the_trades_of_an_earlier_moment(
    opened: Any, endpoint: str, shown: Dashboard, screenshots: Path
) -> None:
    with connect(endpoint, "quoter") as client, OpenPage(opened, shown.address) as looked:
        page, state = looked.page, looked.page.locator("#state")

        def next_column() -> None:
            """Waits for a column with the newest state."""
            last = int(page.get_attribute("#look-back", "max") or 0)
            wait_until(lambda: int(page.get_attribute("#look-back", "max") or 0) > last + 1, "a new column")

        def match() -> int:
            return int(page.get_attribute("#tape .trade", "data-match") or 0)

        client.mass_cancel()
        quote(client)
        first = client.buy("DEMO", 1).fills[0].match_id
        wait_until(lambda: looked.levels("bid") == book_of(client, 0) and match() == first, "book and trade are shown")
        before, asks = looked.levels("bid"), looked.levels("ask")
        next_column()
        at = int(page.get_attribute("#look-back", "max") or 0)
        next_column()
        client.mass_cancel()
        client.sell("DEMO", 3, 1200)
        second = client.buy("DEMO", 2).fills[0].match_id
        wait_until(lambda: looked.levels("ask") == [[1200, 1]] and match() == second, "another book")
        next_column()
        while int(page.input_value("#look-back")) > at:
            page.keyboard.press("ArrowLeft")
        wait_until(lambda: looked.levels("bid") == before, "the book as it was")
        assert looked.levels("ask") == asks and match() == first
        assert state.inner_text().lower() == "looking back"
        wait_until(lambda: page.inner_text("#clock") == page.inner_text("#look-back-time")[:8], "its time")
        assert int(page.input_value("#look-back")) == at
        assert page.inner_text("#ladder .bid span:first-child") == "1"
        page.screenshot(path=str(screenshots / "past.png"))
        next_column()
        assert looked.levels("bid") == before, "the view stays while time goes on"
        page.keyboard.press("Escape")
        wait_until(lambda: looked.levels("ask") == [[1200, 1]] and match() == second, "back to now")
        assert state.inner_text().lower() == "scaled" and page.inner_text("#look-back-time") == "now"
        newest_px = page.evaluate("document.getElementById('heat').clientWidth") - AXIS_PX
        page.locator("#heat").click(position={"x": newest_px - 15, "y": 100})
        wait_until(lambda: state.inner_text().lower() == "looking back", "a click selects a moment")
        page.get_by_role("button", name="Now", exact=True).click()
        wait_until(lambda: state.inner_text().lower() == "scaled", "back to now")
        assert looked.console == []


def test_each_step_back_moves_the_slider_before_the_next_frame(opened: Any, shown: Dashboard) -> None:
    with OpenPage(opened, shown.address) as looked:
        page = looked.page
        wait_until(lambda: int(page.get_attribute("#look-back", "max") or 0) > 4, "columns")
        newest, *moved = page.evaluate("""() => {
            const slider = document.getElementById("look-back");
            const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            press("ArrowLeft");
            const values = [Number(slider.max)];
            for (const key of ["ArrowLeft", "ArrowLeft", "ArrowRight", "Escape"]) {
                values.push(Number(slider.value));
                press(key);
            }
            return [...values, Number(slider.value)];
        }""")
        assert moved == [newest - 1, newest - 2, newest - 3, newest - 2, newest]


def test_the_operator_pauses_the_clock_and_sets_its_speed(opened: Any, endpoint: str, shown: Dashboard) -> None:
    with OpenPage(opened, shown.operator) as looked:
        page = looked.page
        assert "operator=" not in page.url, "the token is removed from the address"
        page.get_by_role("button", name="Pause").click()
        page.wait_for_selector("#state:text('paused')")
        at = page.inner_text("#clock")
        time.sleep(1.3)
        assert page.inner_text("#clock") == at
        assert page.inner_text("#speed") == ""
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("#state:text('scaled')")
        page.get_by_label("speed").select_option("10")
        before = page.inner_text("#clock")
        wait_until(lambda: page.inner_text("#clock") > before[:-2] + "59", "10 seconds per second", 10)
        wait_until(lambda: page.inner_text("#speed") == "× 10", "the speed beside the clock")
        page.get_by_label("Time of day to skip to").fill("15:00")
        page.keyboard.press("Enter")
        wait_until(lambda: page.inner_text("#clock").startswith("15:0"), "the clock skipped ahead")
        with connect(endpoint, "quoter") as client:
            client.buy("DEMO", 1, 1)
        page.get_by_label("Time of day to skip to").fill("14:00:00")
        page.get_by_role("button", name="Skip to").click()
        page.wait_for_selector(".toast.failed")
        error = page.inner_text(".toast")
        assert error.startswith("expected a time after 15:0")
        assert "got 14:00:00: an exchange's time never goes back" in error
        assert error.endswith(
            "restart the exchange (with another --journal folder, or none) and the replay with --from 14:00:00"
        )


@pytest.mark.long
def test_a_lockstep_clock_with_a_speed_can_be_paused(opened: Any, tmp_path: Path) -> None:
    config: dict[str, object] = {"clock": {"participants": 1}}
    for clock, has_controls in (("lockstep:10", True), ("lockstep", False)):
        with (
            start_exchange(symbols="DEMO", clock=clock, config=config, folder=tmp_path) as served,
            dashboard(served.endpoint) as found,
            RawClient(served.endpoint) as trader,
            OpenPage(opened, found.operator) as looked,
        ):
            trader.login("trader")
            trader.send(67, 3_600_000_000_000)
            pause = looked.page.get_by_role("button", name="Pause")
            if not has_controls:
                looked.page.wait_for_selector(":text('it advances with the promises of the participants')")
                assert not pause.is_visible()
                for second in range(3601, 1_000_000):  # it advances as quickly as these promises
                    trader.send(67, second * 1_000_000_000)
                    if looked.page.inner_text("#speed").startswith("× "):
                        break
                assert looked.page.inner_text("#speed").startswith("× "), "the measured speed"
                continue
            looked.page.wait_for_selector("#state:text('lockstep')")
            pause.click()
            looked.page.wait_for_selector("#state:text('paused')")
            looked.page.get_by_role("button", name="Run").click()
            looked.page.wait_for_selector("#state:text('lockstep')")


def test_the_operator_halts_and_orders(opened: Any, endpoint: str, shown: Dashboard) -> None:
    with connect(endpoint, "quoter") as client, OpenPage(opened, shown.operator) as looked:
        client.mass_cancel()
        quote(client)
        page = looked.page
        page.get_by_role("button", name="Halt").click()
        page.wait_for_selector("#state:text('halted')")
        page.get_by_role("button", name="Resume").click()
        page.wait_for_selector("#state:text('scaled')")
        page.get_by_label("lots").fill("7")

        def bought() -> bool:
            page.get_by_role("button", name="Send").click()
            client.wait(0.5)
            return bool(client.fills())

        wait_until(bought, "an order from the page trades")
        assert client.fills()[0].price_ticks == 1001
        page.wait_for_selector("#account tr:has-text('DEMO')")


def test_an_execution_shows_its_position_and_profit(opened: Any, endpoint: str, tmp_path: Path) -> None:
    progress = tmp_path / "execution.jsonl"
    names = {"participant": "seller", "policy": "twap", "symbol": "DEMO", "side": 1, "qty_lots": 100}
    order = names | {"start_ns": 0, "end_ns": 3_600_000_000_000}
    lines = [{"order": order, "schedule": [[0, 0], [order["end_ns"], 100]]}, {"fill": [1_000_000_000, 1003, 30]}]
    progress.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with connect(endpoint, "quoter") as client, dashboard(endpoint, "--execution", str(progress)) as own:
        client.mass_cancel()
        quote(client)
        with OpenPage(opened, own.address) as looked:
            page = looked.page
            page.wait_for_selector(".execution h2:has-text('seller: twap sells 100 DEMO')")
            page.wait_for_selector(".execution dl:has-text('+0.90')")  # (1003 - 1000) ticks of 0.01, 30 lots
            assert "position\n-30" in page.inner_text(".execution dl").lower()
            assert looked.console == []


def test_without_the_token_there_are_no_operations(opened: Any, shown: Dashboard) -> None:
    with OpenPage(opened, shown.address) as looked:
        assert looked.page.get_by_role("button", name="Halt").count() == 0
        assert looked.page.get_by_role("button", name="Pause").is_disabled()
        text = looked.page.evaluate("""async () => new Promise(resolve => {
            const socket = new WebSocket(location.href.replace("http", "ws") + "live");
            socket.onopen = () => socket.send(JSON.stringify({ do: "halt", id: 1, token: "guess", symbol: "DEMO" }));
            socket.onmessage = ({ data }) => JSON.parse(data).done && resolve(JSON.parse(data));
        })""")
        assert text["failed"]
        assert "operator token" in text["text"]


def test_the_operator_address_opens_the_operations_of_an_open_tab(opened: Any, shown: Dashboard) -> None:
    with OpenPage(opened, shown.address) as looked:
        looked.page.evaluate("hash => { location.hash = hash; }", shown.operator.partition("#")[2])
        looked.page.get_by_role("button", name="Halt").wait_for()
        assert "#" not in looked.page.url, "the token is not left in the address"


@SIZES_AND_THEMES
def test_every_size_and_theme(
    opened: Any, endpoint: str, shown: Dashboard, screenshots: Path, width: int, height: int, scheme: str
) -> None:
    with connect(endpoint, "quoter") as client, OpenPage(opened, shown.operator, width, height, scheme) as looked:
        client.mass_cancel()
        quote(client)
        client.buy("DEMO", 30)
        wait_until(lambda: len(looked.levels("ask")) >= 5, "the book is shown")
        time.sleep(1.0)
        assert looked.page.evaluate("document.documentElement.scrollWidth") <= width
        assert looked.page.evaluate("document.documentElement.dataset.theme") == scheme
        looked.page.screenshot(path=str(screenshots / f"market-{width}-{scheme}.png"), full_page=True)
        looked.page.keyboard.press("t")
        assert looked.page.evaluate("document.documentElement.dataset.theme") != scheme
        assert looked.console == []


@SIZES_AND_THEMES
def test_order_flow_by_kind_of_trader(
    opened: Any, endpoint: str, tmp_path: Path, screenshots: Path, width: int, height: int, scheme: str
) -> None:
    """Of eight kinds, the six most active and the others together; the measure can be selected."""
    random = np.random.default_rng(1)
    kinds = [f"trader_{name}" for name in "abcdefgh"]
    for host in range(2):
        seconds = [
            {"second": 34200 + second, "sent": {"DEMO": {kind: random.integers(1, 5 * place + 6, 4).tolist() for place, kind in enumerate(kinds)}}}
            for second in range(300)
        ]  # fmt: skip
        held = {kind: [10, host - place, 1000 * place] for place, kind in enumerate(kinds)}
        seconds[-1]["accounts"] = {"DEMO": held}
        (tmp_path / f"{host}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in seconds))
    with (
        dashboard(endpoint, "--flow", str(tmp_path)) as shown,
        OpenPage(opened, shown.address, width, height, scheme) as looked,
    ):
        panel = looked.page.locator("#flow-panel")
        panel.locator(".u-label:text-is('trader h')").wait_for()
        labels = panel.locator(".u-legend:visible .u-label").all_inner_texts()
        assert labels[1:] == ["others", *(f"trader {name}" for name in "cdefgh")]
        wait_until(lambda: "per 4 s" in panel.inner_text(), "300 seconds are 75 bars")
        rows = looked.page.locator("#kinds tr")

        def held_by_kind() -> dict[str, list[str]]:
            return {row.split("\t")[0]: row.split("\t")[1:3] for row in rows.all_inner_texts()[1:]}

        expected = {kind.replace("_", " "): ["20", str(1 - 2 * place)] for place, kind in enumerate(kinds)}
        wait_until(lambda: held_by_kind() == expected, "what both hosts hold")
        panel.scroll_into_view_if_needed()
        looked.page.screenshot(path=str(screenshots / f"flow-{width}-{scheme}.png"), full_page=True)
        choice = looked.page.get_by_label("Order flow by")
        choice.select_option("cancels")
        assert panel.locator(".u-legend:visible .u-label").count() == 8
        choice.select_option("side")
        assert "bids added" in panel.locator(".u-legend:visible").inner_text()
        assert looked.page.evaluate("document.documentElement.scrollWidth") <= width
        assert looked.console == []


def test_every_control_is_reachable_by_keyboard(opened: Any, shown: Dashboard) -> None:
    with OpenPage(opened, shown.operator) as looked:
        reached = set()
        for name in ("Halt", "Resume", "Send"):
            looked.page.get_by_role("button", name=name).wait_for()  # they come with the first frames
        for _ in range(30):
            looked.page.keyboard.press("Tab")
            reached.add(looked.page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        assert {"Freeze", "Theme", "Halt", "Resume", "Send"} <= reached
        looked.page.keyboard.press("Shift+Tab")
        looked.page.locator("body").click(position={"x": 700, "y": 300})
        looked.page.keyboard.press("?")
        assert looked.page.locator("#help").is_visible()
        looked.page.keyboard.press("Escape")
        wait_until(lambda: not looked.page.locator("#help").is_visible(), "the help is closed")
        looked.page.evaluate("document.activeElement.blur()")
        before = looked.page.input_value("#symbol")
        looked.page.keyboard.press("]")
        wait_until(lambda: looked.page.input_value("#symbol") != before, "the next symbol")


def test_the_page_waits_for_a_restarted_exchange(opened: Any, screenshots: Path) -> None:
    endpoint = free_endpoint()
    first = launch("--symbols", "DEMO", endpoint=endpoint)
    try:
        with dashboard(endpoint) as shown, OpenPage(opened, shown.address) as looked:
            with connect(endpoint, "quoter") as client:
                quote(client)
                wait_until(lambda: looked.levels("bid")[:1] == [[999, 10]], "the book is shown")
            first.kill()
            looked.page.wait_for_selector("#state:text('exchange offline')")
            assert endpoint in looked.page.inner_text("#notice")
            looked.page.screenshot(path=str(screenshots / "offline.png"))
            second = launch("--symbols", "DEMO", endpoint=endpoint)
            try:
                wait_until(lambda: looked.levels("bid") == [], "the book of the new exchange is empty")
                with connect(endpoint, "quoter") as client:
                    client.buy("DEMO", 77, 500)
                    wait_until(lambda: looked.levels("bid") == [[500, 77]], "its orders appear")
                wait_until(looked.page.locator("#notice").is_hidden, "the notice disappears")
                assert looked.console == []
            finally:
                second.kill()
                assert second.process.stdout is not None
                second.process.stdout.close()
    finally:
        first.kill()
        assert first.process.stdout is not None
        first.process.stdout.close()
