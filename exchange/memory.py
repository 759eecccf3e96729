"""Memory pages: the system provides each when it is first written to, which takes longer than most else that an exchange does."""

import ctypes
import sys
from typing import Any

from numpy.typing import NDArray

PAGE_BYTES = 4096
STEP_BYTES = 1 << 21
"""Provided at once, a huge page: meanwhile no thread can get addresses."""
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14


def populate(array: NDArray[Any], first: int, stop: int) -> None:
    """Has the system provide the pages of elements `first` to `stop` now; what they hold stays. Lets other threads run. Does nothing on
    systems that cannot do it ahead."""
    if sys.platform != "linux":
        return
    begin = -(-(array.ctypes.data + first * array.strides[0]) // PAGE_BYTES) * PAGE_BYTES
    end = (array.ctypes.data + min(stop, len(array)) * array.strides[0]) // PAGE_BYTES * PAGE_BYTES
    system = ctypes.CDLL(None)
    for start in range(begin, end, STEP_BYTES):
        system.madvise(ctypes.c_void_p(start), ctypes.c_size_t(min(STEP_BYTES, end - start)), POPULATE_WRITE)
