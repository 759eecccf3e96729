"""Replays a day of history into a running exchange, as one participant among others.

The history's commands are sent as if nobody else had ever traded; the book decides their effect (docs/history.md).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import msgpack
import numpy as np
from numpy.typing import NDArray

from serl.clients.blocking import Exchange, connect
from serl.clients.clock import RemoteClock
from serl.clients.inbox import InboxItem
from serl.clients.replay_news import NewsReplay
from serl.clients.session import Grant
from serl.exchange.config import local_operator_token, time_of_day_text
from serl.exchange.errors import SerlError
from serl.exchange.records import CommandKind, EventKind, Reason, Rows, Rule
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind
from serl.history.day import Day, SymbolReference
from serl.history.limits import limits_for

NAME = "history"
END_NS = 1 << 62
UNANSWERED_MAX = 8192
"""The replayer pauses while this many rows have no reply."""
CHANGES = (CommandKind.CANCEL, CommandKind.REDUCE, CommandKind.REPLACE)
"""Commands whose `order_id` names an order."""


class ReplayError(SerlError, ValueError):
    """The day cannot be replayed into this exchange."""


@dataclass
class Progress:
    """Progress of a replay: rows sent and answered, rejections by reason."""

    rows: int
    sent: int = 0
    answered: int = 0
    time_ns: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    finished: bool = False


def check_window(day: Day, from_ns: int, to_ns: int) -> None:
    """Raises ReplayError for a day without commands, or a time outside it. Times are in ns after midnight."""
    times = day.commands["time_ns"]
    if not len(times):
        raise ReplayError("expected a day with commands, got an empty one; `serl day info` shows what its source had")
    first, last = time_of_day_text(int(times[0])), time_of_day_text(int(times[-1]))
    if from_ns > times[-1]:
        raise ReplayError(
            f"--from: expected a time of the day, which ends at {last}, got {time_of_day_text(from_ns)}; give an earlier one"
        )
    if to_ns < times[0]:
        raise ReplayError(
            f"--to: expected a time of the day, which begins at {first}, got {time_of_day_text(to_ns)}; give a later one"
        )
    if to_ns < from_ns:
        raise ReplayError(
            f"--to: expected a time after --from {time_of_day_text(from_ns)}, got {time_of_day_text(to_ns)}; give a later one"
        )


def renumber_for(day: Day, client: Exchange, first_id: int) -> Rows:
    """The day's rows with the exchange's symbol numbers and with ids from first_id on."""
    rows = with_symbol_numbers(day, client)
    _check_limits(day, client.session.limits)
    shift = first_id - int(rows[0]["command_id"])
    rows["command_id"] += shift
    names_order = np.isin(rows["kind"], CHANGES) & (rows["order_id"] > 0)  # the order_id of a RULE is a price
    rows["order_id"][names_order] += shift
    return rows


def with_symbol_numbers(day: Day, client: Exchange) -> Rows:
    """The day's rows with the exchange's symbol and asset numbers. Raises `ReplayError` if the exchange lacks a symbol or has other sizes of ticks
    or lots."""
    rows = day.commands.copy()
    symbols = day.reference.symbols
    missing = [symbol.name for symbol in symbols if symbol.name not in client.session.instruments]
    if missing:
        raise ReplayError(
            f"expected an exchange with {', '.join(missing)}, got one with {', '.join(client.session.instruments)}; start the exchange with "
            f"{_symbols_setting(symbols)}"
        )
    numbers = []
    for symbol in symbols:
        instrument = client.instrument(symbol.name)
        for unit, size, other in (
            ("tick", symbol.tick_size, instrument.tick_size),
            ("lot", symbol.lot_size, instrument.lot_size),
        ):
            if other != Decimal(size):
                raise ReplayError(
                    f"{symbol.name}: expected the day's {unit} size {size}, the exchange has {other:f}; start it with {_symbols_setting(symbols)}"
                )
        numbers.append(instrument.number)
    has_symbol = rows["symbol"] < len(numbers)  # not ALL_SYMBOLS, nor commands without a symbol
    rows["symbol"][has_symbol] = np.array(numbers, np.uint16)[rows["symbol"][has_symbol]]
    _renumber_assets(rows, np.array(numbers), len(client.session.instruments))
    return rows


def _symbols_setting(symbols: tuple[SymbolReference, ...]) -> str:
    """The option that starts an exchange with these symbols."""
    if all(Decimal(one.lot_size) == 1 for one in symbols):
        return "--symbols " + ",".join(
            one.name if one.tick_size == "0.01" else f"{one.name}={one.tick_size}" for one in symbols
        )
    settings = (f'{{name: {one.name}, tick_size: "{one.tick_size}", lot_size: "{one.lot_size}"}}' for one in symbols)
    return f"--config and symbols: [{', '.join(settings)}]"


def _renumber_assets(rows: Rows, symbols: NDArray[np.int64], symbols_count: int) -> None:
    """Renumbers assets as the exchange does, base assets first. symbols (S,): the exchange's numbers of the day's symbols, out of its `symbols_count`."""
    base = 1 + symbols
    is_asset_rule = (rows["kind"] == CommandKind.RULE) & np.isin(rows["flags"], (Rule.BASE_ASSET, Rule.QUOTE_ASSET))
    for column, names_asset in (("qty_lots", rows["kind"] == CommandKind.DEPOSIT), ("price_ticks", is_asset_rule)):
        asset = rows[column][names_asset]
        known = (asset >= 1) & (asset <= len(base))
        others = np.where(asset > len(base), asset + symbols_count - len(base), asset)
        rows[column][names_asset] = np.where(known, base[np.where(known, asset - 1, 0)], others)


def _check_limits(day: Day, limits: dict[str, float]) -> None:
    """Raises `ReplayError` if the exchange would reject orders for their size or price."""
    needed = limits_for([day.commands])
    for name, limit in (("qty_lots", "qty_lots_max"), ("price_ticks", "price_ticks_max")):
        largest = min(int(day.commands[name].max()), getattr(needed, limit))  # no limits would allow more
        if largest > limits[limit]:
            raise ReplayError(
                f"the day has {name} up to {largest}, the exchange accepts {limits[limit]}; start it with --config and limits: {limit}: {largest}"
            )


class Replayer:
    """One replay; `run` returns at its end, `progress` shows how far it is."""

    def __init__(
        self,
        day: Day,
        endpoint: str,
        speed: float | None = None,
        token: str = "",
        from_ns: int = 0,
        to_ns: int = END_NS,
        curve: Path | None = None,
    ) -> None:
        check_window(day, from_ns, to_ns)
        self.day = day
        self.endpoint, self.curve = endpoint, curve
        self.speed = speed
        self.token = token = token or local_operator_token(
            endpoint
        )  # the participant operates the exchange: prints, halts, the clock
        self.client = connect(endpoint, NAME, token, rows=True, curve=curve)
        try:
            rows = self._rows()
            end = int(np.searchsorted(rows["time_ns"], to_ns, side="right"))
            self.rows = rows[:end]
            self._check()
        except BaseException:
            self.client.close()
            raise
        self.progress = Progress(len(self.rows))
        self.news = NewsReplay([each for each in day.news if each.time_ns <= to_ns], endpoint, token, curve)
        self._granted_ns = int(self.client.session.clock[2])
        #: rows before this one are sent as fast as possible, whatever the speed
        self._first_paced = int(np.searchsorted(self.rows["time_ns"], from_ns))
        self._last_id = 0
        self._logins = self.client.core.logins

    def _rows(self) -> Rows:
        return renumber_for(self.day, self.client, self.client.session.next_command_id)

    @property
    def clock_kind(self) -> str:
        """The exchange's clock: live, scaled or lockstep."""
        return str(self.client.session.clock[0])

    def _check(self) -> None:
        session = self.client.session
        if not session.operator:
            raise ReplayError(
                f"a replay halts symbols and prints trades, which needs an operator; add {NAME!r} to login.operators"
            )
        if self.clock_kind == "scaled" and self.speed is not None and self.speed != session.clock[1]:
            raise ReplayError(
                f"expected the speed of the exchange's clock, {session.clock[1]:g}, got --speed {self.speed:g}; use the same speed for both"
            )

    def wait_for(self, sessions: int) -> None:
        """Returns once this many other sessions are logged in."""
        while self.client.ask(Kind.STATISTICS)[5]["sessions"] <= sessions:
            self.client.wait(0.05)

    def run(self, report: Callable[[Progress], None]) -> Progress:
        """Sends every command, calling `report` from time to time; returns once all are answered."""
        lockstep = self.clock_kind == "lockstep"
        batch = int(self.client.session.limits["bulk_rows_max"])
        market_time = None if lockstep and self.speed is None else self._market_time()
        if lockstep:
            self._promise(self._next_ns(0))
        at = 0
        while at < len(self.rows):
            if at == self._first_paced and self.clock_kind == "scaled":
                self._start_clock_at(int(self.rows[at]["time_ns"]))
            self._publish_news(at, market_time)
            stop = min(at + batch, len(self.rows), self._first_row_after_news())
            if at < self._first_paced:
                stop = min(stop, self._first_paced)
            elif market_time is not None:
                stop = self._wait_until_due(market_time, at, stop)
            while self._unanswered() > UNANSWERED_MAX:
                self._receive(0.2)
            self._send(self.rows[at:stop])
            at = stop
            self.progress.sent = at
            self.progress.time_ns = int(self.rows[at - 1]["time_ns"])
            if lockstep:
                self._promise(self._next_ns(at))
            self._receive(0)
            report(self.progress)
        self._publish_news(at, market_time)
        while self.progress.answered < len(self.rows):
            self._receive(0.2)
            report(self.progress)
        self.progress.finished = True
        return self.progress

    def _next_ns(self, at: int) -> int:
        """Lockstep: the time at which the next row, `at`, or the next news message is due."""
        if at < len(self.rows):
            row_ns = int(self.rows[at]["time_ns"])
        else:
            row_ns = max(self._last_promise_ns(), self._granted_ns)
        return row_ns if self.news.next_ns is None else min(row_ns, max(self.news.next_ns, self._granted_ns))

    def _first_row_after_news(self) -> int:
        """The first row that must not be sent before the next news message."""
        if self.news.next_ns is None:
            return len(self.rows)
        return int(np.searchsorted(self.rows["time_ns"], self.news.next_ns))

    def _publish_news(self, at: int, market_time: Callable[[], int] | None) -> None:
        """Publishes the news that is due before row `at`, each message at its time; in lockstep during our turn at that time."""
        row_ns = int(self.rows[at]["time_ns"]) if at < len(self.rows) else END_NS
        while (time_ns := self.news.next_ns) is not None and time_ns <= row_ns:
            if self.clock_kind == "lockstep":
                self._promise(max(time_ns, self._granted_ns))
                while self._granted_ns < time_ns:
                    self._receive(0.2)
            else:
                while self.progress.answered < self.progress.sent:
                    self._receive(0.2)
            while market_time is not None and at > self._first_paced and market_time() < time_ns:
                self._receive(0.002)
            self.news.publish_until(time_ns, self._receive)
            if self.clock_kind == "lockstep":
                self._promise(self._next_ns(at))

    def _start_clock_at(self, time_ns: int) -> None:
        """Sets the clock to the first paced row and starts it, once everything before that row is in the book."""
        while self.progress.answered < self.progress.sent:
            self._receive(0.2)
        set_clock(self.endpoint, self.token, time_ns, run=True, curve=self.curve)

    def _send(self, rows: Rows) -> None:
        self.client.core.send(self.client.session.rows(rows))

    def _unanswered(self) -> int:
        return self.progress.sent - self.progress.answered

    def _last_promise_ns(self) -> int:
        return END_NS

    def _promise(self, time_ns: int) -> None:
        self.client.core.send(msgpack.packb([Kind.PROMISE, time_ns]))

    def _market_time(self) -> Callable[[], int] | None:
        """A function that returns the market time now: commands up to it are due. None to replay as fast as possible."""
        first_ns = int(self.rows[self._first_paced]["time_ns"]) if self._first_paced < len(self.rows) else 0
        if self.clock_kind == "scaled":
            if self._first_paced:  # paused, so that sending the earlier rows takes no market time
                set_clock(self.endpoint, self.token, int(self.rows[0]["time_ns"]), run=False, curve=self.curve)
            return self._exchange_time(RemoteClock())
        if self.speed is None:
            return None
        speed, start_s = self.speed, 0.0

        def now_ns() -> int:
            nonlocal start_s
            # from the first call on: sending the earlier rows takes no market time
            start_s = start_s or time.monotonic()
            return first_ns + int((time.monotonic() - start_s) * speed * 1e9)

        return now_ns

    def _exchange_time(self, clock: RemoteClock) -> Callable[[], int]:
        """A function that returns the exchange's time; its operator may pause the clock, set it ahead or change its speed."""

        def now_ns() -> int:
            if clock.ping_due():
                self.client.core.send(msgpack.packb([Kind.PING, 0]))
            return clock.now_ns(int(self.client.session.clock[2]))

        return now_ns

    def _wait_until_due(self, market_time: Callable[[], int], at: int, stop: int) -> int:
        """Waits until at least one row from `at` on is due; returns the end of the due rows."""
        times = self.rows["time_ns"][at:stop]
        while (count := int(np.searchsorted(times, market_time(), side="right"))) == 0:
            self._receive(0.002)
        return at + count

    def _receive(self, timeout_s: float) -> None:
        item: InboxItem | None = self.client.wait(timeout_s)
        self.client.core.raise_if_dead()
        if self.client.core.logins != self._logins:
            raise ReplayError(
                f"expected one session for the whole replay, got a second login at {self.endpoint}: rows that were on their way are lost; "
                "restart the exchange with a new --journal folder (or none) and replay again"
            )
        while item is not None:
            if isinstance(item, Grant):
                self._process_grant(item)
            elif isinstance(item, np.ndarray):
                self._process_events(item)
            item = self.client.core.inbox.popleft() if self.client.core.inbox else None

    def _process_grant(self, grant: Grant) -> None:
        self._granted_ns = max(self._granted_ns, grant.time_ns)

    def _process_events(self, events: Rows) -> None:
        own = events["command_id"][events["command_id"] > 0]
        if len(own):
            self._last_id = max(self._last_id, int(own.max()))
            self.progress.answered = int(np.searchsorted(self.rows["command_id"], self._last_id, side="right"))
        for reason in events["reason"][events["kind"] == EventKind.REJECTED].tolist():
            name = Reason(reason).name
            self.progress.rejected[name] = self.progress.rejected.get(name, 0) + 1

    def close(self) -> None:
        """Logs out; the orders stay in the book."""
        self.client.close()


def set_clock(endpoint: str, token: str, time_ns: int, run: bool, curve: Path | None = None) -> int:
    """Sets a scaled clock, or a lockstep clock with a speed (CURRENT_TIME: keeps its time), and runs or pauses it; returns time_ns."""
    with request_socket(endpoint, "admin", curve) as ask:
        ask(Kind.CLOCK, token, time_ns, int(run))
    return time_ns
