"""An exchange's clock as a client knows it."""

import time

ASK_S = 0.2
UNHEARD_S = 1.5 * ASK_S
"""How far the clock is believed to run on without word: one that was held is overrun by no more."""


class RemoteClock:
    """The exchange's time between two messages that tell it; it runs at the rate that they show, so a held clock stands."""

    def __init__(self) -> None:
        self._told = (0, time.monotonic())
        #: ns a second, as the last two tellings showed; the smaller one counts, because a clock that is set ahead has not become quicker
        self._rates = (0.0, 0.0)
        self._latest = 0
        self._asked_s = 0.0

    @property
    def running(self) -> bool:
        """Whether the last tellings showed that it runs: only then is its time known between them."""
        return min(self._rates) > 0

    def due(self) -> bool:
        """Whether it is time to ask again."""
        now_s = time.monotonic()
        if now_s - self._asked_s < ASK_S:
            return False
        self._asked_s = now_s
        return True

    def now_ns(self, told_ns: int) -> int:
        """The time now; told_ns is what the exchange said last. Never goes back."""
        now_s = time.monotonic()
        before_ns, before_s = self._told
        if told_ns != before_ns or now_s - before_s > 4 * ASK_S:
            rate = 0.0 if before_ns == 0 else (told_ns - before_ns) / (now_s - before_s)
            self._rates = (self._rates[1], rate)
            self._told = (told_ns, now_s)
        since_s = min(now_s - self._told[1], UNHEARD_S)
        self._latest = max(self._latest, self._told[0] + int(since_s * min(self._rates)))
        return self._latest
