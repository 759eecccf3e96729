"""Resends stored reports to sessions that have repeated commands: a few in each turn of the loop, one session after another."""

import dataclasses
import time
from collections import deque
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from serl.exchange import wire
from serl.exchange.budget import Budget, processor_time_s
from serl.exchange.core import Core
from serl.exchange.gateway.state import LIVE
from serl.exchange.journal.unreadable import readable
from serl.exchange.sessions import Sessions
from serl.exchange.wire import Kind, RequestError, pack

TURN_S_MAX, QUIET_TURN_S_MAX = 0.00005, 0.01
"""Seconds into a turn of the loop after which no further command is answered: while orders arrive, and otherwise."""
EVENTS_MAX = 512
"""Maximum number of events in a DUPLICATE. One command may have caused millions, and a message of 20 bytes must not cost that much again."""


@dataclasses.dataclass
class _Queue:
    """The command ids that a session waits for, each with the last report that it had been sent when it asked, None = all of them."""

    route: int
    count: int = 0
    parts: deque[tuple[NDArray[np.int64], int | None]] = dataclasses.field(default_factory=deque)


class Resends:
    """A client that reconnects may repeat every command that it has no answer for, and each takes about as long as fifty new orders. Repeated
    commands therefore wait here, each row is charged to the budget, and new orders go first."""

    def __init__(self, core: Core, sessions: Sessions, budget: Budget) -> None:
        self._core, self._sessions, self._budget = core, sessions, budget
        self._rows_max = int(sessions.limits["resent_rows_max"])
        self._ring: dict[int, _Queue] = {}  # by slot, the next one first

    @property
    def is_waiting(self) -> bool:
        """Whether commands wait for an answer."""
        return bool(self._ring)

    def put(self, slot: int, command_ids: NDArray[np.int64], unexecuted: Collection[int]) -> None:
        """Queues the reports sent to a session for these commands, to be sent again. Leaves out commands that are not executed yet: they will be
        answered anyway. Raises RequestError if too many are waiting."""
        if unexecuted:
            command_ids = command_ids[~np.isin(command_ids, list(unexecuted))]
        if not len(command_ids):
            return
        gateway = self._core.gateway
        route, queue = int(gateway.route[slot]), self._ring.get(slot)
        if queue is None or queue.route != route:  # one with another route belongs to a session that has ended
            queue = _Queue(route)
        if queue.count + len(command_ids) > self._rows_max:
            raise RequestError(
                "throttled",
                f"expected at most {self._rows_max} commands (resent_rows_max) that wait for their stored reports, got {queue.count} and "
                f"{len(command_ids)} more; resend fewer, or later",
            )
        self._ring[slot] = queue
        queue.count += len(command_ids)
        queue.parts.append((command_ids.copy(), self._sessions.last_sent(slot)))

    def send(self, is_limited: bool) -> None:
        """Answers commands, one of each session in turn, up to the limits of a turn."""
        began, spent = time.monotonic(), processor_time_s()
        turn_s = TURN_S_MAX if is_limited else QUIET_TURN_S_MAX
        while self._ring and time.monotonic() - began < turn_s and not (is_limited and self._budget.wait_s()):
            slot, queue = next(iter(self._ring.items()))
            del self._ring[slot]
            gateway = self._core.gateway
            if gateway.status[slot] != LIVE or gateway.route[slot] != queue.route:
                continue
            command_ids, last_sent = queue.parts.popleft()
            self._send_reports(slot, queue.route, int(command_ids[0]), last_sent)
            queue.count -= 1
            if len(command_ids) > 1:
                queue.parts.appendleft((command_ids[1:], last_sent))
            if queue.parts:
                self._ring[slot] = queue
            start, spent = spent, processor_time_s()
            self._budget.spend(spent - start)

    def _send_reports(self, slot: int, route: int, command_id: int, last_sent: int | None) -> None:
        """Sends the first stored reports of a command. Sends nothing if a latency still delays them."""
        participant = int(self._core.gateway.participant[slot])
        try:
            with readable(f"the reports of command {command_id}"):
                rows = self._core.journal.answers(participant, command_id, self._core.gateway, EVENTS_MAX)
        except RequestError as error:
            self._sessions.send_error(route, error)
            return
        first = int(rows[0]["report"]) if len(rows) else 0
        if last_sent is None or first <= last_sent:
            self._sessions.send(route, pack(Kind.DUPLICATE, command_id, first, wire.event_lists(rows)))
