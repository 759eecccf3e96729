"""The session layer of FIX 4.4 as a state machine: messages in, bytes out; no sockets. Volume 2 of the specification."""

import time
from typing import Any

from serl.gateways.fix.codec import (
    BEGIN_STRING,
    SECOND_NS,
    Message,
    UtcClock,
    encode,
    number,
    parse_timestamp,
    plain,
)
from serl.gateways.fix.fields import (
    BAD_VALUE,
    COMP_ID,
    INVALID_TYPE,
    OTHER,
    REQUIRED_MISSING,
    SENDING_TIME,
    TYPES,
    Problem,
    duplicate_problem,
    problem_of,
)
from serl.gateways.fix.interfaces import Application
from serl.gateways.fix.resends import Resends
from serl.gateways.fix.store import OUTBOUND, SEQUENCES, SessionStore

SENDING_TIME_S = 120
"""The largest difference between a SendingTime and the gateway's clock."""
HEARTBEAT_S_MAX = 3600
BYE = "logout"
"""`FixSession.closing` after a Logout from the client."""
LOGOUT_S = 2.0
"""The time that a client has to answer a Logout."""
HELD_MAX = 10_000
"""Maximum number of market data messages that wait until a resend has ended."""
_ADMINISTRATIVE = frozenset("012345A")
READ = frozenset("DFGHqVcxej")
"""Types of the application messages that are processed."""


class FixSession:
    """One session. The owner calls `receive`, `tick` and `flush`, writes `out` to the socket, and closes the socket once `closing` is set."""

    def __init__(self, comp_id: str, login: str, store: SessionStore) -> None:
        self.login = login
        self.store = store
        self.application: Application | None = None
        #: whether the client is logged on
        self.live = False
        #: messages for the socket
        self.out: list[bytes] = []
        #: why the connection ends, once `out` is written
        self.closing = ""
        self.heartbeat_s = 0
        self._parties = f"49={comp_id}\x0156={login}\x01"
        self._comp_ids = (login, comp_id)
        self._clock = UtcClock()
        self._stamp = ""
        self._on_time, self._on_time_until_s = (
            "",
            0.0,
        )  # the second of the last valid SendingTime, and until when it is valid
        self._dirty = False  # whether the numbers differ from those in the store
        self._received_s = self._sent_s = 0.0
        self._tested_s = self._logout_s = 0.0  # times of a TestRequest and a Logout that have no answer yet
        self._gap_until = self._requested_s = 0.0
        self._resends = Resends(store, self._parties)
        self._held: list[tuple[str, str]] = []

    # ---- out

    def begin(self) -> None:
        """Call it before a batch of work: sets the time of the messages that the batch sends."""
        self._stamp = self._clock.now()

    def send(self, kind: str, body: str, report: int = 0, change: Any = None) -> None:
        """Sends and stores an application message. report: number of the exchange's report that it is about."""
        out_seq = self.store.next_out
        data = encode(f"35={kind}\x01{self._parties}34={out_seq}\x0152={self._stamp}\x01{body}")
        self.store.append([OUTBOUND, out_seq, report, data, change])
        if not self._resends:
            self.out.append(data)

    def _send_admin(self, kind: str, body: str = "") -> None:
        """Sends a message that is not stored, even while others are being resent: a client must not wait for the answer to a TestRequest."""
        out_seq = self.store.next_out
        self.store.next_out += 1
        self._dirty = True
        self.out.append(encode(f"35={kind}\x01{self._parties}34={out_seq}\x0152={self._stamp}\x01{body}"))

    def send_fleeting(self, kind: str, body: str) -> None:
        """Sends an application message that a resend leaves out because it would be out of date: market data. It waits while others are
        being resent."""
        if not self._resends:
            self._send_admin(kind, body)
        elif len(self._held) < HELD_MAX:
            self._held.append((kind, body))
        else:
            self.end(f"more than {HELD_MAX} messages wait for the end of a resend")

    def reject(self, message: Message, problem: Problem) -> None:
        """Sends a session-level Reject (3)."""
        tag = f"371={number(problem.tag)}\x01" if number(problem.tag) > 0 else ""
        kind = f"372={message.type}\x01" if message.type else ""
        self.send("3", f"45={message.seq}\x01{tag}{kind}373={problem.reason}\x0158={plain(problem.text)}\x01")

    def business_reject(self, message: Message, reason: int, text: str, reference: str = "") -> None:
        """Sends a BusinessMessageReject (j). reason: BusinessRejectReason (380)."""
        of = f"379={reference}\x01" if reference else ""
        self.send("j", f"45={message.seq}\x01372={message.type}\x01{of}380={reason}\x0158={plain(text)}\x01")

    def flush(self) -> list[bytes]:
        """Stores changes; returns the messages to write to the socket after that. Raises OSError if the store's disk is full."""
        if self._dirty:
            self._dirty = False
            self.store.append([SEQUENCES, self.store.next_in, self.store.next_out])
        self.store.flush()
        out, self.out = self.out, []
        if out:
            self._sent_s = time.monotonic()
        return out

    # ---- logon and logout

    def connect(self) -> None:
        """Begins with a new connection: forgets the state of the last one."""
        self.live = False
        self._received_s = self._sent_s = time.monotonic()
        self._tested_s = self._logout_s = 0.0
        self._gap_until, self._held, self.closing, self.out = 0.0, [], "", []
        self._resends.clear()
        self.begin()

    def logon(self, message: Message) -> None:
        """Processes the first message, a Logon with the right identity and secret. Answers it, or sets `closing`."""
        fields = message.fields
        if refusal := self._logon_refusal(message):
            self.end(refusal)
            return
        self.live = True
        self.heartbeat_s = number(fields["108"])
        if fields.get("141") == "Y":
            self._reset()
        before, expected = self.store.next_out, self.store.next_in
        if message.seq == expected:
            self._advance()
        self._answer_logon(fields)
        if message.seq > expected and "789" not in fields:
            self._request_resend(message.seq)
        if 0 < number(fields.get("789", "")) < before:
            self._resends.start(number(fields["789"]), before - 1)

    def _logon_refusal(self, message: Message) -> str:
        fields, store = message.fields, self.store
        if message.type != "A":
            return "expected a Logon"
        if problem := problem_of(message):
            return problem.text
        if fields["98"] != "0":
            return f"expected EncryptMethod (98) 0, got {fields['98']}"
        if not 0 <= number(fields["108"]) <= HEARTBEAT_S_MAX:
            return f"expected HeartBtInt (108) of 0 to {HEARTBEAT_S_MAX} seconds, got {fields['108']}"
        if not self._is_on_time(fields["52"]):
            return f"expected a SendingTime (52) within {SENDING_TIME_S} s of the gateway's clock, got {fields['52']}"
        if fields.get("141") == "Y":
            return "" if message.seq == 1 else f"expected MsgSeqNum (34) 1 with ResetSeqNumFlag, got {message.seq}"
        if message.seq < store.next_in:
            return f"MsgSeqNum too low, expecting {store.next_in} but received {message.seq}"
        if number(fields.get("789", "0")) > store.next_out:
            return f"NextExpectedMsgSeqNum too high, expecting at most {store.next_out} but received {fields['789']}"
        return ""

    def _answer_logon(self, fields: dict[str, str]) -> None:
        more = "141=Y\x01" if fields.get("141") == "Y" else ""
        if "789" in fields:
            more += f"789={self.store.next_in}\x01"
        self._send_admin("A", f"98=0\x01108={self.heartbeat_s}\x01{more}")

    def _reset(self) -> None:
        self.store.reset(self.application.state() if self.application else None)
        self._gap_until, self._dirty = 0.0, False
        self._resends.clear()

    def end(self, text: str) -> None:
        """Sends a Logout with a text and ends the connection without waiting for the answer."""
        self._resends.clear()
        if not self._logout_s:
            self._send_admin("5", f"58={plain(text)}\x01")
        self.closing = text

    def logout(self, text: str) -> None:
        """Sends a Logout with a text; the connection ends with the client's answer, or after `LOGOUT_S`."""
        if not self._logout_s and not self.closing:
            self._logout_s = time.monotonic()
            self._send_admin("5", f"58={plain(text)}\x01")

    def tick(self) -> None:
        """Call it several times a second: sends heartbeats and ends a silent connection."""
        now = time.monotonic()
        if not self.live or self.closing:
            return
        if self._logout_s and now - self._logout_s > LOGOUT_S:
            self.closing = "no answer to Logout"
        if not self.heartbeat_s:
            return
        self.begin()
        silent_s = now - self._received_s
        if now - self._sent_s >= self.heartbeat_s:
            self._send_admin("0")
            self._sent_s = now
        if not self._tested_s and silent_s > 1.2 * self.heartbeat_s:
            self._tested_s = now
            self._send_admin("1", f"112=TEST {self._stamp}\x01")
        elif self._tested_s and silent_s > 2.4 * self.heartbeat_s:
            self.end(f"nothing was received for {silent_s:.0f} s")

    # ---- in

    def hear(self) -> None:
        """Notes a sign of life of the client, or that it is not being read at the moment, so that its silence means nothing."""
        self._received_s = time.monotonic()
        self._tested_s = 0.0

    def receive(self, message: Message) -> None:
        """Processes a message of the client."""
        self.hear()
        if message.pairs[0][0] != "35":
            return  # garbled: the third field is not MsgType
        if not self._is_acceptable(message):
            return
        expected, kind = self.store.next_in, message.type
        if kind == "4" and message.fields.get("123") != "Y":
            self._sequence_reset(message)
        elif kind == "A" and message.fields.get("141") == "Y":
            self._logon_again(message)
        elif message.seq > expected:
            self._too_high(message)
        elif message.seq < expected:
            self._too_low(message)
        else:
            self._in_sequence(message)

    def _is_acceptable(self, message: Message) -> bool:
        """Whether the message belongs to this session at all; if not, ends the session."""
        fields = message.fields
        if message.begin_string != BEGIN_STRING:
            self.end(f"expected BeginString {BEGIN_STRING}, got {message.begin_string}")
        elif message.seq < 0:
            self.end("expected MsgSeqNum (34), got none")
        elif (fields.get("49"), fields.get("56")) != self._comp_ids:
            if "49" in fields and "56" in fields:
                tag = "49" if fields["49"] != self._comp_ids[0] else "56"
                self._refuse(message, Problem(COMP_ID, tag, "CompID problem"))
            else:
                tag = "56" if "49" in fields else "49"
                self._refuse(message, Problem(REQUIRED_MISSING, tag, f"required tag {tag} is missing"))
        elif "52" in fields and not self._is_on_time(fields["52"]):
            self._refuse(message, Problem(SENDING_TIME, "52", "SendingTime accuracy problem"))
        else:
            return True
        return False

    def _refuse(self, message: Message, problem: Problem) -> None:
        """Rejects a message and ends the session."""
        self.reject(message, problem)
        if message.seq == self.store.next_in:
            self._advance()
        self.end(problem.text)

    def _is_on_time(self, text: str) -> bool:
        """Whether a SendingTime is close to now; True for a text that is not a time, which the format check rejects."""
        second, now = text[:17], time.monotonic()
        if second == self._on_time and now < self._on_time_until_s and len(text) < 22:
            return True
        sent_ns = parse_timestamp(text)
        if sent_ns < 0:
            return True
        if abs(time.time_ns() - sent_ns) > SENDING_TIME_S * SECOND_NS:
            return False
        self._on_time, self._on_time_until_s = second, now + 1
        return True

    def _advance(self) -> None:
        self.store.next_in += 1
        self._dirty = True

    def _in_sequence(self, message: Message) -> None:
        kind = message.type
        if kind not in TYPES:
            self.reject(message, Problem(INVALID_TYPE, "35", f"expected a MsgType of FIX 4.4, got {kind[:20]!r}"))
            self._advance()
        elif kind not in _ADMINISTRATIVE:
            self._application_message(message)
        elif (problem := problem_of(message) or duplicate_problem(message)) is not None:
            self.reject(message, problem)
            self._advance()
        else:
            self._administrative(message)

    def _application_message(self, message: Message) -> None:
        in_seq = message.seq
        if message.type in READ:
            problem = problem_of(message) or duplicate_problem(message)
            if problem is not None:
                self.reject(message, problem)
            elif self.application is not None:
                self.application.receive(message)
        else:
            self.business_reject(message, 3, f"message type {message.type} is not supported")
        if self.store.next_in == in_seq:  # no record has advanced it
            self._advance()

    def _administrative(self, message: Message) -> None:
        fields, kind = message.fields, message.type
        if kind == "4":
            self._gap_fill(message)
            return
        if kind == "2":
            self._resend_request(message)
        elif kind == "1":
            self._send_admin("0", f"112={fields['112']}\x01")
        elif kind == "5":
            self._logout(message)
        elif kind == "A":
            self.reject(message, Problem(OTHER, "", "already logged on"))
        self._advance()

    def _logout(self, message: Message) -> None:
        if not self._logout_s:
            self._send_admin("5")
        self.closing = BYE

    def _logon_again(self, message: Message) -> None:
        """Processes a Logon with ResetSeqNumFlag within a session: both sides begin again at 1."""
        if refusal := self._logon_refusal(message):
            self.end(refusal)
            return
        self._reset()
        self._advance()
        self._answer_logon(message.fields)

    def _too_low(self, message: Message) -> None:
        if not message.poss_dup:
            self.end(f"MsgSeqNum too low, expecting {self.store.next_in} but received {message.seq}")
        elif problem := problem_of(message) if message.type in READ else duplicate_problem(message):
            self.reject(message, problem)
            if problem.reason == SENDING_TIME:
                self.end(problem.text)

    def _too_high(self, message: Message) -> None:
        if message.type == "5":
            self._logout(message)
            return
        if message.type == "2" and problem_of(message) is None:
            self._resend_request(message)  # first, or two sides that both miss messages wait for each other
        self._request_resend(message.seq)

    def _request_resend(self, seq: int) -> None:
        now = time.monotonic()
        waits = self.store.next_in <= self._gap_until and now - self._requested_s < max(self.heartbeat_s, 1)
        self._gap_until = max(self._gap_until, seq)
        if not waits:
            self._requested_s = now
            self._send_admin("2", f"7={self.store.next_in}\x0116=0\x01")

    def _gap_fill(self, message: Message) -> None:
        new = number(message.fields["36"])
        if new > message.seq:
            self.store.next_in = new
            self._dirty = True
        else:
            self.reject(message, Problem(BAD_VALUE, "36", f"expected NewSeqNo (36) above {message.seq}, got {new}"))
            self._advance()

    def _sequence_reset(self, message: Message) -> None:
        """Sets the next expected number, whatever the number of the message."""
        problem, new = problem_of(message), number(message.fields.get("36", ""))
        if problem is None and new < self.store.next_in:
            problem = Problem(BAD_VALUE, "36", f"expected NewSeqNo (36) of at least {self.store.next_in}, got {new}")
        if problem is not None:
            self.reject(message, problem)
            return
        self.store.next_in = new
        self._gap_until = 0.0
        self._dirty = True

    # ---- resends

    def _resend_request(self, message: Message) -> None:
        begin, end = number(message.fields["7"]), number(message.fields["16"])
        last = self.store.next_out - 1
        if begin < 1 or (end and end < begin):
            text = f"expected BeginSeqNo (7) of 1 to EndSeqNo (16), got {begin} and {end}"
            self.reject(message, Problem(BAD_VALUE, "7", text))
        elif begin <= last:
            self._resends.start(begin, min(end or last, last))

    @property
    def resending(self) -> bool:
        """Whether `resend_part` has more."""
        return bool(self._resends)

    def resend_part(self) -> list[bytes]:
        """The next messages of a resend. The store must have been flushed."""
        part = self._resends.part(self._stamp)
        self._sent_s = time.monotonic()
        if not self._resends:
            held, self._held = self._held, []
            for kind, body in held:
                self._send_admin(kind, body)
        return part
