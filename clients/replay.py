"""Plays a day of history into a running exchange, as one participant among others.

History sends its messages as if nobody else had ever traded; the book decides what becomes of them (docs/history.md).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgpack
import numpy as np

from serl.clients.blocking import Exchange, connect
from serl.clients.clock import RemoteClock
from serl.clients.session import Grant
from serl.exchange.errors import SerlError
from serl.exchange.records import EventKind, Reason, Rows
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from serl.history.day import Day

NAME = "history"
END_NS = 1 << 62
WINDOW_ROWS = 8192
"""Rows without an answer before the replayer waits."""


class ReplayError(SerlError, ValueError):
    """A day that cannot be played into this exchange."""


@dataclass
class Progress:
    """How far a replay has come."""

    rows: int
    sent: int = 0
    answered: int = 0
    time_ns: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    finished: bool = False


def numbered(day: Day, client: Exchange, first_id: int) -> Rows:
    """The day's rows with the exchange's symbol numbers, and ids behind those that history used here before."""
    rows = with_symbols(day, client)
    _check_limits(day, client.session.limits)
    shift = first_id - int(rows[0]["command_id"])
    rows["command_id"] += shift
    rows["order_id"] = np.where(rows["order_id"] > 0, rows["order_id"] + shift, 0)
    return rows


def with_symbols(day: Day, client: Exchange) -> Rows:
    """The day's rows with the exchange's symbol numbers; ReplayError if it does not take them."""
    rows = day.commands.copy()
    if not len(rows):
        raise ReplayError("the day has no commands at all; `serl day info` says what its source had")
    numbers = []
    for symbol in day.reference.symbols:
        instrument = client.instrument(symbol.name)
        if str(instrument.tick_size) != symbol.tick_size:
            raise ReplayError(
                f"{symbol.name}: the day's tick is {symbol.tick_size}, the exchange's {instrument.tick_size}; start it with "
                f"--symbols {symbol.name}={symbol.tick_size}"
            )
        numbers.append(instrument.number)
    named = rows["symbol"] < len(numbers)  # not ALL_SYMBOLS, nor where it means nothing
    rows["symbol"][named] = np.array(numbers, np.uint16)[rows["symbol"][named]]
    return rows


def _check_limits(day: Day, limits: dict[str, float]) -> None:
    """ReplayError if the exchange would reject orders for their size or price."""
    for name, limit in (("qty_lots", "qty_lots_max"), ("price_ticks", "price_ticks_max")):
        largest = int(day.commands[name].max())
        if largest > limits[limit]:
            raise ReplayError(
                f"the day has {name} up to {largest}, the exchange takes {limits[limit]}; start it with --config and limits: {limit}: {largest}"
            )


class Replayer:
    """One replay: `run` until the end or until it is stopped; `progress` says how far it came."""

    def __init__(
        self,
        day: Day,
        endpoint: str,
        speed: float | None = None,
        token: str = "",
        from_ns: int = 0,
        to_ns: int = END_NS,
    ) -> None:
        self.day = day
        self.endpoint = endpoint
        self.speed = speed
        self.token = token
        self.client = connect(endpoint, NAME, token, rows=True)
        try:
            rows = self._rows()
            first = int(np.searchsorted(rows["time_ns"], to_ns, side="right"))
            self.rows = rows[:first]
            self._check()
        except BaseException:
            self.client.close()
            raise
        self.progress = Progress(len(self.rows))
        self._fast_until = int(np.searchsorted(self.rows["time_ns"], from_ns))
        self._last_id = 0

    def _rows(self) -> Rows:
        return numbered(self.day, self.client, self.client.session.next_command_id)

    @property
    def kind(self) -> str:
        """The exchange's clock: live, scaled or lockstep."""
        return str(self.client.session.clock[0])

    def _check(self) -> None:
        session = self.client.session
        if not len(self.rows):
            raise ReplayError("the day has no commands in this stretch of time")
        if not session.operator:
            raise ReplayError(f"history halts and prints: let {NAME!r} be an operator (login.operators)")
        if self.kind == "scaled" and self.speed is not None and self.speed != session.clock[1]:
            raise ReplayError(
                f"--speed {self.speed:g} is asked for, the exchange's clock runs at {session.clock[1]:g}; they must be the same"
            )

    def wait_for(self, sessions: int) -> None:
        """Returns when that many other sessions are logged in."""
        while self.client.ask(Kind.STATISTICS)[5]["sessions"] <= sessions:
            self.client.wait(0.05)

    def run(self, tell: Callable[[Progress], None]) -> Progress:
        """Plays everything, calling `tell` now and then; at the end all is answered."""
        lockstep = self.kind == "lockstep"
        step = int(self.client.session.limits["bulk_rows_max"])
        due = None if lockstep and self.speed is None else self._pace()
        if lockstep:
            self._promise(int(self.rows[0]["time_ns"]))
        at = 0
        while at < len(self.rows):
            stop = min(at + step, len(self.rows))
            if at < self._fast_until:
                stop = min(stop, self._fast_until)
            elif due is not None:
                if at == self._fast_until and self.kind == "scaled":
                    self._go_on_to(int(self.rows[at]["time_ns"]))
                stop = self._wait_until_due(due, at, stop)
            while self._unanswered() > WINDOW_ROWS:
                self._listen(0.2)
            self._say(self.rows[at:stop])
            at = stop
            self.progress.sent = at
            self.progress.time_ns = int(self.rows[at - 1]["time_ns"])
            if lockstep:
                self._promise(int(self.rows[at]["time_ns"]) if at < len(self.rows) else self._last_promise_ns())
            self._listen(0)
            tell(self.progress)
        while self.progress.answered < len(self.rows):
            self._listen(0.2)
            tell(self.progress)
        self.progress.finished = True
        return self.progress

    def _go_on_to(self, time_ns: int) -> None:
        """Sets the clock to where the replay really begins, when all before it is in the book."""
        while self.progress.answered < self.progress.sent:
            self._listen(0.2)
        set_clock(self.endpoint, self.token, time_ns, run=True)

    def _say(self, rows: Rows) -> None:
        self.client.words.say(self.client.session.rows(rows))

    def _unanswered(self) -> int:
        return self.progress.sent - self.progress.answered

    def _last_promise_ns(self) -> int:
        return END_NS

    def _promise(self, time_ns: int) -> None:
        self.client.words.say(msgpack.packb([Kind.PROMISE, time_ns]))

    def _pace(self) -> Callable[[], int] | None:
        """The market time that is due now; None for as fast as it goes."""
        first_ns = int(self.rows[self._fast_until]["time_ns"]) if self._fast_until < len(self.rows) else 0
        if self.kind == "scaled":
            if self._fast_until:  # held: however long it takes, time is not past the beginning then
                set_clock(self.endpoint, self.token, int(self.rows[0]["time_ns"]), run=False)
            return self._follow_clock(RemoteClock())
        if self.speed is None:
            return None
        speed, start = self.speed, time.monotonic()
        return lambda: first_ns + int((time.monotonic() - start) * speed * 1e9)

    def _follow_clock(self, clock: RemoteClock) -> Callable[[], int]:
        """The exchange's time, which its operator may hold, set ahead, and make quicker or slower."""

        def due() -> int:
            if clock.due():
                self.client.words.say(msgpack.packb([Kind.PING, 0]))
            return clock.now_ns(int(self.client.session.clock[2]))

        return due

    def _wait_until_due(self, due: Callable[[], int], at: int, stop: int) -> int:
        """The end of the rows that are due; waits until there is one."""
        times = self.rows["time_ns"][at:stop]
        while (count := int(np.searchsorted(times, due(), side="right"))) == 0:
            self._listen(0.002)
        return at + count

    def _listen(self, timeout_s: float) -> None:
        item = self.client.wait(timeout_s)
        while item is not None:
            if isinstance(item, Grant):
                self._granted(item)
            elif not isinstance(item, tuple):
                self._count(item)
            item = self.client.words.inbox.popleft() if self.client.words.inbox else None

    def _granted(self, grant: Grant) -> None:
        """Time has come as far as was promised; the answers say the same."""

    def _count(self, events: Rows) -> None:
        own = events["command_id"][events["command_id"] > 0]
        if len(own):
            self._last_id = max(self._last_id, int(own.max()))
            self.progress.answered = self._last_id - int(self.rows[0]["command_id"]) + 1
        for reason in events["reason"][events["kind"] == EventKind.REJECTED].tolist():
            name = Reason(reason).name
            self.progress.rejected[name] = self.progress.rejected.get(name, 0) + 1

    def close(self) -> None:
        """Leaves the exchange; the book stays as it is."""
        self.client.close()


def set_clock(endpoint: str, token: str, time_ns: int, run: bool) -> int:
    """Sets a scaled or paced clock (SAME_TIME: it stays where it is) and lets it run or holds it; the time it was set to."""
    with request_socket(endpoint, "admin") as ask:
        ask(Kind.CLOCK, token, time_ns, int(run))
    return time_ns
