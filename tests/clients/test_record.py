"""A running exchange is recorded and the recording replayed: the tape is the same."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from serl.clients.blocking import Exchange, connect
from serl.clients.errors import ExchangeUnreachable, FeedGap, Rejected, UnknownSymbol
from serl.clients.record import Recorder
from serl.clients.replay import Replayer
from serl.clients.session import Order
from serl.exchange.records import EVENT, EventFlag, EventKind, Phase, TimeInForce
from serl.exchange.wire import FeedKind
from serl.history.day import Day, day_writer, read_day
from serl.history.tape import HASH
from serl.history.verify import market_of, verify_tape
from tests.server_fixture import free_endpoint, start_exchange

FEED_DELAY_S = 0.5
"""The feed has its own socket: its message may arrive after the reply to the order."""


def trade(client: Exchange, count: int, seed: int) -> None:
    """Random orders, cancels, reductions and replacements in two symbols."""
    random = np.random.default_rng(seed)
    orders: list[Order] = []
    for _ in range(count):
        draw, symbol = random.random(), ("AMZN", "GOOG")[int(random.integers(2))]
        price, lots = int(random.integers(995, 1006)), int(random.integers(1, 20))
        try:
            if draw < 0.6 or not orders:
                in_force = TimeInForce.GTC if draw < 0.45 else TimeInForce.IOC
                orders.append(
                    (client.buy if random.random() < 0.5 else client.sell)(symbol, lots, price, time_in_force=in_force)
                )
            elif draw < 0.75:
                client.cancel(orders.pop(int(random.integers(len(orders)))))
            elif draw < 0.85:
                client.reduce(orders[int(random.integers(len(orders)))], 1)
            else:
                client.replace(orders[int(random.integers(len(orders)))], lots, price)
        except Rejected:
            continue


@contextmanager
def recording(endpoint: str, path: Path, *symbols: str) -> Iterator[Callable[[], Day]]:
    """Records in a thread until `finish()`, which returns the day."""
    stop = threading.Event()
    ready = threading.Event()
    failed: list[BaseException] = []

    def report(recorder: Recorder) -> None:
        ready.set()

    def record() -> None:
        try:
            with day_writer(path) as writer:
                recorder = Recorder(endpoint, writer, symbols)
                try:
                    recorder.run(stop, report)
                finally:
                    recorder.close()
                recorder.finish()
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=record)
    thread.start()

    def finish() -> Day:
        time.sleep(FEED_DELAY_S)
        stop.set()
        thread.join(60)
        if failed:
            raise failed[0]
        return read_day(path)

    try:
        assert ready.wait(60)
        yield finish
    finally:
        stop.set()
        thread.join(60)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Day, list[list[int]]]]:
    """A recording that began in mid-session, and the book of AMZN at its end."""
    with start_exchange() as exchange, connect(exchange.endpoint, "a") as client:
        trade(client, 60, 1)
        with recording(exchange.endpoint, tmp_path / "live.parquet") as finish:
            trade(client, 400, 2)
            bids, asks = client.book("AMZN", 0)
            day = finish()
        yield day, [list(level) for level in [*bids, *asks]]


def test_a_live_session_and_its_replay_have_the_same_tape(live: tuple[Day, list[list[int]]], tmp_path: Path) -> None:
    day, book = live
    recorded, replayed = verify_tape(day)
    assert recorded == replayed == day.reference.parameters[HASH]
    assert day.reference.source == "recorded" and day.reference.date
    assert day.commands["time_ns"].min() > 0 and day.commands["time_ns"].max() < 2 * 86_400 * 10**9
    assert (day.rows < 0).any() and day.reference.counts["executions"] > 20
    market, commands = market_of(day)
    market.submit(commands)
    bids, asks = market.book(0)
    assert [list(row.item()) for row in np.concatenate([bids, asks])] == book

    with (
        start_exchange(clock="lockstep") as exchange,
        recording(exchange.endpoint, tmp_path / "again.parquet") as finish,
    ):
        replayer = Replayer(day, exchange.endpoint)
        replayer.run(lambda _: None)
        replayer.close()
        again = finish()
    assert again.reference.parameters[HASH] == recorded


@pytest.mark.long
def test_ctrl_c_completes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "session.parquet"
    with start_exchange(symbols="AMZN,GOOG") as exchange, connect(exchange.endpoint, "a") as client:
        arguments = ["record", "--connect", exchange.endpoint, "-o", str(path), "--symbols", "GOOG"]
        process = subprocess.Popen(
            [sys.executable, "-m", "serl", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith("recording tcp://")
        client.buy("GOOG", 5, 100)
        client.buy("AMZN", 5, 100)
        client.sell("GOOG", 2, 100)
        client.wait(5)  # the feed sends the time once a second; a busy machine reads it later
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "stopped; 2 commands, 2 events" in output
    day = read_day(path)
    assert [symbol.name for symbol in day.reference.symbols] == ["GOOG"]
    assert day.commands["qty_lots"].tolist() == [5, 2]
    assert len(list(tmp_path.iterdir())) == 1


def test_no_exchange_and_unknown_symbols(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serl.clients.record.SILENCE_S", 0.3)
    with pytest.raises(ExchangeUnreachable, match="no reply"), day_writer(tmp_path / "a") as writer:
        Recorder(free_endpoint(), writer)
    monkeypatch.setattr("serl.clients.record.SILENCE_S", 10.0)
    unknown = pytest.raises(UnknownSymbol, match=r"expected symbols of .* \(AMZN, GOOG\), got MSFT")
    with start_exchange() as exchange, unknown, day_writer(tmp_path / "a") as writer:
        Recorder(exchange.endpoint, writer, ("AMZN", "MSFT"))
    assert not list(tmp_path.iterdir()), "no file without a recording"


def test_gaps_and_restarts_end_the_recording(tmp_path: Path) -> None:
    with start_exchange() as exchange, connect(exchange.endpoint, "a") as client:
        client.buy("AMZN", 3, 100)
        with day_writer(tmp_path / "a.parquet") as writer:
            recorder = Recorder(exchange.endpoint, writer, ("AMZN", "AMZN"))
            epoch, sequence = recorder.epoch, recorder.sequences[0]
            with pytest.raises(FeedGap, match="has a gap"):
                recorder.process(b"rows/AMZN/", [FeedKind.ROWS, epoch, sequence + 5, sequence + 6, 0, b""])
            with pytest.raises(FeedGap, match="was restarted"):
                recorder.process(b"time/", [FeedKind.TIME, epoch + 1, 0, 0, 0, []])
            recorder.close()
            recorder.finish()
    day = read_day(tmp_path / "a.parquet")
    assert day.commands["qty_lots"].tolist() == [3] and len(day.reference.symbols) == 1, "a name may be given twice"


@pytest.mark.parametrize("ends", ["gap", "phase"])
def test_no_symbol_is_recorded_beyond_the_end_of_another(tmp_path: Path, ends: str) -> None:
    """Orders in GOOG were recorded while those in AMZN were missing."""

    def rows(*events: tuple[int, EventKind, int]) -> bytes:
        found = np.zeros(len(events), EVENT)
        for row, (number, kind, flags) in zip(found, events, strict=True):
            row["sequence"], row["order_number"], row["kind"], row["flags"] = number, number, kind, flags
        found["price_ticks"], found["qty_lots"], found["time_ns"] = 100, found["sequence"], time.time_ns()
        return found.tobytes()

    added = EventKind.ACCEPTED, int(EventFlag.RESTING)
    with start_exchange() as exchange, day_writer(tmp_path / "a.parquet") as writer:
        recorder = Recorder(exchange.endpoint, writer)
        epoch, amzn, goog = recorder.epoch, b"rows/AMZN/", b"rows/GOOG/"
        recorder.process(goog, [FeedKind.ROWS, epoch, 0, 3, 0, rows((1, *added), (3, *added))])
        with pytest.raises(FeedGap):
            if ends == "gap":
                recorder.process(amzn, [FeedKind.ROWS, epoch, 2, 4, 0, rows((4, *added))])
            else:
                events = rows((2, EventKind.PHASED, int(Phase.PRE_OPEN)), (4, *added))
                recorder.process(amzn, [FeedKind.ROWS, epoch, 0, 4, 0, events])
        recorder.close()
        recorder.finish()
    assert read_day(tmp_path / "a.parquet").commands["qty_lots"].tolist() == ([] if ends == "gap" else [1])
