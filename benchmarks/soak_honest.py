"""The honest client of the soak: one order at a time at a fixed rate, each measured from the time at which it is due."""

import time
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

import msgpack
import numpy as np
import zmq

from benchmarks.soak_flow import ACKED, COLUMNS, GAPS, LAST_ACK, LAST_REPORT, LIVE, NEXT_ID, SENT, SOCKET
from benchmarks.soak_link import Link, now_s, parent_is_gone
from benchmarks.soak_traders import HOLD, REPORT_S
from serl.exchange.wire import Kind

ORDERS_PER_S, PRICE_TICKS, ANSWER_S, LATE_S = 20, 99_900, 2.0, 10.0
"""Its rate; its price, behind the traders'; how long it waits for one answer; later orders are left out after a pause."""


class _Honest:
    """A session that sends a NEW that rests, then its CANCEL."""

    def __init__(self, endpoint: str) -> None:
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self.row = np.zeros(COLUMNS, np.int64)
        self.row[LAST_REPORT], self.row[NEXT_ID] = -1, 1
        self._link = Link(endpoint, "honest", self.row, self.counts, self.notes)
        self._heard_s = now_s()

    def keep(self) -> None:
        """Logs in, notices silence and processes what has arrived."""
        self._link.step(now_s(), self._heard_s)
        while self.row[SOCKET] and self._link.socket.poll(0):
            self._receive()

    def order(self) -> bool:
        """Sends a command and waits for its report. False without one."""
        command_id = int(self.row[NEXT_ID])
        new = [1, command_id, 0, 0, 1, PRICE_TICKS, 1, 0, 0]
        try:
            message = new if command_id % 2 else [2, command_id, command_id - 1, 0]
            self._link.socket.send(msgpack.packb(message), zmq.DONTWAIT)
        except zmq.Again:
            return False
        self.row[NEXT_ID] += 1
        self.row[SENT] += 1
        until = now_s() + ANSWER_S
        while self.row[LIVE] and now_s() < until:
            if self._link.socket.poll(100):
                self._receive()
            if self.row[LIVE] and self.row[LAST_ACK] >= command_id:
                return True
        return False

    def _receive(self) -> None:
        message = msgpack.unpackb(self._link.socket.recv(), strict_map_key=False)
        self._heard_s = now_s()
        if message[0] == Kind.REPORTS:
            self.row[GAPS] += message[1] > self.row[LAST_REPORT] + 1
            self.row[LAST_REPORT] = max(self.row[LAST_REPORT], message[1] + len(message[2]) - 1)
            last = max(report[2] for report in message[2])
            self.row[ACKED] += last > self.row[LAST_ACK]
            self.row[LAST_ACK] = max(self.row[LAST_ACK], last)
        elif message[0] not in (Kind.HEARTBEAT, Kind.PONG):
            self._link.receive(message, now_s())


def measure(endpoint: str, control: Any, report: Connection, parent: int) -> None:
    """Runs the honest client until the parent ends; `report` receives (counts, notes, latencies in microseconds since the last time) each second."""
    honest = _Honest(endpoint)
    latencies: list[float] = []
    reported, due = 0.0, now_s()
    while not parent_is_gone(parent):
        due = max(due + 1 / ORDERS_PER_S, now_s() - LATE_S)
        time.sleep(max(0.0, due - now_s()))
        honest.keep()
        if honest.row[LIVE] and not control[HOLD] and honest.order():
            latencies.append((now_s() - due) * 1e6)
        if now_s() - reported > REPORT_S:
            reported = now_s()
            figures = {"sent": SENT, "acknowledged": ACKED, "gaps": GAPS, "live": LIVE}
            counts = {**honest.counts, **{name: int(honest.row[at]) for name, at in figures.items()}}
            report.send((counts, [*honest.notes], latencies))
            honest.notes.clear()
            latencies = []
