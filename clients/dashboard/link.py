"""The thread that connects the dashboard to an exchange: feed, snapshots, health, the account, and operators' actions."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any

from serl.clients.book import depth_max
from serl.clients.dashboard.account import Account
from serl.clients.dashboard.board import Board
from serl.clients.dashboard.errors import ActionFailed
from serl.clients.dashboard.flow import Flow
from serl.clients.dashboard.news_board import TOPIC as NEWS_TOPIC
from serl.clients.dashboard.news_board import NewsBoard
from serl.clients.dashboard.progress import Progress
from serl.clients.dashboard.standings import Standings
from serl.clients.dashboard.symbol import CHANNELS, HISTORY_BYTES, TRADES, SymbolView
from serl.clients.dashboard.vitals import Vitals
from serl.clients.errors import RequestRejected
from serl.clients.sockets import Sockets
from serl.clients.trade_feed import TRADES_MAX
from serl.exchange.clock import CURRENT_TIME, DAY_NS
from serl.exchange.config import local_operator_token, time_of_day_text
from serl.exchange.errors import SerlError
from serl.exchange.records import CommandKind, HaltReason
from serl.exchange.wire import Kind

FEED_BATCH = 500
"""Number of feed messages to process before pages can read the board again."""
POLL_MS = 5
COLUMN_S = 0.25
FEES_S = 1.0
SNAPSHOT_RETRY_S = INFO_RETRY_S = 1.0
INFO_TIMEOUT_S = 10.0
"""Longer than for other replies, which are requested periodically anyway: a busy exchange may take its time."""
SNAPSHOTS_A_STEP = 8
"""Limited because the exchange drops replies that a client is slow to read (`replies_unread_max`)."""
INDICATIVES_A_COLUMN = 16
"""Number of symbols whose indicative auction is requested at once; more take turns."""
ALL_HISTORY_BYTES = 1 << 28
"""Memory for the columns of all symbols: 90 symbols have their four minutes, more have less."""


class Link(threading.Thread):
    """Keeps the board up to date until `stop`. If the exchange stops, it waits for its return."""

    def __init__(
        self, endpoint: str, board: Board, account: Account, *, token: str = "", curve: Path | None = None,
        executions: tuple[Path, ...] = (), flow: Path | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name="link", daemon=True)
        self._board, self._account, self._token = board, account, token
        self._endpoint = endpoint
        self._sockets = Sockets(endpoint, curve, token)
        self._vitals = Vitals(endpoint)
        self._standings = Standings(self._sockets, self._operator_token)
        self._news = NewsBoard(token)
        self._executions = [Progress(path) for path in executions]
        self._flow = None if flow is None else Flow(flow)
        self._topics: dict[bytes, SymbolView] = {}
        self._snapshot_requested_s: dict[str, float] = {}
        self._columns = 0
        self._actions: queue.SimpleQueue[tuple[Callable[[Future[str]], None], Future[str]]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._next_column_s = self._next_fees_s = self._next_info_s = 0.0
        #: whether a restarted exchange has not reported its symbols yet
        self._lacks_info = False

    def stop(self) -> None:
        """Stops the thread; returns once it has stopped."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Runs until `stop`."""
        try:
            while not self._stopping.is_set():
                self._sockets.wait(POLL_MS)
                with self._board.lock:
                    self._step()
        except Exception as error:
            self._board.put("failed", f"The dashboard no longer follows the exchange ({error!r}); start it again.")
            raise
        finally:
            self._account.close()
            self._sockets.close()

    def _step(self) -> None:
        for topic, message in self._sockets.feed_messages(FEED_BATCH):
            self._vitals.feed_messages += 1
            if (view := self._topics.get(topic)) is not None:
                view.apply(message)
            elif topic == NEWS_TOPIC:
                self._news.apply(message, self._board.views)
        self._sockets.process_replies()
        self._account.update()
        self._request_snapshots()
        while not self._actions.empty():
            self._run_action(*self._actions.get())
        if (now_s := time.monotonic()) >= self._next_column_s:
            self._next_column_s = now_s + COLUMN_S
            self._add_columns()

    def _add_columns(self) -> None:
        """Adds a column to each symbol and updates all other sections."""
        views = self._board.views.values()
        for view in views:
            if not self._vitals.offline and not view.book.needs_snapshot:
                view.add_column(self._vitals.time_ns)
        self._request_indicatives([view for view in views if view.is_collecting])
        self._vitals.gaps = sum(view.book.gaps for view in views)
        self._sockets.request(self._on_statistics, Kind.STATISTICS)
        self._request_info()
        if len(views) > 1:
            self._board.put("watch", [view.watch_row() for view in views])
        mids = {view.number: view.mid_ticks for view in views}
        self._board.put("exchange", self._vitals.as_json())
        if views:
            self._news.ask_for_missing(self._sockets, self._board.views)
            self._board.put("news", self._news.as_json())
        if self._board.has_operator and (statistics := self._vitals.statistics):
            self._standings.update(statistics)
            self._board.put("standings", self._standings.as_json(self._board.views, mids))
        if self._account.active:
            self._request_fees()
            self._board.put("account", self._account.as_json(mids))
            self._board.put("account_trades", self._account.trades_json())
        if self._executions:
            self._board.put("executions", [execution.as_json() for execution in self._executions])
        if self._flow is not None:
            self._show_flow(self._flow)

    def _request_info(self) -> None:
        """Requests the symbols of the exchange, until it has answered."""
        if self._lacks_info and (now_s := time.monotonic()) >= self._next_info_s:
            self._next_info_s = now_s + INFO_RETRY_S
            self._sockets.request(self._on_info, Kind.INFO, timeout_s=INFO_TIMEOUT_S)

    def _request_fees(self) -> None:
        def on_balances(reply: list[Any], round_trip_s: float) -> None:
            if reply[0] != Kind.ERROR:
                self._account.set_balances(reply[5])

        if self._account.live and (now_s := time.monotonic()) >= self._next_fees_s:
            self._next_fees_s = now_s + FEES_S
            self._sockets.request(on_balances, Kind.ACCOUNT, self._token, self._account.name)

    def _show_flow(self, flow: Flow) -> None:
        changed = flow.read()
        for view in self._board.views.values():
            if changed or view.traders is None:
                view.traders = flow.as_json(view.name)

    def _on_statistics(self, reply: list[Any], round_trip_s: float) -> None:
        if reply[0] == Kind.ERROR:
            self._vitals.add_refusal(reply[2])
            return
        if self._vitals.is_new_process(reply):
            if self._board.generation:
                self._reset()
            self._board.generation += 1
            self._lacks_info, self._next_info_s = True, 0.0
        self._vitals.add_reply(reply, round_trip_s)

    def _reset(self) -> None:
        """Starts again after the exchange was restarted."""
        self._vitals.reset()
        self._account.reset()
        self._standings.reset()
        self._news.reset()
        for view in self._board.views.values():
            view.reset()

    def _on_info(self, reply: list[Any], round_trip_s: float) -> None:
        if reply[0] == Kind.ERROR:
            return
        self._lacks_info = False
        _, symbols, clock, limits = reply[5]
        self._vitals.clock = clock
        before = self._board.views
        self._board.views = {}
        history_bytes = min(HISTORY_BYTES, ALL_HISTORY_BYTES // len(symbols))
        for number, name, tick_size, lot_size in symbols:
            view = before.get(name)
            if view is None or (view.number, view.tick_size, view.lot_size) != (number, tick_size, lot_size):
                view = SymbolView(number, name, tick_size, lot_size, history_bytes)
            view.set_depth_max(depth_max(limits))
            self._board.views[name] = view
        self._subscribe()
        symbols_json = [[view.name, view.tick_size, view.lot_size] for view in self._board.views.values()]
        self._board.put("market", {"symbols": symbols_json, "qty_lots_max": limits["qty_lots_max"]})

    def _subscribe(self) -> None:
        """Follows every symbol, including those that no page shows, so that their history is available when one does."""
        followed = set(self._topics)
        self._topics = {
            f"{channel}/{view.name}/".encode(): view for view in self._board.views.values() for channel in CHANNELS
        }
        for topic in self._topics.keys() - followed:
            self._sockets.subscribe(topic)
        if not followed:
            self._sockets.subscribe(NEWS_TOPIC)

    def _request_snapshots(self) -> None:
        """Requests missing snapshots, for a few symbols at a time."""
        now_s = time.monotonic()
        due = (
            view
            for view in self._board.views.values()
            if view.needs_snapshot and now_s - self._snapshot_requested_s.get(view.name, 0.0) > SNAPSHOT_RETRY_S
        )
        for view in islice(due, SNAPSHOTS_A_STEP):
            self._request_snapshot(view)

    def _request_snapshot(self, view: SymbolView) -> None:
        self._snapshot_requested_s[view.name] = time.monotonic()

        def on_book(reply: list[Any], round_trip_s: float) -> None:
            if reply[0] != Kind.ERROR and view.book.needs_snapshot:  # otherwise it is the reply to an earlier request
                view.book.apply_snapshot(reply)

        def on_trades(reply: list[Any], round_trip_s: float) -> None:
            feed = view.trade_feed  # it may have had the reply to a later request
            if reply[0] != Kind.ERROR and feed.needs_snapshot and reply[3] >= feed.sequence:
                view.apply_trades(reply)

        def on_status(reply: list[Any], round_trip_s: float) -> None:
            if reply[0] != Kind.ERROR and view.phase is None:
                view.set_status(reply[5])

        if view.book.needs_snapshot:
            self._sockets.request(on_book, Kind.L2, view.number, 0)
            self._sockets.request(on_status, Kind.STATUS, view.number)
        if view.trade_feed.needs_snapshot:
            count = TRADES if view.trade_feed.sequence < 0 else TRADES_MAX
            self._sockets.request(on_trades, Kind.TRADES, view.number, count)

    def _request_indicatives(self, collecting: list[SymbolView]) -> None:
        self._columns += 1
        for turn in range(min(INDICATIVES_A_COLUMN, len(collecting))):
            self._request_indicative(collecting[(self._columns * INDICATIVES_A_COLUMN + turn) % len(collecting)])

    def _request_indicative(self, view: SymbolView) -> None:
        def on_indicative(reply: list[Any], round_trip_s: float) -> None:
            if reply[0] != Kind.ERROR:
                view.set_indicative(reply[5])

        self._sockets.request(on_indicative, Kind.INDICATIVE, view.number)

    # operators' actions: each returns a future with the exchange's reply

    def halt(self, symbol: str) -> "Future[str]":
        """Halts a symbol, with reason OPERATOR."""
        return self._operate(symbol, CommandKind.HALT, HaltReason.OPERATOR)

    def resume(self, symbol: str) -> "Future[str]":
        """Resumes trading in a symbol."""
        return self._operate(symbol, CommandKind.RESUME)

    def _operate(self, symbol: str, *command: int) -> "Future[str]":
        kind, *flags = command
        return self._enqueue(lambda future: self._admin(future, Kind.OPERATE, kind, self._view(symbol).number, *flags))

    def set_clock(self, in_day_ns: int | None, run: bool) -> "Future[str]":
        """Sets a scaled clock, or a lockstep clock with a speed, to a time of its present day (None: leaves its time), and runs or pauses it."""

        def send(future: "Future[str]") -> None:
            day_ns = self._vitals.time_ns // DAY_NS * DAY_NS
            time_ns = CURRENT_TIME if in_day_ns is None else day_ns + in_day_ns
            self._admin(future, Kind.CLOCK, time_ns, int(run))

        return self._enqueue(send)

    def set_speed(self, speed: float) -> "Future[str]":
        """Sets the speed of a scaled clock, or of a lockstep clock with a speed, in exchange seconds per second."""
        return self._enqueue(lambda future: self._admin(future, Kind.SPEED, round(speed * 1e6)))

    def order(self, symbol: str, side: int, qty_lots: int, price_ticks: int | None) -> "Future[str]":
        """Sends an order of the dashboard's account; without a price, a market order."""
        return self._enqueue(
            lambda future: self._account.order(future, self._view(symbol).name, side, qty_lots, price_ticks)
        )

    def cancel(self, order_id: int) -> "Future[str]":
        """Cancels an open order of the dashboard's account."""
        return self._enqueue(lambda future: self._account.cancel(future, order_id))

    def _view(self, symbol: str) -> SymbolView:
        if symbol not in self._board.views:
            raise ActionFailed(f"expected a symbol of this exchange, got {symbol!r}")
        return self._board.views[symbol]

    def _enqueue(self, action: "Callable[[Future[str]], None]") -> "Future[str]":
        future: Future[str] = Future()
        future.set_running_or_notify_cancel()  # so that a page that closes cannot cancel it while this thread works on it
        self._actions.put((action, future))
        return future

    def _run_action(self, action: "Callable[[Future[str]], None]", future: "Future[str]") -> None:
        try:
            action(future)
        except SerlError as error:
            future.set_exception(error)

    def _admin(self, future: "Future[str]", kind: Kind, *values: int) -> None:
        def on_reply(reply: list[Any], round_trip_s: float) -> None:
            if reply[0] == Kind.ERROR:
                future.set_exception(self._error_of(reply, kind, values[0]))
                return
            if kind in (Kind.CLOCK, Kind.SPEED):
                self._sockets.request(self._on_info, Kind.INFO)
            future.set_result("done")

        def on_timeout() -> None:
            future.set_exception(ActionFailed("no reply from the exchange; it may still carry this out later"))

        if not self._sockets.request(on_reply, kind, self._operator_token(), *values, on_timeout=on_timeout):
            raise ActionFailed("the exchange is not reachable")

    def _operator_token(self) -> str:
        return self._token or local_operator_token(self._endpoint)

    def _error_of(self, reply: list[Any], kind: Kind, value: int) -> SerlError:
        if kind != Kind.CLOCK or not 0 <= value < self._vitals.time_ns:
            return RequestRejected(reply[1], reply[2])
        now, wanted = (time_of_day_text(time_ns % DAY_NS) for time_ns in (self._vitals.time_ns, value))
        return ActionFailed(
            f"expected a time after {now}, got {wanted}: an exchange's time never goes back; "
            f"restart the exchange (with another --journal folder, or none) and the replay with --from {wanted}"
        )
