"""Time in compiled code: the system clocks, and the exchange's clock derived from them."""

from typing import Any

import numpy as np
from numba import types

from serl.exchange.compiling import inlined
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

_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
REALTIME, MONOTONIC = 0, 1


@inlined
def system_ns(clock: int, scratch: Any) -> int:
    """A system clock in ns: REALTIME since 1970, MONOTONIC since an arbitrary start. scratch: int64 (2,)."""
    _clock_gettime(np.int32(clock), scratch.ctypes.data)
    return scratch[0] * 1_000_000_000 + scratch[1]


@inlined
def clock_now_ns(gateway: GatewayState) -> int:
    """The exchange time; never before that of the last command."""
    return clock_ns(gateway.clock, gateway.counter)


@inlined
def clock_ns(clock: Any, counter: Any) -> int:
    """`clock_now_ns` from only two of the gateway's arrays: from Python, passing all of them takes longer than the call itself."""
    now = counter[LAST_COMMAND_NS]
    if clock[CLOCK_KIND] == LIVE_CLOCK:
        now = system_ns(REALTIME, clock[6:8]) + clock[CLOCK_BASE_NS]
    elif clock[CLOCK_KIND] == SCALED_CLOCK:
        now = clock[CLOCK_BASE_NS]
        if clock[CLOCK_HELD] == 0:
            elapsed_ns = system_ns(MONOTONIC, clock[6:8]) - clock[CLOCK_MONOTONIC_NS]
            # in two steps, because ns times millionths overflows 64 bits after a few hours
            speed = clock[CLOCK_SPEED_MICRO]
            now += elapsed_ns // 1_000_000 * speed + elapsed_ns % 1_000_000 * speed // 1_000_000
    elif clock[CLOCK_KIND] == LOCKSTEP_CLOCK:
        now = clock[CLOCK_BASE_NS]
    return max(now, counter[LAST_COMMAND_NS])
