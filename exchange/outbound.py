"""Delayed reports and market data for participants with a latency."""

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
"""Events per message."""
NUMBER_DIGITS_MAX = 5
"""Digits of the largest participant number."""


class DelayQueue:
    """A first-in-first-out queue: each item becomes due after its own delay, but not before an earlier item."""

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        self._waiting: deque[tuple[int, Any]] = deque()
        self._last_ns = 0

    def put(self, time_ns: NDArray[np.int64], sequences: NDArray[np.int64], items: Iterable[Any]) -> None:
        """Adds items (at least one) of events at time_ns; the sequences of the events determine the delays."""
        due_ns = time_ns + self._delays.draw_ns(sequences)
        due_ns[0] = max(due_ns[0], self._last_ns)
        due_ns = np.maximum.accumulate(due_ns)
        self._last_ns = int(due_ns[-1])
        self._waiting.extend(zip(due_ns.tolist(), items, strict=True))

    def due_ns(self, time_ns: int, sequence: int) -> int:
        """When an item would become due."""
        return max(time_ns + int(self._delays.draw_ns(np.array([sequence]))[0]), self._last_ns)

    def pop_due(self, now_ns: int) -> list[Any]:
        """Removes and returns the items that are due."""
        items = []
        while self._waiting and self._waiting[0][0] <= now_ns:
            items.append(self._waiting.popleft()[1])
        return items

    @property
    def next_ns(self) -> int:
        """When the next item is due; NEVER if the queue is empty."""
        return self._waiting[0][0] if self._waiting else NEVER


@dataclasses.dataclass
class DelayedSession:
    """A session with delayed reports, and the numbers of the last reports that were queued and sent."""

    slot: int
    queue: DelayQueue
    last_queued: int
    last_sent: int
    is_behind: bool = True  # missed reports are still to be added, before current ones


class DelayedReports:
    """The reports of sessions with a latency: queued as the events happen, sent when they are due."""

    def __init__(self, gateway: GatewayState, send: Callable[[int, bytes], bool]) -> None:
        self._gateway = gateway
        self._send = send
        self._sessions: dict[int, DelayedSession] = {}

    def open(self, slot: int, participant: int, delays: Delays, last_sent: int) -> None:
        """Starts a session whose last report was number `last_sent`: `add` those that it missed, then `follow`."""
        self._sessions[participant] = DelayedSession(slot, DelayQueue(delays), last_sent, last_sent)

    def add(self, participant: int, missed: Rows) -> None:
        """Queues the next reports that a session has missed."""
        _enqueue(self._sessions[participant], missed)

    def follow(self, participant: int) -> None:
        """Lets `enqueue` add the following reports, because the session has all that it missed."""
        self._sessions[participant].is_behind = False

    @property
    def has_sessions(self) -> bool:
        """Whether any session has delayed reports."""
        return bool(self._sessions)

    def close(self, participant: int) -> None:
        """Ends a session; its queued reports are sent again after the participant's next login."""
        self._sessions.pop(participant, None)

    def last_sent(self, participant: int) -> int | None:
        """The last report sent to a participant with a latency; None for a participant without."""
        session = self._sessions.get(participant)
        return None if session is None else session.last_sent

    def enqueue(self, events: Rows) -> None:
        """Queues the events of the sessions' participants."""
        for participant, session in self._sessions.items():
            if not session.is_behind:
                _enqueue(session, events[events["participant"] == participant])

    def send_due(self, now_ns: int) -> None:
        """Sends the due reports. Like the compiled loop, marks a session SLOW if its pipe is full or gone."""
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


def without_number(topic: bytes) -> bytes:
    """Strips the participant number of a delayed copy from a topic or a prefix of one."""
    number, _, rest = topic.partition(b"/")
    return rest if number.isdigit() and len(number) <= NUMBER_DIGITS_MAX else topic


class DelayedFeed:
    """A delayed copy of the feed for each participant with a latency, under topics that begin with its number: `7/l2/AMZN/`."""

    def __init__(self, publish: Callable[[list[bytes]], object], delays: Callable[[int], Delays | None]) -> None:
        self._publish = publish
        self._delays = delays
        self._queues: dict[int, DelayQueue] = {}
        self._repeats: dict[bytes, tuple[int, list[bytes]]] = {}  # when they are due, by topic

    @property
    def has_participants(self) -> bool:
        """Whether any participant with a latency subscribes."""
        return bool(self._queues)

    def set_subscriptions(self, prefixes: Iterable[bytes]) -> list[bytes]:
        """Notes the participants that subscribe. Returns the prefixes without participant numbers, except those of unknown participants."""
        topics, numbers = [], set()
        for prefix in prefixes:
            topic = without_number(prefix)
            if topic == prefix:
                topics.append(prefix)
            elif self._open(number := int(prefix.partition(b"/")[0])):
                topics.append(topic)
                numbers.add(number)
        self._queues = {number: queue for number, queue in self._queues.items() if number in numbers}
        if not self._queues:
            self._repeats.clear()
        return topics

    def _open(self, number: int) -> bool:
        delays = self._delays(number)
        if delays is not None:
            self._queues.setdefault(number, DelayQueue(delays))
        return delays is not None

    def put(self, topic: bytes, sequence: int, time_ns: int, body: bytes) -> None:
        """Queues a message of the feed for each participant."""
        for number, queue in self._queues.items():
            own = b"%d/%s" % (number, topic)
            self._repeats.pop(own, None)
            queue.put(np.array([time_ns]), np.array([sequence]), [[own, body]])

    def repeat(self, topic: bytes, sequence: int, time_ns: int, body: bytes) -> None:
        """Queues a repeat of the last message on a topic, from time_ns, for each participant: it is due with that message, and not before an
        earlier one. It does not delay later messages, because it depends on the wall clock and what participants see must not."""
        for number, queue in self._queues.items():
            own = b"%d/%s" % (number, topic)
            self._repeats[own] = queue.due_ns(time_ns, sequence), [own, body]

    def send_due(self, now_ns: int) -> None:
        """Publishes the messages that are due."""
        for queue in self._queues.values():
            for message in queue.pop_due(now_ns):
                self._publish(message)
        for topic in [topic for topic, (due_ns, _) in self._repeats.items() if due_ns <= now_ns]:
            self._publish(self._repeats.pop(topic)[1])

    @property
    def next_ns(self) -> int:
        """When the next message is due."""
        return min((queue.next_ns for queue in self._queues.values()), default=NEVER)
