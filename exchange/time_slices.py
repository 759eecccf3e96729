"""Short time slices for the threads that orders pass through.

On a machine whose processors are all busy, a thread that gets work waits until those before it have used up their slices, a few milliseconds each by default, and so
does libzmq's thread, through which every message passes. With short slices of its own a thread waits more briefly, and does not get more time in
all: Linux' scheduler grants the next slice to the one that would have to end first (EEVDF, slices since Linux 6.12; earlier ones ignore the request).
A thread that wakes up interrupts one with a longer slice, not one with the same, which may go on until the system's next tick. The loop's are
therefore the shortest: a flood may keep libzmq's thread busy on the only processor, and an order that it has read must not wait for that.
"""

import contextlib
import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

LOOP_SLICE_NS, NETWORK_SLICE_NS = 100_000, 400_000
"""Of this thread, the shortest that Linux grants; of libzmq's threads, shorter than the 3 ms or so of others."""
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Numbers of the system call."""
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period."""
NETWORK = "ZMQbg"
"""How the names of libzmq's threads begin."""


def shorten() -> None:
    """Shortens the slices of this thread and of libzmq's. Does nothing where it is not possible."""
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
    if os.sched_getscheduler(thread) != os.SCHED_OTHER:  # somebody chose another order
        return
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    wanted = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, slice_ns, 0, 0)
    ctypes.CDLL(None).syscall(number, thread, wanted, 0)
