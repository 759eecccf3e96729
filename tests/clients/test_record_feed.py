"""What a recorder makes of replies and feed messages, of which an exchange sends some seldom: late books, halts, phases, silence."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.clients import record
from serl.clients.errors import ExchangeUnreachable, FeedGap, RequestRejected
from serl.clients.record import Recorder
from serl.exchange.records import EVENT, CommandKind, EventFlag, EventKind, Phase, Side
from serl.exchange.wire import REPLY, FeedKind, Kind
from serl.history.day import Day, day_writer, read_day

DAY_NS = 86_400 * 10**9
MIDNIGHT_NS = 20_000 * DAY_NS
ADDED = EventKind.ACCEPTED, int(EventFlag.RESTING)
CONTINUOUS, HALTED, CLOSED = [0, Phase.CONTINUOUS], [1, Phase.CONTINUOUS], [0, Phase.CLOSED]


def rows(*events: tuple[int, tuple[EventKind, int]]) -> bytes:
    """EVENT rows from (sequence, (kind, flags)), each with the time and the lots of its sequence."""
    found = np.zeros(len(events), EVENT)
    for row, (sequence, (kind, flags)) in zip(found, events, strict=True):
        row["sequence"] = row["order_number"] = row["qty_lots"] = sequence
        row["kind"], row["flags"], row["price_ticks"], row["time_ns"] = kind, flags, 100, MIDNIGHT_NS + 1000 + sequence
    return found.tobytes()


def feed(symbol: str, previous: int, *events: tuple[int, tuple[EventKind, int]]) -> tuple[bytes, list[Any]]:
    """A feed message with events of a symbol after event `previous`."""
    last = max((sequence for sequence, _ in events), default=previous)
    return f"rows/{symbol}/".encode(), [FeedKind.ROWS, 1, previous, last, 0, rows(*events)]


def clock(sequence: int, epoch: int = 1) -> tuple[bytes, list[Any]]:
    """A feed message that says that everything up to an event has been published."""
    return b"time/", [FeedKind.TIME, epoch, sequence, sequence, MIDNIGHT_NS + 1000 + sequence, []]


class FakeExchange:
    """Stands in for the sockets: answers at once, in place of an exchange of A and B with some orders, and has feed messages to be read."""

    has_keys = False

    def __init__(self) -> None:
        self.statuses = {0: [CONTINUOUS], 1: [CONTINUOUS]}
        #: sequence, time and orders (number, side, ticks, lots) of a book; the last one stays
        self.books = {0: [(10, 50, [(5, Side.BUY, 99, 3), (6, Side.SELL, 101, 4)])], 1: [(12, 40, [])]}
        #: what arrives first, and what is left to be read: some messages at a time
        self.early = [[clock(9)]]
        self.messages: list[list[tuple[bytes, list[Any]]]] = []
        self.topics: list[bytes] = []

    def request(self, on_reply: Any, kind: Kind, *values: Any, timeout_s: float) -> bool:
        sequence, time_ns, data = 0, 0, None
        if kind == Kind.INFO:
            symbols = [[number, name, "0.01", "1"] for number, name in enumerate("AB")]
            data = [None, symbols, ["live", 1.0, 0, MIDNIGHT_NS], {}]
        else:
            left = (self.statuses if kind == Kind.STATUS else self.books)[values[0]]
            data = left.pop(0) if len(left) > 1 else left[0]
            if kind == Kind.L3:
                sequence, time_ns, data = data
        on_reply([kind + REPLY, 1, 1, sequence, MIDNIGHT_NS + time_ns, data], 0.0)
        return True

    def subscribe(self, topic: bytes) -> None:
        self.topics.append(topic)
        self.messages = list(self.early)

    def feed_messages(self, _limit: int) -> list[tuple[bytes, list[Any]]]:
        return self.messages.pop(0) if self.messages else []

    def wait(self, timeout_ms: int) -> None:
        pass

    def process_replies(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> FakeExchange:
    fake = FakeExchange()
    monkeypatch.setattr(record, "Sockets", lambda *_: fake)
    return fake


def recorded(path: Path, *messages: tuple[bytes, list[Any]], symbols: tuple[str, ...] = ()) -> tuple[Day, str]:
    """The day recorded from these messages, and the error that ended it."""
    error = ""
    with day_writer(path) as writer:
        recorder = Recorder("here", writer, symbols)
        try:
            for topic, message in messages:
                recorder.process(topic, message)
        except FeedGap as gap:
            error = str(gap)
        recorder.finish()
    return read_day(path), error


def lots(day: Day, symbol: int) -> list[int]:
    """The quantities of the commands of a symbol after the opening book."""
    return day.commands["qty_lots"][(day.rows >= 0) & (day.commands["symbol"] == symbol)].tolist()


def test_the_first_books(exchange: FakeExchange, tmp_path: Path) -> None:
    """B is halted between its status and its book, which is asked for again."""
    exchange.statuses[1] = [CONTINUOUS, HALTED]
    exchange.books[1] = [(11, 45, []), (12, 40, [(7, Side.SELL, 200, 8)])]
    day, error = recorded(tmp_path / "a")
    commands, new = day.commands, CommandKind.NEW
    assert commands[["symbol", "kind", "side", "price_ticks", "qty_lots"]].tolist() == [
        (0, new, Side.BUY, 99, 3), (0, new, Side.SELL, 101, 4), (1, new, Side.SELL, 200, 8), (1, CommandKind.HALT, 0, 0, 0),
    ]  # fmt: skip
    assert set(commands["time_ns"]) == {40} and (day.rows == -1).all() and not error
    reference = day.reference
    assert (reference.date, reference.first_time_ns, reference.last_time_ns) == ("2024-10-04", 40, 40)
    assert exchange.topics == [b"rows/A/", b"rows/B/", b"news/", b"time/"]


def test_events_are_written_in_their_order(exchange: FakeExchange, tmp_path: Path) -> None:
    """Those that the books contain are left out."""
    exchange.early = [[feed("A", 8, (9, ADDED), (10, ADDED), (11, ADDED))], [clock(11)]]
    day, error = recorded(
        tmp_path / "a",
        feed("A", 11, (15, ADDED)), feed("A", 10, (11, ADDED)), feed("B", 12), feed("B", 7, (12, ADDED), (13, ADDED)), clock(14),
        feed("A", 15, (16, ADDED), (18, ADDED)), feed("B", 13, (17, ADDED)),
    )  # fmt: skip
    written = day.commands[day.rows >= 0]
    assert written[["time_ns", "symbol", "qty_lots"]].tolist() == [
        (1000 + sequence, symbol, sequence)
        for sequence, symbol in ((11, 0), (13, 1), (15, 0), (16, 0), (17, 1), (18, 0))
    ]
    assert day.rows[day.rows >= 0].tolist() == list(range(6)) and day.reference.source_rows == 6
    assert day.reference.last_time_ns == 1018 and not error


def test_only_what_is_complete_is_written(exchange: FakeExchange, tmp_path: Path) -> None:
    """An event of B may still come before one of A, until the exchange says that all before are published."""
    with day_writer(tmp_path / "a") as writer:
        recorder = Recorder("here", writer)
        for message in (feed("A", 10, (13, ADDED), (14, ADDED), (15, ADDED)), clock(14)):
            recorder.process(*message)
        assert writer.commands == 2 + 2 and recorder.time_ns == 1014
        recorder.process(*clock(14))
        assert writer.commands == 2 + 2
        for message in (feed("B", 12, (16, ADDED)), clock(15)):
            recorder.process(*message)
        assert writer.commands == 2 + 3
        recorder.finish()
    assert lots(read_day(tmp_path / "a"), 1) == [16]


def test_a_gap_ends_the_recording_of_all_symbols(exchange: FakeExchange, tmp_path: Path) -> None:
    """Where events of one may be missing; the same messages without a gap do not."""
    events = feed("A", 10, (13, ADDED)), feed("B", 12, (14, ADDED), (16, ADDED))
    day, error = recorded(tmp_path / "a", *events, feed("A", 14, (15, ADDED)))
    assert error.startswith("the feed has a gap (events 13 to 14)") and (lots(day, 0), lots(day, 1)) == ([13], [])
    day, error = recorded(tmp_path / "b", *events, feed("A", 13, (15, ADDED)))
    assert not error and (lots(day, 0), lots(day, 1)) == ([13, 15], [14, 16])
    day, error = recorded(tmp_path / "c", *events, clock(16, epoch=2))
    assert "was restarted (epoch 2 after 1)" in error and (lots(day, 0), lots(day, 1)) == ([13], [14, 16])


def test_the_first_phase_that_is_not_continuous_ends_the_recording(exchange: FakeExchange, tmp_path: Path) -> None:
    continuous, closed = ((EventKind.PHASED, int(phase)) for phase in (Phase.CONTINUOUS, Phase.CLOSED))
    events = (13, ADDED), (14, continuous), (15, ADDED), (16, closed), (17, ADDED), (18, closed)
    day, error = recorded(tmp_path / "a", feed("B", 12, (19, ADDED)), feed("A", 10, *events))
    assert error.endswith("the recording ends where A left continuous trading") and lots(day, 0) == [13, 15]
    assert not lots(day, 1)
    exchange.statuses[1] = [CLOSED]
    with pytest.raises(RequestRejected, match="start during continuous trading"):
        recorded(tmp_path / "b")
    day, _ = recorded(tmp_path / "c", symbols=("A",))
    assert [symbol.name for symbol in day.reference.symbols] == ["A"]


def test_one_symbol_has_the_number_of_its_place(exchange: FakeExchange, tmp_path: Path) -> None:
    day, _ = recorded(tmp_path / "a", feed("B", 12, (13, ADDED)), symbols=("B",))
    assert lots(day, 0) == [13] and exchange.topics[0] == b"rows/B/"


def test_why_a_recording_ends(exchange: FakeExchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has arrived by then is recorded; each TIME of the exchange shows that it goes on."""
    now_s = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    stop, seen = threading.Event(), list[int]()

    def passes(recorder: Recorder) -> None:
        now_s[0] += 4.0
        seen.append(recorder.time_ns)

    with day_writer(tmp_path / "a") as writer:
        recorder = Recorder("here", writer)
        exchange.messages = [[], [], [clock(20)], [feed("A", 10, (21, ADDED))]]
        assert recorder.run(stop, passes) == "the exchange stopped (silent for 10 s)"
        assert seen == [1009, 1009, 1020, 1020, 1020]
        exchange.messages = [[clock(22)], [], [clock(23)], [clock(24)]]
        assert recorder.run(stop, passes, seconds=7.0) == "recorded 7 s" and recorder.time_ns == 1023
        stop.set()
        assert recorder.run(stop, passes) == "stopped" and recorder.time_ns == 1024
        recorder.finish()
    exchange.early = []
    monkeypatch.setattr(exchange, "wait", lambda timeout_ms: passes(recorder))
    with pytest.raises(ExchangeUnreachable, match="nothing from the feed of here for 10 s"):
        Recorder("here", writer)
