"""The thread that follows an exchange: feed, snapshots, vitals, the account, and what operators ask for."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from serl.clients.dashboard.account import Account
from serl.clients.dashboard.board import Board
from serl.clients.dashboard.errors import NotSent
from serl.clients.dashboard.flow import Flow
from serl.clients.dashboard.progress import Progress
from serl.clients.dashboard.sockets import Sockets
from serl.clients.dashboard.symbol import CHANNELS, TRADES, SymbolView
from serl.clients.dashboard.vitals import Vitals
from serl.clients.errors import Refused
from serl.exchange.config import time_of_day_text
from serl.exchange.errors import SerlError
from serl.exchange.records import CommandKind, HaltReason
from serl.exchange.wire import Kind

TURN_MESSAGES = 500
"""Of the feed, between two moments at which pages can read."""
TURN_MS = 5
COLUMN_S = 0.25
SAME_TIME = -1
"""Of CLOCK: where it is now."""
SNAPSHOT_S = 1.0


class Link(threading.Thread):
    """Keeps the board up to date until `stop`. An exchange that goes away is waited for."""

    def __init__(
        self, endpoint: str, board: Board, account: Account, *, token: str = "", curve: Path | None = None,
        executions: tuple[Path, ...] = (), flow: Path | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name="link", daemon=True)
        self._board, self._account, self._token = board, account, token
        self._sockets = Sockets(endpoint, curve)
        self._vitals = Vitals(endpoint)
        self._executions = [Progress(path) for path in executions]
        self._flow = None if flow is None else Flow(flow)
        self._topics: dict[bytes, SymbolView] = {}
        self._asked_s: dict[str, float] = {}
        self._actions: queue.SimpleQueue[tuple[Callable[[Future[str]], None], Future[str]]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._next_column_s = 0.0

    def stop(self) -> None:
        """Ends the thread, and returns when it has ended."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """See the class."""
        try:
            while not self._stopping.is_set():
                self._sockets.wait(TURN_MS)
                with self._board.lock:
                    self._turn()
        except Exception as error:
            self._board.put("failed", f"The dashboard no longer follows the exchange ({error!r}); start it again.")
            raise
        finally:
            self._account.close()
            self._sockets.close()

    def _turn(self) -> None:
        for topic, message in self._sockets.feed_messages(TURN_MESSAGES):
            self._vitals.feed_messages += 1
            if (view := self._topics.get(topic)) is not None:
                view.take(message)
        self._sockets.take_replies()
        self._account.turn()
        self._follow_wanted()
        while not self._actions.empty():
            self._act(*self._actions.get())
        if (now_s := time.monotonic()) >= self._next_column_s:
            self._next_column_s = now_s + COLUMN_S
            self._sample()

    def _sample(self) -> None:
        """A column of each symbol, and a look at the exchange."""
        followed = set(self._topics.values())
        for view in followed:
            if not self._vitals.away and not view.book.needs_snapshot:
                view.sample(self._vitals.time_ns)
            if view.collects:
                self._ask_indicative(view)
        self._vitals.gaps = sum(view.book.gaps for view in followed)
        self._sockets.ask(self._on_statistics, Kind.STATISTICS)
        mids = {view.number: _mid(view) for view in self._board.views.values()}
        self._board.put("exchange", self._vitals.shown())
        if self._account.wanted:
            self._board.put("account", self._account.shown(mids))
        if self._executions:
            self._board.put("executions", [one.shown() for one in self._executions])
        if self._flow is not None:
            self._show(self._flow)

    def _show(self, flow: Flow) -> None:
        changed = flow.read()
        for view in set(self._topics.values()):
            if changed or view.traders is None:
                view.traders = flow.shown(view.name)

    def _on_statistics(self, reply: list[Any], took_s: float) -> None:
        if reply[0] == Kind.ERROR:
            return
        if self._vitals.is_another(reply):
            if self._board.generation:
                self._restart()
            self._board.generation += 1
            self._sockets.ask(self._on_info, Kind.INFO)
        self._vitals.answered(reply, took_s)

    def _restart(self) -> None:
        """Another process is the exchange now."""
        self._vitals.restart()
        self._account.restart()
        for view in self._board.views.values():
            view.restart()

    def _on_info(self, reply: list[Any], took_s: float) -> None:
        _, symbols, clock, limits = reply[5]
        self._vitals.clock = clock
        before = self._board.views
        self._board.views = {}
        for number, name, tick_size, lot_size in symbols:
            known = before.get(name)
            if known is None or (known.number, known.tick_size, known.lot_size) != (number, tick_size, lot_size):
                known = SymbolView(number, name, tick_size, lot_size)
            self._board.views[name] = known
        self._topics = {topic: view for topic, view in self._topics.items() if self._board.views.get(view.name) is view}
        shown = [[view.name, view.tick_size, view.lot_size] for view in self._board.views.values()]
        self._board.put("market", {"symbols": shown, "qty_lots_max": limits["qty_lots_max"]})
        self._board.wanted.add(next(iter(self._board.views)))

    def _follow_wanted(self) -> None:
        """Subscribes to symbols that a page looks at, and asks for the snapshots that are missing."""
        for name in self._board.wanted & self._board.views.keys():
            view = self._board.views[name]
            topics = {f"{channel}/{name}/".encode(): view for channel in CHANNELS}
            if not topics.keys() <= self._topics.keys():
                for topic in topics:
                    self._sockets.feed.subscribe(topic)
                self._topics |= topics
            if view.book.needs_snapshot and time.monotonic() - self._asked_s.get(name, 0.0) > SNAPSHOT_S:
                self._ask_snapshot(view)

    def _ask_snapshot(self, view: SymbolView) -> None:
        self._asked_s[view.name] = time.monotonic()
        first = not view.trades.since(0)

        def on_book(reply: list[Any], took_s: float) -> None:
            if reply[0] != Kind.ERROR:
                view.book.apply_snapshot(reply)

        def on_trades(reply: list[Any], took_s: float) -> None:
            if reply[0] != Kind.ERROR and not view.trades.since(0):
                view.take_trades(reply[5])

        def on_status(reply: list[Any], took_s: float) -> None:
            if reply[0] != Kind.ERROR and view.phase is None:
                view.take_status(reply[5])

        self._sockets.ask(on_book, Kind.L2, view.number, 0)
        self._sockets.ask(on_status, Kind.STATUS, view.number)
        if first:
            self._sockets.ask(on_trades, Kind.TRADES, view.number, TRADES)

    def _ask_indicative(self, view: SymbolView) -> None:
        def on_indicative(reply: list[Any], took_s: float) -> None:
            if reply[0] != Kind.ERROR:
                view.take_indicative(reply[5])

        self._sockets.ask(on_indicative, Kind.INDICATIVE, view.number)

    # what operators ask for

    def halt(self, symbol: str) -> "Future[str]":
        """Halts a symbol; everybody is told that its operator did."""
        return self._operate(symbol, CommandKind.HALT, HaltReason.OPERATOR)

    def resume(self, symbol: str) -> "Future[str]":
        """Lets a symbol trade again."""
        return self._operate(symbol, CommandKind.RESUME)

    def _operate(self, symbol: str, *command: int) -> "Future[str]":
        kind, *flags = command
        return self._later(lambda done: self._admin(done, Kind.OPERATE, kind, self._view(symbol).number, *flags))

    def set_clock(self, time_ns: int | None, run: bool) -> "Future[str]":
        """Sets a scaled or paced clock (None: it stays where it is) and lets it run or holds it."""
        return self._later(
            lambda done: self._admin(done, Kind.CLOCK, SAME_TIME if time_ns is None else time_ns, int(run))
        )

    def set_speed(self, speed: float) -> "Future[str]":
        """Exchange seconds a second of a scaled or paced clock."""
        return self._later(lambda done: self._admin(done, Kind.SPEED, round(speed * 1e6)))

    def order(self, symbol: str, side: int, qty_lots: int, price_ticks: int | None) -> "Future[str]":
        """An order of the dashboard's account; without a price at the market."""
        return self._later(lambda done: self._account.order(done, self._view(symbol).name, side, qty_lots, price_ticks))

    def _view(self, symbol: str) -> SymbolView:
        if symbol not in self._board.views:
            raise NotSent(f"no symbol {symbol!r} here")
        return self._board.views[symbol]

    def _later(self, action: "Callable[[Future[str]], None]") -> "Future[str]":
        done: Future[str] = Future()
        done.set_running_or_notify_cancel()  # a page that closes cannot take it away from this thread
        self._actions.put((action, done))
        return done

    def _act(self, action: "Callable[[Future[str]], None]", done: "Future[str]") -> None:
        try:
            action(done)
        except SerlError as error:
            done.set_exception(error)

    def _admin(self, done: "Future[str]", kind: Kind, *values: int) -> None:
        def answered(reply: list[Any], took_s: float) -> None:
            if reply[0] == Kind.ERROR:
                done.set_exception(self._refusal(reply, kind, values[0]))
                return
            if kind in (Kind.CLOCK, Kind.SPEED):
                self._sockets.ask(self._on_info, Kind.INFO)
            done.set_result("done")

        def unanswered() -> None:
            done.set_exception(NotSent("no answer from the exchange: it may do this yet, when it goes on"))

        if not self._sockets.ask(answered, kind, self._token, *values, unanswered=unanswered):
            raise NotSent("the exchange is away")

    def _refusal(self, reply: list[Any], kind: Kind, value: int) -> SerlError:
        if kind != Kind.CLOCK or not 0 <= value < self._vitals.time_ns:
            return Refused(reply[1], reply[2])
        return NotSent(
            f"{time_of_day_text(value)} has passed, and an exchange's time never goes back behind its last command: start the exchange anew "
            f"(with another --journal folder, or none), then the replay with --from {time_of_day_text(value)}"
        )


def _mid(view: SymbolView) -> float | None:
    bid, ask = view.book.bid_ticks, view.book.ask_ticks
    return (bid + ask) / 2 if bid and ask else None
