"""The pace of a lockstep clock: the exchange time that it may have reached by now, whatever the participants promised."""

import math
import time

CATCH_UP_NS = 250_000_000
"""The most lag, in real time, that is recovered: a market that waited a minute for a participant does not rush through that minute."""


class Pace:
    """Limits time to `speed` exchange seconds per second of real time. Up to the exchange time passed to `set`, time advances without a limit."""

    def __init__(self, time_ns: int, speed: float, held: bool) -> None:
        self.speed, self.held = speed, held
        self.set(time_ns, not held)

    def set(self, time_ns: int, run: bool) -> None:
        """Restarts the pace at an exchange time, running or held."""
        self._base_ns, self._monotonic_ns, self.held = time_ns, time.monotonic_ns(), not run

    def set_speed(self, speed: float) -> None:
        """Changes the speed from now on."""
        self.set(self.limit_ns(), not self.held)
        self.speed = speed

    def limit_ns(self) -> int:
        """The exchange time that may be reached by now."""
        elapsed_ns = 0 if self.held else time.monotonic_ns() - self._monotonic_ns
        return self._base_ns + int(elapsed_ns * self.speed)

    def wall_ns_until(self, time_ns: int) -> float:
        """Nanoseconds of real time until an exchange time may be reached, at least 0; infinite while the pace is held."""
        remaining_ns = max(0, time_ns - self.limit_ns())
        return math.inf if self.held and remaining_ns else remaining_ns / self.speed

    def limit_catch_up(self, time_ns: int) -> None:
        """Reduces the lag behind the pace to CATCH_UP_NS, given the exchange's time, unless that is still before the time passed to `set`."""
        latest_ns = time_ns + int(CATCH_UP_NS * self.speed)
        if time_ns >= self._base_ns and self.limit_ns() > latest_ns:
            self.set(latest_ns, run=True)
