"""The exchange process: the sockets around the core, served by one loop."""

import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from serl.exchange import time_slices
from serl.exchange.admin import Admin
from serl.exchange.budget import Shares, processor_time_s
from serl.exchange.clock import Clock
from serl.exchange.config import ExchangeConfig, endpoint_port
from serl.exchange.connections import Connections, raise_descriptor_limit
from serl.exchange.control import Control
from serl.exchange.core import Core
from serl.exchange.errors import ConfigError, JournalError
from serl.exchange.feed import Feed
from serl.exchange.gateway.accept import END_NS
from serl.exchange.gateway.feed_state import PUBLISHED, PYTHON
from serl.exchange.gateway.loop import (
    CONTROL_MESSAGE,
    NEED_DUE_COMMANDS,
    NEED_LATENCY,
    NEED_PUBLISH,
    OTHER_SOCKET_READY,
    TIMEOUT,
)
from serl.exchange.gateway.state import (
    DRAINED,
    EVENTS,
    MESSAGES_RECEIVED,
    NEXT_DUE_NS,
    NEXT_SEQUENCE,
    PENDING_SESSION,
    SLOW_SESSIONS,
    STAGED,
)
from serl.exchange.inbound import Inbound
from serl.exchange.kernel.state import NEVER
from serl.exchange.keys import read_keys
from serl.exchange.libzmq import AVAILABLE, POLL_IN, POLL_ITEM, zmq_msg_init_at
from serl.exchange.lockstep import TURN_STEPS_MAX, Lockstep
from serl.exchange.login import Login
from serl.exchange.news_channel import NewsChannel
from serl.exchange.peer import Refusals
from serl.exchange.precompile import warm_rule_book
from serl.exchange.private_files import kept_operator_token, private_files, private_folder
from serl.exchange.queries import Queries
from serl.exchange.resends import Resends
from serl.exchange.schedule import EXPIRIES_MAX, Schedule
from serl.exchange.sessions import Sessions
from serl.exchange.sockets import bind_sockets
from serl.exchange.subscriptions import Subscriptions
from serl.exchange.unauthenticated import UnauthenticatedConnections
from serl.exchange.warm import warm_loop
from serl.exchange.zap import Zap

PUBLISH_S = 0.001
"""Longest delay of the feed during a flood of control messages, so that it need not be published after each of them."""
TURN_S, QUIET_TURN_S = 0.00005, 0.0002
"""Seconds into a turn of the loop after which no further message is read from sockets other than orders: while orders arrive, and otherwise."""
IDLE_S = 0.1
"""Longest time that the compiled loop waits for messages if nothing is due earlier."""
LOGIN_NS = 1_000_000
"""Interval at which the loop checks again whether a name is saved, or missed reports are read."""
SWITCH_S = 0.0001
"""Longest time that the loop waits for a thread that runs Python, such as one that reads the journal: Python's own limit is 5 ms."""
POLLED = ("unauthenticated", "queries", "admin", "feed")
NEED_NOTHING = (TIMEOUT, NEED_PUBLISH, NEED_LATENCY, NEED_DUE_COMMANDS)
"""Reasons for which the compiled loop returns although it lacks no resource."""


class Exchange:
    """One exchange: `Exchange(config)`, then `run()` until `stop()`, a signal, or an admin STOP."""

    def __init__(self, config: ExchangeConfig) -> None:
        if not AVAILABLE:
            raise ConfigError(
                "expected a pyzmq with its bundled libzmq, got one without; install the wheel: pip install --only-binary pyzmq pyzmq"
            )
        self.config = config
        warm_loop()  # before the market is created: another process may compile its books meanwhile
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.login, refusals = Login(config.login), Refusals()
        keys = read_keys(config.login.curve_keys) if config.login.curve_keys else None
        admitted = None if keys is None else (self.login.client_keys | {keys.client_public}) - {""}
        limits = config.limits
        connections_max = raise_descriptor_limit(limits.connections_max)
        ports = [endpoint_port(each) for each in config.endpoints.values()]
        self._shares = Shares((*POLLED, "resends", "missed"), limits.requests_share)
        charge = self._shares["unauthenticated"].spend
        self._connections = Connections(ports, connections_max, limits.unread_bytes_max, refusals, charge)
        unread = self._connections.unread_replies(limits.replies_unread_bytes_max)
        self._zap = Zap(self._context, admitted, refusals, self._shares["unauthenticated"])
        self._sockets = bind_sockets(self._context, config, self.login.required, keys)
        self._temporary = None if config.journal.folder else tempfile.TemporaryDirectory(prefix="serl-journal-")
        folder = config.journal.folder or Path(self._temporary.name if self._temporary else "")
        private_folder(folder, "journal")
        with private_files():
            self.core = Core(config, folder)
            self.clock = Clock(self.core.gateway, config.clock, lambda: self.core.news_log.last_ns)
            self.core.socket = self._sockets["orders"].underlying
            self.core.before_event_rotation.append(self._publish)
            self.inbound = Inbound(self.core, self.clock)
            self.sessions = Sessions(
                self.core, self.clock, config, self._sockets["orders"], self.inbound, self.login, refusals
            )
            names, epoch = [symbol.name for symbol in config.symbols], self.core.journal.epoch
            subscriptions = Subscriptions(self._sockets["feed"], self.login, refusals, limits)
            self.feed = Feed(
                self._sockets["feed"], names, epoch, self.core.event_sequence, self.sessions.feed_delays, subscriptions
            )
            self.lockstep: Lockstep | None = None
            if config.clock.kind == "lockstep":
                self.lockstep = Lockstep(
                    self.core, self.clock, self.inbound, self.sessions.send, self._publish_time, config.clock.participants
                )  # fmt: skip
            self.news = NewsChannel(
                self.core.news_log, limits, names, epoch, self.feed, self._sockets["feed"], subscriptions, self.clock.now_ns,
                (lambda: END_NS) if self.lockstep is None else self.lockstep.complete_until_ns, self._publish,
            )  # fmt: skip
            self.schedule = self.inbound.schedule = Schedule(
                self.core, config, self.sessions.participants.exchange, self.clock.now_ns, lambda: self.inbound.next_ns
            )
            if self.lockstep is not None:
                self.lockstep.schedule, self.sessions.on_close = self.schedule, self.lockstep.forget
            self._unauthenticated = UnauthenticatedConnections(
                self.core.gateway, self._sockets["orders"], ports[0], connections_max,
                lambda: self._shares.wait_s("unauthenticated") > 0, refusals,
            )  # fmt: skip
            self._resends = Resends(self.core, self.sessions, self._shares["resends"])
            self.control = Control(
                self.core, self.clock, self.sessions, self.lockstep, self.inbound, self._unauthenticated, self._resends
            )
            self.queries = Queries(
                self.core, self.clock, self.sessions, self.login, refusals, self._sockets["queries"],
                self._shares["queries"], unread, self.news,
            )  # fmt: skip
            self.admin = Admin(
                self.core, self.clock, self.sessions, self.login, refusals, self._sockets["admin"], self.stop,
                self._shares["admin"], unread, self.news, self.schedule,
            )  # fmt: skip
            self.feed.counter[PUBLISHED] = self.core.gateway.counter[EVENTS]
            self._segment, self._published_s = self.core.journal.events, 0.0
            self._polls: dict[tuple[str, ...], Any] = {}
            self._waiting: set[str] = set()  # sources with time left that have received but unanswered requests
            self._others = self._other_sources()
            self._stopping, self._messages_received = "", 0
            zmq_msg_init_at(self.core.gateway.zmq_message.ctypes.data)
            self.sessions.cancel_after_restart()
        self._start(config)
        self._commands_accepted = self._count_accepted()

    def _other_sources(self) -> deque[tuple[str, Callable[[float], None]]]:
        """(source, function that serves it for a time in seconds), the next one first."""
        return deque(
            (
                ("unauthenticated", self._zap.answer),
                ("queries", self.queries.requests.answer),
                ("admin", self.admin.requests.answer),
                ("feed", self._read_subscriptions),
            )
        )

    def _start(self, config: ExchangeConfig) -> None:
        self.core.warm_up()
        if config.needs_full_rule_book:
            warm_rule_book()
        self.clock.start()
        with private_files():
            participants, now_ns = self.sessions.participants, self.clock.now_ns()
            self.schedule.start(config, participants.accounts(), now_ns, had := participants.deposited())
            participants.note_deposits(had)
        self.core.journal.start_flushing(config.journal.flush_s, self.core.gateway, self.core.populate)
        self._commit_pipe = np.zeros(int(config.journal.durability == "batch"), POLL_ITEM)
        if len(self._commit_pipe):
            self._commit_pipe["fd"] = self.core.journal.start_committing(self.core.gateway)
            self._commit_pipe["events"] = POLL_IN

    def _poll_items(self, names: tuple[str, ...]) -> Any:
        """The poll items of the compiled loop: the orders socket, those of these sources, and last the pipe of durable commands, if any."""
        if names not in self._polls:
            sources = {**self._sockets, "unauthenticated": self._zap.socket}
            sockets = [sources[name] for name in ("orders", *names)]
            poll = np.zeros(len(sockets), POLL_ITEM)
            poll["socket"], poll["events"] = [socket.underlying for socket in sockets], POLL_IN
            self._polls[names] = np.concatenate((poll, self._commit_pipe))
        return self._polls[names]

    def run(self, ready: Callable[[], None] = lambda: None, ending: Callable[[], None] = lambda: None) -> str:
        """Serves until a stop is requested, then calls `ending` and closes everything, also after an error. Returns why it stopped.

        Raises JournalError if the disk failed: nothing more is journaled or acknowledged, and the journal stays as it is.
        """
        stop = lambda number, _frame: self.stop(signal.Signals(number).name)  # noqa: E731
        handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with kept_operator_token(endpoint_port(self.config.endpoint), self.login.operator_token):
                self._serve(ready, ending)
        except JournalError as error:
            self._abandon(str(error))
            raise
        finally:
            self._context.destroy(linger=500)
            if self._temporary is not None:
                self._temporary.cleanup()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self._stopping

    def _serve(self, ready: Callable[[], None], ending: Callable[[], None]) -> None:
        with ExitStack() as stack:
            try:
                time_slices.shorten()
                sys.setswitchinterval(SWITCH_S)
                ready()  # may start a compiler, whose files everybody may read
                stack.enter_context(private_files())
                with self.core.journal.disk_errors():
                    self._loop()
                ending()
            except JournalError:
                raise
            except BaseException:
                self._close()
                raise
            else:
                self._close()

    def stop(self, reason: str) -> None:
        """Ends `run` after the current iteration of its loop."""
        self._stopping = reason

    def _loop(self) -> None:
        intervals, next_check, next_time = self.config.intervals, 0.0, 0.0
        while not self._stopping:
            reason = self._serve_orders()
            self._shares.begin_turn()
            self._serve_reason(reason)
            self._resends.send(self._shares.are_limited)
            self.sessions.catch_up.send(self._shares.are_limited, self._shares["missed"])
            if self.lockstep is not None and (self.inbound.has_commands or self.lockstep.next_ns < NEVER):
                self.lockstep.advance()
            if reason != CONTROL_MESSAGE or time.monotonic() - self._published_s > PUBLISH_S:
                self._publish()
            self._unauthenticated.finish()
            self._finish_logins()
            self._connections.check(self.sessions.descriptors, int(self.core.gateway.counter[DRAINED]))
            self._shares.end_turn()
            now = time.monotonic()
            if now >= next_check or self.core.gateway.counter[SLOW_SESSIONS]:
                next_check = now + intervals.heartbeat_s
                self._check_sessions()
                self.core.make_room()
            if now >= next_time:
                next_time = now + intervals.time_s
                self._publish_time(self.clock.follow())
                self.feed.repeat_quiet(self.core.market.state)
                self.news.repeat()

    def _serve_reason(self, reason: int) -> None:
        """Does what the compiled loop returned for."""
        if reason == NEED_LATENCY:
            self.inbound.delay_last_message()
        if self.lockstep is None and not self._execute_due() and reason == NEED_DUE_COMMANDS:
            self._serve_others(
                set(self._polled)
            )  # an order that waits until all of them are executed must not hold up all others
        if reason == CONTROL_MESSAGE:
            self._answer_control()
        elif reason == OTHER_SOCKET_READY:
            names = zip(self._polled, self.core.poll[1:], strict=False)  # the last row may be the pipe's
            self._serve_others({name for name, item in names if item["revents"]} | self._waiting)
        elif reason not in NEED_NOTHING and not self.core.add_capacity(reason):
            self._answer_control()  # the disk is full
        elif self._waiting:
            self._serve_others(self._waiting)

    def _answer_control(self) -> None:
        """Answers the message that the compiled loop left, and charges it if its connection is unauthenticated."""
        began, is_unauthenticated = processor_time_s(), self.core.gateway.counter[PENDING_SESSION] < 0
        self.control.answer_pending()
        if is_unauthenticated:
            self._shares["unauthenticated"].spend(processor_time_s() - began)

    def _finish_logins(self) -> None:
        if self.control.may_finish_logins:  # otherwise nothing is charged, not even the rest of the turn
            began = processor_time_s()
            self.control.finish_logins()
            self._shares["unauthenticated"].spend(processor_time_s() - began)

    def _serve_orders(self) -> int:
        """Runs the compiled loop once. Returns the reason why it returned."""
        idle_ns = int(min(IDLE_S, self._connections.wait_s) * 1e9)
        if self._has_new_messages():
            idle_ns = min(self.config.intervals.turn_ms * 1_000_000, idle_ns)
        if self.lockstep is None:
            due_ns = min(self.inbound.next_ns, self.schedule.next_ns)
            self.core.gateway.counter[NEXT_DUE_NS] = due_ns
            next_ns = min(due_ns, self.sessions.reports.next_ns, self.feed.delayed.next_ns)
        else:
            next_ns = self.lockstep.next_ns
        if next_ns < NEVER:
            idle_ns = int(min(idle_ns, self.clock.wall_ns_until(next_ns)))
        idle_ns = min(idle_ns, self._set_affordable(), LOGIN_NS if self.control.has_logins else END_NS)
        self._follow_segment()
        if self.feed.counter[PUBLISHED] != self.core.gateway.counter[EVENTS]:
            idle_ns = 0
        deadline_ns = time.monotonic_ns() + idle_ns
        # delayed reports are queued as soon as their events happen
        publisher = PYTHON if self.sessions.reports.has_sessions else self.feed.publisher
        return self.core.serve(deadline_ns, self.config.intervals.drain_messages, self.feed.state, publisher)

    def _execute_due(self) -> bool:
        """Live and scaled clocks: executes arrived and scheduled commands in the order of their times. Returns False if more are due."""
        now_ns = self.clock.now_ns()
        self.schedule.pause_expiries(self.core.journal.is_full, self.clock.speed)
        is_done = self.schedule.run(now_ns, self.inbound.execute_before, TURN_STEPS_MAX, EXPIRIES_MAX)
        return is_done and self.inbound.execute(now_ns + 1)

    def _has_new_messages(self) -> bool:
        """Whether messages arrived since the last call."""
        counter = self.core.gateway.counter
        received, accepted = int(counter[MESSAGES_RECEIVED]), self._count_accepted()
        busy = received != self._messages_received
        if accepted != self._commands_accepted and self.lockstep is None:  # in lockstep nobody waits for the loop
            self._shares.note_order()
        if drop_cost_s := self._unauthenticated.drop_cost_s():
            self._shares["unauthenticated"].spend(drop_cost_s)
            self._unauthenticated.close_floods()
        wait_s = self._unauthenticated.flood_wait_s(self._shares.wait_s("unauthenticated"))
        self._shares["unauthenticated"].hold(wait_s)
        self._messages_received, self._commands_accepted = received, accepted
        return busy

    def _count_accepted(self) -> int:
        """The number of commands accepted so far, in the journal or still to arrive."""
        counter = self.core.gateway.counter
        return int(counter[NEXT_SEQUENCE] + counter[STAGED])

    def _set_affordable(self) -> int:
        """Chooses the sources to serve besides orders; while orders arrive, only those with time left. Returns the nanoseconds until that
        changes, or until a waiting request can be answered."""
        waits_s = self._shares.waits_s()
        self._polled = tuple(name for name in POLLED if not waits_s[name])
        self.core.poll = self._poll_items(self._polled)
        requests = (("queries", self.queries.requests), ("admin", self.admin.requests))
        self._waiting = {name for name, each in requests if each.is_waiting and name in self._polled}
        unpolled = (("resends", self._resends), ("missed", self.sessions.catch_up))
        if self._waiting or any(each.is_waiting and not waits_s[name] for name, each in unpolled):
            return 0
        return int(min((wait_s for wait_s in waits_s.values() if wait_s), default=1.0) * 1e9)

    def _serve_others(self, ready: set[str]) -> None:
        """Serves the sources that are ready; while orders arrive, one per turn, so that an order waits for only one short piece of other work."""
        is_limited = self._shares.are_limited
        for _ in range(len(self._others)):
            name, serve = self._others[0]
            self._others.rotate(-1)
            if name in ready:
                self._publish()  # a snapshot, or a new chain, begins behind what is published, not within a later batch
                serve(TURN_S if is_limited else QUIET_TURN_S)
                if is_limited:
                    return

    def _read_subscriptions(self, turn_s: float) -> None:
        began = processor_time_s()
        owed_s = self.feed.read_subscriptions(self.core.event_sequence, self.clock.now_ns(), turn_s)
        self._shares["feed"].spend(processor_time_s() - began - owed_s)
        self._shares["unauthenticated"].spend(owed_s)

    def _publish(self) -> None:
        """Publishes the events since the last call."""
        self._published_s = time.monotonic()
        self.news.publish()
        self._follow_segment()
        events = self.core.journal.events.rows
        first, stop = int(self.feed.counter[PUBLISHED]), int(self.core.gateway.counter[EVENTS])
        self.feed.publish(self.core.market.state, events, first, stop)
        self.sessions.reports.enqueue(events[first:stop])
        self.feed.counter[PUBLISHED] = stop
        now_ns = END_NS if self.lockstep is not None and self.lockstep.is_finished else self.clock.now_ns()
        self.feed.delayed.send_due(now_ns)
        self.sessions.reports.send_due(now_ns)

    def _follow_segment(self) -> None:
        """Starts again after the event segment was replaced; everything before it has been published."""
        if self.core.journal.events is not self._segment:
            self._segment = self.core.journal.events
            self.feed.counter[PUBLISHED] = 0

    def _publish_time(self, time_ns: int) -> None:
        self._publish()
        self.feed.publish_time(self.core.event_sequence, time_ns)

    def _check_sessions(self) -> None:
        self.core.gateway.counter[SLOW_SESSIONS] = 0
        ended = self.sessions.check_liveness()
        if self.lockstep is not None and (ended or self.lockstep.waits_for_room):
            self.lockstep.advance()

    def _close(self) -> None:
        for slot in self.sessions.live_slots():
            self.sessions.end(slot, "shutdown", f"the exchange is stopping ({self._stopping or 'error'})")
        self._publish()
        with self.core.journal.disk_errors():
            self.core.close()

    def _abandon(self, reason: str) -> None:
        """Ends without executing another command; the next start executes the cancels on disconnect."""
        for slot in self.sessions.live_slots():
            self.sessions.close(slot, "shutdown", reason)
        self.core.journal.abandon()
