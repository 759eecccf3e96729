"""What clients may cost the exchange's loop: shares of its time, and messages of one connection."""

import time

BURST_S = 0.02
"""Work that may be done at once after a rest."""
BURST_PERIODS_S = 5.0
"""A rate allows bursts of what it grants in this time."""
TRACKED_MAX = 4096
"""Keys whose charges are remembered before those without debt are forgotten."""


class Budget:
    """Limits the work for one source to a share of the time, so that a flood of it cannot delay orders. Until the time is earned, the work
    waits in libzmq and then in TCP, where it slows its sender.

    Sources in one `ring` have the share together: those that wait for time get equal parts of it.
    """

    def __init__(self, share: float, ring: list["Budget"] | None = None) -> None:
        self._share = share
        self._free_s = 0.0
        self.spent_s = 0.0
        """Since the start."""
        self._ring = [] if ring is None else ring
        self._ring.append(self)

    def spend(self, seconds: float) -> None:
        """Charges work that has been done."""
        waiting = sum(each is self or each.wait_s() > 0 for each in self._ring)
        share = self._share / waiting
        self.spent_s += seconds
        self._free_s = max(self._free_s, time.monotonic() - BURST_S / self._share) + seconds / share

    def wait_s(self) -> float:
        """Seconds until more work may be done; 0: now."""
        return max(0.0, self._free_s - time.monotonic())


class Charges:
    """Token buckets by key, such as a connection: `per_s` units per second each, 0 = no limit, with bursts of BURST_PERIODS_S."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._charged: dict[int, tuple[float, float]] = {}

    def take(self, key: int, units: float = 1.0, owes: bool = True) -> bool:
        """Charges a key. Returns False if it had nothing left; with `owes` it is charged all the same, and must earn that first."""
        if not self._per_s:
            return True
        now_s, full = time.monotonic(), self._per_s * BURST_PERIODS_S
        left, since_s = self._charged.get(key, (full, now_s))
        left = min(full, left + (now_s - since_s) * self._per_s)
        self._charged[key] = left - (units if owes or left > 0 else 0.0), now_s
        if len(self._charged) > TRACKED_MAX:
            recent_s = now_s - 2 * BURST_PERIODS_S
            self._charged = {each: entry for each, entry in self._charged.items() if entry[1] > recent_s}
        return left > 0
