"""Memory pages: the system provides a page when it is first written to, which takes longer than most other work of an exchange."""

import ctypes
import sys
from typing import Any

from numpy.typing import NDArray

PAGE_BYTES = 4096
STEP_BYTES = 1 << 21
"""Bytes provided at a time, one huge page: meanwhile no thread can get address space."""
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14


def populate(array: NDArray[Any], first: int, stop: int) -> None:
    """Makes the system provide the pages of elements `first` to `stop` now; their contents do not change. Lets other threads run. Does nothing on
    systems that cannot do so in advance."""
    if sys.platform != "linux":
        return
    begin = -(-(array.ctypes.data + first * array.strides[0]) // PAGE_BYTES) * PAGE_BYTES
    end = (array.ctypes.data + min(stop, len(array)) * array.strides[0]) // PAGE_BYTES * PAGE_BYTES
    system = ctypes.CDLL(None)
    for start in range(begin, end, STEP_BYTES):
        system.madvise(ctypes.c_void_p(start), ctypes.c_size_t(min(STEP_BYTES, end - start)), POPULATE_WRITE)
