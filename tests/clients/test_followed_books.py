"""Followed books, message by message."""

from typing import Any

from serl.clients.book import L2Book, L3Book


def feed(previous: int, sequence: int, items: list[Any], epoch: int = 1) -> list[Any]:
    return [113, epoch, previous, sequence, 0, items]


def test_books_detect_gaps_and_recover() -> None:
    book = L2Book()
    assert not book.apply(feed(5, 6, [[0, 100, 9, 1]]))
    book.apply_snapshot([145, 1, 1, 5, 0, [[[100, 5, 1]], [[101, 2, 1]]]])
    assert book.levels(0) == [(100, 9, 1)]
    assert not book.apply(feed(4, 6, [[0, 100, 1, 1]])), "the book includes it already"
    assert book.apply(feed(6, 8, [[0, 100, 0, 0], [0, 99, 4, 2]]))
    assert (book.bid_ticks, book.ask_ticks, book.gaps) == (99, 101, 0)
    assert not book.apply(feed(9, 10, [[0, 98, 1, 1]]))
    assert (book.needs_snapshot, book.gaps) == (True, 1)
    book.apply_snapshot([145, 1, 1, 9, 0, [[[99, 4, 2]], []]])
    assert book.levels(0) == [(99, 4, 2), (98, 1, 1)]
    assert not book.apply(feed(10, 11, [[0, 1, 1, 1]], epoch=2))
    assert book.needs_snapshot


def test_what_a_former_exchange_said_is_asked_about_once() -> None:
    """Restarted without its journal, it numbers from 1 in the same epoch: an old message was taken for a gap behind every snapshot."""
    book, reply = L2Book(), [145, 1, 1, 5, 0, [[[50, 5, 1]], []]]
    book.apply(feed(999, 1000, [[0, 100, 9, 1]]))
    book.apply_snapshot(reply)
    assert book.needs_snapshot, "messages between may be lost"
    book.apply(feed(5, 6, [[0, 51, 1, 1]]))
    book.apply_snapshot(reply)
    assert not book.needs_snapshot and book.levels(0) == [(51, 1, 1), (50, 5, 1)]


def test_what_was_said_in_another_epoch_is_no_gap() -> None:
    book = L2Book()
    book.apply(feed(5, 6, [[0, 51, 1, 1]], epoch=2))
    book.apply_snapshot([145, 1, 1, 5, 0, [[[50, 5, 1]], []]])
    assert not book.needs_snapshot and book.levels(0) == [(50, 5, 1)]


def test_an_l3_book_keeps_single_orders() -> None:
    book = L3Book()
    book.apply_snapshot([146, 1, 1, 5, 0, [[1, 0, 100, 5], [2, 0, 100, 7]]])
    book.apply(feed(5, 9, [[2, 1, 0, 100, 5], [1, 3, 1, 103, 4], [3, 2, 0, 100, 3]]))
    assert (book.levels(0), book.levels(1)) == ([(100, 4, 1)], [(103, 4, 1)])
