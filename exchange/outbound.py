"""Reports and market data on their way to participants with a latency; what everybody else hears does not pass here."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange import wire
from serl.exchange.gateway.gate import CUT, LIVE, SLOW, Gate
from serl.exchange.kernel.state import NEVER
from serl.exchange.latency import Delays
from serl.exchange.records import Rows

REPORTS_MAX = 512
"""Events of one message."""
NUMBER_DIGITS_MAX = 5
"""No participant has a longer number."""


class Line:
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

    def take(self, now_ns: int) -> list[Any]:
        """What is there at a time."""
        items = []
        while self._waiting and self._waiting[0][0] <= now_ns:
            items.append(self._waiting.popleft()[1])
        return items

    @property
    def next_ns(self) -> int:
        """When the next item is there; NEVER if none is on its way."""
        return self._waiting[0][0] if self._waiting else NEVER


class Reports:
    """The reports of sessions with a latency: taken from the events, sent when they are due."""

    def __init__(self, gate: Gate, send: Callable[[int, bytes], bool]) -> None:
        self._gate = gate
        self._send = send
        self._lines: dict[int, Line] = {}
        #: the last report of a participant that is in its line, and the last that was sent
        self._taken: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        self._slots: dict[int, int] = {}

    def open(self, slot: int, participant: int, delays: Delays, missed: Rows, done: int) -> None:
        """A session whose reports up to `done` are those it missed; later ones come with `take`."""
        self._lines[participant], self._slots[participant] = Line(delays), slot
        self._taken[participant] = -1
        self._sent[participant] = done - len(missed)
        self._put(participant, missed)
        self._taken[participant] = done

    def close(self, participant: int) -> None:
        """A session is over; what was on its way is sent again when the participant comes back."""
        for each in (self._lines, self._slots, self._taken, self._sent):
            each.pop(participant, None)

    def heard(self, participant: int, report: int) -> bool:
        """Whether a report has been sent."""
        return report <= self._sent.get(participant, report)

    def take(self, events: Rows) -> None:
        """Puts the events of such participants into their lines."""
        for participant in self._lines:
            self._put(participant, events[events["participant"] == participant])

    def _put(self, participant: int, own: Rows) -> None:
        own = own[own["report"] > self._taken[participant]]
        if len(own):
            self._lines[participant].put(own["time_ns"], own["sequence"], np.split(own, len(own)))
            self._taken[participant] = int(own[-1]["report"])

    def release(self, now_ns: int) -> None:
        """Sends what is due; a session whose pipe is full or gone is marked SLOW, as the compiled loop does."""
        gate = self._gate
        for participant, line in self._lines.items():
            slot = self._slots[participant]
            items = line.take(now_ns)
            for first in range(0, len(items), REPORTS_MAX):
                rows = np.concatenate(items[first : first + REPORTS_MAX])
                message = wire.reports(rows, bool(gate.as_rows[slot]))
                if gate.status[slot] != LIVE or not self._send(int(gate.route[slot]), message):
                    gate.status[slot] = SLOW
                    gate.counter[CUT] += 1
                    break
                self._sent[participant] = int(rows[-1]["report"])

    @property
    def next_ns(self) -> int:
        """When the next report is due."""
        return min((line.next_ns for line in self._lines.values()), default=NEVER)


class Copies:
    """The feed once more for each participant with a latency, under topics that begin with its number: `7/l2/AMZN/`."""

    def __init__(self, publish: Callable[[list[bytes]], object], delays: Callable[[int], Delays | None]) -> None:
        self._publish = publish
        self._delays = delays
        self._lines: dict[int, Line] = {}

    def follow(self, prefixes: Iterable[bytes]) -> list[bytes]:
        """Notes who subscribed. The prefixes as they would be without a latency; those of nobody's are left out."""
        plain, numbers = [], set()
        for prefix in prefixes:
            number, _, rest = prefix.partition(b"/")
            if not number.isdigit() or len(number) > NUMBER_DIGITS_MAX:
                plain.append(prefix)
            elif self._open(int(number)):
                plain.append(rest)
                numbers.add(int(number))
        self._lines = {number: line for number, line in self._lines.items() if number in numbers}
        return plain

    def _open(self, number: int) -> bool:
        delays = self._delays(number)
        if delays is not None:
            self._lines.setdefault(number, Line(delays))
        return delays is not None

    def put(self, topic: bytes, sequence: int, time_ns: int, body: bytes) -> None:
        """Sends a message of the feed on its ways."""
        for number, line in self._lines.items():
            line.put(np.array([time_ns]), np.array([sequence]), [[b"%d/%s" % (number, topic), body]])

    def release(self, now_ns: int) -> None:
        """Publishes what is due."""
        for line in self._lines.values():
            for message in line.take(now_ns):
                self._publish(message)

    @property
    def next_ns(self) -> int:
        """When the next message is due."""
        return min((line.next_ns for line in self._lines.values()), default=NEVER)
