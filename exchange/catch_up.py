"""Sends sessions the reports that they missed, in parts: a few in each turn of the loop, one session after another."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from serl.exchange.budget import Budget, processor_time_s
from serl.exchange.core import Core
from serl.exchange.gateway.state import CLOCK_KIND, LIVE, LOCKSTEP_CLOCK, SLOW, SLOW_SESSIONS, encode_missed
from serl.exchange.latency import Delays
from serl.exchange.outbound import REPORTS_MAX, DelayedReports
from serl.exchange.records import EVENT, Rows
from serl.exchange.wire import Kind, pack

TURN_S_MAX, QUIET_TURN_S_MAX = 0.00005, 0.01
"""Seconds into a turn of the loop after which no further part is sent: while orders arrive, and otherwise."""
ROWS_KEPT_MAX = 1 << 21
"""Maximum number of unsent reports kept in memory, 200 MB. Beyond it, half of those of the session with the most are dropped and read again later."""
PINGS_MAX = 64
"""Maximum number of a session's PINGs that wait for its missed reports; further ones are answered at once."""


@dataclasses.dataclass
class _Behind:
    """A session with missed reports, the last report that it has been sent, and those of the next ones that have been found."""

    slot: int
    route: int
    last_sent: int
    rows: Rows
    is_delayed: bool
    is_searching: bool = False
    pings: list[int] = dataclasses.field(default_factory=list)


class CatchUp:
    """Sessions that are still to receive missed reports. Until they have them, `live_session` does not name them: new reports count as missed too
    and are found later. Sent in one piece, a million reports stopped the loop at each of a client's repeated logins."""

    def __init__(
        self, core: Core, delayed: DelayedReports, send: Callable[[int, bytes], bool], now_ns: Callable[[], int], reports_max: int
    ) -> None:  # fmt: skip
        """reports_max: a session that falls further behind is ended."""
        self._core, self._gateway, self._delayed, self._send, self._now_ns = core, core.gateway, delayed, send, now_ns
        self._reports_max, self._searches_done = reports_max, 0
        self._ring: dict[int, _Behind] = {}  # by slot, the next one first

    @property
    def is_waiting(self) -> bool:
        """Whether parts can be sent now."""
        return any(not each.is_searching for each in self._ring.values())

    @property
    def is_searching(self) -> bool:
        """Whether a thread reads older reports for a session."""
        return any(each.is_searching for each in self._ring.values())

    def begin(self, slot: int, missed: Rows, last_sent: int, delays: Delays | None) -> None:
        """Starts a new session after report `last_sent`. It gets the first part now, in lockstep all parts: there nobody waits for the loop, and a
        GRANT comes after the reports before it."""
        if delays is not None:
            self._delayed.open(slot, int(self._gateway.participant[slot]), delays, last_sent)
        behind = _Behind(slot, int(self._gateway.route[slot]), last_sent, missed, delays is not None)
        is_behind = self._send_part(behind)
        while is_behind and self._gateway.clock[CLOCK_KIND] == LOCKSTEP_CLOCK:
            is_behind = self._send_part(behind)
        if is_behind:
            self._drop_rows(behind)
            self._ring[slot] = behind

    def end(self, slot: int) -> None:
        """Forgets a session that ends."""
        if self._ring.pop(slot, None) is not None:
            self._core.journal.missed.forget(int(self._gateway.participant[slot]))

    def last_sent(self, slot: int) -> int | None:
        """The last report sent to a session that still has missed reports to come; None for other sessions."""
        behind = self._ring.get(slot)
        return None if behind is None else behind.last_sent

    def hold(self, slot: int, ping: int) -> bool:
        """Defers the answer to a PING until after the missed reports: the PONG tells the client that it has them. Returns False if the PING may
        be answered now."""
        behind = self._ring.get(slot)
        if behind is None or len(behind.pings) >= PINGS_MAX:
            return False
        behind.pings.append(ping)
        return True

    def send(self, is_limited: bool, budget: Budget) -> None:
        """Sends parts, one of each session in turn, up to the limits of a turn."""
        if not self._ring:
            return
        self._resume_searches()
        began, spent = time.monotonic(), processor_time_s()
        turn_s = TURN_S_MAX if is_limited else QUIET_TURN_S_MAX
        while time.monotonic() - began < turn_s and not (is_limited and budget.wait_s()):
            behind = next((each for each in self._ring.values() if not each.is_searching), None)
            if behind is None:
                break
            del self._ring[behind.slot]
            if self._gateway.status[behind.slot] == LIVE and self._send_part(behind):
                self._ring[behind.slot] = behind
            start, spent = spent, processor_time_s()
            budget.spend(spent - start)

    def _resume_searches(self) -> None:
        done = self._core.journal.missed.searches_done
        if done != self._searches_done:
            self._searches_done = done
            for behind in self._ring.values():
                behind.is_searching = False

    def _send_part(self, behind: _Behind) -> bool:
        """Sends the next reports; a session that has all of them follows live from then on. Returns whether more are to come."""
        participant, reported = int(self._gateway.participant[behind.slot]), self._core.market.state.report
        if not len(behind.rows) and behind.last_sent < reported[participant] and not self._find(behind, participant):
            return behind.is_searching
        if len(behind.rows) and not self._deliver(behind, participant):
            return False
        if behind.last_sent < reported[participant]:
            return True
        if behind.is_delayed:
            self._delayed.follow(participant)
        else:
            self._gateway.live_session[participant] = behind.slot
        for ping in behind.pings:
            self._send(behind.route, pack(Kind.PONG, ping, self._now_ns()))
        return False

    def _find(self, behind: _Behind, participant: int) -> bool:
        """Looks for the next reports, those that happened meanwhile. Returns False if a thread is looking for them, or they are unavailable."""
        missed, gateway = self._core.journal.missed, self._gateway
        is_over, rows = missed.find(participant, behind.last_sent, gateway, self._reports_max)
        behind.is_searching = not is_over
        if rows is not None:
            behind.rows = rows
            self._drop_rows(behind)
        elif is_over:  # the next check ends the session; its client gets `replay_gone` at its next login
            gateway.status[behind.slot] = SLOW
            gateway.counter[SLOW_SESSIONS] += 1
        return rows is not None

    def _deliver(self, behind: _Behind, participant: int) -> bool:
        """Sends as many reports as fit into a message, or queues them if they have a latency. Returns False if the client does not read."""
        part = behind.rows[:REPORTS_MAX]
        count = len(part)
        if behind.is_delayed:
            self._delayed.add(participant, part)
        else:
            count, start, end = encode_missed(
                self._gateway, behind.slot, part, part.view(np.uint8).reshape(-1, EVENT.itemsize)
            )
            if not self._send(behind.route, self._gateway.out[behind.slot, start:end].tobytes()):
                return False  # the next check ends the session; the client can resume with a new login
        behind.last_sent, behind.rows = int(part[count - 1]["report"]), behind.rows[count:]
        return True

    def _drop_rows(self, behind: _Behind) -> None:
        """Drops reports that sessions are still to be sent, with those of `behind`, which is not in the ring, until few enough are kept."""
        sessions = [*self._ring.values(), behind]
        while sum(len(each.rows) for each in sessions) > ROWS_KEPT_MAX:
            most = max(sessions, key=lambda each: len(each.rows))
            most.rows = most.rows[: len(most.rows) // 2].copy()
