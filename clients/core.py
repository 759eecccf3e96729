"""What a client can say, written once for both shells: generators that yield whenever they need another message."""

import time
from collections import deque
from collections.abc import Generator
from itertools import islice
from pathlib import Path
from typing import Any

import msgpack
import zmq

from serl.clients.book import L2Book, L3Book
from serl.clients.errors import ExchangeAway, Refused, Rejected
from serl.clients.session import Grant, Order, Report, Session
from serl.exchange.config import socket_endpoints
from serl.exchange.keys import read_keys
from serl.exchange.records import CommandKind, EventKind, Reason
from serl.exchange.terms import Terms
from serl.exchange.wire import Kind

Steps = Generator[None, None, Any]
TIME = 117
ANSWER_S = 5.0
"""How long an exchange may take to answer before it counts as away."""


class Words:
    """Sockets, session and feed of one client. `receive` never waits; the shells wait on `sockets` between steps."""

    def __init__(self, endpoint: str, session: Session, curve: Path | None) -> None:
        self.endpoint = endpoint
        self.session = session
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._endpoints = socket_endpoints(endpoint)
        self._curve = read_keys(curve) if curve else None
        self.orders = self._connect("orders", zmq.DEALER)
        self.queries = self._connect("queries", zmq.DEALER)
        self.feed = self._connect("feed", zmq.SUB)
        #: reports, grants and feed messages that nobody has asked for yet
        self.inbox: deque[Any] = deque()
        #: the last grant that no turn has taken; it is in the inbox too
        self._grant: Grant | None = None
        self.books: dict[str, L2Book | L3Book] = {}
        self.feed_sequence = -1
        self._subscribed = False
        self._replies: dict[int, list[Any]] = {}
        self._request = 0
        self._answered_s = self._said_s = self._asked_s = time.monotonic()

    def _connect(self, name: str, kind: int) -> "zmq.Socket[bytes]":
        socket = self.context.socket(kind)
        socket.linger = 500
        if name == "feed":
            socket.rcvhwm = 100_000
        if self._curve is not None:
            self._curve.open(socket)
        socket.connect(self._endpoints[name])
        return socket

    @property
    def sockets(self) -> "list[zmq.Socket[bytes]]":
        """What the shells wait on."""
        return [self.orders, self.queries, self.feed]

    def say(self, message: bytes) -> None:
        """Sends on the orders socket."""
        self._said_s = time.monotonic()
        try:
            self.orders.send(message, zmq.DONTWAIT)
        except zmq.Again:
            raise ExchangeAway(f"{self.endpoint} takes no more messages; is the exchange running?") from None

    def receive(self) -> None:
        """Takes everything that has come; keeps the session alive."""
        for data in drain(self.orders):
            self._answered_s = time.monotonic()
            was_live = self.session.live
            items = self.session.receive(data)
            self.inbox.extend(items)
            if items and isinstance(items[-1], Grant):
                self._grant = items[-1]
            if was_live and not self.session.live:
                self.say(self.session.hello())
            if self.session.live and not was_live:
                for message in self.session.unanswered.values():
                    self.say(message)
        for data in drain(self.queries):
            reply = msgpack.unpackb(data, strict_map_key=False)
            self._replies[reply[3] if reply[0] == Kind.ERROR else reply[1]] = reply
        while self.feed.poll(0):
            topic, data = self.feed.recv_multipart()
            self._take_feed(topic.decode().removeprefix(self.session.topic_prefix), msgpack.unpackb(data))
        silence_s = float(self.session.limits.get("silence_s", 30.0))
        if self.session.live and time.monotonic() - self._said_s > silence_s / 3:
            self.say(msgpack.packb([Kind.PING, 0]))

    def _take_feed(self, topic: str, message: list[Any]) -> None:
        if message[0] == TIME:
            self.feed_sequence = message[3]
            return
        book = self.books.get(topic)
        if book is None:
            self.inbox.append((topic, message))
        else:
            book.apply(message)

    def steps_until_away(self) -> None:
        """ExchangeAway if nothing was heard for too long while an answer is due."""
        if time.monotonic() - max(self._answered_s, self._said_s, self._asked_s) > ANSWER_S:
            raise ExchangeAway(
                f"no answer from {self.endpoint} for {ANSWER_S:g} s; start an exchange with `serl exchange start`, or "
                "check the address"
            )

    def login(self) -> Steps:
        """HELLO until WELCOME."""
        self.say(self.session.hello())
        while not self.session.live:
            yield
            self.steps_until_away()

    def order(
        self, symbol: str, side: int, qty_lots: int, price_ticks: int | None, time_in_force: int, post_only: bool,
        terms: Terms,
    ) -> Steps:  # fmt: skip
        """A new order and its first report; Rejected if the market does not take it. In lockstep it does not wait."""
        order, messages = self.session.new(symbol, side, qty_lots, price_ticks, time_in_force, post_only, terms)
        for message in messages:
            self.say(message)
        if self.lockstep:
            return order
        yield from self._answer(order.order_id, f"{('buy', 'sell')[side]} {qty_lots} {symbol} at {price_ticks}")
        return order

    def change(self, order: Order, kind: CommandKind, *values: int) -> Steps:
        """CANCEL, REDUCE or REPLACE of an order; Rejected if it is not open any more."""
        command_id, message = self.session.command(kind, order.order_id, *values)
        self.say(message)
        if not self.lockstep:
            yield from self._answer(command_id, f"{kind.name} of order {order.order_id}")
        return order

    def mass_cancel(self, symbol: str | None) -> Steps:
        """Cancels all our orders."""
        command_id, message = self.session.mass_cancel(symbol)
        self.say(message)
        if not self.lockstep:
            yield from self._answer(command_id, "MASS_CANCEL")

    @property
    def lockstep(self) -> bool:
        """Whether the exchange's clock is lockstep: then nothing is answered before it is everybody's time."""
        return bool(self.session.clock[0] == "lockstep")

    def _answer(self, command_id: int, sent: str) -> Steps:
        seen = len(self.inbox)
        while True:
            self.receive()
            # from the end: nobody may ever take what is before, and all of it would be looked through for every command
            for item in islice(reversed(self.inbox), len(self.inbox) - seen):
                if isinstance(item, Report) and item.command_id == command_id and item.kind == EventKind.REJECTED:
                    raise Rejected(Reason(item.reason).name, sent)
            if command_id not in self.session.unanswered:
                return
            seen = len(self.inbox)
            yield
            self.steps_until_away()

    def ask(self, kind: int, *values: Any) -> Steps:
        """A query and its reply."""
        self._request += 1
        request = self._request
        self._asked_s = time.monotonic()
        self.queries.send(msgpack.packb([kind, request, *values]))
        while request not in self._replies:
            yield
            self.steps_until_away()
        reply = self._replies.pop(request)
        if reply[0] == Kind.ERROR:
            raise Refused(reply[1], reply[2])
        return reply

    def book(self, symbol: str, depth: int) -> Steps:
        """(bids, asks) as levels: from the feed where it is followed, else from a snapshot.

        Where the feed takes its time to us it is followed from the first call on: a snapshot tells what we cannot know yet.
        """
        if self.session.topic_prefix and f"l2/{symbol}/" not in self.books:
            yield from self.follow(symbol, "l2")
        follower = self.books.get(f"l2/{symbol}/")
        if follower is None:
            reply = yield from self.ask(Kind.L2, self.session.instrument(symbol).number, depth)
            return tuple([(price, qty, orders) for price, qty, orders in side] for side in reply[5])
        yield from self._refresh(symbol, follower)
        return follower.levels(0, depth), follower.levels(1, depth)

    def _refresh(self, symbol: str, follower: L2Book | L3Book) -> Steps:
        number = self.session.instrument(symbol).number
        self.receive()
        while follower.needs_snapshot:
            values = (Kind.L3, number) if isinstance(follower, L3Book) else (Kind.L2, number, 0)
            follower.apply_snapshot((yield from self.ask(*values)))

    def follow(self, symbol: str, channel: str) -> Steps:
        """Keeps a book of channel l2 or l3 up to date from the feed."""
        follower = L3Book() if channel == "l3" else L2Book()
        self.books[f"{channel}/{symbol}/"] = follower
        self.subscribe(channel, symbol)
        yield from self._refresh(symbol, follower)
        return follower

    def subscribe(self, channel: str, symbol: str) -> None:
        """Asks for a channel (l1, l2, l3, trade, status, rows, auction) of a symbol; messages come with `wait`."""
        self.session.instrument(symbol)
        self.feed.subscribe(f"{self.session.topic_prefix}{channel}/{symbol}/".encode())
        self.feed.subscribe(b"time/")
        self._subscribed = True

    def trades(self, symbol: str, count: int) -> Steps:
        """The last trades: [match_id, time_ns, price_ticks, qty_lots, aggressor_side, off_book], newest last."""
        reply = yield from self.ask(Kind.TRADES, self.session.instrument(symbol).number, count)
        return reply[5]

    def next_item(self, timeout_s: float) -> Steps:
        """The next Report, Grant or (topic, feed message); None after timeout_s without one."""
        deadline = time.monotonic() + timeout_s
        self.receive()
        while not self.inbox:
            self.receive()
            if self.inbox or time.monotonic() >= deadline:
                break
            yield
        return self.inbox.popleft() if self.inbox else None

    def turn(self, time_ns: int) -> Steps:
        """Lockstep: promises that nothing of ours arrives before time_ns; returns at our turn, feed complete."""
        self.say(msgpack.packb([Kind.PROMISE, time_ns]))
        while True:
            self.receive()
            grant = self._grant
            if grant is not None and grant.time_ns >= time_ns and self._feed_reached(grant.event_sequence):
                break
            yield
        self._grant = None
        self._withdraw(grant)
        return grant

    def _feed_reached(self, sequence: int) -> bool:
        """Whether the feed, if we follow it, is here up to this event."""
        return not self._subscribed or self.feed_sequence >= sequence

    def _withdraw(self, grant: Grant) -> None:
        """Takes a grant out of the inbox. It came last or nearly so: looked for from the end, as in `_answer`."""
        for place in range(len(self.inbox) - 1, -1, -1):
            if self.inbox[place] is grant:
                del self.inbox[place]
                return

    def close(self) -> None:
        """BYE, and let the sockets go."""
        if self.session.live:
            self.orders.send(msgpack.packb([Kind.BYE]), zmq.DONTWAIT)
        for socket in self.sockets:
            socket.close()
        self.context.term()


def drain(socket: "zmq.Socket[bytes]") -> list[bytes]:
    """Everything that has come, without waiting."""
    messages = []
    try:
        while True:
            messages.append(socket.recv(zmq.DONTWAIT))
    except zmq.Again:
        return messages
