"""An estimate of the exchange's clock between two messages that carry its time."""

import time

PING_EVERY_S = 0.2
EXTRAPOLATE_MAX_S = 1.5 * PING_EVERY_S
"""How long the estimate advances without a new message, which bounds its error after the clock is paused."""


class RemoteClock:
    """Extrapolates the exchange's time at the rate that its last messages show; a paused clock therefore stands still."""

    def __init__(self) -> None:
        #: (exchange time, local time) of the last message
        self._reading = (0, time.monotonic())
        #: ns per second over the last two intervals; the smaller rate is used, because a clock that was set ahead did not run faster
        self._rates = (0.0, 0.0)
        self._latest_ns = 0
        self._pinged_s = 0.0

    @property
    def running(self) -> bool:
        """Whether the clock advanced between the last messages; if it did not, its time between messages is unknown."""
        return min(self._rates) > 0

    def ping_due(self) -> bool:
        """Whether to ask for the time again; the caller must do so whenever this returns True."""
        now_s = time.monotonic()
        if now_s - self._pinged_s < PING_EVERY_S:
            return False
        self._pinged_s = now_s
        return True

    def now_ns(self, reported_ns: int) -> int:
        """The estimated current time; never goes back. reported_ns: the time in the exchange's last message."""
        now_s = time.monotonic()
        last_ns, last_s = self._reading
        if reported_ns != last_ns or now_s - last_s > 4 * PING_EVERY_S:
            rate = 0.0 if last_ns == 0 else (reported_ns - last_ns) / (now_s - last_s)
            self._rates = (self._rates[1], rate)
            self._reading = (reported_ns, now_s)
        since_s = min(now_s - self._reading[1], EXTRAPOLATE_MAX_S)
        self._latest_ns = max(self._latest_ns, self._reading[0] + int(since_s * min(self._rates)))
        return self._latest_ns
