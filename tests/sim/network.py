"""The simulated network: connections with delays and faults between the clients' sockets and the exchange's."""

import errno
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import zmq

from tests.sim.clock import CLOCK
from tests.sim.libzmq import ROUTE_BYTES, Frame, Socket

RECONNECT_NS = 5_000_000


@dataclass
class Weather:
    """What happens to messages. With `tampers`, single messages are lost, repeated and reordered, which TCP alone never does."""

    delay_ns: float = 300_000
    cuts: float = 0.0  # of a connection, each time that time passes
    tampers: bool = False
    lost: float = 0.0
    repeated: float = 0.0
    reordered: float = 0.0


@dataclass(order=True)
class _Flight:
    due_ns: int
    order: int
    frames: list[bytes] = field(compare=False)


class Connection:
    """One connection: messages on their way in both directions."""

    def __init__(self, route: int, client: Socket, server: Socket, owner: int) -> None:
        self.route, self.client, self.server, self.owner = route, client, server, owner
        self.up: list[_Flight] = []
        self.down: list[_Flight] = []
        self.topics: list[bytes] = []
        self.stalled_until_ns = 0

    @property
    def is_full(self) -> bool:
        """Whether the exchange's queue for it is full: the client does not read."""
        return len(self.down) + len(self.client.received) >= self.server.sndhwm


class Network:
    """All connections, and who listens where."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.weather = Weather()
        self.listeners: dict[str, Socket] = {}
        self.clients: list[Socket] = []
        self.connections: list[Connection] = []
        self.counts: Counter[str] = Counter()
        self.owner = 0
        self.owners: dict[int, int] = {}
        self.partitioned: set[int] = set()
        self._routes = self._order = 0
        self._next_try_ns: dict[int, int] = {}
        self._last_due_ns: dict[tuple[int, bool], int] = {}

    # -- sockets --------------------------------------------------------------------------------------------------------

    def connect(self, client: Socket) -> None:
        """A socket that connects from now on; `owner` is the participant whose machine it is on."""
        self.clients.append(client)
        self.owners[client.underlying] = self.owner
        self._next_try_ns[client.underlying] = CLOCK.monotonic_ns

    def closed(self, socket: Socket) -> None:
        """A socket was closed."""
        for each in [each for each in self.connections if socket in (each.client, each.server)]:
            if each.client is socket:  # linger: what was sent still goes out
                while socket.outgoing:
                    self._take_off(each, each.up, socket.outgoing.popleft())
                for flight in sorted(each.up):
                    self._arrive(each, flight.frames)
            self.cut(each)
        if self.listeners.get(socket.endpoint) is socket:
            del self.listeners[socket.endpoint]
        if socket in self.clients:
            self.clients.remove(socket)

    def crash(self) -> None:
        """The exchange's process is gone: nobody listens, and every connection is cut."""
        self.listeners.clear()
        for each in list(self.connections):
            self.cut(each)

    def vanish(self, owner: int) -> None:
        """The machine of a participant loses what it has not sent."""
        for each in [each for each in self.connections if each.owner == owner]:
            each.client.outgoing.clear()
            self.cut(each)
        for client in self.clients:
            if self.owners[client.underlying] == owner:
                client.outgoing.clear()

    def cut(self, connection: Connection) -> None:
        """Ends a connection: what is on its way is lost."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        server = connection.server
        server.connections.pop(connection.route, None)
        self._next_try_ns[connection.client.underlying] = CLOCK.monotonic_ns + RECONNECT_NS
        for topic in connection.topics:
            server.received.append([Frame(b"\x00" + topic)])
        if connection.up or connection.down:
            self.counts["connection cut with messages on their way"] += 1

    # -- sending --------------------------------------------------------------------------------------------------------

    def refusal(self, socket: Socket, route: bytes) -> int:
        """Why a ROUTER refuses to send: the errno, 0 if it does not."""
        connection = socket.connections.get(int.from_bytes(route[1:ROUTE_BYTES], "big"))
        if connection is None:
            return errno.EHOSTUNREACH
        return errno.EAGAIN if connection.is_full else 0

    def send(self, socket: Socket, frames: list[bytes]) -> int:
        """Sends a message. Returns 0 or an errno."""
        if socket.kind in (zmq.DEALER, zmq.SUB):
            socket.outgoing.append(frames)
        elif socket.kind == zmq.ROUTER:
            refused = self.refusal(socket, frames[0])
            if refused and socket.router_mandatory:
                self.counts["full queue of a slow reader"] += refused == errno.EAGAIN
                return refused
            if not refused:
                connection = socket.connections[int.from_bytes(frames[0][1:], "big")]
                self._take_off(connection, connection.down, frames[1:])
        elif socket.kind == zmq.XPUB:
            for connection in list(socket.connections.values()):
                if any(frames[0].startswith(topic) for topic in connection.topics):
                    if connection.is_full:
                        self.counts["feed message dropped for a slow reader"] += 1
                    else:
                        self._take_off(connection, connection.down, frames)
        return 0

    def _take_off(self, connection: Connection, queue: list[_Flight], frames: list[bytes]) -> None:
        weather, random = self.weather, self.random
        delay_ns = int(random.expovariate(1 / weather.delay_ns))
        key = connection.route, queue is connection.up
        due_ns = max(CLOCK.monotonic_ns + delay_ns, self._last_due_ns.get(key, 0))
        copies = 1
        subscribes = connection.client.kind == zmq.SUB and queue is connection.up
        if weather.tampers and not subscribes:  # nothing repeats a subscription within a connection
            drawn = random.random()
            if drawn < weather.lost:
                self.counts["message lost"] += 1
                return
            if drawn < weather.lost + weather.repeated:
                self.counts["message repeated"] += 1
                copies = 2
            elif drawn < weather.lost + weather.repeated + weather.reordered and queue:
                self.counts["message reordered"] += 1
                due_ns = min(each.due_ns for each in queue) - 1
        for _ in range(copies):
            self._order += 1
            queue.append(_Flight(due_ns, self._order, frames))
        self._last_due_ns[key] = max(due_ns, self._last_due_ns.get(key, 0))

    # -- time -----------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Moves what is due, connects who can, and cuts whom the weather hits."""
        connected = {each.client.underlying for each in self.connections}
        for client in list(self.clients):
            if client.underlying not in connected:
                self._try(client)
        for connection in list(self.connections):
            if self.owners[connection.client.underlying] in self.partitioned:
                continue
            if self.weather.cuts and self.random.random() < self.weather.cuts:
                self.counts["connection cut"] += 1
                self.cut(connection)
                continue
            while connection.client.outgoing:
                self._take_off(connection, connection.up, connection.client.outgoing.popleft())
            for flight in _due(connection.up):
                self._arrive(connection, flight.frames)
            if CLOCK.monotonic_ns >= connection.stalled_until_ns:
                for flight in _due(connection.down):
                    connection.client.received.append(_frames(flight.frames))

    def _try(self, client: Socket) -> None:
        handle = client.underlying
        server = self.listeners.get(client.endpoint)
        if server is None or self.owners[handle] in self.partitioned:
            return
        if CLOCK.monotonic_ns < self._next_try_ns[handle]:
            return
        self._routes += 1
        connection = Connection(self._routes, client, server, self.owners[handle])
        self.connections.append(connection)
        server.connections[connection.route] = connection
        for topic in client.subscriptions:  # libzmq repeats them on each connection
            self._arrive(connection, [b"\x01" + topic])
        if client.kind == zmq.SUB:
            client.outgoing.clear()

    def _arrive(self, connection: Connection, frames: list[bytes]) -> None:
        number, address = str(connection.route), f"10.0.0.{connection.owner}"
        server = connection.server
        if server.kind == zmq.XPUB:
            topic = frames[0][1:]
            if frames[0][:1] == b"\x01" and topic not in connection.topics:
                connection.topics.append(topic)
            server.received.append([Frame(frames[0], False, number, address)])
            return
        route = b"\0" + connection.route.to_bytes(4, "big")
        body = [Frame(data, at < len(frames) - 1, number, address) for at, data in enumerate(frames)]
        server.received.append([Frame(route, True, number, address), *body])

    @property
    def is_quiet(self) -> bool:
        """Whether no message is on its way."""
        return not any(each.up or each.down or each.client.outgoing for each in self.connections)

    def heal(self) -> None:
        """Good weather from now on."""
        self.weather = Weather(delay_ns=self.weather.delay_ns)
        self.partitioned.clear()
        for each in self.connections:
            each.stalled_until_ns = 0


def _due(queue: list[_Flight]) -> list[_Flight]:
    if not queue:
        return queue
    due = sorted(each for each in queue if each.due_ns <= CLOCK.monotonic_ns)
    if due:
        queue[:] = [each for each in queue if each.due_ns > CLOCK.monotonic_ns]
    return due


def _frames(frames: list[bytes]) -> list[Frame]:
    return [Frame(data, at < len(frames) - 1) for at, data in enumerate(frames)]
