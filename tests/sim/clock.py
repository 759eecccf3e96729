"""Simulated time, for Python and for compiled code."""

import ctypes
import time
from ctypes import CFUNCTYPE, c_int32, c_int64

from llvmlite import binding

START_NS = 1_767_603_600 * 1_000_000_000
"""Monday, 5 January 2026, 09:00 UTC."""
MONOTONIC = 1


class Clock:
    """A monotonic clock, and a system clock that can jump. Neither moves by itself."""

    def __init__(self) -> None:
        self.monotonic_ns = 0
        self.system_ns = START_NS

    def reset(self) -> None:
        """Back to the start."""
        self.monotonic_ns, self.system_ns = 10**12, START_NS

    def advance(self, nanoseconds: int) -> None:
        """Lets time pass on both clocks."""
        self.monotonic_ns += nanoseconds
        self.system_ns += nanoseconds

    def jump(self, nanoseconds: int) -> None:
        """Sets the system clock forward, or back."""
        self.system_ns += nanoseconds


CLOCK = Clock()
perf_counter = time.perf_counter
"""Real time, for the command itself."""


@CFUNCTYPE(c_int32, c_int32, c_int64)
def _clock_gettime(clock: int, address: int) -> int:
    now_ns = CLOCK.monotonic_ns if clock == MONOTONIC else CLOCK.system_ns
    words = (c_int64 * 2).from_address(address)
    words[0], words[1] = divmod(now_ns, 1_000_000_000)
    return 0


def install() -> None:
    """Replaces the clocks of this process for good; before any compiled function is loaded."""
    CLOCK.reset()
    address = ctypes.cast(_clock_gettime, ctypes.c_void_p).value
    assert address is not None
    binding.add_symbol("clock_gettime", address)
    time.monotonic = lambda: CLOCK.monotonic_ns * 1e-9
    time.monotonic_ns = lambda: CLOCK.monotonic_ns
    time.thread_time = lambda: CLOCK.monotonic_ns * 1e-9
    time.time = lambda: CLOCK.system_ns * 1e-9
    time.time_ns = lambda: CLOCK.system_ns
