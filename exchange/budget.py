"""Limits on what clients cost the exchange's loop: shares of its time, and messages per connection."""

import time
from collections.abc import Callable, Sequence

BURST_S = 0.02
"""Seconds of work that a source may do at once after being idle."""
QUIET_S = 0.1
"""If no order has arrived for this long, everything else is served without a limit, because no order is waiting."""
BURST_PERIODS_S = 5.0
"""A rate allows bursts as large as what it grants in this time."""
TRACKED_MAX = 4096
"""Number of keys whose charges are remembered; beyond it, keys that have earned what they used are forgotten."""


processor_time_s = time.thread_time
"""The clock that measures costs. It stops while other processes run. Measured in real time, a login on a busy machine cost many times its
work: when hundreds of clients reconnected at once, they gave up and tried again for minutes."""


class Budget:
    """Limits the work for one source to a share of the time, so that a flood of requests cannot delay orders. Until the source has earned its
    time, its requests wait in libzmq and then in TCP, which slows their sender down.

    The sources in one `ring` share the time: those that are waiting get equal parts.
    """

    def __init__(
        self, share: float, ring: list["Budget"] | None = None, is_limited: Callable[[], bool] = lambda: True
    ) -> None:
        """is_limited: returns whether work is currently charged. Work that delays nobody is free and does not delay later work."""
        self._share, self._is_limited = share, is_limited
        self._free_s = 0.0
        self.spent_s = 0.0
        """Processor time charged since the start."""
        self._ring = [] if ring is None else ring
        self._ring.append(self)

    def spend(self, seconds: float) -> None:
        """Charges work that has been done, in processor time."""
        self.spent_s += seconds
        if not self._is_limited():
            return
        waiting = sum(each is self or each.wait_s() > 0 for each in self._ring)
        share = self._share / waiting
        self._free_s = max(self._free_s, time.monotonic() - BURST_S / self._share) + seconds / share

    def hold(self, seconds: float) -> None:
        """Makes the source wait this long from now, whatever it has earned. 0: it keeps what it has earned."""
        if seconds > 0 and self._is_limited():
            self._free_s = max(self._free_s, time.monotonic() + seconds)

    def wait_s(self) -> float:
        """Seconds until more work may be done; 0: now."""
        return max(0.0, self._free_s - time.monotonic())


class Charges:
    """Token buckets by key, such as a connection: `per_s` units per second each, 0 = no limit, with bursts of BURST_PERIODS_S."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._charged: dict[int, tuple[float, float]] = {}

    def take(self, key: int, units: float = 1.0, owes: bool = True) -> bool:
        """Charges a key. Returns False if it had nothing left; with `owes` it is charged anyway and must earn that debt first."""
        if not self._per_s:
            return True
        now_s, full = time.monotonic(), self._per_s * BURST_PERIODS_S
        left, since_s = self._charged.get(key, (full, now_s))
        left = min(full, left + (now_s - since_s) * self._per_s)
        self._charged[key] = left - (units if owes or left > 0 else 0.0), now_s
        if len(self._charged) > TRACKED_MAX:
            self._charged = {
                each: (left_then, then_s)
                for each, (left_then, then_s) in self._charged.items()
                if left_then + (now_s - then_s) * self._per_s < full
            }
        return left > 0


class Shares:
    """Budgets of all sources of work other than orders. While orders arrive, the sources together get one share of the time."""

    def __init__(self, names: Sequence[str], share: float) -> None:
        ring: list[Budget] = []
        self._budgets = {name: Budget(share, ring, lambda: self.are_limited) for name in names}
        self._last_order_s = 0.0
        self._before_s: list[float] = []
        self._began_s = 0.0

    def __getitem__(self, name: str) -> Budget:
        return self._budgets[name]

    def note_order(self) -> None:
        """Notes that orders have arrived."""
        self._last_order_s = time.monotonic()

    @property
    def are_limited(self) -> bool:
        """Whether orders arrive, so that everything else has to wait for its share."""
        return time.monotonic() - self._last_order_s <= QUIET_S

    def wait_s(self, name: str) -> float:
        """Seconds until a source may be served; 0: now."""
        return self._budgets[name].wait_s() if self.are_limited else 0.0

    def waits_s(self) -> dict[str, float]:
        """The result of `wait_s` for each source."""
        return {name: each.wait_s() if self.are_limited else 0.0 for name, each in self._budgets.items()}

    def begin_turn(self) -> None:
        """Notes that a turn of the loop begins, in which sources may be served."""
        self._before_s, self._began_s = [each.spent_s for each in self._budgets.values()], processor_time_s()

    def end_turn(self) -> None:
        """Charges the rest of the turn to the sources that were served in it."""
        charged = [
            (each, each.spent_s - before_s)
            for each, before_s in zip(self._budgets.values(), self._before_s, strict=True)
            if each.spent_s != before_s
        ]
        if charged:
            total_s = sum(spent_s for _, spent_s in charged)
            rest_s = processor_time_s() - self._began_s - total_s
            for budget, spent_s in charged if rest_s > 0 and total_s > 0 else ():
                budget.spend(rest_s * spent_s / total_s)
