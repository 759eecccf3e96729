"""The pace of a lockstep clock: how far it may have come by now, whatever the participants have promised."""

import math
import time

CATCH_UP_NS = 250_000_000
"""Of the machine's time: so much of a delay is made up for. A market that waited a minute for a participant does not rush through that minute."""


class Pace:
    """At most `speed` exchange seconds a second of the machine, unless it is held. What it is set ahead to is reached without any pace."""

    def __init__(self, time_ns: int, speed: float, held: bool) -> None:
        self.speed, self.held = speed, held
        self.set(time_ns, not held)

    def set(self, time_ns: int, run: bool) -> None:
        """From a time of the exchange on, now."""
        self._base_ns, self._machine_ns, self.held = time_ns, time.monotonic_ns(), not run

    def set_speed(self, speed: float) -> None:
        """From now on."""
        self.set(self.limit_ns(), not self.held)
        self.speed = speed

    def limit_ns(self) -> int:
        """How far the exchange's time may be by now."""
        passed_ns = 0 if self.held else time.monotonic_ns() - self._machine_ns
        return self._base_ns + int(passed_ns * self.speed)

    def wall_ns_until(self, time_ns: int) -> float:
        """Nanoseconds of the machine until it may be there, not below 0; infinite while it is held."""
        left_ns = max(0, time_ns - self.limit_ns())
        return math.inf if self.held and left_ns else left_ns / self.speed

    def limit_catch_up(self, time_ns: int) -> None:
        """The exchange's time is time_ns: of what it is behind, CATCH_UP_NS are left, unless it is on its way to what it was set to."""
        most_ns = time_ns + int(CATCH_UP_NS * self.speed)
        if time_ns >= self._base_ns and self.limit_ns() > most_ns:
            self.set(most_ns, run=True)
