"""libzmq's functions, callable from compiled code.

pyzmq's wheel bundles the library. Its symbols are registered with LLVM by name, so that functions that call them can be
cached on disk; addresses would change from run to run. The functions take raw handles: `zmq.Socket.underlying`.
"""

import ctypes
import glob
import os
from typing import Any

import numpy as np
import zmq
from llvmlite import binding
from numba import types

from serl.exchange.compiling import compiled

EAGAIN = 11
EINTR = 4
EHOSTUNREACH = 113
DONTWAIT = 1
SNDMORE = 2

POLL_ITEM = np.dtype([("socket", "<i8"), ("fd", "<i4"), ("events", "<i2"), ("revents", "<i2")], align=True)
"""zmq_pollitem_t on a 64-bit platform."""

POLL_IN = 1


_NAMES = (
    "zmq_recv", "zmq_send", "zmq_poll", "zmq_errno", "zmq_msg_init", "zmq_msg_recv", "zmq_msg_data", "zmq_msg_more",
)  # fmt: skip


def _path() -> str:
    """The path of pyzmq's bundled library; empty without one."""
    site = os.path.dirname(os.path.dirname(zmq.__file__))
    bundled = glob.glob(os.path.join(site, "pyzmq.libs", "libzmq*.so*")) + glob.glob(
        os.path.join(os.path.dirname(zmq.__file__), ".dylibs", "libzmq*.dylib")
    )
    return bundled[0] if bundled else ""


def _register() -> ctypes.CDLL | None:
    path = _path()
    if not path:
        return None
    library = ctypes.CDLL(path)
    for name in _NAMES:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None
        binding.add_symbol(f"serl_{name}", address)
    library.zmq_msg_gets.argtypes, library.zmq_msg_gets.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_char_p
    return library


_LIBRARY = _register()
AVAILABLE = _LIBRARY is not None
"""False if pyzmq has no bundled library; then the exchange does not start."""


def message_property(address: int, name: str) -> str:
    """A property of the connection that the zmq_msg_t at `address` came from, e.g. Peer-Address; "" if it has none."""
    assert _LIBRARY is not None
    return (_LIBRARY.zmq_msg_gets(address, name.encode()) or b"").decode(errors="replace")


def assign_routing_ids(router: "zmq.Socket[bytes]") -> None:
    """Makes a bound ROUTER assign routing ids itself, ignoring those that clients request. Call it before the socket is used.

    Otherwise a client can take the routing id of a disconnected client, or one that libzmq is about to generate, and libzmq aborts the
    process. Set after bind, ROUTER_RAW does not reach the listener, which keeps speaking ZMTP. From then on the socket must not send an
    empty frame, which would close the connection.
    """
    router.setsockopt(zmq.ROUTER_RAW, 1)


def _external(name: str, result: Any, *arguments: Any) -> Any:
    return types.ExternalFunction(f"serl_{name}", result(*arguments))


zmq_recv = _external("zmq_recv", types.int32, types.intp, types.intp, types.intp, types.int32)
zmq_send = _external("zmq_send", types.int32, types.intp, types.intp, types.intp, types.int32)
zmq_poll = _external("zmq_poll", types.int32, types.intp, types.int32, types.int64)
zmq_errno = _external("zmq_errno", types.int32)
zmq_msg_init = _external("zmq_msg_init", types.int32, types.intp)
zmq_msg_recv = _external("zmq_msg_recv", types.int32, types.intp, types.intp, types.int32)
zmq_msg_data = _external("zmq_msg_data", types.intp, types.intp)
zmq_msg_more = _external("zmq_msg_more", types.int32, types.intp)


@compiled
def zmq_msg_init_at(address: int) -> int:
    """Initialises the 64 bytes at `address` as an empty zmq_msg_t."""
    return zmq_msg_init(address)


memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
"""memcpy(target address, source address, bytes)."""
read_file = types.ExternalFunction("read", types.intp(types.int32, types.intp, types.intp))
write_file = types.ExternalFunction("write", types.intp(types.int32, types.intp, types.intp))
"""read and write of libc: (descriptor, address, bytes)."""
