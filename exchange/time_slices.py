"""Short time slices for the threads that orders pass through.

On a machine whose processors are all busy, a thread that gets work waits until those before it have used up their slices, a few milliseconds each by default, and so
does libzmq's thread, through which every message passes. With short slices of its own a thread waits more briefly, and does not get more time in
all: Linux' scheduler grants the next slice to the one that would have to end first (EEVDF, slices since Linux 6.12; earlier ones ignore the request).
"""

import contextlib
import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

SLICE_NS = 100_000
"""The shortest that Linux grants."""
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
            if int(task.name) == os.getpid() or (task / "comm").read_text().startswith(NETWORK):
                _request(number, int(task.name))


def _request(number: int, thread: int) -> None:
    if os.sched_getscheduler(thread) != os.SCHED_OTHER:  # somebody chose another order
        return
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    wanted = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    ctypes.CDLL(None).syscall(number, thread, wanted, 0)
