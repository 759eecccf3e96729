"""A simulated libzmq: sockets, messages and polls, for Python and for the compiled loop. Messages travel by `network.Network`."""

import ctypes
import errno
import select
from collections import deque
from collections.abc import Callable, Iterable
from ctypes import CFUNCTYPE, c_int16, c_int32, c_int64
from typing import Any

import zmq
from llvmlite import binding

from tests.sim.threads import check_alive

_DONTWAIT, _SNDMORE = 1, 2
ROUTE_BYTES = 5


class Again(zmq.Again):
    """zmq.Again without its text, which nobody reads and which takes longer than the call."""

    def __init__(self) -> None:
        Exception.__init__(self)


class Frame:
    """zmq.Frame: bytes, whether more follow, and what is known of the sender."""

    def __init__(self, data: bytes, more: bool = False, number: str = "", address: str = "") -> None:
        self.bytes, self.more, self._properties = data, more, {"User-Id": f" {number}", "Peer-Address": address}
        if not number:
            self._properties = {}

    def get(self, name: str) -> str:
        """A property of the connection; raises ZMQError where there is none."""
        if name == "__fd":
            return ""
        if name not in self._properties:
            raise zmq.ZMQError(errno.EINVAL)
        return self._properties[name]


class Socket:
    """zmq.Socket: what the exchange and its clients use of it, without waiting."""

    linger = sndhwm = rcvhwm = maxmsgsize = 0
    router_mandatory = False

    def __init__(self, context: "Context", kind: int) -> None:
        self.context, self.kind = context, kind
        self.underlying = SOCKETS.add(self)
        self.endpoint = ""
        self.received: deque[list[Frame]] = deque()
        self.connections: dict[int, Any] = {}  # by routing number, of a bound socket
        self.outgoing: deque[list[bytes]] = deque()  # of a connecting socket
        self.subscriptions: list[bytes] = []
        self._frames: deque[Frame] = deque()
        self._sending: list[bytes] = []
        self.sndhwm = self.rcvhwm = 1000
        self.is_closed = False

    # -- set up ---------------------------------------------------------------------------------------------------------

    def bind(self, endpoint: str) -> None:
        """Listens."""
        self.endpoint = endpoint
        NETWORK.current.listeners[endpoint] = self

    def connect(self, endpoint: str) -> None:
        """Connects, again and again if need be."""
        self.endpoint = endpoint
        NETWORK.current.connect(self)

    def setsockopt(self, option: int, value: Any) -> None:
        """Options that change nothing here: the simulated sockets behave as if they were set."""

    def get_string(self, option: int) -> str:
        """LAST_ENDPOINT."""
        return self.endpoint

    def subscribe(self, topic: bytes) -> None:
        """Of a SUB socket."""
        self.subscriptions.append(topic)
        self.outgoing.append([b"\x01" + topic])

    def close(self, linger: int | None = None) -> None:
        """Closes it, and its connections."""
        if not self.is_closed:
            self.is_closed = True
            NETWORK.current.closed(self)

    # -- messages -------------------------------------------------------------------------------------------------------

    def next_frame(self) -> Frame | None:
        """The next frame that has arrived."""
        if not self._frames:
            if not self.received:
                return None
            self._frames.extend(self.received.popleft())
        return self._frames.popleft()

    @property
    def is_readable(self) -> bool:
        """Whether a frame has arrived."""
        return bool(self._frames or self.received)

    def recv(self, flags: int = 0, copy: bool = True) -> Any:
        """The next frame; raises Again if there is none."""
        check_alive()
        frame = self.next_frame()
        if frame is None:
            raise Again
        return frame.bytes if copy else frame

    def recv_multipart(self, flags: int = 0) -> list[bytes]:
        """The next message."""
        frames = [self.recv(flags, copy=False)]
        while frames[-1].more:
            frames.append(self.recv(flags, copy=False))
        return [frame.bytes for frame in frames]

    def poll(self, timeout: int) -> int:
        """Whether a message has arrived."""
        return int(self.is_readable)

    def send(self, message: bytes, flags: int = 0) -> None:
        """Sends a message of one frame."""
        self.send_multipart([message], flags)

    def send_multipart(self, frames: Iterable[bytes], flags: int = 0) -> None:
        """Sends a message; raises what libzmq answers."""
        check_alive()
        number = NETWORK.current.send(self, [bytes(frame) for frame in frames])
        if number == errno.EAGAIN:
            raise Again
        if number:
            raise zmq.ZMQError(number)

    def send_frame(self, data: bytes, more: bool) -> int:
        """Sends a frame as `zmq_send` does. Returns 0 or an errno."""
        self._sending.append(data)
        if more:
            number = NETWORK.current.refusal(self, data) if len(self._sending) == 1 and self.router_mandatory else 0
            if number:
                self._sending = []
            return number
        frames, self._sending = self._sending, []
        return NETWORK.current.send(self, frames)


class Context:
    """zmq.Context."""

    def __init__(self) -> None:
        self.sockets: list[Socket] = []

    def socket(self, kind: int) -> Socket:
        """A new socket."""
        self.sockets.append(Socket(self, kind))
        return self.sockets[-1]

    def destroy(self, linger: int | None = None) -> None:
        """Closes all sockets."""
        for each in self.sockets:
            each.close()

    term = destroy


class _Sockets:
    """Sockets by their handles."""

    def __init__(self) -> None:
        self.by_handle: dict[int, Socket] = {}

    def add(self, socket: Socket) -> int:
        self.by_handle[len(self.by_handle) + 1] = socket
        return len(self.by_handle)


class _Network:
    current: Any = None


SOCKETS, NETWORK = _Sockets(), _Network()
_ERRNO = [0]
_MESSAGES: dict[int, tuple[Frame, Any]] = {}


def _fail(number: int) -> int:
    _ERRNO[0] = number
    return -1


@CFUNCTYPE(c_int32, c_int64, c_int64, c_int64, c_int32)
def _recv(handle: int, address: int, size: int, flags: int) -> int:
    frame = SOCKETS.by_handle[handle].next_frame()
    if frame is None:
        return _fail(errno.EAGAIN)
    ctypes.memmove(address, frame.bytes, min(size, len(frame.bytes)))
    return len(frame.bytes)


@CFUNCTYPE(c_int32, c_int64, c_int64, c_int32)
def _msg_recv(message: int, handle: int, flags: int) -> int:
    frame = SOCKETS.by_handle[handle].next_frame()
    if frame is None:
        return _fail(errno.EAGAIN)
    _MESSAGES[message] = frame, ctypes.create_string_buffer(frame.bytes, max(1, len(frame.bytes)))
    return len(frame.bytes)


@CFUNCTYPE(c_int32, c_int64)
def _msg_init(message: int) -> int:
    _MESSAGES.pop(message, None)
    return 0


@CFUNCTYPE(c_int64, c_int64)
def _msg_data(message: int) -> int:
    return ctypes.addressof(_MESSAGES[message][1])


@CFUNCTYPE(c_int32, c_int64)
def _msg_more(message: int) -> int:
    found = _MESSAGES.get(message)
    return int(found is not None and found[0].more)


@CFUNCTYPE(c_int32, c_int64, c_int64, c_int64, c_int32)
def _send(handle: int, address: int, size: int, flags: int) -> int:
    number = SOCKETS.by_handle[handle].send_frame(ctypes.string_at(address, size), bool(flags & _SNDMORE))
    return _fail(number) if number else size


class _PollItem(ctypes.Structure):
    _fields_ = (("socket", c_int64), ("fd", c_int32), ("events", c_int16), ("revents", c_int16))


@CFUNCTYPE(c_int32, c_int64, c_int32, c_int64)
def _poll(address: int, count: int, wait_ms: int) -> int:
    """Never waits: where nothing is ready it is interrupted, and the loop returns."""
    ready = 0
    for item in (_PollItem * count).from_address(address):
        if item.socket:
            item.revents = int(SOCKETS.by_handle[item.socket].is_readable)
        else:
            poll = select.poll()
            poll.register(item.fd, select.POLLIN)
            item.revents = int(bool(poll.poll(0)))
        ready += item.revents
    return ready or _fail(errno.EINTR)


@CFUNCTYPE(c_int32)
def _errno() -> int:
    return _ERRNO[0]


FUNCTIONS: dict[str, Any] = {
    "zmq_recv": _recv, "zmq_send": _send, "zmq_poll": _poll, "zmq_errno": _errno, "zmq_msg_init": _msg_init,
    "zmq_msg_recv": _msg_recv, "zmq_msg_data": _msg_data, "zmq_msg_more": _msg_more,
}  # fmt: skip


def message_property(address: int, name: str) -> str:
    """What is known of the sender of a message."""
    try:
        return _MESSAGES[address][0].get(name)
    except (KeyError, zmq.ZMQError):
        return ""


def install() -> None:
    """Replaces libzmq in this process for good; before the compiled loop is loaded."""
    import serl.exchange.libzmq  # registers the real functions first
    import serl.exchange.peer

    del serl
    for name, function in FUNCTIONS.items():
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        binding.add_symbol(f"serl_{name}", address)
    replaced: Any = zmq
    replaced.Context = Context
    peer: Any = __import__("serl.exchange.peer", fromlist=["peer"])
    peer.message_property = message_property


def reset(network: Any) -> None:
    """Starts with no sockets, on this network."""
    NETWORK.current = network
    SOCKETS.by_handle.clear()
    _MESSAGES.clear()


Hook = Callable[[], None]
