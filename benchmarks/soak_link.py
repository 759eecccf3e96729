"""What a client of the soak keeps of its session over restarts, and what it checks when it logs in again."""

import os
import random
import time
from collections import Counter
from typing import Any

import msgpack
import zmq

from benchmarks.soak_flow import LAST_ACK, LAST_REPORT, LIVE, NEXT_ID, REFUSED_ID, SOCKET
from serl.exchange.wire import VERSION, Kind

SILENT_S, HELLO_S, RESENT_S, PING_S = 5.0, 5.0, 60.0, 8.0
"""Without a heartbeat for this long a client connects again; it waits this long for WELCOME; reports that it missed arrive within this time; it sends a PING this
often."""
EXPECTED_ERRORS = ("throttled", "rate", "not_logged_in", "duplicate_login", "disk_full")
EXPECTED_GOODBYES = ("bye", "shutdown", "slow_consumer", "silence", "replaced", "rate")


class Link:
    """The connection of one session. `row`: its columns of soak_flow, which keep what it knows over restarts; `counts`: what happened, for all links of a process."""

    def __init__(self, endpoint: str, name: str, row: Any, counts: "Counter[str]", notes: list[str]) -> None:
        self._endpoint, self.name, self._row, self._counts, self._notes = endpoint, name, row, counts, notes
        self._socket: zmq.Socket[bytes] | None = None
        self._acknowledge_until = 0.0  # by then reports for all commands up to _acknowledge are here
        self._acknowledge = 0
        self._next_s = self._sent_s = self._connected_s = 0.0
        self._epoch = 0

    @property
    def socket(self) -> "zmq.Socket[bytes]":
        """The socket of a session that is connected."""
        assert self._socket is not None
        return self._socket

    def step(self, now_s: float, heard_s: float) -> None:
        """Logs in, notices silence, and sends PINGs."""
        if self._socket is None:
            if now_s >= self._next_s:
                self._connect(now_s)
        elif not self._row[LIVE]:
            if now_s - self._connected_s > HELLO_S:
                self.close(now_s)
        elif now_s - max(heard_s, self._connected_s) > SILENT_S:
            self._counts["silences"] += 1
            self.close(now_s)
        elif now_s - self._sent_s > PING_S:
            self._sent_s = now_s
            self._send(Kind.PING, 1)
        self.check_answers(now_s)

    def check_answers(self, now_s: float) -> None:
        """Notices that a report that WELCOME promised does not arrive."""
        if self._acknowledge_until and self._row[LIVE]:
            if self._row[LAST_ACK] >= self._acknowledge:
                self._acknowledge_until = 0.0
            elif now_s > self._acknowledge_until:
                self._lost(f"no report for command {self._acknowledge}, the last is for {self._row[LAST_ACK]}")
                self._acknowledge_until = 0.0

    def _send(self, *message: Any) -> None:
        try:
            self.socket.send(msgpack.packb(message), zmq.DONTWAIT)
        except zmq.Again:
            self._counts["unsent"] += 1

    def _connect(self, now_s: float) -> None:
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        socket.linger = 100
        socket.sndhwm = socket.rcvhwm = 1000
        socket.connect(self._endpoint)
        self._socket = socket
        self._row[SOCKET], self._sent_s, self._connected_s = socket.underlying, now_s, now_s
        self._counts["connections"] += 1
        self._send(Kind.HELLO, VERSION, VERSION, self.name, "", int(self._row[LAST_REPORT]), {"replace": True})

    def log_out(self, now_s: float, away_s: float) -> None:
        """Sends BYE; logs in again after `away_s`."""
        if self._row[LIVE]:
            self._send(Kind.BYE)
            self._counts["logouts"] += 1
            self.close(now_s, away_s)

    def close(self, now_s: float, away_s: float = 0.0) -> None:
        """Closes the socket; connects again soon, or after `away_s`."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._row[SOCKET], self._row[LIVE] = None, 0, 0
        self._next_s = now_s + away_s + random.uniform(0.1, 1.0)

    def receive(self, message: list[Any], now_s: float) -> str:
        """Processes a message that is neither reports nor a heartbeat. Returns the code of an ERROR, else ""."""
        kind = message[0]
        if kind == Kind.WELCOME:
            self._welcome(message, now_s)
        elif kind == Kind.GOODBYE:
            self._counts[f"goodbye {message[1]}"] += 1
            if message[1] not in EXPECTED_GOODBYES:
                self._unexpected(f"GOODBYE {message[1:]}")
            self.close(now_s)
        elif kind == Kind.ERROR:
            self._counts[f"error {message[1]}"] += 1
            if message[1] not in EXPECTED_ERRORS:
                self._unexpected(f"ERROR {message[1:]}")
            if message[1] != "throttled" and not (message[1] == "disk_full" and self._row[LIVE]):
                self.close(now_s)
            return str(message[1])
        else:
            self._unexpected(f"message {message}")
        return ""

    def _welcome(self, message: list[Any], now_s: float) -> None:
        epoch, next_report, last_command = message[2], message[4], message[5]
        row = self._row
        if row[LAST_REPORT] < 0:
            row[LAST_REPORT], row[LAST_ACK], row[NEXT_ID] = next_report - 1, last_command, last_command + 1
        if not row[LAST_ACK] <= last_command < row[NEXT_ID]:
            self._lost(f"WELCOME has command {last_command}; {row[LAST_ACK]} was acknowledged, {row[NEXT_ID] - 1} sent")
        if next_report != row[LAST_REPORT] + 1:
            self._lost(f"WELCOME continues with report {next_report}; {row[LAST_REPORT]} was the last received")
        if epoch != self._epoch and self._epoch:
            self._counts["checked after restarts"] += 1
        self._epoch = epoch
        row[REFUSED_ID] = row[NEXT_ID] - 1  # what the exchange does not have by now it will not get
        self._acknowledge, self._acknowledge_until = last_command, now_s + RESENT_S
        row[LIVE] = 1
        self._counts["logins"] += 1

    def _lost(self, text: str) -> None:
        self._counts["lost"] += 1
        self._notes.append(f"lost: {self.name}: {text}")

    def _unexpected(self, text: str) -> None:
        self._counts["unexpected"] += 1
        self._notes.append(f"unexpected: {self.name}: {text}")


def parent_is_gone(parent: int) -> bool:
    """Whether the process that started this one has ended."""
    return os.getppid() != parent


def now_s() -> float:
    """Seconds of the clock of timeouts."""
    return time.monotonic()
