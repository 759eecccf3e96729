"""Books from snapshots: with more levels than these have, and of those that come late."""

from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import connect
from serl.clients.dashboard.account import Account
from serl.clients.dashboard.board import Board
from serl.clients.dashboard.link import Link
from serl.clients.dashboard.symbol import SymbolView
from serl.exchange.wire import Kind
from tests.clients.dashboard.server_fixture import wait_until
from tests.server_fixture import start_exchange


def test_a_page_shows_the_levels_behind_those_of_the_snapshot(tmp_path: Path) -> None:
    """Once the best levels had gone, the page showed no book."""
    config: dict[str, object] = {"limits": {"depth_max": 4}}
    with start_exchange(symbols="A", config=config, folder=tmp_path) as served, connect(served.endpoint, "ann") as ann:
        bids = [ann.buy("A", 1, 100 + place) for place in range(12)]
        board = Board()
        link = Link(served.endpoint, board, Account(served.endpoint, "me", "", None, active=False))
        link.start()

        def shown() -> list[int]:
            return [each[0] for each in board.views["A"].ladder()["bids"]] if "A" in board.views else []

        try:
            wait_until(lambda: shown() == [111, 110, 109, 108], "what the first snapshot has")
            for order in bids[4:]:
                ann.cancel(order)
            wait_until(lambda: shown() == [103, 102, 101, 100], "what is left of the book")
        finally:
            link.stop()


def test_a_late_snapshot_does_not_set_a_book_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two requests, the second reply came after the feed had gone on: the page showed the older book until the next change."""
    link = Link("tcp://127.0.0.1:5570", Board(), Account("tcp://127.0.0.1:5570", "a", "", None, active=False))
    replies: list[Any] = []
    monkeypatch.setattr(link._sockets, "request", lambda on_reply, kind, *_: replies.append((kind, on_reply)))
    view = SymbolView(0, "A", "0.01")
    for _ in range(2):
        link._request_snapshot(view)
    link._sockets.close()
    first, second = (on_reply for kind, on_reply in replies if kind == Kind.L2)
    snapshot = [145, 1, 1, 10, 0, [[[100, 1, 1]], []]]
    first(snapshot, 0.0)
    view.apply([113, 1, 10, 11, 0, [[0, 101, 5, 1]]])
    second(snapshot, 0.0)
    assert view.book.bid_ticks == 101
