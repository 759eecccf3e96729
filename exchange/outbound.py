"""Reports and market data on their way to participants with a latency; what everybody else hears does not pass here."""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange import wire
from serl.exchange.gateway.state import LIVE, SLOW, SLOW_SESSIONS, GatewayState
from serl.exchange.kernel.state import NEVER
from serl.exchange.latency import Delays
from serl.exchange.records import Rows

REPORTS_MAX = 512
"""Events of one message."""
NUMBER_DIGITS_MAX = 5
"""No participant has a longer number."""


class DelayQueue:
    """What goes in comes out in order, each after its delay and none before what went in earlier."""

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        self._waiting: deque[tuple[int, Any]] = deque()
        self._last_ns = 0

    def put(self, time_ns: NDArray[np.int64], sequences: NDArray[np.int64], items: Iterable[Any]) -> None:
        """Items of events that happened at time_ns (at least one); their sequences key the draws."""
        due_ns = time_ns + self._delays.draw_ns(sequences)
        due_ns[0] = max(due_ns[0], self._last_ns)
        due_ns = np.maximum.accumulate(due_ns)
        self._last_ns = int(due_ns[-1])
        self._waiting.extend(zip(due_ns.tolist(), items, strict=True))

    def pop_due(self, now_ns: int) -> list[Any]:
        """What is there at a time."""
        items = []
        while self._waiting and self._waiting[0][0] <= now_ns:
            items.append(self._waiting.popleft()[1])
        return items

    @property
    def next_ns(self) -> int:
        """When the next item is there; NEVER if none is on its way."""
        return self._waiting[0][0] if self._waiting else NEVER


@dataclasses.dataclass
class DelayedSession:
    """A session whose reports take their time, and its last report that is in the queue and that was sent."""

    slot: int
    queue: DelayQueue
    last_queued: int
    last_sent: int


class Reports:
    """The reports of sessions with a latency: last_queued from the events, sent when they are due."""

    def __init__(self, gateway: GatewayState, send: Callable[[int, bytes], bool]) -> None:
        self._gateway = gateway
        self._send = send
        self._sessions: dict[int, DelayedSession] = {}

    def open(self, slot: int, participant: int, delays: Delays, missed: Rows, last_reported: int) -> None:
        """A session that is to hear again what it missed, its last reports up to `last_reported`, and then what `take` brings."""
        last_heard = last_reported - len(missed)
        self._sessions[participant] = session = DelayedSession(slot, DelayQueue(delays), last_heard, last_heard)
        _enqueue(session, missed)

    def close(self, participant: int) -> None:
        """A session is over; what was on its way is sent again when the participant comes back."""
        self._sessions.pop(participant, None)

    def is_sent(self, participant: int, report: int) -> bool:
        """Whether a report has been sent."""
        session = self._sessions.get(participant)
        return session is None or report <= session.last_sent

    def enqueue(self, events: Rows) -> None:
        """Puts the events of such participants into their queues."""
        for participant, session in self._sessions.items():
            _enqueue(session, events[events["participant"] == participant])

    def send_due(self, now_ns: int) -> None:
        """Sends what is due; a session whose pipe is full or gone is marked SLOW, as the compiled loop does."""
        gateway = self._gateway
        for session in self._sessions.values():
            items = session.queue.pop_due(now_ns)
            for first in range(0, len(items), REPORTS_MAX):
                rows = np.concatenate(items[first : first + REPORTS_MAX])
                message = wire.reports(rows, bool(gateway.as_rows[session.slot]))
                live = gateway.status[session.slot] == LIVE
                if not live or not self._send(int(gateway.route[session.slot]), message):
                    gateway.status[session.slot] = SLOW
                    gateway.counter[SLOW_SESSIONS] += 1
                    break
                session.last_sent = int(rows[-1]["report"])

    @property
    def next_ns(self) -> int:
        """When the next report is due."""
        return min((session.queue.next_ns for session in self._sessions.values()), default=NEVER)


def _enqueue(session: DelayedSession, own: Rows) -> None:
    own = own[own["report"] > session.last_queued]
    if len(own):
        session.queue.put(own["time_ns"], own["sequence"], np.split(own, len(own)))
        session.last_queued = int(own[-1]["report"])


class DelayedFeed:
    """The feed once more for each participant with a latency, under topics that begin with its number: `7/l2/AMZN/`."""

    def __init__(self, publish: Callable[[list[bytes]], object], delays: Callable[[int], Delays | None]) -> None:
        self._publish = publish
        self._delays = delays
        self._queues: dict[int, DelayQueue] = {}

    def set_subscriptions(self, prefixes: Iterable[bytes]) -> list[bytes]:
        """Notes who subscribed. The prefixes as they would be without a latency; those of nobody's are left out."""
        topics, numbers = [], set()
        for prefix in prefixes:
            number, _, rest = prefix.partition(b"/")
            if not number.isdigit() or len(number) > NUMBER_DIGITS_MAX:
                topics.append(prefix)
            elif self._open(int(number)):
                topics.append(rest)
                numbers.add(int(number))
        self._queues = {number: queue for number, queue in self._queues.items() if number in numbers}
        return topics

    def _open(self, number: int) -> bool:
        delays = self._delays(number)
        if delays is not None:
            self._queues.setdefault(number, DelayQueue(delays))
        return delays is not None

    def put(self, topic: bytes, sequence: int, time_ns: int, body: bytes) -> None:
        """Sends a message of the feed on its ways."""
        for number, queue in self._queues.items():
            queue.put(np.array([time_ns]), np.array([sequence]), [[b"%d/%s" % (number, topic), body]])

    def send_due(self, now_ns: int) -> None:
        """Publishes what is due."""
        for queue in self._queues.values():
            for message in queue.pop_due(now_ns):
                self._publish(message)

    @property
    def next_ns(self) -> int:
        """When the next message is due."""
        return min((queue.next_ns for queue in self._queues.values()), default=NEVER)
