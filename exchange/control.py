"""The orders socket's messages that the compiled loop passes to Python: control messages, duplicates, malformed ones."""

import time
from typing import Any

import numpy as np

from serl.exchange import wire
from serl.exchange.budget import BURST_PERIODS_S, Charges
from serl.exchange.clock import Clock
from serl.exchange.core import Core
from serl.exchange.errors import DiskFullError
from serl.exchange.gateway.accept import END_NS
from serl.exchange.gateway.codec import read_order
from serl.exchange.gateway.loop import BAD_FRAMES, SKIPPING, TOO_LARGE
from serl.exchange.gateway.refusals import throttled_text
from serl.exchange.gateway.state import (
    APPENDED,
    EXECUTED,
    FREE,
    LIVE,
    PENDING_ROUTE,
    PENDING_SESSION,
    PENDING_SIZE,
    STAGED,
    STAGED_EACH_MAX,
    STAGED_LEFT,
    STAGED_RESERVED,
)
from serl.exchange.inbound import Inbound
from serl.exchange.lockstep import Lockstep
from serl.exchange.peer import Peer, peer_of_message
from serl.exchange.records import COMMAND, CommandKind, Rows
from serl.exchange.resends import Resends
from serl.exchange.sessions import Sessions
from serl.exchange.unauthenticated import UnauthenticatedConnections
from serl.exchange.wire import Kind, RequestError, pack

CANCELLATIONS = [int(kind) for kind in (CommandKind.CANCEL, CommandKind.REDUCE, CommandKind.MASS_CANCEL)]
"""The commands that count against the rate of cancels, and that are accepted while the disk is full."""

PAYMENTS, PAID_AHEAD_MAX = 16, 64
"""Answers that a participant pays for in advance: a burst is split into PAYMENTS parts; without a rate limit, PAID_AHEAD_MAX answers."""
LOGIN_MESSAGES = 9
"""Messages charged for a BYE in addition to itself: the login that it ends took as long as this many PINGs."""

FINISH_S = 0.001
"""Seconds into a turn of the loop after which no further waiting login is continued."""


class Control:
    """Answers one message at a time; a rejection says what was expected and what arrived."""

    def __init__(
        self, core: Core, clock: Clock, sessions: Sessions, lockstep: Lockstep | None, inbound: Inbound,
        unauthenticated: UnauthenticatedConnections, resends: Resends,
    ) -> None:  # fmt: skip
        self._core = core
        self._gateway = core.gateway
        self._clock = clock
        self._sessions = sessions
        self._lockstep = lockstep
        self._inbound = inbound
        self._rate = sessions.limits["control_messages_per_s_max"]
        self._paid_ahead = int(self._rate * BURST_PERIODS_S / PAYMENTS) if self._rate else PAID_AHEAD_MAX
        self._charges, self._unauthenticated, self._resends = Charges(self._rate), unauthenticated, resends
        sessions.is_busy = unauthenticated.is_limited
        self._logins: dict[
            int, tuple[list[Any], Peer]
        ] = {}  # HELLOs by routing number that wait for names to be saved or missed reports to be read
        self._seen_done = 0, 0

    def answer_pending(self) -> None:
        """Answers the message that the loop left in gateway.message."""
        gateway = self._gateway
        size, route = int(gateway.counter[PENDING_SIZE]), int(gateway.counter[PENDING_ROUTE])
        slot = int(gateway.counter[PENDING_SESSION])
        gateway.counter[PENDING_SIZE] = 0
        if size == SKIPPING:
            return
        if not self._may_be_answered(route, slot):
            self._cut(route, slot)
            return
        try:
            if size == BAD_FRAMES:
                raise RequestError(
                    "malformed",
                    "expected one non-empty frame, got an empty one or several; use a DEALER socket without delimiter",
                )
            if size == TOO_LARGE:
                raise RequestError(
                    "too_large",
                    f"expected at most {len(gateway.message)} bytes (message_bytes_max), got more; split the message",
                )
            self._dispatch(route, slot, gateway.message[:size].tobytes())
        except RequestError as error:
            if self._sessions.send_error(route, error) and error.code == "not_logged_in":
                self._unauthenticated.mute(route, self._peer())

    def _may_be_answered(self, route: int, slot: int) -> bool:
        """Charges a message to its sender: a participant, however often it connects, or an unauthenticated connection. Returns whether it may be
        answered."""
        if slot < 0:
            self._sessions.refusals.heard.add(self._peer().descriptor)
            return self._unauthenticated.may_be_answered(route) and self._charges.take(route)
        if self._lockstep is not None:  # in lockstep no message delays other participants needlessly
            return True
        return self._charges.take(~int(self._gateway.participant[slot]))

    def _cut(self, route: int, slot: int) -> None:
        """Ends the session of a connection that sends too many messages other than orders, and closes the connection."""
        if slot < 0 or self._gateway.status[slot] == FREE:
            text = "the exchange is too busy to serve connections that are not logged in; connect again later"
            self._unauthenticated.close(route, self._peer(), pack(Kind.GOODBYE, "rate", text))
            return
        self._unauthenticated.close(route, self._peer(), pack(Kind.HEARTBEAT, self._clock.now_ns()))
        self.end(
            slot, "rate",
            f"more than {self._rate:g} messages per second besides accepted orders (control_messages_per_s_max)",
        )  # fmt: skip

    def _peer(self) -> Peer:
        """The sender of the message."""
        return peer_of_message(self._gateway.zmq_message.ctypes.data)

    def _dispatch(self, route: int, slot: int, data: bytes) -> None:
        message = wire.unpack(data)
        kind = message[0]
        if kind == Kind.HELLO:
            self._log_in(route, message, self._peer())
            return
        if slot < 0 or self._gateway.status[slot] != LIVE:
            raise RequestError("not_logged_in", "this connection is not logged in; send HELLO first")
        if kind in wire.ORDER_FORMS:
            self._order(slot, message, data)
        elif kind == Kind.BULK:
            self._bulk(slot, message, data)
        elif kind == Kind.ON_BEHALF:
            self._on_behalf(slot, message)
        elif kind == Kind.BYE:
            wire.expect(message, "[65]")
            self._charges.take(~int(self._gateway.participant[slot]), LOGIN_MESSAGES)
            self._unauthenticated.forget(route)
            self.end(slot, "bye", "the client sent BYE")
        elif kind == Kind.PING:
            (number,) = wire.expect(message, "[66, n]", int)
            if not self._sessions.catch_up.hold(slot, number):
                self._pay_ahead(slot)
                self._sessions.send(route, pack(Kind.PONG, number, self._clock.now_ns()))
        elif kind == Kind.PROMISE:
            (time_ns,) = wire.expect(message, "[67, time_ns]", int)
            self._promise(slot, time_ns)
        else:
            raise RequestError(
                "malformed", f"expected a message kind of the orders socket, got {kind}; docs/protocol.md lists them"
            )

    def _pay_ahead(self, slot: int) -> None:
        """Charges a participant in advance for the next answers that the compiled loop gives, so that it seldom has to ask Python."""
        is_behind = self._sessions.catch_up.last_sent(slot) is not None  # the compiled loop would not hold its PONGs
        if self._lockstep is None and not is_behind and not self._gateway.answers_left[slot]:
            self._charges.take(~int(self._gateway.participant[slot]), self._paid_ahead)
            self._gateway.answers_left[slot] = self._paid_ahead

    @property
    def has_logins(self) -> bool:
        """Whether logins are waiting for their names to be saved, or missed reports of logins or sessions are being read."""
        return bool(self._logins) or self._sessions.catch_up.is_searching

    @property
    def may_finish_logins(self) -> bool:
        """Whether something has been saved or read since logins began to wait, or there is time again to look for missed reports."""
        may_search = self._sessions.has_waited and not self._unauthenticated.is_limited()
        return bool(self._logins) and (may_search or self._seen_done != self._done)

    @property
    def _done(self) -> tuple[int, int]:
        return self._sessions.participants.saves_done, self._core.journal.missed.searches_done

    def finish_logins(self) -> None:
        """Continues the waiting logins."""
        self._seen_done, self._sessions.has_waited, began_s = self._done, False, time.monotonic()
        for route, (message, peer) in list(self._logins.items()):
            if route not in self._logins:  # another connection of the participant has logged in meanwhile
                continue
            if time.monotonic() - began_s > FINISH_S:  # spent on missed reports: charged before others look for theirs
                self._seen_done, self._sessions.has_waited = (-1, -1), True
                break
            try:
                self._log_in(route, message, peer)
            except RequestError as error:
                self._forget_search(message)
                self._sessions.send_error(route, error)

    def _log_in(self, route: int, message: list[Any], peer: Peer) -> None:
        """Logs in, or waits until the name is saved and missed reports are read; messages from the connection meanwhile are refused, as before any login."""
        waiting, _ = self._logins.pop(route, (message, peer))
        if waiting is not message:
            self._forget_search(waiting)
        try:
            is_logged_in = self._sessions.log_in(route, message, peer)
        finally:
            if self._lockstep is not None and self._lockstep.has_lost_session:
                self._lockstep.advance()  # the promise of the session that was replaced may have held time back
        self._displace(message[3])
        if is_logged_in:
            self._forget_search(message)
            self._unauthenticated.unmute(route)
        else:
            self._logins[route] = message, peer

    def _displace(self, name: str) -> None:
        """Ends the waiting logins of a participant when another connection logs in under its name: two logins would undo each other's options, and
        one whose client has given up would end the newer session."""
        for route in [route for route, (message, _) in self._logins.items() if message[3] == name]:
            del self._logins[route]
            text = f"another connection of {name!r} logged in while this one waited; log in again"
            self._sessions.send_error(route, RequestError("duplicate_login", text))

    def _forget_search(self, hello: list[Any]) -> None:
        """Ends the search for the missed reports of an abandoned login."""
        if (participant := self._sessions.participants.find(hello[3])) is not None:
            self._core.journal.missed.forget(participant)

    def _promise(self, slot: int, time_ns: int) -> None:
        if self._lockstep is None:
            raise RequestError(
                "clock", f"PROMISE needs a lockstep clock, this exchange's is {self._clock.kind}; do not send it"
            )
        self._lockstep.promise(slot, time_ns)

    def end(self, slot: int, code: str, text: str) -> None:
        """Ends a session; a lockstep clock advances without it."""
        if self._gateway.status[slot] != FREE:
            self._sessions.end(slot, code, text)
        if self._lockstep is not None:
            self._lockstep.advance()

    def _last_command_id(self, slot: int) -> int:
        return int(self._core.market.state.last_command_id[int(self._gateway.participant[slot])])

    def _last_sent_id(self, slot: int) -> int:
        """The last command that was accepted, including those that have not arrived yet."""
        return max(self._last_command_id(slot), int(self._gateway.last_sent_id[int(self._gateway.participant[slot])]))

    def _order(self, slot: int, message: list[Any], data: bytes) -> None:
        """An order that the compiled loop did not accept: rejects it with the reason, or resends the reports of a duplicate."""
        row = np.zeros(1, COMMAND)
        if not read_order(np.frombuffer(bytearray(data), np.uint8), len(data), row[0]):
            form = wire.ORDER_FORMS[message[0]]
            raise RequestError(
                "malformed", f"expected {form} with integers in range and command_id > 0, got {str(message)[:120]}"
            )
        self._raise_error(slot, row, cancels=row[0]["kind"] in CANCELLATIONS)

    def _raise_error(self, slot: int, rows: Rows, *, cancels: bool) -> None:
        """cancels: whether the message counts against the rate of cancels."""
        command_id = int(rows[0]["command_id"])
        if command_id <= self._last_sent_id(slot):
            self._resends.put(slot, rows["command_id"], self._unexecuted_ids(slot))
            return
        if self._lockstep is not None or self._gateway.delayed[slot]:
            self._check_room(slot, rows)
        if self._lockstep is not None:
            self._check_times(slot, rows)
        if self._core.journal.is_full:
            self._submit_cancellations(slot, rows)
            return
        rate = (self._gateway.cancels_per_s if cancels else self._gateway.messages_per_s)[slot]
        self._pay_ahead(slot)
        raise RequestError(
            "throttled",
            f"command {command_id}{throttled_text(rate).decode()}",
        )

    def _submit_cancellations(self, slot: int, rows: Rows) -> None:
        """Executes commands that only cancel, from the journal's reserve for a full disk. Raises RequestError for others."""
        if self._lockstep is not None or self._gateway.delayed[slot] or not np.isin(rows["kind"], CANCELLATIONS).all():
            raise RequestError(
                "disk_full",
                f"command {rows[0]['command_id']} was not accepted: the exchange's disk is full, and it takes CANCEL, REDUCE and MASS_CANCEL "
                "only; resend it later",
            )
        if len(rows) > self._core.cancellation_rows:
            raise RequestError(
                "disk_full",
                f"command {rows[0]['command_id']} was not accepted: the exchange's disk is full, and the rows that are reserved for cancellations are used up; "
                "resend it later",
            )
        own = rows.copy()
        own["reason"] = 0  # only the exchange may set it
        own["participant"], own["time_ns"] = self._gateway.participant[slot], self._clock.now_ns()
        try:
            self._core.submit(own)
        except DiskFullError as error:
            raise RequestError("disk_full", str(error)) from None

    def _check_room(self, slot: int, rows: Rows) -> None:
        """Raises RequestError `throttled` if there is no room for these rows among those that wait for their arrival time."""
        count, own, counter = (
            len(rows),
            int(self._gateway.staged_rows[self._gateway.participant[slot]]),
            self._gateway.counter,
        )
        rows_max, reserved = len(self._gateway.staged), int(counter[STAGED_RESERVED])
        if own + count > (each_max := int(counter[STAGED_EACH_MAX])):
            text = f"{own} commands of this participant (staged_rows_per_participant_max: {each_max})"
        elif count > max(0, reserved - own) + counter[STAGED_LEFT]:
            text = f"{counter[STAGED]} commands (staged_rows_max: {rows_max}, of which {reserved} are reserved for each participant)"
        else:
            return
        raise RequestError(
            "throttled",
            f"command {rows[0]['command_id']} was not accepted: {text} already wait for their arrival; resend it later",
        )

    def _check_times(self, slot: int, rows: Rows) -> None:
        """Raises RequestError `promise` unless rows may arrive at their times in lockstep."""
        assert self._lockstep is not None
        self._lockstep.check_ahead(int(rows["time_ns"].max()))
        earliest = max(int(self._gateway.promise_ns[slot]), int(self._gateway.last_command_time_ns[slot]))
        if np.any(np.diff(rows["time_ns"], prepend=earliest) < 0) or rows[-1]["time_ns"] >= END_NS:
            raise RequestError(
                "promise",
                f"expected times from {earliest} (the promise or last command) to {END_NS - 1} that never decrease, "
                f"got {rows['time_ns'].min()} to {rows['time_ns'].max()} in the message of command {rows[0]['command_id']}",
            )

    def _unexecuted_ids(self, slot: int) -> set[int]:
        """The commands of a session's participant that are accepted but not yet executed: they wait for the disk, or for their latency."""
        counter, participant = self._gateway.counter, self._gateway.participant[slot]
        journaled = self._core.arrays[0][counter[EXECUTED] : counter[APPENDED]]
        staged = self._gateway.staged[: counter[STAGED]]
        return {
            command_id
            for rows in (journaled, staged)
            for command_id in rows["command_id"][rows["participant"] == participant].tolist()
        }

    def _bulk(self, slot: int, message: list[Any], data: bytes) -> None:
        rows = self._rows(*wire.expect(message, "[32, rows]", bytes))
        ids = rows["command_id"]
        if ids[0] <= 0 or np.any(np.diff(ids) <= 0):
            raise RequestError(
                "malformed", "expected command_id > 0, increasing from row to row; got one that does not increase"
            )
        if data != pack(Kind.BULK, message[1]):  # the compiled loop reads only the shortest encoding
            self._requeue(rows)
            return
        known = int(np.searchsorted(ids, self._last_sent_id(slot), side="right"))
        if not known:
            self._raise_error(slot, rows, cancels=False)
            return
        self._resends.put(slot, ids[:known], self._unexecuted_ids(slot))
        if known < len(rows):
            self._requeue(rows[known:])

    def _rows(self, data: bytes) -> Rows:
        if not data or len(data) % COMMAND.itemsize:
            raise RequestError("malformed", f"expected rows of {COMMAND.itemsize} bytes, got {len(data)} bytes")
        rows = np.frombuffer(data, COMMAND)
        limit = self._sessions.limits["bulk_rows_max"]
        if len(rows) > limit:
            raise RequestError(
                "too_large", f"expected at most {limit} rows (bulk_rows_max) per message, got {len(rows)}"
            )
        return rows

    def _on_behalf(self, slot: int, message: list[Any]) -> None:
        """Accepts commands of many participants from a recorded day, sent by an operator. They arrive in the given order, whatever their command ids."""
        rows = self._rows(*wire.expect(message, "[33, rows]", bytes)).copy()
        if not self._sessions.is_operator(slot):
            raise RequestError(
                "not_permitted", "only operators may send commands on behalf of others; log in with an operator's token"
            )
        if self._lockstep is None:
            raise RequestError(
                "clock",
                f"commands on behalf of others need a lockstep clock, this one is {self._clock.kind}; start the exchange with --clock lockstep",
            )
        self._check_times(slot, rows)
        self._sessions.participants.map_recorded(self._sessions.name(slot), rows)
        if not self._inbound.append_recorded(rows, int(self._gateway.participant[slot])):
            raise RequestError(
                "throttled",
                f"{len(self._gateway.staged)} commands (staged_rows_max) already wait for their arrival; resend later",
            )
        self._gateway.last_command_time_ns[slot] = rows[-1]["time_ns"]

    def _requeue(self, rows: Rows) -> None:
        """Passes the rows back to the compiled loop as its next message."""
        message = pack(Kind.BULK, rows.tobytes())
        self._gateway.message[: len(message)] = np.frombuffer(message, np.uint8)
        self._gateway.counter[PENDING_SIZE] = len(message)
