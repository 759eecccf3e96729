"""The order of news that arrives with gaps, repeats and restarts, and the files of `serl news send`."""

from pathlib import Path
from typing import Any

import pytest

from serl.clients.core import ClientCore
from serl.clients.errors import RequestRejected
from serl.clients.news import NewsFeed, NewsPages
from serl.clients.news_file import AT_ONCE, read_news_file
from serl.clients.session import Grant, Session
from serl.exchange.errors import ConfigError
from serl.exchange.news import News, NewsKind
from serl.exchange.wire import FeedKind, Kind


def item(number: int) -> list[Any]:
    return [number, 10 * number, 1, "", f"Story {number}", "", None, ""]


def on_feed(number: int, epoch: int = 1) -> list[Any]:
    return [120, epoch, number - 1, number, 10 * number, [item(number)]]


def repeat(number: int, epoch: int = 1) -> list[Any]:
    return [120, epoch, number, number, 10 * number, []]


def reply(published: int, *numbers: int) -> list[Any]:
    return [154, 1, 1, 0, 0, [published, [item(number) for number in numbers]]]


def numbers(messages: list[News]) -> list[int]:
    return [message.sequence for message in messages]


def begun(last: int) -> NewsFeed:
    """A feed that has everything up to number `last`."""
    feed = NewsFeed()
    assert feed.is_query_due and feed.query(1) == -1 and not feed.is_query_due
    assert feed.receive_reply(reply(last, *range(last, last + 1))) == [] and not feed.needs_query
    return feed


def test_messages_come_once_and_in_order() -> None:
    feed = begun(3)
    assert numbers(feed.receive(on_feed(4))) == [4]
    assert feed.receive(repeat(4)) == [] and feed.receive(on_feed(4)) == [] and not feed.needs_query
    assert numbers(feed.receive(on_feed(5))) == [5]


@pytest.mark.parametrize("later", [on_feed(6), repeat(6)])
def test_a_gap_is_filled_by_a_query(later: list[Any]) -> None:
    feed = begun(3)
    assert feed.receive(later) == [] and feed.is_query_due and feed.query(2) == 3
    assert numbers(feed.receive_reply(reply(6, 4, 5, 6))) == [4, 5, 6] and not feed.needs_query


def test_what_is_published_after_the_reply_is_asked_for_again() -> None:
    """Its feed message may be read before the reply, on another socket."""
    feed = begun(3)
    feed.receive(on_feed(5))
    feed.query(2)
    assert feed.receive(on_feed(6)) == []
    assert numbers(feed.receive_reply(reply(5, 4, 5))) == [4, 5] and feed.is_query_due and feed.query(3) == 5
    assert numbers(feed.receive_reply(reply(6, 6))) == [6] and not feed.needs_query


def test_replies_continue_until_all_is_there() -> None:
    feed = NewsFeed(after=0)
    feed.query(1)
    assert numbers(feed.receive_reply(reply(5, 1, 2, 3))) == [1, 2, 3] and feed.is_query_due
    assert numbers(feed.receive_reply(reply(5, 4, 5))) == [4, 5] and not feed.needs_query
    pages = NewsPages(5)
    assert pages.after == -5 and not pages.are_complete
    pages.add(reply(5, 1, 2, 3)[5])
    assert pages.after == 3 and not pages.are_complete
    pages.add(reply(5, 4, 5)[5])
    assert pages.are_complete and numbers(pages.messages) == [1, 2, 3, 4, 5]


def test_restarts() -> None:
    feed = begun(3)
    feed.receive(on_feed(4))
    assert feed.receive(repeat(4, epoch=2)) == [] and not feed.needs_query, "with its journal"
    assert feed.receive(on_feed(3, epoch=3)) == [] and not feed.needs_query, "what lockstep publishes again"
    assert numbers(feed.receive(on_feed(5, epoch=3))) == [5]
    assert feed.receive(on_feed(2, epoch=1)) == [] and feed.query(2) == 0, "without its journal"
    assert numbers(feed.receive_reply(reply(2, 1, 2))) == [1, 2]
    feed.receive(on_feed(9))
    feed.query(3)
    assert feed.receive_reply(reply(1)) == [] and feed.query(4) == 0, "between the feed and the reply"
    assert numbers(feed.receive_reply(reply(1, 1))) == [1] and not feed.needs_query


def test_a_refused_query_is_an_error_once() -> None:
    feed = NewsFeed()
    feed.query(1)
    with pytest.raises(RequestRejected, match="who"):
        feed.receive_reply([Kind.ERROR, "login", "who are you?", 1])
    assert not feed.is_query_due


def test_a_turn_waits_for_the_news_before_it() -> None:
    """GRANT, news and replies come over three sockets: news is no event, so the time says that it is complete."""
    core = ClientCore("tcp://127.0.0.1:5570", Session("a", ""), None)
    try:
        core.subscribe_news(after=3)
        core._receive_feed("time/", [FeedKind.TIME, 1, 7, 7, 1000, []])
        assert not core.is_feed_complete(Grant(1000, 7)), "the reply to the query is still to come"
        assert core.news_feed is not None
        core.news_feed.receive_reply(reply(3))
        assert core.is_feed_complete(Grant(1000, 7)) and not core.is_feed_complete(Grant(1001, 7))
        core._receive_feed("news/", on_feed(5))
        assert not core.is_feed_complete(Grant(1000, 7)), "message 4 is missing"
    finally:
        core.close()


# -- files ----------------------------------------------------------------------------------------------------------


def read(tmp_path: Path, text: str) -> list[News]:
    path = tmp_path / "news.txt"
    path.write_text(text)
    return read_news_file(path)


def test_csv_and_json_lines_are_the_same(tmp_path: Path) -> None:
    csv = 'time,kind,symbol,headline,body,value\r\n10:00:01,value,A,,,-7\r\n09:30,macro,,"Rates, again","Two\r\nlines",4.25\r\n'
    lines = (
        '{"time_ns": 36001000000000, "kind": "value", "symbol": "A", "value": -7, "sequence": 5}\n'
        '{"time": "09:30", "kind": "macro", "headline": "Rates, again", "body": "Two\\nlines", "value": 4.25}\n\n'
    )
    expected = [
        News(0, 34_200 * 10**9, NewsKind.MACRO, "", "Rates, again", "Two\nlines", 4.25, ""),
        News(0, 36_001 * 10**9, NewsKind.VALUE, "A", "", "", -7, ""),
    ]
    assert read(tmp_path, csv) == read(tmp_path, lines) == expected
    (later,) = read(tmp_path, "time,day,headline\n09:30,1,Next day")
    assert later.time_ns == (86_400 + 34_200) * 10**9
    (at_once,) = read(tmp_path, '{"headline": "Line\u2028separators are text"}')
    assert at_once.time_ns == AT_ONCE and at_once.kind == NewsKind.NEWS


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "expected at least one message"),
        ("headline\n", "expected at least one message"),
        ("headline,kind\nx,rumour\n", "row 1: kind: expected one of news, fundamental, macro, value, signal, got 'rumour'"),
        ("headline,who\nx,y\n", "row 1: expected the fields time, day, time_ns, kind, .* got who"),
        ("headline,kind\nx\n", "row 1: expected as many cells as the header"),
        ("headline\nx,y\n", "row 1: expected as many cells as the header"),
        ("headline,time\nx,25:00\n", "row 1: expected a time of day"),
        ("headline,time_ns\nx,-5\n", "row 1: time_ns: expected nanoseconds after midnight"),
        (f"headline,time_ns\nx,{367 * 86_400 * 10**9}\n", "row 1: time_ns: expected nanoseconds .* up to day 366"),
        (f'{{"headline": "x", "time_ns": {10**30}}}', "row 1: time_ns: expected nanoseconds after midnight"),
        ("headline,value,headline\nx,1,y\n", "expected each column once, got two of headline"),
        ("headline,time,time_ns\nx,09:30,5\n", "row 1: expected time or time_ns, got both"),
        ("headline,time,day\nx,09:30,-1\n", "row 1: day: expected a number from 0, the first day, to 366, got '-1'"),
        ("headline,day\nx,1\n", "row 1: day: expected a time beside it, got none"),
        ("headline,time\nx,09:30\ny,\n", "expected a time in each row or in none, got 1 times in 2 rows"),
        ("headline,value\nx,many\n", "row 1: value: expected a finite number"),
        (f"headline,value\nx,{'9' * 5000}\n", "row 1: value: expected a finite number"),
        ("kind,symbol,value\nvalue,A,1.5\n", "row 1: value: expected an integer of ticks"),
        ('{"headline": "x"}\n[1]\n', r"row 2: expected a JSON object, got \[1\]"),
        ('{"headline": "x"}\n{"headline"\n', "row 2: expected a JSON object, got something else"),
        ('{"headline": 5}', "row 1: headline: expected a text, got 5"),
        ('{"kind": ["news"]}', "row 1: kind: expected one of"),
        ('headline\n"x', "expected CSV with a header or JSON lines"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_sent_names_the_row(text: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=error):
        read(tmp_path, text)


def test_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "news.csv"
    path.write_bytes("headline\nÉlan\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="expected UTF-8"):
        read_news_file(path)
