"""Trades of a symbol from a feed that loses messages, and replies that are late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.clients.trade_feed import TradeFeed

TRADES = [[number, 10 * number, 100, 1, 0, 0] for number in range(1, 41)]
"""The number of a trade is also that of its event."""


def message(first: int, last: int, epoch: int = 1) -> list[object]:
    return [115, epoch, first - 1, last, 0, TRADES[first - 1 : last]]


def reply(newest: int, kept: int = 1000, epoch: int = 1) -> list[object]:
    return [147, 1, epoch, newest, 0, TRADES[max(newest - kept, 0) : newest]]


def numbers(feed: TradeFeed) -> list[int]:
    return [trade[0] for trade in feed.take()]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans(), st.booleans()), max_size=30), st.integers(0, 10)
)
def test_each_trade_comes_once_and_in_order(steps: list[tuple[int, bool, bool, bool]], before: int) -> None:
    """steps: trades of a message, whether it is lost, whether a request is sent after it, and whether the open request is answered."""
    feed, newest, found, open_reply = TradeFeed(), before, list[int](), None
    for count, is_lost, asks, answers in steps:
        last = min(newest + count, len(TRADES))
        if last > newest and not is_lost:
            feed.apply(message(newest + 1, last))
        newest = last
        if feed.needs_snapshot and open_reply is None and asks:
            open_reply = reply(newest)
        if open_reply is not None and answers:
            feed.apply_snapshot(open_reply)
            open_reply = None
        found += numbers(feed)
        assert found == list(range(1, len(found) + 1))
        assert feed.needs_snapshot or len(found) >= before
    if feed.needs_snapshot:
        feed.apply_snapshot(reply(newest))
        assert found + numbers(feed) == list(range(1, newest + 1))


def test_the_first_reply_brings_what_comes_after_the_last_known_trade() -> None:
    feed = TradeFeed(TRADES[4])
    feed.apply(message(7, 8))
    feed.apply_snapshot(reply(7))
    assert numbers(feed) == [6, 7, 8] and feed.last == TRADES[7]


def test_what_the_exchange_no_longer_keeps_is_lost() -> None:
    feed = TradeFeed()
    feed.apply_snapshot(reply(3))
    feed.apply(message(20, 20))
    feed.apply_snapshot(reply(20, kept=5))
    assert numbers(feed) == [1, 2, 3, 16, 17, 18, 19, 20]


@pytest.mark.parametrize("newest", [0, 2])
def test_a_restart_without_journal_begins_again(newest: int) -> None:
    feed = TradeFeed()
    feed.apply_snapshot(reply(8))
    feed.take()
    feed.distrust()
    feed.apply(message(3, 3))
    feed.apply_snapshot(reply(newest))
    feed.apply(message(newest + 1, 3) if newest else message(1, 3))
    if feed.needs_snapshot:  # the message before the request had a gap
        feed.apply_snapshot(reply(3))
    assert (numbers(feed), feed.restarts) == ([1, 2, 3], 1)


def test_a_repeat_tells_that_messages_are_missing() -> None:
    feed = TradeFeed()
    feed.apply_snapshot(reply(3))
    feed.apply([115, 1, 3, 3, 0, []])
    assert not feed.needs_snapshot
    feed.apply([115, 1, 5, 5, 0, []])
    assert feed.needs_snapshot
