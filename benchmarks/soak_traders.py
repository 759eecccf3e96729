"""A process of traders: the compiled flow of soak_flow for many sessions that log in and out."""

import time
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

import msgpack
import numpy as np

from benchmarks.soak_flow import (
    ACKED,
    BUFFER_BYTES,
    GAPS,
    HEARD_NS,
    LAST_ACK,
    LIVE,
    MAIL_BYTES,
    REFUSED_ID,
    RING,
    SENT,
    new_sessions,
    turn,
)
from benchmarks.soak_link import Link, now_s, parent_is_gone

WINDOW, TURN_S, REPORT_S, MAILS = 64, 0.002, 1.0, 256
LIMITED_PER_S = 40.0
"""Commands a second of a session whose account permits half as many."""
LOG_OUT_EVERY_S, AWAY_S = 40.0, 5.0
"""Every tenth session logs out this often, for this long."""
RATE, HOLD, REST = range(3)
"""Fields of what the soak tells its clients: commands a second of each session; whether to send nothing; whether nobody does, so that books can be
compared."""


class _Traders:
    def __init__(self, endpoint: str, names: list[str], symbols: int, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self.sessions = new_sessions(len(names), symbols, seed)
        self._rings = np.zeros((len(names), RING), np.int64)
        self._links = [
            Link(endpoint, name, row, self.counts, self.notes) for name, row in zip(names, self.sessions, strict=True)
        ]
        self._limited = np.array([name.startswith("limited") for name in names])
        self._budgets = np.zeros(len(names))
        self._buffer = np.zeros(BUFFER_BYTES, np.uint8)
        self._mail, self._owners = np.zeros((MAILS, MAIL_BYTES), np.uint8), np.zeros(MAILS, np.int64)
        self._turned_s = now_s()
        self._log_out_s = self._turned_s + LOG_OUT_EVERY_S

    def turn(self, rate_per_s: float, hold: bool) -> None:
        """Receives, sends, and answers what is neither reports nor heartbeats."""
        now = now_s()
        elapsed_s, self._turned_s = min(now - self._turned_s, 0.1), now
        if hold:
            self._budgets[:] = 0
        else:
            rates = np.where(self._limited, LIMITED_PER_S, rate_per_s)
            self._budgets[:] = np.minimum(self._budgets + rates * elapsed_s, WINDOW)
        count = turn(
            self.sessions, self._rings, self._budgets, WINDOW, time.monotonic_ns(), self._buffer, self._mail,
            self._owners,
        )  # fmt: skip
        for data, owner in zip(self._mail[:count], self._owners[:count].tolist(), strict=True):
            unpacker = msgpack.Unpacker(strict_map_key=False)
            unpacker.feed(data.tobytes())
            if self._links[owner].receive(unpacker.unpack(), now) == "throttled":
                row = self.sessions[owner]
                row[REFUSED_ID] = max(row[REFUSED_ID], row[LAST_ACK]) + 1

    def step(self, hold: bool) -> None:
        """What is due about once in a hundred turns: logins, silence, logouts."""
        now = now_s()
        for link, heard_ns in zip(self._links, self.sessions[:, HEARD_NS].tolist(), strict=True):
            link.step(now, heard_ns / 1e9)
        if now > self._log_out_s and not hold:
            self._log_out_s = now + LOG_OUT_EVERY_S
            for link in self._links[::10]:
                link.log_out(now, AWAY_S)


def compile_traders() -> None:
    """Compiles the traders, or does nothing if they are: the time of a soak begins when its processes can work."""
    _Traders("tcp://127.0.0.1:1", ["nobody"], 8, 0).turn(0.0, True)


def trade(
    endpoint: str, names: list[str], symbols: int, seed: int, control: Any, report: Connection, parent: int
) -> None:
    """Runs the traders until the parent ends; `report` receives (counts, notes) each second."""
    traders = _Traders(endpoint, names, symbols, seed)
    stepped = reported = 0.0
    while not parent_is_gone(parent):
        hold = bool(control[HOLD])
        traders.turn(control[RATE], hold)
        now = now_s()
        if now - stepped > 0.1:
            stepped = now
            traders.step(hold)
        if now - reported > REPORT_S:
            reported = now
            sums = traders.sessions.sum(axis=0)
            figures = {"sent": SENT, "acknowledged": ACKED, "gaps": GAPS, "live": LIVE}
            counts = {**traders.counts, **{name: int(sums[at]) for name, at in figures.items()}}
            report.send((counts, traders.notes[:], []))
            traders.notes.clear()
        time.sleep(TURN_S)
