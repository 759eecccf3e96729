"""The lockstep clock: time advances to the smallest promise, before which no participant sends anything.

Conservative parallel discrete-event simulation (Chandy and Misra): commands wait in `Inbound` and are executed in the order of their
arrival times up to the smallest promise, so the tape does not depend on the speed of the processes. A pace, if the clock has one,
delays the execution further, but changes neither commands nor order.
"""

from collections.abc import Callable

import numpy as np

from serl.exchange.clock import Clock
from serl.exchange.core import Core
from serl.exchange.gateway.accept import END_NS
from serl.exchange.gateway.state import AHEAD_NS_MAX, LIVE
from serl.exchange.inbound import Inbound
from serl.exchange.kernel.state import NEVER
from serl.exchange.schedule import Schedule
from serl.exchange.wire import Kind, RequestError, pack

TURN_STEPS_MAX = 256
"""Number of scheduled commands after which the exchange serves its clients again, before time advances further."""


class Lockstep:
    """Collects promises and sends grants. Sessions that never promise do not hold back time; their commands arrive at once."""

    def __init__(
        self,
        core: Core,
        clock: Clock,
        inbound: Inbound,
        send: Callable[[int, bytes], bool],
        publish: Callable[[int], None],
        participants: int,
    ) -> None:
        self._core = core
        self._gateway = core.gateway
        self._clock = clock
        self._inbound = inbound
        self._send = send
        self._publish = publish
        self._granted: dict[int, int] = {}
        self.time_ns = clock.now_ns()
        self.schedule: Schedule | None = None
        #: every participant promised END_NS: delayed reports are sent at once
        self.is_finished = False
        #: when to call `advance` again: at the promised time if the clock's pace has not reached it yet, or at once if many scheduled commands were
        #: due; NEVER if it need not be called
        self.next_ns = NEVER
        #: whether the disk is full: then call `advance` again after a while
        self.waits_for_room = False
        #: whether a session has ended since the last `advance`
        self.has_lost_session = False
        #: number of participants that must have promised before time starts
        self._participants_required = participants

    def promise(self, slot: int, time_ns: int) -> None:
        """Notes a session's next promise. Raises RequestError `promise` if it is before the last one."""
        earliest_ns = max(int(self._gateway.promise_ns[slot]), self.time_ns)
        if not earliest_ns <= time_ns <= END_NS:
            raise RequestError(
                "promise",
                f"expected a promise from {earliest_ns} on (the last promise, or the exchange's time), got {time_ns}",
            )
        self.check_ahead(time_ns)
        self._gateway.promise_ns[slot] = time_ns
        self.advance()

    def check_ahead(self, time_ns: int) -> None:
        """Raises RequestError `promise` if a time is so far ahead that it must be a mistake: if nobody else promises, time would irreversibly advance to it."""
        ahead_ns, now_ns = int(self._gateway.counter[AHEAD_NS_MAX]), self._clock.now_ns()
        if now_ns + ahead_ns < time_ns < END_NS:
            raise RequestError(
                "promise",
                f"expected a time up to {now_ns + ahead_ns} ({ahead_ns / 1e9:g} s, lockstep_ahead_s_max, after the exchange's time, "
                f"{now_ns}), got {time_ns}; times are nanoseconds of the exchange's clock",
            )

    def forget(self, slot: int) -> None:
        """Forgets the turn of a session that has ended, so that the next session in its slot can get a turn at the same time. `advance` goes on
        without the ended one."""
        self._granted.pop(slot, None)
        self.has_lost_session = True

    def _promised(self) -> list[int]:
        gateway = self._gateway
        return [int(slot) for slot in np.flatnonzero((gateway.status == LIVE) & (gateway.promise_ns >= 0))]

    def advance(self) -> None:
        """Executes the commands that arrive before the smallest promise, publishes, and grants the next participants their turn."""
        self.waits_for_room = self._core.journal.is_full
        if self.waits_for_room:  # time stands still, because there are few reserved rows
            self.next_ns = NEVER
            return
        slots, self.has_lost_session = self._promised(), False
        if len(slots) < self._participants_required:
            return
        self._participants_required = 0
        until_ns = self._limit_to_pace(min((int(self._gateway.promise_ns[slot]) for slot in slots), default=END_NS))
        self.is_finished = until_ns == END_NS
        is_due = until_ns > self.time_ns or not slots or until_ns == END_NS
        if is_due and not self._execute_until(until_ns):
            self.is_finished, self.next_ns = False, self.time_ns
            return
        if until_ns < END_NS:
            self.time_ns = max(self.time_ns, until_ns)
            self._clock.advance_to(self.time_ns)
        turns = [slot for slot in slots if self._gateway.promise_ns[slot] == until_ns != self._granted.get(slot, -1)]
        if turns and until_ns < END_NS:
            self._grant(turns)

    def complete_until_ns(self) -> int:
        """The time before which no further turn will be granted: everything from before it may be published. Without participants that includes the present."""
        if self.is_finished:
            return END_NS
        return self.time_ns if self._promised() or self._participants_required else self.time_ns + 1

    def _limit_to_pace(self, promised_ns: int) -> int:
        """The time up to which the clock may advance now; sets `next_ns` if the pace holds it back."""
        self.next_ns = NEVER
        pace = self._clock.pace
        if pace is None:
            return promised_ns
        pace.limit_catch_up(self.time_ns)
        wanted_ns = promised_ns if promised_ns < END_NS else self._inbound.last_ns(self.time_ns)
        reached_ns = pace.limit_ns()
        if wanted_ns <= reached_ns:
            return promised_ns
        self.next_ns = wanted_ns
        return max(reached_ns, self.time_ns)

    def _execute_until(self, until_ns: int) -> bool:
        """Executes arriving and scheduled commands before a time, in order; at equal times the scheduled ones come first. Returns False if it stops
        before that time, including when the last commands have made others due before it."""
        last_ns = until_ns - 1 if until_ns < END_NS else self._inbound.last_ns(self.time_ns)
        is_done = self.schedule is None or self.schedule.run(last_ns, self._execute_before, TURN_STEPS_MAX)
        is_done = is_done and self._execute_commands(until_ns)
        is_done = is_done and (self.schedule is None or self.schedule.next_ns > last_ns)
        if until_ns == END_NS or not is_done:
            self.time_ns = max(self.time_ns, self._core.time_ns)
            self._clock.advance_to(self.time_ns)
        return is_done

    def _execute_before(self, time_ns: int) -> bool:
        return self._inbound.execute_before(time_ns, self.time_ns)

    def _execute_commands(self, until_ns: int) -> bool:
        return self._inbound.execute(until_ns, self.time_ns)

    def _grant(self, slots: list[int]) -> None:
        self._publish(self.time_ns)
        sequence = self._core.event_sequence
        for slot in sorted(slots, key=lambda slot: int(self._gateway.participant[slot])):
            self._granted[slot] = self.time_ns
            self._send(int(self._gateway.route[slot]), pack(Kind.GRANT, self.time_ns, sequence))
