"""Followed books with more levels than a snapshot has."""

import time
from contextlib import AbstractContextManager
from pathlib import Path

from serl.clients.blocking import connect
from serl.clients.book import L2Book
from serl.clients.feed_state import BUFFERED_MAX
from tests.server_fixture import WAIT_MS, Served, free_endpoint, start_exchange

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


def test_a_restarted_exchange_has_snapshots_of_another_depth(tmp_path: Path) -> None:
    """Its smaller snapshots were taken for whole books."""
    endpoint, journal = free_endpoint(), tmp_path / "journal"

    def started(depth: int) -> AbstractContextManager[Served]:
        config: dict[str, object] = {"limits": {"depth_max": depth}}
        return start_exchange(symbols="A", config=config, folder=tmp_path, journal=journal, endpoint=endpoint)

    with started(8) as served, connect(endpoint, "bob") as bob:
        with connect(endpoint, "ann") as ann:
            for place in range(12):
                ann.buy("A", 1, 100 + place)
        followed = bob.follow("A", "l2")
        assert len(followed.levels(0)) == 8
        served.kill()
        with started(4), connect(endpoint, "ann") as ann:
            deadline = time.monotonic() + 2 * WAIT_MS / 1000
            while len(followed.levels(0)) != 4:
                assert time.monotonic() < deadline
                bob.wait(0.05)
            ann.sell("A", 8, 104)
            while [each.price_ticks for each in followed.levels(0)] != [103, 102, 101, 100]:
                assert time.monotonic() < deadline
                bob.wait(0.05)


def test_each_message_costs_the_same_while_a_book_waits_for_its_snapshot() -> None:
    """It copied all messages before it: 100,000 of them took half a minute."""
    book, started_s = L2Book(), time.process_time()
    for number in range(BUFFERED_MAX + 10):
        book.apply([2, 1, number, number + 1, 0, [[0, 100, number, 1]]])
    assert time.process_time() - started_s < 5
    book.apply_snapshot([0, 0, 1, 10, 0, [[], []]])
    assert (book.sequence, book.levels(0)) == (BUFFERED_MAX + 10, [(100, BUFFERED_MAX + 9, 1)])
