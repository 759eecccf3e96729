"""What clients may cost the exchange's loop: shares of its time, and messages of one connection."""

import time

BURST_S = 0.02
"""Work that may be done at once after a rest."""
BURST_PERIODS_S = 5.0
"""A rate allows bursts of what it grants in this time."""
TRACKED_MAX = 4096
"""Connections whose charges are remembered before those without debt are forgotten."""


class Budget:
    """Limits some work to a share of the time, so that a flood of it cannot delay orders. Until the time is earned, the work waits in libzmq
    and then in TCP, where it slows its sender."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._free_s = 0.0

    def spend(self, seconds: float) -> None:
        """Charges work that has been done."""
        self._free_s = max(self._free_s, time.monotonic() - BURST_S / self._share) + seconds / self._share

    def wait_s(self) -> float:
        """Seconds until more work may be done; 0: now."""
        return max(0.0, self._free_s - time.monotonic())


class Charges:
    """Token buckets by connection: `per_s` units per second each, 0 = no limit, with bursts of BURST_PERIODS_S."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._charged: dict[int, tuple[float, float]] = {}

    def take(self, connection: int, units: float = 1.0, owes: bool = True) -> bool:
        """Charges a connection. Returns False if it had nothing left; with `owes` it is charged all the same, and must earn that first."""
        if not self._per_s:
            return True
        now_s, full = time.monotonic(), self._per_s * BURST_PERIODS_S
        left, since_s = self._charged.get(connection, (full, now_s))
        left = min(full, left + (now_s - since_s) * self._per_s)
        self._charged[connection] = left - (units if owes or left > 0 else 0.0), now_s
        if len(self._charged) > TRACKED_MAX:
            recent_s = now_s - 2 * BURST_PERIODS_S
            self._charged = {key: entry for key, entry in self._charged.items() if entry[1] > recent_s}
        return left > 0

    def is_overdrawn(self, connection: int) -> bool:
        """Whether a connection owes a whole burst: it goes on although it is refused."""
        return self._charged.get(connection, (0.0, 0.0))[0] < -self._per_s * BURST_PERIODS_S
