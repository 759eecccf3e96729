"""News is recorded to day files and replayed at its times: the recording of a replay has the same news."""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from serl.clients.blocking import connect
from serl.clients.news_sender import NewsSender
from serl.clients.record import Recorder
from serl.clients.record_accounts import accounts_recorder
from serl.clients.record_news import of_day
from serl.clients.replay_accounts import create_replayer
from serl.exchange.news import News, NewsKind
from serl.exchange.records import COMMAND, CommandKind, Side, TimeInForce
from serl.history.cli import info
from serl.history.day import Day, Reference, SymbolReference, day_writer, read_day, read_news, select_symbol, write_day
from serl.history.day_news import KEY
from serl.history.errors import NotADayFile
from serl.history.tape import HASH
from tests.server_fixture import start_exchange


def story(time_ns: int, headline: str, kind: NewsKind = NewsKind.NEWS, symbol: str = "") -> News:
    value = 101 if kind == NewsKind.VALUE else None
    return News(0, time_ns, kind, symbol, headline, "", value, "wire")


NEWS = (
    story(500, "Before the first order"),
    story(2000, "With two orders"),
    story(2000, "And again", NewsKind.VALUE, "AMZN"),
    story(3500, "Between orders", NewsKind.MACRO),
    story(9000, "After the last order"),
)
TIMES_NS = (1000, 2000, 2000, 3000, 4000, 5000)


def day_with(news: Sequence[News]) -> Day:
    """Six orders of one symbol, two of which trade."""
    rows = np.zeros(len(TIMES_NS), COMMAND)
    rows["time_ns"], rows["command_id"] = TIMES_NS, np.arange(1, len(TIMES_NS) + 1)
    rows["kind"], rows["time_in_force"], rows["qty_lots"] = CommandKind.NEW, TimeInForce.GTC, 5
    rows["price_ticks"] = [100, 101, 99, 100, 98, 102]
    rows["side"] = [Side.BUY, Side.SELL, Side.BUY, Side.SELL, Side.BUY, Side.SELL]
    reference = Reference((SymbolReference("AMZN"),), "", "generated", first_time_ns=1000, last_time_ns=5000)
    return Day(rows, np.arange(len(rows)), reference, tuple(news))


def played(day: Day, path: Path, *, accounts: bool, clock: str = "lockstep", speed: float | None = None) -> Day:
    """The recording of a replay of a day."""
    with start_exchange(symbols="AMZN", clock=clock) as exchange, day_writer(path, accounts=accounts) as writer:
        stop = threading.Event()
        if accounts:
            create_and_run(day, exchange.endpoint, speed)
            stop.set()
            with accounts_recorder(exchange.endpoint, writer) as whole:
                whole.run(stop, lambda _: None)
                whole.finish()
        else:
            recorder = Recorder(exchange.endpoint, writer)
            recording = threading.Thread(target=recorder.run, args=(stop, lambda _: None, 60))
            recording.start()
            create_and_run(day, exchange.endpoint, speed)
            with connect(exchange.endpoint, "last") as client:
                client.wait(1.5)  # the feed sends the time once a second
            stop.set()
            recording.join(60)
            recorder.close()
            recorder.finish()
    return read_day(path, accounts=True)


def create_and_run(day: Day, endpoint: str, speed: float | None) -> None:
    replayer = create_replayer(day, endpoint, speed)
    replayer.run(lambda _: None)
    assert replayer.news.published == len(day.news)
    replayer.close()


def test_the_news_of_a_day_by_hand() -> None:
    """Of a journal that began before midnight, and of the symbols that are recorded."""
    midnight_ns = 10**15
    times = (-1, 0, 5, 6, 7)
    symbols = ("AMZN", "AMZN", "", "GOOG", "MSFT")
    published = [
        story(midnight_ns + time_ns, "x", symbol=symbol) for time_ns, symbol in zip(times, symbols, strict=True)
    ]
    found = of_day(published, midnight_ns, ("AMZN", "GOOG"))
    assert found == [story(0, "x", symbol="AMZN"), story(5, "x"), story(6, "x", symbol="GOOG")]


def test_a_day_file_has_news_and_one_without_is_as_before(tmp_path: Path) -> None:
    path, without = tmp_path / "day.parquet", tmp_path / "without.parquet"
    write_day(day_with(NEWS), path)
    write_day(day_with(()), without)
    assert read_day(path).news == read_news(path) == NEWS and read_day(without).news == ()
    assert KEY not in pq.read_metadata(without).metadata
    assert select_symbol(replace(read_day(path), news=(*NEWS, story(1, "x", symbol="GOOG"))), "AMZN").news == NEWS
    shown = [CliRunner().invoke(info, [str(each)]).output for each in (path, without)]
    assert "news\t5\n" in shown[0] and "news" not in shown[1]
    with day_writer(path) as writer:
        writer._parquet.add_key_value_metadata({KEY: json.dumps([{"sequence": 1}]).encode()})
        writer.finish(day_with(()).reference)
    with pytest.raises(NotADayFile, match="its news is damaged"):
        read_day(path)


@pytest.mark.parametrize(
    "accounts", [pytest.param(False, marks=pytest.mark.long, id="feed"), pytest.param(True, id="accounts")]
)
def test_the_recording_of_a_replay_has_the_same_news(accounts: bool, tmp_path: Path) -> None:
    day = day_with(NEWS)
    first = played(day, tmp_path / "first.parquet", accounts=accounts)
    assert first.news == tuple(message._replace(sequence=number) for number, message in enumerate(NEWS, 1))
    second = played(first, tmp_path / "second.parquet", accounts=accounts)
    assert second.news == first.news
    silent = played(day_with(()), tmp_path / "silent.parquet", accounts=accounts)
    hashes = {each.reference.parameters[HASH] for each in (first, second, silent)}
    assert len(hashes) == 1, "the market does not depend on news"


@pytest.mark.long
@pytest.mark.parametrize(("clock", "speed"), [("live", None), ("live", 1e-5), ("scaled:1", None), ("lockstep", 1e-5)])
def test_other_clocks_keep_the_order(clock: str, speed: float | None, tmp_path: Path) -> None:
    again = played(day_with(NEWS), tmp_path / "again.parquet", accounts=False, clock=clock, speed=speed)
    assert [each[2:] for each in again.news] == [each[2:] for each in NEWS]
    rows = again.commands["time_ns"][again.rows >= 0]
    assert np.searchsorted(rows, [each.time_ns for each in again.news]).tolist() == [0, 1, 1, 4, 6]


def test_a_file_is_sent_at_its_times_in_lockstep(tmp_path: Path) -> None:
    messages = (story(1000, "First"), story(1000, "Second"), story(2500, "Third"))
    config: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 2}}
    with (
        start_exchange(symbols="AMZN", clock="", config=config, folder=tmp_path) as exchange,
        connect(exchange.endpoint, "reader") as reader,
    ):
        reader.subscribe_news(after=0)

        def send() -> None:
            with NewsSender(exchange.endpoint, messages, "news", "", None) as sender:
                sent.extend(sender.send())

        sent: list[News] = []
        thread = threading.Thread(target=send)
        thread.start()
        seen: list[tuple[int, str]] = []
        for time_ns in (999, 1000, 1001, 2500, 3000):
            reader.turn(time_ns)
            while reader.core.inbox:
                item = reader.wait(0)
                assert isinstance(item, News)
                seen.append((time_ns, item.headline))
        thread.join(60)
    assert seen == [(1001, "First"), (1001, "Second"), (3000, "Third")]
    assert [each.time_ns for each in sent] == [1000, 1000, 2500]
