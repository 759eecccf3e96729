"""What a replay sends, and when: with other numbers than in the day's file, up to what may be unanswered, at its times."""

import time
from collections import deque
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.clients import replay
from serl.clients.instrument import Instrument
from serl.clients.replay import Progress, Replayer, ReplayError
from serl.exchange.records import ALL_SYMBOLS, COMMAND, EVENT, CommandKind, EventKind, Reason, Rows, Rule, command
from serl.history.day import Day, Reference, SymbolReference, select_symbol

SECOND_NS, FIRST_ID = 10**9, 1001


class FakeExchange:
    """Stands in for the client of an exchange of B, C and A. It takes rows; `wait` answers up to `answers` of them, and passes time."""

    def __init__(self, kind: str = "live") -> None:
        instruments = {name: Instrument.of(number, name, "0.01", "1") for number, name in enumerate("BCA")}
        limits = {"bulk_rows_max": 4, "qty_lots_max": 10**6, "price_ticks_max": 10**9}
        self.session = SimpleNamespace(
            instruments=instruments, next_command_id=FIRST_ID, limits=limits, operator=True, rows=np.copy,
            clock=[kind, 1.0, 0, 0],
        )  # fmt: skip
        self.core = SimpleNamespace(logins=1, inbox=deque[Any](), raise_if_dead=lambda: None, send=self.take)
        self.answers, self.now_s, self.is_closed = 100, 1000.0, False
        self.sent: list[Rows] = []
        self.sent_s: list[float] = []
        self.waiting: deque[int] = deque()
        self.rejected: dict[int, Reason] = {}

    def instrument(self, name: str) -> Instrument:
        return self.session.instruments[name]

    def take(self, rows: Any) -> None:
        self.sent.append(rows)
        self.sent_s.append(self.now_s)
        self.waiting.extend(rows["command_id"].tolist())

    def wait(self, timeout_s: float) -> Rows | None:
        """Each answer in an item of its own; a fill of a resting order has no command id."""
        self.now_s += timeout_s
        for _ in range(min(self.answers, len(self.waiting)) if timeout_s else 0):
            events = np.zeros(2, EVENT)
            events["command_id"], events["kind"] = [self.waiting.popleft(), 0], EventKind.ACCEPTED
            if reason := self.rejected.get(int(events["command_id"][0])):
                events["kind"][0], events["reason"][0] = EventKind.REJECTED, reason
            self.core.inbox.append(events)
        return self.core.inbox.popleft() if self.core.inbox else None

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> FakeExchange:
    fake = FakeExchange()
    monkeypatch.setattr(replay, "connect", lambda *_, **__: fake)
    monkeypatch.setattr(time, "monotonic", lambda: fake.now_s)
    return fake


def day_of(*rows: Rows) -> Day:
    """A day of A and B."""
    commands = np.concatenate(rows)
    return Day(
        commands, np.arange(len(commands)), Reference((SymbolReference("A"), SymbolReference("B")), "", "generated")
    )


def orders(*times_ns: int, symbol: int = 0) -> Rows:
    made = np.zeros(len(times_ns), COMMAND)
    made["kind"], made["qty_lots"], made["price_ticks"], made["time_in_force"] = CommandKind.NEW, 1, 100, 1
    made["time_ns"], made["command_id"], made["symbol"] = times_ns, 1 + np.arange(len(made)), symbol
    return made


def nothing(_progress: Progress) -> None:
    pass


def test_rows_get_the_numbers_of_the_exchange(exchange: FakeExchange) -> None:
    """Symbols, command ids and the orders that they name; prices and participants in the same columns stay."""
    kinds = CommandKind
    day = day_of(
        command(kinds.NEW, symbol=1, qty_lots=1, price_ticks=1, command_id=7),
        command(kinds.CANCEL, symbol=1, order_id=7, command_id=8),
        command(kinds.REDUCE, symbol=0, order_id=7, qty_lots=1, command_id=9),
        command(kinds.REPLACE, symbol=0, order_id=7, qty_lots=1, price_ticks=1, command_id=10),
        command(kinds.CANCEL, symbol=0, order_id=0, command_id=11),
        command(kinds.RULE, symbol=0, order_id=7, flags=Rule.QUOTE_ASSET, price_ticks=3, command_id=12),
        command(kinds.RULE, symbol=0, flags=Rule.BASE_ASSET, price_ticks=1, command_id=13),
        command(kinds.RULE, symbol=0, flags=Rule.BASE_ASSET, price_ticks=0, command_id=14),
        command(kinds.MASS_CANCEL, symbol=ALL_SYMBOLS, command_id=15),
        command(kinds.DEPOSIT, order_id=7, qty_lots=2, command_id=16),
        command(kinds.NEW, symbol=0, qty_lots=2, price_ticks=3, command_id=17),
    )
    before = day.commands.copy()
    rows = Replayer(day, "here", token="t").rows
    assert rows["command_id"].tolist() == list(range(FIRST_ID, FIRST_ID + 11))
    assert rows["symbol"].tolist() == [0, 0, 2, 2, 2, 2, 2, 2, ALL_SYMBOLS, 2, 2]
    assert rows["order_id"].tolist() == [0, FIRST_ID, FIRST_ID, FIRST_ID, 0, 7, 0, 0, 0, 7, 0]
    assert rows["price_ticks"].tolist() == [1, 0, 0, 1, 0, 4, 3, 0, 0, 0, 3], "of three symbols: currencies from 4 on"
    assert rows["qty_lots"].tolist() == [1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 2]
    assert np.array_equal(day.commands, before)


def test_all_rows_are_sent_and_answered(exchange: FakeExchange, monkeypatch: pytest.MonkeyPatch) -> None:
    """In messages of `bulk_rows_max` rows, without waiting until too many have no reply."""
    monkeypatch.setattr(replay, "UNANSWERED_MAX", 6)
    exchange.answers, exchange.rejected = 1, {FIRST_ID + 2: Reason.UNKNOWN_ORDER, FIRST_ID + 8: Reason.UNKNOWN_ORDER}
    replayer, unanswered = Replayer(day_of(orders(*range(1, 12))), "here", token="t"), list[int]()

    def noted(progress: Progress) -> None:
        assert progress.time_ns == progress.sent
        unanswered.append(progress.sent - progress.answered)

    progress = replayer.run(noted)
    assert [len(rows) for rows in exchange.sent] == [4, 4, 3]
    assert unanswered[:3] == [4, 8, 9] and unanswered[-1] == 0
    assert (progress.sent, progress.answered, progress.finished) == (11, 11, True)
    assert progress.rejected == {"UNKNOWN_ORDER": 2}


def test_ids_may_have_gaps(exchange: FakeExchange) -> None:
    """As in a day of one symbol out of several: the replay ended before its last rows were answered."""
    both = day_of(orders(1, 2, 3, 4, 5, 6, 7, 8))
    both.commands["symbol"][1:6] = 1
    exchange.answers = 1
    progress = Replayer(select_symbol(both, "A"), "here", token="t").run(nothing)
    assert (progress.answered, progress.rows) == (3, 3) and not exchange.waiting


def test_a_window_ends_with_its_last_time(exchange: FakeExchange) -> None:
    Replayer(day_of(orders(1, 2, 2, 3)), "here", token="t", to_ns=2).run(nothing)
    assert np.concatenate(exchange.sent)["time_ns"].tolist() == [1, 2, 2]


def test_rows_are_sent_at_their_times(exchange: FakeExchange) -> None:
    """At twice the speed; those before `from_ns` at once, in messages of their own."""
    times_ns = [second * SECOND_NS for second in (1, 2, 3, 10, 10, 14)]
    Replayer(day_of(orders(*times_ns)), "here", 2.0, "t", from_ns=10 * SECOND_NS).run(nothing)
    assert [len(rows) for rows in exchange.sent] == [3, 2, 1]
    assert [sent_s - exchange.sent_s[0] for sent_s in exchange.sent_s] == pytest.approx([0.0, 0.0, 2.0], abs=0.02)


def test_a_second_login_and_other_exchanges_are_refused(exchange: FakeExchange) -> None:
    day = day_of(orders(1))
    replayer = Replayer(day, "here", token="t")
    exchange.core.logins += 1
    with pytest.raises(ReplayError, match="got a second login"):
        replayer.run(nothing)
    exchange.session.clock = ["scaled", 2.0, 0, 0]
    Replayer(day, "here", 2.0, "t")
    assert not exchange.is_closed
    with pytest.raises(ReplayError, match="the speed of the exchange's clock, 2, got --speed 3"):
        Replayer(day, "here", 3.0, "t")
    assert exchange.is_closed
    exchange.session.operator = False
    with pytest.raises(ReplayError, match="which needs an operator"):
        Replayer(day, "here", token="t")


def test_in_lockstep_time_is_promised(exchange: FakeExchange) -> None:
    """Each time until which nothing more comes."""
    exchange.session.clock = ["lockstep", 1.0, 0, 0]
    promised, take = list[int](), exchange.take

    def sent(message: Any) -> None:
        if isinstance(message, bytes):
            promised.append(msgpack.unpackb(message)[1])
        else:
            take(message)

    exchange.core.send = sent
    Replayer(day_of(orders(1, 2, 3, 4, 7)), "here", token="t").run(nothing)
    assert promised == [1, 7, replay.END_NS] and [len(rows) for rows in exchange.sent] == [4, 1]
