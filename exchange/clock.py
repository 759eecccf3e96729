"""The exchange's clocks, as the compiled loop reads them.

live      nanoseconds since 1970, the system clock; if that goes back, this clock is ahead of it
scaled    nanoseconds after midnight, `speed` times as fast as real time; can be held and set
lockstep  nanoseconds after midnight, advances to the smallest promise of the participants; with a speed also limited by that pace, and
          then it can be held and set too
"""

import math
import time
from collections.abc import Callable

from serl.exchange.config import ClockConfig
from serl.exchange.errors import ConfigError
from serl.exchange.gateway.state import (
    CLOCK_BASE_NS,
    CLOCK_HELD,
    CLOCK_KIND,
    CLOCK_MONOTONIC_NS,
    CLOCK_SPEED_MICRO,
    LAST_COMMAND_NS,
    LIVE_CLOCK,
    LOCKSTEP_CLOCK,
    SCALED_CLOCK,
    GatewayState,
)  # fmt: skip
from serl.exchange.gateway.timing import clock_ns
from serl.exchange.pace import Pace

KINDS = {"live": LIVE_CLOCK, "scaled": SCALED_CLOCK, "lockstep": LOCKSTEP_CLOCK}
DAY_NS = 86_400_000_000_000
TIME_MAX_NS = 1 << 62
"""The latest time that a clock can be set to. It leaves a century before 64 bits overflow."""
CURRENT_TIME = -1
"""An argument of `Clock.set` that leaves the time unchanged."""
SPEED_MIN, SPEED_MAX = 1e-3, 1e6


class Clock:
    """Reads and sets the clock in the gateway's arrays."""

    def __init__(self, gateway: GatewayState, config: ClockConfig, last_news_ns: Callable[[], int]) -> None:
        """last_news_ns: the time of the last news message, 0 without one."""
        self._gateway, self._last_news_ns = gateway, last_news_ns
        self.kind = config.kind
        #: exchange seconds per second; 0 for a lockstep clock without a pace
        self.speed = config.effective_speed
        gateway.clock[CLOCK_KIND] = KINDS[config.kind]
        gateway.clock[CLOCK_SPEED_MICRO] = round(self.speed * 1_000_000)
        last_ns = self._last_ns() if config.kind == "scaled" else int(gateway.counter[LAST_COMMAND_NS])
        start_ns = max(config.start_ns, last_ns)
        gateway.clock[CLOCK_BASE_NS] = start_ns
        self.start()
        gateway.clock[CLOCK_HELD] = config.held
        #: the pace of a lockstep clock with a speed
        self.pace = Pace(start_ns, self.speed, config.held) if config.kind == "lockstep" and self.speed else None

    def start(self) -> None:
        """Starts a live or scaled clock. The time taken by loading and compiling does not count."""
        self._gateway.clock[CLOCK_MONOTONIC_NS] = time.monotonic_ns()
        if self.kind == "live":
            self._followed_ns = self._last_ns()
            self.follow()

    def follow(self) -> int:
        """Returns the exchange time, and keeps a live clock advancing after the system clock has gone back: otherwise anything scheduled would wait
        until the system clock has caught up. Call it about once a second."""
        if self.kind == "live":
            clock, system_ns, monotonic_ns = self._gateway.clock, time.time_ns(), time.monotonic_ns()
            expected_ns = self._followed_ns + monotonic_ns - int(clock[CLOCK_MONOTONIC_NS])
            clock[CLOCK_BASE_NS], clock[CLOCK_MONOTONIC_NS] = max(0, expected_ns - system_ns), monotonic_ns
            self._followed_ns = max(expected_ns, system_ns)
        return self.now_ns()

    def now_ns(self) -> int:
        """Exchange time."""
        return int(clock_ns(self._gateway.clock, self._gateway.counter))

    def _last_ns(self) -> int:
        """The time of the last command or news message: a scaled clock never goes back before it."""
        return max(int(self._gateway.counter[LAST_COMMAND_NS]), self._last_news_ns())

    def wall_ns_until(self, time_ns: int) -> float:
        """Nanoseconds of real time until an exchange time, at least 0; infinite while the clock is held."""
        if self.pace is not None:
            return self.pace.wall_ns_until(time_ns)
        remaining_ns = max(0, time_ns - self.now_ns())
        if not remaining_ns:  # always so in lockstep, which has no speed
            return 0.0
        return math.inf if self._gateway.clock[CLOCK_HELD] else remaining_ns / self.speed

    def set(self, time_ns: int, run: bool) -> None:
        """Sets the time of a scaled or paced clock (CURRENT_TIME: unchanged), and runs or holds it. A paced clock advances to that time as
        fast as the participants allow. A scaled clock may go back as far as the last command or news message. Raises ConfigError for
        any other clock or an earlier time."""
        self._check_paced()
        if time_ns == CURRENT_TIME:
            time_ns = self.now_ns()
        earliest_ns, name = (
            (self._last_ns(), "the last command or news message") if self.pace is None else (self.now_ns(), "now")
        )
        if not earliest_ns <= time_ns <= TIME_MAX_NS:
            raise ConfigError(
                f"expected a time from {earliest_ns} ({name}) to {TIME_MAX_NS}, got {time_ns}: time cannot go back; set a later one, "
                "or start another exchange, with its clock held (--hold)"
            )
        if self.pace is not None:
            self.pace.set(time_ns, run)
            return
        self._gateway.clock[CLOCK_BASE_NS] = time_ns
        self._gateway.clock[CLOCK_MONOTONIC_NS] = time.monotonic_ns()
        self._gateway.clock[CLOCK_HELD] = not run

    def set_speed(self, speed: float) -> None:
        """Changes the speed of a scaled or paced clock, in exchange seconds per second. Raises ConfigError for any other clock, or if the speed is
        out of range."""
        self._check_paced()
        if not SPEED_MIN <= speed <= SPEED_MAX:
            raise ConfigError(f"expected a speed from {SPEED_MIN:g} to {SPEED_MAX:g}, got {speed:g}")
        self.speed = speed
        if self.pace is not None:
            self.pace.set_speed(speed)
            return
        self._gateway.clock[CLOCK_BASE_NS] = self.now_ns()
        self._gateway.clock[CLOCK_MONOTONIC_NS] = time.monotonic_ns()
        self._gateway.clock[CLOCK_SPEED_MICRO] = round(speed * 1_000_000)

    def _check_paced(self) -> None:
        if self.kind != "scaled" and self.pace is None:
            raise ConfigError(
                f"expected a scaled clock, or a lockstep clock with a speed, got {self.kind}; start the exchange with --clock scaled:K"
            )

    def advance_to(self, time_ns: int) -> None:
        """Advances a lockstep clock."""
        self._gateway.clock[CLOCK_BASE_NS] = time_ns

    def describe(self) -> list[object]:
        """The `clock` of WELCOME: [kind, speed, time_ns, midnight_ns]; speed is 0 for lockstep without a pace."""
        now = self.now_ns()
        midnight = now - now % DAY_NS if self.kind == "live" else 0
        return [self.kind, self.speed, now, midnight]
