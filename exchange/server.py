"""The exchange process: the sockets around the core, served by one loop."""

import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import zmq

from serl.exchange.admin import Admin
from serl.exchange.ahead import warm_rule_book
from serl.exchange.budget import Shares, processor_time_s
from serl.exchange.clock import Clock
from serl.exchange.config import ExchangeConfig, endpoint_port
from serl.exchange.connections import Connections, raise_descriptor_limit
from serl.exchange.control import Control
from serl.exchange.core import Core
from serl.exchange.errors import ConfigError, JournalError, SerlError
from serl.exchange.feed import Feed
from serl.exchange.gateway.accept import END_NS
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
    DROPPED,
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
from serl.exchange.keys import Keys, read_keys
from serl.exchange.libzmq import AVAILABLE, POLL_IN, POLL_ITEM, assign_routing_ids, zmq_msg_init_at
from serl.exchange.lockstep import Lockstep
from serl.exchange.login import Login
from serl.exchange.news_channel import NewsChannel
from serl.exchange.peer import Refusals
from serl.exchange.ports import free_port, listening_process
from serl.exchange.private_files import kept_operator_token, private_files, private_folder
from serl.exchange.queries import Queries
from serl.exchange.resends import Resends
from serl.exchange.schedule import Schedule
from serl.exchange.sessions import Sessions
from serl.exchange.strangers import Strangers
from serl.exchange.subscriptions import Subscriptions
from serl.exchange.warm import warm_loop
from serl.exchange.zap import DOMAIN, Zap

PUBLISH_S = 0.001
"""Time for which a flood of control messages may delay the feed, so that it is not published after each of them."""
DROP_S = 1e-6
"""Time that it takes to drop a message of a closed connection."""
CURVE_HANDSHAKE_BYTES = 1024
"""The largest message of a CURVE handshake: libzmq limits it like every other message."""
UNREAD_MAX = 16
"""Messages per connection that libzmq reads ahead from the feed, queries and admin sockets; more wait in TCP."""

NEED_NOTHING = (TIMEOUT, NEED_PUBLISH, NEED_LATENCY, NEED_DUE_COMMANDS)
"""Reasons for which the compiled loop returns although it lacks nothing."""


class PortInUse(SerlError, RuntimeError):
    """An endpoint is in use."""


class Exchange:
    """One exchange: `Exchange(config)`, then `run()` until `stop()`, a signal, or an admin STOP."""

    def __init__(self, config: ExchangeConfig) -> None:
        if not AVAILABLE:
            raise ConfigError(
                "expected a pyzmq with its bundled libzmq, got one without; install the wheel: pip install --only-binary pyzmq pyzmq"
            )
        self.config = config
        warm_loop()  # before there is a market: its books may be compiled by another process meanwhile
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.login, refusals = Login(config.login), Refusals()
        keys = read_keys(config.login.curve_keys) if config.login.curve_keys else None
        admitted = None if keys is None else (self.login.client_keys | {keys.client_public}) - {""}
        limits = config.limits
        connections_max = raise_descriptor_limit(limits.connections_max)
        ports = [endpoint_port(each) for each in config.endpoints.values()]
        self._connections = Connections(ports, connections_max, limits.unread_bytes_max, refusals)
        self._shares = Shares(("strangers", "queries", "admin", "feed", "resends"), limits.requests_share)
        self._zap = Zap(self._context, admitted, refusals, self._shares["strangers"])
        self._sockets = self._bind(keys)
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
            names = [symbol.name for symbol in config.symbols]
            subscriptions = Subscriptions(self._sockets["feed"], self.login, refusals, limits.unknown_topics_max)
            epoch = self.core.journal.epoch
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
            self.schedule = Schedule(
                self.core, config, self.sessions.participants.exchange, self.clock.now_ns, lambda: self.inbound.next_ns
            )
            if self.lockstep is not None:
                self.lockstep.schedule = self.schedule
            self._strangers = Strangers(
                self.core.gateway, self._sockets["orders"], ports[0], connections_max,
                lambda: self._shares.wait_s("strangers") > 0, refusals,
            )  # fmt: skip
            self._resends = Resends(self.core, self.sessions, self._shares["resends"])
            self.control = Control(
                self.core, self.clock, self.sessions, self.lockstep, self.inbound, self._strangers, self._resends
            )
            self.queries = Queries(
                self.core, self.clock, self.sessions, self.login, refusals, self._sockets["queries"],
                self._shares["queries"], self.news,
            )  # fmt: skip
            self.admin = Admin(
                self.core, self.clock, self.sessions, self.login, refusals, self._sockets["admin"], self.stop,
                self._shares["admin"], self.news,
            )  # fmt: skip
            self._published = int(self.core.gateway.counter[EVENTS])
            self._segment, self._published_s = self.core.journal.events, 0.0
            self._polls: dict[tuple[str, ...], Any] = {}
            self._affordable: tuple[str, ...] = ()
            self._stopping = ""
            self._messages_received = self._dropped = 0
            zmq_msg_init_at(self.core.gateway.zmq_message.ctypes.data)
            self.sessions.cancel_after_restart()
        self._start(config)
        self._commands_accepted = self._count_accepted()

    def _start(self, config: ExchangeConfig) -> None:
        self.core.warm_up()
        if config.needs_full_rule_book:
            warm_rule_book()
        self.clock.start()
        with private_files():
            self.schedule.start(config, self.sessions.participants.number_or_new, self.clock.now_ns())
        self.core.journal.start_flushing(config.journal.flush_s, self.core.gateway)
        self._commit_pipe = np.zeros(int(config.journal.durability == "batch"), POLL_ITEM)
        if len(self._commit_pipe):
            self._commit_pipe["fd"] = self.core.journal.start_committing(self.core.gateway)
            self._commit_pipe["events"] = POLL_IN

    def _bind(self, keys: Keys | None) -> dict[str, "zmq.Socket[bytes]"]:
        kinds = {"orders": zmq.ROUTER, "feed": zmq.XPUB, "queries": zmq.ROUTER, "admin": zmq.ROUTER}
        sockets = {}
        for name, endpoint in self.config.endpoints.items():
            socket = self._context.socket(kinds[name])
            socket.linger = 200
            self._limit(socket, name)
            socket.setsockopt(zmq.ZAP_DOMAIN, DOMAIN)
            if name == "orders":
                socket.router_mandatory = True
            if name == "feed":
                socket.setsockopt(zmq.XPUB_VERBOSER, 1)
                socket.setsockopt(zmq.XPUB_MANUAL, int(self.login.required))
            if keys is not None:
                socket.curve_server = True
                socket.curve_secretkey = keys.server_secret.encode()
            try:
                socket.bind(endpoint)
            except zmq.ZMQError as error:
                self._context.destroy(0)
                owner = listening_process(endpoint_port(endpoint))
                raise PortInUse(
                    f"{endpoint} ({name}) cannot be bound: {error.strerror}{f' by {owner}' if owner else ''}; stop the process that listens there "
                    f"or choose another port, for example --endpoint tcp://127.0.0.1:{free_port()}, which is free"
                ) from None
            if kinds[name] == zmq.ROUTER:
                assign_routing_ids(socket)
            sockets[name] = socket
        return sockets

    def _limit(self, socket: "zmq.Socket[bytes]", name: str) -> None:
        """Sets what libzmq queues for one connection. A message over the size closes its connection before libzmq stores it."""
        limits = self.config.limits
        handshake_bytes = CURVE_HANDSHAKE_BYTES if self.config.login.curve_keys else 0
        socket.maxmsgsize = {
            "orders": 4 * limits.message_bytes_max, "feed": limits.subscription_bytes_max + handshake_bytes,
            "admin": limits.request_bytes_max + limits.news_bytes_max,
        }.get(name, limits.request_bytes_max)  # fmt: skip
        socket.sndhwm = limits.outbound_messages_max
        if name in ("queries", "admin"):
            socket.sndhwm = limits.replies_unread_max
        if name != "orders":
            socket.rcvhwm = UNREAD_MAX

    def _poll_items(self, names: tuple[str, ...]) -> Any:
        """What the compiled loop polls: the orders socket, those of these sources, and last the pipe of durable commands, if any."""
        if names not in self._polls:
            sources = {**self._sockets, "strangers": self._zap.socket}
            sockets = [sources[name] for name in ("orders", *names) if name in sources]
            poll = np.zeros(len(sockets), POLL_ITEM)
            poll["socket"], poll["events"] = [socket.underlying for socket in sockets], POLL_IN
            self._polls[names] = np.concatenate((poll, self._commit_pipe))
        return self._polls[names]

    def run(self, ready: Callable[[], None] = lambda: None, ending: Callable[[], None] = lambda: None) -> str:
        """Serves until a stop is requested, then calls `ending` and closes everything, also on an error. Returns why it stopped.

        Raises JournalError if the disk failed: nothing more is journaled or acknowledged, and the journal stays as it is.
        """
        handlers = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
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
                ready()  # may start a compiler, whose files are for everybody
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

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.stop(signal.Signals(number).name)

    def _loop(self) -> None:
        intervals = self.config.intervals
        next_check = next_time = 0.0
        while not self._stopping:
            reason = self._serve_orders()
            self._shares.begin_turn()
            self._serve_reason(reason)
            self._resends.send(self._shares.are_limited)
            if self.lockstep is not None and (self.inbound.has_commands or self.lockstep.next_ns < NEVER):
                self.lockstep.advance()
            if reason != CONTROL_MESSAGE or time.monotonic() - self._published_s > PUBLISH_S:
                self._publish()
            self._strangers.finish()
            self._connections.check(self.sessions.descriptors, int(self.core.gateway.counter[DRAINED]))
            self._shares.end_turn()
            now = time.monotonic()
            if now >= next_check or self.core.gateway.counter[SLOW_SESSIONS]:
                next_check = now + intervals.heartbeat_s
                self._check_sessions()
                self.core.make_room()
            if now >= next_time:
                next_time = now + intervals.time_s
                self._publish_time(self.clock.now_ns())
                self.feed.repeat_quiet(self.core.market.state)
                self.news.repeat()

    def _serve_reason(self, reason: int) -> None:
        """Does what the compiled loop came back for."""
        if reason == NEED_LATENCY:
            self.inbound.delay_last_message()
        if self.lockstep is None:
            self._execute_due()
        if reason == CONTROL_MESSAGE:
            self._answer_control()
        elif reason == OTHER_SOCKET_READY:
            self._serve_other_sockets()
        elif reason not in NEED_NOTHING and not self.core.add_capacity(reason):
            self._answer_control()  # the disk is full

    def _answer_control(self) -> None:
        """Answers the message that the compiled loop left, and charges a stranger's."""
        began, is_stranger = processor_time_s(), self.core.gateway.counter[PENDING_SESSION] < 0
        self.control.answer_pending()
        if is_stranger:
            self._shares["strangers"].spend(processor_time_s() - began)

    def _serve_orders(self) -> int:
        """Runs the compiled loop once. Returns why it came back."""
        idle_ns = (self.config.intervals.turn_ms if self._has_new_messages() else 100) * 1_000_000
        if self.lockstep is None:
            due_ns = min(self.inbound.next_ns, self.schedule.next_ns)
            self.core.gateway.counter[NEXT_DUE_NS] = due_ns
            next_ns = min(due_ns, self.sessions.reports.next_ns, self.feed.delayed.next_ns)
        else:
            next_ns = self.lockstep.next_ns
        if next_ns < NEVER:
            idle_ns = int(min(idle_ns, self.clock.wall_ns_until(next_ns)))
        idle_ns = min(idle_ns, self._set_affordable())
        if self._published != self.core.gateway.counter[EVENTS]:
            idle_ns = 0
        deadline_ns = time.monotonic_ns() + idle_ns
        return self.core.serve(deadline_ns, self.config.intervals.drain_messages, self.feed.has_subscribers)

    def _execute_due(self) -> None:
        """Live and scaled clocks: executes arrived and scheduled commands in the order of their times."""
        now_ns = self.clock.now_ns()
        self.schedule.run(now_ns, self._execute_commands)
        self._execute_commands(now_ns + 1)

    def _execute_commands(self, until_ns: int) -> None:
        self.inbound.execute(until_ns, self.core.time_ns)

    def _has_new_messages(self) -> bool:
        """Whether messages arrived since the last call."""
        counter = self.core.gateway.counter
        received, accepted = int(counter[MESSAGES_RECEIVED]), self._count_accepted()
        busy = received != self._messages_received
        if accepted != self._commands_accepted and self.lockstep is None:  # in lockstep nobody waits for the loop
            self._shares.note_order()
        if counter[DROPPED] != self._dropped:
            self._shares["strangers"].spend(int(counter[DROPPED] - self._dropped) * DROP_S)
            self._dropped = int(counter[DROPPED])
        self._messages_received, self._commands_accepted = received, accepted
        return busy

    def _count_accepted(self) -> int:
        """The number of commands accepted so far, in the journal or still to arrive."""
        counter = self.core.gateway.counter
        return int(counter[NEXT_SEQUENCE] + counter[STAGED])

    def _set_affordable(self) -> int:
        """Chooses the sources that are served besides orders: while these arrive, those with time left. Returns the nanoseconds until that
        changes, or until resent commands can be answered."""
        waits_s = self._shares.waits_s()
        self._affordable = tuple(name for name, wait_s in waits_s.items() if not wait_s)
        self.core.poll = self._poll_items(self._affordable)
        if self._resends.is_waiting and not waits_s["resends"]:
            return 0
        return int(min((wait_s for wait_s in waits_s.values() if wait_s), default=1.0) * 1e9)

    def _serve_other_sockets(self) -> None:
        if "strangers" in self._affordable:
            self._zap.answer()
        if "queries" in self._affordable:
            self.queries.answer()
        if "admin" in self._affordable:
            self.admin.answer()
        if "feed" in self._affordable:
            began = processor_time_s()
            self._publish()  # a chain begins behind what is published
            self.feed.read_subscriptions(self.core.event_sequence, self.clock.now_ns())
            self._shares["feed"].spend(processor_time_s() - began)

    def _publish(self) -> None:
        """Publishes the events since the last call."""
        self._published_s = time.monotonic()
        self.news.publish()
        counter, events = self.core.gateway.counter, self.core.journal.events
        if events is not self._segment:
            self._segment, self._published = events, 0
        stop = int(counter[EVENTS])
        self.feed.publish(self.core.market.state, events.rows, self._published, stop)
        self.sessions.reports.enqueue(events.rows[self._published : stop])
        self._published = stop
        now_ns = END_NS if self.lockstep is not None and self.lockstep.is_finished else self.clock.now_ns()
        self.feed.delayed.send_due(now_ns)
        self.sessions.reports.send_due(now_ns)

    def _publish_time(self, time_ns: int) -> None:
        self._publish()
        self.feed.publish_time(self.core.event_sequence, time_ns)

    def _check_sessions(self) -> None:
        self.core.gateway.counter[SLOW_SESSIONS] = 0
        for slot in self.sessions.check_liveness():
            if self.lockstep is not None:
                self.lockstep.remove(slot)

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
