"""The exchange's clocks, as the compiled loop reads them.

live      nanoseconds since 1970, the machine's clock
scaled    nanoseconds after midnight, `speed` times as fast as the machine's; can be held and set
lockstep  nanoseconds after midnight, as far as the participants' promises reach; with a speed not faster than that, and then it can be
          held and set too
"""

import math
import time

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
from serl.exchange.gateway.timing import clock_now_ns
from serl.exchange.pace import Pace

KINDS = {"live": LIVE_CLOCK, "scaled": SCALED_CLOCK, "lockstep": LOCKSTEP_CLOCK}
DAY_NS = 86_400_000_000_000
TIME_MAX_NS = 1 << 62
"""Half of what 64 bits hold: a clock that is set to it can still run on for a century."""
SAME_TIME = -1
SPEED_MIN, SPEED_MAX = 1e-3, 1e6


class Clock:
    """Reads and sets the clock that lives in the gateway's arrays."""

    def __init__(self, gateway: GatewayState, config: ClockConfig) -> None:
        self._gateway = gateway
        self.kind = config.kind
        #: exchange seconds a second; 0 of a lockstep clock without a pace
        self.speed = config.effective_speed
        gateway.clock[CLOCK_KIND] = KINDS[config.kind]
        gateway.clock[CLOCK_SPEED_MICRO] = round(self.speed * 1_000_000)
        start_ns = max(config.start_ns, int(gateway.counter[LAST_COMMAND_NS]))
        gateway.clock[CLOCK_BASE_NS] = start_ns
        gateway.clock[CLOCK_MONOTONIC_NS] = time.monotonic_ns()
        gateway.clock[CLOCK_HELD] = config.held
        #: of a lockstep clock, if it has one
        self.pace = Pace(start_ns, self.speed, config.held) if config.kind == "lockstep" and self.speed else None

    def start(self) -> None:
        """A scaled clock runs from here on: what loading took, on a first start minutes, is not of the day."""
        self._gateway.clock[CLOCK_MONOTONIC_NS] = time.monotonic_ns()

    def now_ns(self) -> int:
        """Exchange time."""
        return int(clock_now_ns(self._gateway))

    def wall_ns_until(self, time_ns: int) -> float:
        """Nanoseconds of the machine until a time of the exchange, not below 0; infinite while the clock is held."""
        if self.pace is not None:
            return self.pace.wall_ns_until(time_ns)
        left_ns = max(0, time_ns - self.now_ns())
        return math.inf if self._gateway.clock[CLOCK_HELD] and left_ns else left_ns / self.speed

    def set(self, time_ns: int, run: bool) -> None:
        """Sets a scaled or paced clock (SAME_TIME: it stays where it is) and lets it run or holds it; ConfigError if it is another clock
        or would go back. A paced one goes to that time as fast as the participants let it."""
        self._check_paced()
        if time_ns == SAME_TIME:
            time_ns = self.now_ns()
        earliest = int(self._gateway.counter[LAST_COMMAND_NS]) if self.pace is None else self.now_ns()
        if not earliest <= time_ns <= TIME_MAX_NS:
            raise ConfigError(f"a time from {earliest} (time does not go back) to {TIME_MAX_NS} is due; got {time_ns}")
        if self.pace is not None:
            self.pace.set(time_ns, run)
            return
        self._gateway.clock[CLOCK_BASE_NS] = time_ns
        self._gateway.clock[CLOCK_MONOTONIC_NS] = time.monotonic_ns()
        self._gateway.clock[CLOCK_HELD] = not run

    def set_speed(self, speed: float) -> None:
        """Exchange seconds a second of a scaled or paced clock from now on; ConfigError if it is another clock or no such speed."""
        self._check_paced()
        if not SPEED_MIN <= speed <= SPEED_MAX:
            raise ConfigError(f"a speed from {SPEED_MIN:g} to {SPEED_MAX:g} is due; got {speed:g}")
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
                f"only a scaled clock, or a lockstep clock with a speed, can be set; this one is {self.kind}"
            )

    def advance_to(self, time_ns: int) -> None:
        """Moves a lockstep clock on."""
        self._gateway.clock[CLOCK_BASE_NS] = time_ns

    def describe(self) -> list[object]:
        """The `clock` of WELCOME: [kind, speed, time_ns, midnight_ns]; speed 0: lockstep without a pace."""
        now = self.now_ns()
        midnight = now - now % DAY_NS if self.kind == "live" else 0
        return [self.kind, self.speed, now, midnight]
