"""Who is connected: login, reports sent again, heartbeats, the end of a session."""

import time
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from serl.exchange import wire
from serl.exchange.clock import Clock
from serl.exchange.config import ExchangeConfig
from serl.exchange.core import Core
from serl.exchange.gateway.state import FREE, HEADER_BYTES, LIVE, SLOW, SLOW_SESSIONS, index_sessions
from serl.exchange.inbound import Inbound
from serl.exchange.latency import Delays, Latencies
from serl.exchange.outbound import REPORTS_MAX, Reports
from serl.exchange.records import ALL_SYMBOLS, EVENT, CommandKind, Reason, Rows, command
from serl.exchange.renumber import renumber
from serl.exchange.wire import Kind, RequestError, pack

HELLO_FORM = "[64, version_min, version_max, name, token, last_report, options]"

EXCHANGE_NAME = "\u0000exchange"


class Sessions:
    """The sessions of one exchange, in the gateway's arrays; slots are found by ZeroMQ routing number."""

    def __init__(
        self, core: Core, clock: Clock, config: ExchangeConfig, socket: "zmq.Socket[bytes]", inbound: Inbound
    ) -> None:
        self._core = core
        self._gateway = core.gateway
        self._clock = clock
        self._config = config
        self._socket = socket
        self._inbound = inbound
        self._latencies = Latencies(config.latency, config.latencies)
        self.reports = Reports(core.gateway, self.send)
        self._numbers = {entry["name"]: number for number, entry in enumerate(core.journal.participants)}
        self._cancel: dict[int, bool] = {}
        self._unsent_goodbyes: list[tuple[int, bytes]] = []
        self.limits = {**config.limits.model_dump(), **config.intervals.model_dump()}
        self._refresh_operators()

    @property
    def count(self) -> int:
        """Live sessions."""
        return int(np.count_nonzero(self._gateway.status))

    def live(self) -> list[int]:
        """The slots of live sessions."""
        return [int(slot) for slot in np.flatnonzero(self._gateway.status == LIVE)]

    def name(self, slot: int) -> str:
        """The participant's name."""
        return str(self._core.journal.participants[int(self._gateway.participant[slot])]["name"])

    def send(self, route: int, message: bytes) -> bool:
        """Sends to a routing number; False if its pipe is full or gone."""
        try:
            self._socket.send_multipart([b"\0" + route.to_bytes(4, "big"), message], zmq.DONTWAIT)
        except zmq.ZMQError:
            return False
        return True

    def send_error(self, route: int, refusal: RequestError) -> None:
        """ERROR to whoever sent what cannot be taken."""
        self.send(route, pack(Kind.ERROR, refusal.code, str(refusal)))

    def log_in(self, route: int, message: list[Any]) -> int:
        """Logs a participant in: WELCOME, then what it missed. The slot; RequestError if it may not."""
        low, high, name, token, last_report, options = wire.expect(message, HELLO_FORM, int, int, str, str, int, dict)
        if not low <= wire.VERSION <= high:
            raise RequestError("version", f"this exchange speaks version {wire.VERSION}; you offer {low} to {high}")
        if self._slot_of_route(route) >= 0:
            raise RequestError("duplicate_login", "this connection is logged in already; say BYE first")
        self._check_login(name, token)
        participant = self._numbers.get(name)
        current = -1 if participant is None else self._slot_where(self._gateway.participant == participant)
        if current >= 0:
            if options.get("replace") is not True:
                raise RequestError(
                    "duplicate_login", f"{name!r} has a live session; end it, or say so with the option replace = true"
                )
            self.end(current, "replaced", "another session of yours took over")
        slots = np.flatnonzero(self._gateway.status == FREE)
        if not len(slots):
            raise RequestError(
                "login", f"all {len(self._gateway.status)} sessions (sessions_max) are taken; try again later"
            )
        if participant is None:
            participant = self._new_participant(name)
        self._open_session(int(slots[0]), route, participant, options)
        self._welcome(int(slots[0]), last_report)
        return int(slots[0])

    def _check_login(self, name: str, token: str) -> None:
        if not 1 <= len(name.encode()) <= 64 or not name.isprintable():
            raise RequestError("login", f"a name of 1 to 64 printable bytes is due; got {name[:80]!r}")
        if not self._config.login.may_log_in(name, token):
            raise RequestError("login", f"no participant {name!r} with this token")

    def _new_participant(self, name: str) -> int:
        number = len(self._numbers)
        if number >= len(self._gateway.live_session):
            raise RequestError(
                "login", f"all {number} participants (participants_max) exist; log in under a known name"
            )
        self._numbers[name] = number
        operator = self._may_operate(name)
        self._core.journal.participants.append({"name": name, "cancel_on_disconnect": False, "operator": operator})
        if operator:
            self._core.market.grant_operator(number)
        return number

    def _refresh_operators(self) -> None:
        """Makes operators of those who are to be now. The journal's commands were theirs who were operators then: where these are others,
        a restart is not to execute them again."""
        known = self._core.journal.participants
        operators = [self._may_operate(entry["name"]) for entry in known]
        self._core.market.state.operator[: len(known)] = operators
        if operators != [entry.get("operator") for entry in known]:
            self._core.save_snapshot()
            for entry, operator in zip(known, operators, strict=True):
                entry["operator"] = operator
            self._core.journal.save_participants()

    def _may_operate(self, name: str) -> bool:
        login = self._config.login
        return name == EXCHANGE_NAME or name in login.operators or not login.tokens

    def exchange_participant(self) -> int:
        """The participant that the exchange's own operator commands belong to; nobody can log in under its name."""
        return self.participant_or_new(EXCHANGE_NAME)

    def participant_or_new(self, name: str) -> int:
        """The number of a participant, whether it has logged in already or not."""
        if name not in self._numbers:
            self._new_participant(name)
            self._core.journal.save_participants()
        return self._numbers[name]

    def participant_number(self, name: str) -> int:
        """The number of a participant that has been here; RequestError `login` if there is none of this name."""
        if name not in self._numbers:
            raise RequestError("login", f"no participant {name[:80]!r} has logged in yet")
        return self._numbers[name]

    def is_operator(self, slot: int) -> bool:
        """Whether the participant may give an operator's commands."""
        return bool(self._core.market.state.operator[int(self._gateway.participant[slot])])

    def map_participants(self, slot: int, rows: Rows) -> None:
        """Gives the participants of a recorded day's COMMAND rows the numbers that they have here, as operators: 0 is the exchange itself,
        any other one is NAME/number, where NAME is the session's own. What was not permitted is not in such a day."""

        def here(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
            unique, places = np.unique(numbers, return_inverse=True)
            return np.array([self._mapped_participant(slot, number) for number in unique.tolist()], np.int64)[places]

        renumber(rows, here)

    def _mapped_participant(self, slot: int, number: int) -> int:
        if number == 0:
            return self.exchange_participant()
        here = self.participant_or_new(f"{self.name(slot)}/{number}")
        entry = self._core.journal.participants[here]
        if not entry["operator"]:
            entry["operator"] = True
            self._core.market.grant_operator(here)
            self._core.journal.save_participants()
        return here

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
        gateway.promise_ns[slot] = gateway.last_command_time_ns[slot] = -1
        gateway.messages_per_s[slot] = self._config.messages_per_s_max(self.name(slot))
        gateway.rate_tokens[slot] = max(gateway.messages_per_s[slot], 1.0)
        index_sessions(gateway)
        self._inbound.open(slot, participant, self._latencies.orders(self.name(slot)))
        self._core.journal.participants[participant]["cancel_on_disconnect"] = (
            options.get("cancel_on_disconnect") is True
        )
        self._core.journal.save_participants()

    def _welcome(self, slot: int, last_report: int) -> None:
        gateway = self._gateway
        participant = int(gateway.participant[slot])
        state = self._core.market.state
        last_reported = int(state.report[participant])
        missed = None
        if 0 <= last_report <= last_reported:
            missed = self._core.journal.reports(
                participant, last_report, gateway, self._config.limits.replay_reports_max
            )
        next_report = last_reported + 1 if missed is None else last_report + 1
        delays = self.feed_delays(participant)
        limits = {**self.limits, "messages_per_s_max": float(gateway.messages_per_s[slot])}
        if delays is not None:
            limits["feed_delayed"] = 1
        welcome = pack(
            Kind.WELCOME, wire.VERSION, self._core.journal.epoch, participant, next_report,
            int(state.last_command_id[participant]), self.symbols(), self._clock.describe(), limits,
            self.is_operator(slot),
        )  # fmt: skip
        route = int(gateway.route[slot])
        self.send(route, welcome)
        if missed is None and last_report >= 0:
            self.send_error(route, RequestError(
                "replay_gone", f"reports after {last_report} are not kept (there are {last_reported}); going on at {next_report}"
            ))  # fmt: skip
        if missed is None:
            missed = np.zeros(0, EVENT)
        if delays is not None:
            self.reports.open(slot, participant, delays, missed, last_reported)
            return
        for first in range(0, len(missed), REPORTS_MAX):
            if not self.send(route, wire.reports(missed[first : first + REPORTS_MAX], bool(gateway.as_rows[slot]))):
                gateway.status[slot] = SLOW  # ended at the next check; it goes on from there when it comes again
                gateway.counter[SLOW_SESSIONS] += 1
                break
        gateway.live_session[participant] = slot

    def feed_delays(self, participant: int) -> Delays | None:
        """What reports and the feed take to a participant; None if they are there at once, or there is no such participant."""
        known = self._core.journal.participants
        return self._latencies.feed(known[participant]["name"]) if participant < len(known) else None

    def symbols(self) -> list[list[Any]]:
        """The `symbols` of WELCOME and INFO."""
        return [
            [number, symbol["name"], symbol["tick_size"], symbol["lot_size"]]
            for number, symbol in enumerate(self._core.symbols)
        ]

    def _slot_of_route(self, route: int) -> int:
        return self._slot_where(self._gateway.route == route)

    def _slot_where(self, matches: NDArray[np.bool_]) -> int:
        """The session of which this holds, -1 if it holds of none."""
        slots = np.flatnonzero(matches & (self._gateway.status != FREE))
        return int(slots[0]) if len(slots) else -1

    def end(self, slot: int, code: str, text: str) -> None:
        """Ends a session with GOODBYE; cancels its orders if it asked for that."""
        self.close(slot, code, text)
        participant = int(self._gateway.participant[slot])
        entry = self._core.journal.participants[participant]
        if entry["cancel_on_disconnect"] and not self._inbound.append_for_exchange(self._mass_cancel(participant)):
            self._core.submit(self._mass_cancel(participant))
            entry["cancel_on_disconnect"] = False  # else it stays: if the exchange ends before, the next start cancels
            self._core.journal.save_participants()

    def close(self, slot: int, code: str, text: str) -> None:
        """Ends a session with GOODBYE; its orders stay."""
        gateway = self._gateway
        participant = int(gateway.participant[slot])
        route = int(gateway.route[slot])
        goodbye = pack(Kind.GOODBYE, code, text)
        gateway.live_session[participant] = -1
        self.reports.close(participant)
        gateway.status[slot] = FREE
        gateway.promise_ns[slot] = -1
        index_sessions(gateway)
        if not self.send(route, goodbye):
            self._unsent_goodbyes.append((route, goodbye))  # its pipe is full: said as soon as there is room

    def _mass_cancel(self, participant: int) -> Rows:
        """The exchange's own mass cancel for a participant that is gone."""
        cancel = command(CommandKind.MASS_CANCEL, symbol=ALL_SYMBOLS, participant=participant, reason=Reason.DISCONNECT)
        cancel["time_ns"] = self._clock.now_ns()
        return cancel

    def cancel_after_restart(self) -> None:
        """Cancels what those left behind who asked for cancel-on-disconnect: a restart ended all sessions."""
        for participant, entry in enumerate(self._core.journal.participants):
            if entry["cancel_on_disconnect"]:
                self._core.submit(self._mass_cancel(participant))

    def check_liveness(self) -> list[int]:
        """Heartbeats, and the end of sessions that are slow, silent or gone; the slots that ended."""
        now = time.monotonic_ns()
        gateway = self._gateway
        heartbeat = pack(Kind.HEARTBEAT, self._clock.now_ns())
        beat_ns = int(self._config.intervals.heartbeat_s * 1e9)
        silence_s = self._config.intervals.silence_s
        self._unsent_goodbyes = [
            (route, text) for route, text in self._unsent_goodbyes[-1000:] if not self._send_or_drop(route, text)
        ]
        ended = []
        for slot in np.flatnonzero(gateway.status != FREE).tolist():
            if gateway.status[slot] == SLOW:
                self.end(slot, "slow_consumer", f"more than {self.limits['outbound_messages_max']} messages unread")
            elif now - gateway.last_in_ns[slot] > silence_s * 1e9:
                self.end(slot, "silence", f"nothing heard for {silence_s} s (silence_s); send PING when idle")
            elif now - gateway.last_out_ns[slot] < beat_ns:
                continue
            elif self.send(int(gateway.route[slot]), heartbeat):
                gateway.last_out_ns[slot] = now
                continue
            else:
                self.end(slot, "slow_consumer", "does not read, or is gone")
            ended.append(slot)
        return ended

    def _send_or_drop(self, route: int, message: bytes) -> bool:
        """True if there is nothing left to do: sent, or nobody there."""
        try:
            self._socket.send_multipart([b"\0" + route.to_bytes(4, "big"), message], zmq.DONTWAIT)
        except zmq.Again:
            return False
        except zmq.ZMQError:
            return True
        return True
