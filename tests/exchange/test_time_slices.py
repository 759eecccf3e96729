"""The threads that orders pass through have short time slices, and only those."""

import contextlib
import ctypes
import os
import platform
import threading
from pathlib import Path

import pytest

from serl.exchange import time_slices
from serl.exchange.time_slices import ATTRIBUTES, LOOP_SLICE_NS, NETWORK, NETWORK_SLICE_NS
from tests.server_fixture import start_exchange

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}.get(platform.machine(), -1)


def slice_ns(thread: int) -> int:
    """The time slice of a thread, 0 if this system does not tell."""
    found = ctypes.create_string_buffer(ATTRIBUTES.size)
    if ctypes.CDLL(None).syscall(SCHED_GETATTR, thread, found, ATTRIBUTES.size, 0):
        return 0
    return int(ATTRIBUTES.unpack(found.raw)[5])


pytestmark = pytest.mark.skipif(not slice_ns(0), reason="needs Linux 6.12, on a processor whose system calls are known")


def test_the_loop_and_the_network_have_short_slices() -> None:
    with start_exchange() as served:
        slices = {}
        for task in Path(f"/proc/{served.process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that compiles may have ended
                slices[int(task.name)] = (task / "comm").read_text(), slice_ns(int(task.name))
    shortest = {thread for thread, (_, own_ns) in slices.items() if own_ns == LOOP_SLICE_NS}
    short = {thread for thread, (_, own_ns) in slices.items() if own_ns == NETWORK_SLICE_NS}
    network = {thread for thread, (name, _) in slices.items() if name.startswith(NETWORK)}
    assert shortest == {served.process.pid} and short == network and len(network) >= 2
    assert len(slices) > 1 + len(short), "not the journal's thread"


def test_priorities_and_policies_stay() -> None:
    found: list[object] = []

    def other_thread() -> None:
        thread = threading.get_native_id()
        number = time_slices.SCHED_SETATTR[platform.machine()]
        os.setpriority(os.PRIO_PROCESS, thread, 7)
        time_slices._request(number, thread, LOOP_SLICE_NS)
        found.append((os.getpriority(os.PRIO_PROCESS, thread), slice_ns(thread)))
        os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        time_slices._request(number, thread, LOOP_SLICE_NS)
        found.append(os.sched_getscheduler(thread))

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert found == [(7, LOOP_SLICE_NS), os.SCHED_BATCH]
