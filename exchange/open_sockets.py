"""The open TCP connections of this process, read with few system calls: a scan of a thousand takes a millisecond."""

import sys
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, int64

_getsockname = types.ExternalFunction("getsockname", types.int32(types.int32, types.intp, types.intp))
_getpeername = types.ExternalFunction("getpeername", types.int32(types.int32, types.intp, types.intp))
_getsockopt = types.ExternalFunction(
    "getsockopt", types.int32(types.int32, types.int32, types.int32, types.intp, types.intp)
)

_FAMILY_AT = 1 if sys.platform == "darwin" else 0
"""Offset of the address family in a sockaddr: on BSD it begins with its length."""
_INET, _INET6 = 2, (30 if sys.platform == "darwin" else 10)
_IPPROTO_TCP, _TCP_INFO, _BYTES_ACKED_AT, _BYTES_RECEIVED_AT = 6, 11, 120 // 8, 128 // 8
"""Linux: indices of tcpi_bytes_acked and tcpi_bytes_received among the 64-bit integers of tcp_info."""
COUNTS_BYTES = sys.platform == "linux"
"""Whether the system tells how many bytes a connection has received."""

OPEN = np.dtype([("descriptor", "<i8"), ("port", "<i8"), ("received", "<i8")], align=True)
"""A connection: its descriptor, its local port, and the bytes that it has received, 0 if the system does not report them."""


@compiled
def _scan(start: int, stop: int, ports: Any, counts: bool, scratch: Any, names: Any, found: Any) -> tuple[int, int]:
    """Fills `found` with the connections to these ports whose descriptors are in start..stop. Returns (their number, the first descriptor that was
    not read). scratch: int64 (64,); names: the same memory as bytes."""
    address, size = scratch.ctypes.data, scratch[62:]
    count = 0
    for descriptor in range(start, stop):
        if count == found.size:
            return count, descriptor
        size[0] = 128
        if _getsockname(np.int32(descriptor), address, size.ctypes.data) != 0:
            continue
        family, port = names[_FAMILY_AT], (int64(names[2]) << 8) | int64(names[3])
        if family != _INET and family != _INET6:
            continue
        is_ours = False
        for ours in ports:
            is_ours |= port == ours
        if not is_ours:
            continue
        size[0] = 128
        if _getpeername(np.int32(descriptor), address, size.ctypes.data) != 0:  # it listens, or has ended
            continue
        received = 0
        if counts:
            size[0] = 8 * (_BYTES_RECEIVED_AT + 1)
            scratch[_BYTES_RECEIVED_AT] = 0
            _getsockopt(np.int32(descriptor), np.int32(_IPPROTO_TCP), np.int32(_TCP_INFO), address, size.ctypes.data)
            received = scratch[_BYTES_RECEIVED_AT]
        found[count].descriptor = descriptor
        found[count].port = port
        found[count].received = received
        count += 1
    return count, stop


def open_sockets(start: int, stop: int, ports: frozenset[int], count_max: int) -> tuple[NDArray[np.void], int]:
    """The first `count_max` connections to these ports whose descriptors are in start..stop: OPEN rows in the order of their descriptors, and the
    first descriptor that was not read."""
    found, scratch = np.zeros(count_max, OPEN), np.zeros(64, np.int64)
    count, after = _scan(
        start, stop, np.array(list(ports), np.int64), COUNTS_BYTES, scratch, scratch.view(np.uint8), found
    )
    return found[:count], after


@compiled
def _acked(descriptor: int, scratch: Any) -> int:
    """See acked_bytes. scratch: int64 (64,)."""
    scratch[62] = 8 * (_BYTES_RECEIVED_AT + 1)
    scratch[_BYTES_ACKED_AT] = -1
    _getsockopt(
        np.int32(descriptor), np.int32(_IPPROTO_TCP), np.int32(_TCP_INFO), scratch.ctypes.data, scratch[62:].ctypes.data
    )
    return int64(scratch[_BYTES_ACKED_AT])


def acked_bytes(descriptor: int) -> int:
    """Number of bytes sent over a TCP connection that the other end has received; -1 if it is not such a connection, or the system does not report it."""
    return int(_acked(descriptor, np.zeros(64, np.int64))) if COUNTS_BYTES else -1
