"""Sessions: login, replay of missed reports, heartbeats, logout."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from serl.exchange import wire
from serl.exchange.budget import Charges
from serl.exchange.catch_up import CatchUp
from serl.exchange.clock import Clock
from serl.exchange.config import ExchangeConfig
from serl.exchange.core import Core
from serl.exchange.errors import DiskFullError
from serl.exchange.gateway.refusals import throttled_text
from serl.exchange.gateway.state import FREE, HEADER_BYTES, LIVE, SLOW, SLOW_SESSIONS, index_sessions
from serl.exchange.inbound import Inbound
from serl.exchange.latency import Delays, Latencies
from serl.exchange.login import Credential, Login, is_name
from serl.exchange.outbound import REPORTS_MAX, DelayedReports
from serl.exchange.participants import Participants
from serl.exchange.peer import Peer, Refusals
from serl.exchange.records import ALL_SYMBOLS, EVENT, CommandKind, Reason, Rows, command
from serl.exchange.settings import setting_rows
from serl.exchange.wire import Kind, RequestError, pack

HELLO_FORM = "[64, version_min, version_max, name, token, last_report, options]"


class Sessions:
    """The sessions of one exchange, stored in the gateway's arrays and found by ZeroMQ routing number."""

    def __init__(
        self, core: Core, clock: Clock, config: ExchangeConfig, socket: "zmq.Socket[bytes]", inbound: Inbound,
        login: Login, refusals: Refusals,
    ) -> None:  # fmt: skip
        self._core = core
        self._login, self.refusals = login, refusals
        self.participants = Participants(core, config, login)
        self._gateway = core.gateway
        self._clock = clock
        self._config = config
        self._socket = socket
        self._inbound = inbound
        self._latencies = Latencies(config.latency, config.latencies)
        self.reports = DelayedReports(core.gateway, self.send)
        self.catch_up = CatchUp(core, self.reports, self.send, clock.now_ns, config.limits.replay_reports_max)
        #: whether there is currently no time to look for many missed reports, and whether a login is waiting for that
        self.is_busy: Callable[[], bool] = lambda: False
        self.has_waited = False
        self._descriptors: dict[int, int] = {}  # by slot
        #: what participants had left of their rates at the end of a session, and the time: a new login does not renew their allowance
        self._rates_left: dict[int, tuple[float, float, int]] = {}
        self._new_names = Charges(config.limits.new_names_per_s_max)
        self._unsent_goodbyes: list[tuple[int, bytes]] = []
        self._checked_ns = time.monotonic_ns()
        #: called with the slot of each session that ends
        self.on_close: Callable[[int], None] = lambda slot: None
        self.limits = {**config.limits.model_dump(), **config.intervals.model_dump()}

    @property
    def count(self) -> int:
        """The number of sessions that have not ended."""
        return int(np.count_nonzero(self._gateway.status))

    @property
    def commands_waiting(self) -> int:
        """The number of accepted commands that are not executed yet: they wait for their arrival, or for the disk."""
        return self._inbound.count + self._core.command_sequence - self._core.executed_sequence

    def descriptors(self, since_ns: int) -> tuple[set[int], set[int]]:
        """The descriptors of the sessions' connections, and of those that sent a message since a monotonic time."""
        slots = self.live_slots()
        spoke = {self._descriptors.get(slot, -1) for slot in slots if self._gateway.last_in_ns[slot] >= since_ns}
        return {self._descriptors.get(slot, -1) for slot in slots}, spoke

    def live_slots(self) -> list[int]:
        """The slots of live sessions."""
        return [int(slot) for slot in np.flatnonzero(self._gateway.status == LIVE)]

    def name(self, slot: int) -> str:
        """The name of the session's participant."""
        return self.participants.name(int(self._gateway.participant[slot]))

    def send(self, route: int, message: bytes) -> bool:
        """Sends a message to a routing number. Returns False if its pipe is full or gone; its session, which would wait in vain, is then marked SLOW."""
        try:
            self._socket.send_multipart([b"\0" + route.to_bytes(4, "big"), message], zmq.DONTWAIT)
        except zmq.ZMQError:
            slot = self._slot_of_route(route)
            if slot >= 0 and self._gateway.status[slot] == LIVE:
                self._gateway.status[slot] = SLOW
                self._gateway.counter[SLOW_SESSIONS] += 1
            return False
        return True

    def send_error(self, route: int, error: RequestError) -> bool:
        """Answers a rejected message with ERROR. Returns False if the client does not read it."""
        self.refusals.errors[error.code] += 1
        return self.send(route, pack(Kind.ERROR, error.code, str(error)))

    def log_in(self, route: int, message: list[Any], peer: Peer) -> bool:
        """Logs a participant in: sends WELCOME, then missed reports. Sends nothing and returns False while a new name or setting is being saved, or
        missed reports are being read: then call it again. Raises RequestError if the login is rejected."""
        low, high, name, token, last_report, options = wire.expect(message, HELLO_FORM, int, int, str, str, int, dict)
        if not low <= wire.VERSION <= high:
            raise RequestError(
                "version",
                f"expected a range with protocol version {wire.VERSION}, got {low} to {high}; use a client of that version",
            )
        if self._slot_of_route(route) >= 0:
            raise RequestError("duplicate_login", "this connection is logged in already; send BYE first")
        participant = self.participants.find(name)
        self._check_login(name, participant, Credential(token, peer.key), peer.address)
        self._core.execute_journaled()  # WELCOME names the last command
        current = -1 if participant is None else self._slot_where(self._gateway.participant == participant)
        if current >= 0:
            if options.get("replace") is not True:
                raise RequestError(
                    "duplicate_login", f"{name!r} has a live session; end it, or log in with the option replace = true"
                )
            self.end(current, "replaced", "a new session of this participant replaced this one")
        slots = np.flatnonzero(self._gateway.status == FREE)
        if not len(slots):
            raise RequestError(
                "login", f"all {len(self._gateway.status)} sessions (sessions_max) are in use; try again later"
            )
        if participant is None:
            if not self._new_names.take(0, owes=False):  # new names share a bucket, because connections cost nothing
                raise RequestError(
                    "rate",
                    f"more than {self.limits['new_names_per_s_max']:g} new names per second (new_names_per_s_max) log in; try again later",
                )
            participant = self.participants.create(name)
        if not self._login.required and self._login.has_operator_token(token):
            self.participants.grant_operator(participant)
        self.participants.set_cancel_on_disconnect(participant, options.get("cancel_on_disconnect") is True)
        if not self.participants.is_saved(participant):
            return False
        self._apply_account(participant)
        is_known, missed = self._missed_reports(participant, last_report)
        if not is_known:
            return False
        self._descriptors[int(slots[0])] = peer.descriptor
        self._open_session(int(slots[0]), route, participant, options)
        self._welcome(int(slots[0]), last_report, missed)
        return True

    def _apply_account(self, participant: int) -> None:
        """Applies the configured settings to the account of a new participant, which has none yet. Raises RequestError if the disk is full."""
        current = self._core.market.state.accounts[participant]
        if not current.any() and (rows := setting_rows(participant, self.participants.account(participant), current)):
            sent = np.concatenate(rows)
            sent["participant"], sent["time_ns"] = self.participants.exchange(), self._clock.now_ns()
            try:
                self._core.submit(sent)
            except DiskFullError as error:
                raise RequestError("disk_full", str(error)) from None

    def _check_login(self, name: str, participant: int | None, credential: Credential, address: str) -> None:
        if not is_name(name):
            raise RequestError("login", f"expected a name of 1 to 64 printable bytes, got {name[:80]!r}")
        if not self._login.may_log_in(name, credential):
            self.refusals.log(address, f"HELLO of {name!r}")
            raise RequestError(
                "login", f"participant {name!r} does not exist, has another token or key, or may not trade"
            )
        taken = participant is not None and not self._login.required and self.participants.is_operator(participant)
        if taken and not self._login.has_operator_token(credential.token):
            self.refusals.log(address, f"HELLO of operator {name!r}")
            raise RequestError(
                "login", f"participant {name!r} is an operator: expected the operator's token, got none or another"
            )

    def is_operator(self, slot: int) -> bool:
        """Whether the participant may send operator commands."""
        return self.participants.is_operator(int(self._gateway.participant[slot]))

    def _open_session(self, slot: int, route: int, participant: int, options: dict[str, Any]) -> None:
        gateway = self._gateway
        now = time.monotonic_ns()
        gateway.status[slot] = LIVE
        gateway.route[slot] = route
        gateway.participant[slot] = participant
        gateway.as_rows[slot] = options.get("rows") is True
        gateway.pending[slot] = 0
        gateway.out_end[slot] = HEADER_BYTES
        gateway.last_in_ns[slot] = gateway.last_out_ns[slot] = now
        gateway.promise_ns[slot], gateway.last_command_time_ns[slot] = -1, self._inbound.last_sent_ns(participant)
        gateway.messages_per_s[slot] = self._config.messages_per_s_max(self.name(slot))
        gateway.cancels_per_s[slot] = self._config.limits.cancels_per_s_max
        left, cancels_left, since_ns = self._rates_left.get(participant, (math.inf, math.inf, now))
        elapsed_s = max(0, now - since_ns) * 1e-9
        for tokens, rates, before in (
            (gateway.rate_tokens, gateway.messages_per_s, left),
            (gateway.cancel_tokens, gateway.cancels_per_s, cancels_left),
        ):
            tokens[slot] = min(max(rates[slot], 1.0), before + elapsed_s * rates[slot])
        gateway.answers_left[slot] = 0
        for cancels, rates in enumerate((gateway.messages_per_s, gateway.cancels_per_s)):
            text = throttled_text(float(rates[slot]))
            gateway.throttled[slot, cancels, : len(text)] = np.frombuffer(text, np.uint8)
            gateway.throttled_bytes[slot, cancels] = len(text)
        index_sessions(gateway)
        self._inbound.open(slot, participant, self._latencies.orders(self.name(slot)))

    def _missed_reports(self, participant: int, after: int) -> tuple[bool, Rows | None]:
        """(whether the search is complete, the reports after number `after`; None if they are not, or no longer, available)."""
        missed = int(self._core.market.state.report[participant]) - after
        if not missed:
            return True, np.zeros(0, EVENT)
        limit = self._config.limits.replay_reports_max
        if after < 0 or not 0 < missed <= limit:
            return True, None
        if missed > REPORTS_MAX and self.is_busy():
            self.has_waited = True
            return False, None
        is_over, rows = self._core.journal.missed.find(participant, after, self._gateway, limit)
        return is_over, rows if rows is not None and len(rows) == missed else None  # otherwise the last ones are lost

    def _welcome(self, slot: int, last_report: int, missed: Rows | None) -> None:
        gateway = self._gateway
        participant = int(gateway.participant[slot])
        state = self._core.market.state
        last_reported = int(state.report[participant])
        last_id = int(state.last_command_id[participant])
        if self._clock.kind == "lockstep":  # ids of commands that have yet to arrive are already in use
            last_id = max(last_id, int(gateway.last_sent_id[participant]))
        next_report = last_reported + 1 if missed is None else last_report + 1
        delays = self.feed_delays(participant)
        limits = {**self.limits, "messages_per_s_max": float(gateway.messages_per_s[slot])}
        if delays is not None:
            limits["feed_delayed"] = 1
        welcome = pack(
            Kind.WELCOME, wire.VERSION, self._core.journal.epoch, participant, next_report,
            last_id, self.symbols(), self._clock.describe(), limits,
            self.is_operator(slot),
        )  # fmt: skip
        route = int(gateway.route[slot])
        self.send(route, welcome)
        if missed is None and last_report >= 0:
            self.send_error(route, RequestError(
                "replay_gone", f"reports after {last_report} are no longer stored (the last is {last_reported}); the session starts at {next_report}"
            ))  # fmt: skip
        self.catch_up.begin(slot, np.zeros(0, EVENT) if missed is None else missed, next_report - 1, delays)

    def last_sent(self, slot: int) -> int | None:
        """The last report that a session has been sent, if there are later ones still to be sent; None if it has been sent all reports."""
        behind = self.catch_up.last_sent(slot)
        return self.reports.last_sent(int(self._gateway.participant[slot])) if behind is None else behind

    def feed_delays(self, participant: int) -> Delays | None:
        """The latency of reports and feed to a participant; None without latency or for an unknown participant."""
        participants = self._core.journal.participants
        return self._latencies.feed(participants[participant]["name"]) if participant < len(participants) else None

    def symbols(self) -> list[list[Any]]:
        """The `symbols` of WELCOME and INFO."""
        return [
            [number, symbol["name"], symbol["tick_size"], symbol["lot_size"]]
            for number, symbol in enumerate(self._core.symbols)
        ]

    def _slot_of_route(self, route: int) -> int:
        return self._slot_where(self._gateway.route == route)

    def _slot_where(self, matches: NDArray[np.bool_]) -> int:
        """The first session that matches, -1 if none does."""
        slots = np.flatnonzero(matches & (self._gateway.status != FREE))
        return int(slots[0]) if len(slots) else -1

    def end(self, slot: int, code: str, text: str) -> None:
        """Ends a session with GOODBYE, and cancels its orders if it logged in with cancel_on_disconnect."""
        self.close(slot, code, text)
        participant = int(self._gateway.participant[slot])
        cancels = self.participants.cancels_on_disconnect(participant)
        if cancels and not self._inbound.append_for_exchange(self._mass_cancel(participant)):
            if not self._core.journal.is_full or self._core.market.has_orders(participant):  # the reserved rows are few
                self._core.submit(self._mass_cancel(participant))
            # stays set for a delayed cancel: if the exchange stops before it arrives, the next start cancels
            self.participants.set_cancel_on_disconnect(participant, False)

    def close(self, slot: int, code: str, text: str) -> None:
        """Ends a session with GOODBYE; its orders stay open."""
        gateway = self._gateway
        participant, route = int(gateway.participant[slot]), int(gateway.route[slot])
        goodbye = pack(Kind.GOODBYE, code, text)
        self.refusals.sessions_ended[code] += 1
        gateway.live_session[participant] = -1
        left = float(gateway.rate_tokens[slot]), float(gateway.cancel_tokens[slot])
        self._rates_left[participant] = *left, int(gateway.last_in_ns[slot])
        self.catch_up.end(slot)
        self.reports.close(participant)
        gateway.status[slot] = FREE
        gateway.promise_ns[slot] = -1
        index_sessions(gateway)
        self.on_close(slot)
        if not self.send(route, goodbye):
            self._unsent_goodbyes.append((route, goodbye))  # the pipe is full: sent as soon as it has room

    def _mass_cancel(self, participant: int) -> Rows:
        """The exchange's mass cancel for a disconnected participant."""
        cancel = command(CommandKind.MASS_CANCEL, symbol=ALL_SYMBOLS, participant=participant, reason=Reason.DISCONNECT)
        cancel["time_ns"] = self._clock.now_ns()
        return cancel

    def cancel_after_restart(self) -> None:
        """Cancels the orders of participants with cancel_on_disconnect, because a restart ends all sessions."""
        for participant in range(len(self._core.journal.participants)):
            if self.participants.cancels_on_disconnect(participant):
                self._core.submit(self._mass_cancel(participant))

    def check_liveness(self) -> list[int]:
        """Sends heartbeats and ends slow, silent and disconnected sessions. Returns the slots that ended."""
        now, gateway = time.monotonic_ns(), self._gateway
        heartbeat = pack(Kind.HEARTBEAT, self._clock.now_ns())
        heartbeat_ns = int(self._config.intervals.heartbeat_s * 1e9)
        paused_ns, self._checked_ns = now - self._checked_ns - heartbeat_ns, now
        if paused_ns > heartbeat_ns:  # suspended, or compiling the full rule book, the exchange received nothing
            np.minimum(gateway.last_in_ns + paused_ns, now, out=gateway.last_in_ns)
        silence_s = self._config.intervals.silence_s
        self._unsent_goodbyes = [
            (route, text) for route, text in self._unsent_goodbyes[-1000:] if not self._send_or_drop(route, text)
        ]
        ended = []
        for slot in np.flatnonzero(gateway.status != FREE).tolist():
            if gateway.status[slot] == SLOW:
                self.end(slot, "slow_consumer", f"more than {self.limits['outbound_messages_max']} messages unread")
            elif now - gateway.last_in_ns[slot] > silence_s * 1e9:
                self.end(slot, "silence", f"no message for {silence_s} s (silence_s); send PING when idle")
            elif now - gateway.last_out_ns[slot] < heartbeat_ns:
                continue
            elif self.send(int(gateway.route[slot]), heartbeat):
                gateway.last_out_ns[slot] = now
                continue
            else:
                self.end(slot, "slow_consumer", "the client does not read or is gone")
            ended.append(slot)
        return ended

    def _send_or_drop(self, route: int, message: bytes) -> bool:
        """Returns True if the message was sent or its connection is gone; False if the caller must try again."""
        try:
            self._socket.send_multipart([b"\0" + route.to_bytes(4, "big"), message], zmq.DONTWAIT)
        except zmq.Again:
            return False
        except zmq.ZMQError:
            return True
        return True
