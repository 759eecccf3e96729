"""Time in compiled code: the machine's clocks, and the exchange's clock that is made from them."""

from typing import Any

import numpy as np
from numba import types

from serl.exchange.compiling import inlined
from serl.exchange.gateway.state import (
    CLOCK_BASE_NS,
    CLOCK_HELD,
    CLOCK_KIND,
    CLOCK_REAL_NS,
    CLOCK_SPEED_MICRO,
    LIVE_CLOCK,
    LOCKSTEP_CLOCK,
    NOW,
    SCALED_CLOCK,
    Gate,
)  # fmt: skip

_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
REALTIME, MONOTONIC = 0, 1


@inlined
def machine_ns(clock: int, scratch: Any) -> int:
    """The machine's clock in ns (REALTIME since 1970, MONOTONIC since some start). scratch: int64 (2,)."""
    _clock_gettime(np.int32(clock), scratch.ctypes.data)
    return scratch[0] * 1_000_000_000 + scratch[1]


@inlined
def clock_now_ns(gate: Gate) -> int:
    """Exchange time, never before that of the last command."""
    clock = gate.clock
    now = gate.counter[NOW]
    if clock[CLOCK_KIND] == LIVE_CLOCK:
        now = machine_ns(REALTIME, clock[6:8])
    elif clock[CLOCK_KIND] == SCALED_CLOCK:
        now = clock[CLOCK_BASE_NS]
        if clock[CLOCK_HELD] == 0:
            passed = machine_ns(MONOTONIC, clock[6:8]) - clock[CLOCK_REAL_NS]
            # two factors, because ns times millionths would leave 64 bits after some hours
            speed = clock[CLOCK_SPEED_MICRO]
            now += passed // 1_000_000 * speed + passed % 1_000_000 * speed // 1_000_000
    elif clock[CLOCK_KIND] == LOCKSTEP_CLOCK:
        now = clock[CLOCK_BASE_NS]
    return max(now, gate.counter[NOW])
