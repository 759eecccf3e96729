"""Participants by profit: right, for operators alone, and without harm where the token may not read them."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.dashboard.standings import Standings
from serl.exchange.wire import Kind
from tests.clients.dashboard.server_fixture import Dashboard, OpenPage, dashboard
from tests.clients.dashboard.test_account import read_until
from tests.clients.dashboard.test_server import page
from tests.server_fixture import Served, start_exchange

CONFIG: dict[str, object] = {
    "symbols": [
        {"name": "DEMO", "fees": {"taker_microticks": 500_000}},
        {"name": "BIG", "tick_size": "1", "lot_size": "10"},
    ]
}


def trade(served: Served) -> None:
    """Ann and bob trade in both symbols and cat quotes the mids: DEMO 102, BIG 47.5."""
    with (
        connect(served.endpoint, "ann") as ann,
        connect(served.endpoint, "bob") as bob,
        connect(served.endpoint, "cat") as cat,
    ):
        ann.sell("DEMO", 6, 100)
        bob.buy("DEMO", 6)
        ann.buy("BIG", 2, 50)
        bob.sell("BIG", 2)
        for symbol, bid, ask in (("DEMO", 101, 103), ("BIG", 47, 48)):
            cat.buy(symbol, 5, bid)
            cat.sell(symbol, 5, ask)


def standings(shown: dict[str, Any]) -> list[Any]:
    rows: list[Any] = shown.get("standings", {}).get("rows", [])
    return rows


def ask_for(shown: Dashboard, socket: Any) -> None:
    socket.send(json.dumps({"do": "standings", "id": 1, "token": shown.operator.partition("=")[2]}))


def test_participants_by_profit_are_for_operators_alone(tmp_path: Path) -> None:
    with start_exchange(symbols="", config=CONFIG, folder=tmp_path) as served:
        trade(served)
        with dashboard(served.endpoint) as shown, page(shown) as operator, page(shown) as reader:
            reader.send(json.dumps({"do": "standings", "id": 1, "token": "guess"}))
            ask_for(shown, operator)
            profit = 6 * (102 - 100) * 0.01 + 2 * (50 - 47.5) * 10  # ann's loss is bob's profit
            positions = {"DEMO": 6, "BIG": -2}, {"DEMO": -6, "BIG": 2}
            fees = 6 * 0.5 * 0.01
            expected = [["bob", profit, fees, positions[0]], ["ann", -profit, 0.0, positions[1]]]
            read_until(operator, lambda seen: standings(seen) == expected, "bob before ann")
            refused, until = False, time.monotonic() + 60
            while not refused:
                assert time.monotonic() < until
                frame = json.loads(reader.recv(60))
                assert "standings" not in frame
                refused = frame.get("failed", False)
                if "n" in frame:
                    reader.send(json.dumps({"seen": frame["n"]}))


def test_a_token_that_may_not_read_accounts_is_refused_once(tmp_path: Path) -> None:
    config: dict[str, object] = {
        "symbols": [{"name": "DEMO"}],
        "login": {
            "participants": {
                "me": {"token": "my-token"},
                "boss": {"token": "boss-token", "permissions": ["trade", "data", "operate"]},
            }
        },
    }
    token = tmp_path / "token"
    token.write_text("my-token")
    token.chmod(0o600)
    with (
        start_exchange(symbols="", config=config, folder=tmp_path) as served,
        dashboard(served.endpoint, "--token-file", str(token)) as shown,
        page(shown) as socket,
    ):
        ask_for(shown, socket)
        read_until(socket, lambda seen: "cannot be read" in seen.get("standings", {}).get("problem", ""), "the reason")
        with connect(served.endpoint, "me", token="my-token") as client:
            refused = client.ask(Kind.STATISTICS)[5]["credentials_refused"]
            read_until(socket, lambda seen: seen.get("exchange", {}).get("counts", {}).get("uptime_s", 0) > 0, "on")
            for _ in range(8):
                socket.send(json.dumps({"seen": json.loads(socket.recv(60)).get("n", 0)}))
            assert client.ask(Kind.STATISTICS)[5]["credentials_refused"] == refused


def test_a_reply_to_a_request_before_a_restart_is_dropped() -> None:
    """The new process refuses what only the one before had: without a journal it counts from 0."""
    asked: list[Any] = []
    sockets: Any = SimpleNamespace(request=lambda on_reply, *values: asked.append((on_reply, values)) or True)
    table = Standings(sockets, lambda: "token")
    table.update({"participants": 2, "commands": 9})
    table.reset()
    asked[0][0]([Kind.ERROR, "bad_request", "expected at most 0, got 9", 1], 0.0)
    assert table.as_json({}, {})["problem"] == ""
    table.update({"participants": 1, "commands": 1})
    assert asked[-1][1] == (Kind.COMMAND_COPY, "token", 1)


@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(1280, 800, "light"), pytest.param(1920, 1080, "dark", marks=pytest.mark.long)],
)
def test_the_page_of_an_operator_shows_participants(
    opened: Any, tmp_path: Path, screenshots: Path, width: int, height: int, scheme: str
) -> None:
    with start_exchange(symbols="", config=CONFIG, folder=tmp_path) as served:
        trade(served)
        with (
            dashboard(served.endpoint) as shown,
            OpenPage(opened, shown.operator, width, height, scheme) as looked,
            OpenPage(opened, shown.address) as reader,
        ):
            rows = looked.page.locator("#standings tr")
            rows.nth(2).wait_for()
            assert rows.nth(1).locator("td").all_inner_texts() == ["bob", "2 symbols", "+50.12", "0.03"]
            assert rows.nth(1).get_attribute("title") == "bob · 6 DEMO · -2 BIG"
            looked.page.screenshot(path=str(screenshots / f"standings-{width}-{scheme}.png"))
            assert not reader.page.locator("#standings").is_visible()
            assert looked.console == []
