"""A stand-in for an exchange, which says and leaves out what a test wants."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgpack
import zmq

from serl.clients.core import ClientCore, Steps
from serl.clients.session import Report, Session
from serl.exchange.config import socket_endpoints
from serl.exchange.records import EventKind
from serl.exchange.wire import Kind
from tests.server_fixture import free_endpoint

LIMITS = {"silence_s": 30.0, "heartbeat_s": 1.0, "qty_lots_max": 1000, "price_ticks_max": 1000, "bulk_rows_max": 2}
SYMBOLS = [[0, "DEMO", "1", "1"]]
Result = TypeVar("Result")


class StandIn:
    """Its sockets: a test reads and writes messages, one after the other."""

    def __init__(self) -> None:
        self.endpoint = free_endpoint()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.sockets: dict[str, zmq.Socket[bytes]] = {}
        self.route = b""
        for name, address in socket_endpoints(self.endpoint).items():
            socket = self.context.socket(zmq.XPUB if name == "feed" else zmq.ROUTER)
            socket.linger, socket.rcvhwm = 0, 0
            socket.bind(address)
            self.sockets[name] = socket

    def arrived(self, socket: str = "orders", timeout_ms: int = 5000) -> list[Any]:
        """The next message; [] if none comes."""
        if not self.sockets[socket].poll(timeout_ms):
            return []
        self.route, data = self.sockets[socket].recv_multipart()
        message: list[Any] = msgpack.unpackb(data, strict_map_key=False)
        return message

    def send(self, *message: Any, socket: str = "orders") -> None:
        """Sends a message to whom the last one came from."""
        self.sockets[socket].send_multipart([self.route, msgpack.packb(message)])

    def welcome(self, next_report: int = 1, last_command_id: int = 0) -> None:
        """WELCOME."""
        clock = ["live", 1.0, 0, 0]
        self.send(Kind.WELCOME, 1, 1, 3, next_report, last_command_id, SYMBOLS, clock, LIMITS, True)

    def report(self, number: int, command_id: int, kind: EventKind = EventKind.ACCEPTED, reason: int = 0) -> None:
        """REPORTS with one report about an order of one lot."""
        leaves = 0 if kind == EventKind.REJECTED else 1
        event = Report(kind, 0, command_id, command_id, 1, 0, 0, 1, 10, leaves, reason, 0, 0, number)
        self.send(Kind.REPORTS, number, [list(map(int, event))])


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """A stand-in that is closed at the end."""
    exchange = StandIn()
    try:
        yield exchange
    finally:
        exchange.context.destroy(0)


@contextmanager
def logged_in(exchange: StandIn, session: Session | None = None) -> Iterator[ClientCore]:
    """A client of the stand-in, by default with a session of ann."""
    core = ClientCore(exchange.endpoint, session or Session("ann"), None)
    try:
        login = core.login()
        next(login)
        assert exchange.arrived()[0] == Kind.HELLO
        exchange.welcome()
        finish(core, login)
        yield core
    finally:
        core.context.destroy(0)


def finish(core: ClientCore, steps: Steps[Result], timeout_s: float = 5.0) -> Result:
    """The result of a call, whose answers have been sent."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            next(steps)
        except StopIteration as returned:
            result: Result = returned.value
            return result
        pause(core)
    raise AssertionError("the call did not return")


def pause(core: ClientCore, timeout_ms: int = 20) -> None:
    """Waits a moment, and receives what has arrived."""
    poller = zmq.Poller()
    for socket in core.sockets:
        poller.register(socket, zmq.POLLIN)
    poller.poll(timeout_ms)
    core.receive()


def receive_until(core: ClientCore, condition: Any) -> None:
    """Receives until a condition holds."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        pause(core)
