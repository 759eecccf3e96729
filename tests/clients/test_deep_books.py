"""Followed books with more levels than a snapshot has."""

import time
from pathlib import Path

from serl.clients.blocking import connect
from serl.clients.book import L2Book
from tests.server_fixture import WAIT_MS, start_exchange

DEPTH = 4


def test_a_followed_book_gets_the_levels_behind_those_of_its_snapshot(tmp_path: Path) -> None:
    """Once the best levels had gone it was empty."""
    with (
        start_exchange(symbols="A", config={"limits": {"depth_max": DEPTH}}, folder=tmp_path) as served,
        connect(served.endpoint, "ann") as ann,
        connect(served.endpoint, "bob") as bob,
    ):
        bids = [ann.buy("A", 1, 100 + place) for place in range(12)]
        asks = [ann.sell("A", 1, 200 - place) for place in range(12)]
        followed = bob.follow("A", "l2")
        while bids:
            for order in (bids.pop(), asks.pop()):
                ann.cancel(order)
            expected = [[each.price_ticks for each in side] for side in ann.book("A")]
            deadline = time.monotonic() + WAIT_MS / 1000
            while [[each.price_ticks for each in followed.levels(side, 2)] for side in (0, 1)] != [
                side[:2] for side in expected
            ]:
                assert time.monotonic() < deadline
                bob.wait(0.01)


def test_a_book_has_no_levels_beyond_those_that_may_be_missing() -> None:
    book = L2Book(3)
    book.apply_snapshot([0, 0, 1, 10, 0, [[[9, 1, 1], [8, 1, 1], [7, 1, 1]], [[11, 1, 1]]]])
    book.apply([0, 1, 10, 11, 0, [[0, 5, 4, 1], [1, 20, 4, 1], [0, 8, 0, 0]]])
    assert [[each.price_ticks for each in book.levels(side)] for side in (0, 1)] == [[9, 7], [11, 20]]
    assert not book.needs_snapshot
    book.apply([0, 1, 11, 12, 0, [[0, 9, 0, 0]]])
    assert book.needs_snapshot and book.sequence == 12
    book.apply_snapshot([0, 0, 1, 12, 0, [[], []]])
    assert not book.needs_snapshot
