"""Short time slices for the threads that orders pass through.

On a machine whose processors are all busy, a thread that gets work waits until those before it have used up their slices, a few milliseconds each by
default, and so does libzmq's thread, through which every message passes. A thread with short slices waits less, without getting more time in
total: Linux' scheduler grants the next slice to the one with the earliest deadline (EEVDF, slices since Linux 6.12; earlier ones ignore the request).
A thread that wakes up interrupts one with a longer slice, but not one with an equal slice, which may run until the system's next tick. The loop's slices
are therefore the shortest: a flood may keep libzmq's thread busy on the only processor, and an order that it has read must not wait for that.
"""

import contextlib
import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

LOOP_SLICE_NS, NETWORK_SLICE_NS = 100_000, 400_000
"""The slice of this thread, the shortest that Linux grants, and that of libzmq's threads, shorter than the 3 ms or so of others."""
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Number of the system call by architecture."""
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period."""
NETWORK = "ZMQbg"
"""Prefix of the names of libzmq's threads."""


def shorten() -> None:
    """Shortens the slices of this thread and of libzmq's threads. Does nothing where that is not possible."""
    number = SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            if int(task.name) == os.getpid():
                _request(number, int(task.name), LOOP_SLICE_NS)
            elif (task / "comm").read_text().startswith(NETWORK):
                _request(number, int(task.name), NETWORK_SLICE_NS)


def _request(number: int, thread: int, slice_ns: int) -> None:
    if os.sched_getscheduler(thread) != os.SCHED_OTHER:  # somebody has chosen another scheduling policy
        return
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    wanted = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, slice_ns, 0, 0)
    ctypes.CDLL(None).syscall(number, thread, wanted, 0)
