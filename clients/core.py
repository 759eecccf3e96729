"""The client API, written once for the asyncio and the blocking client.

Each method of `ClientCore` that has to wait is a generator: it yields whenever it needs another message, and returns its result. A client
(`serl.clients.asynchronous`, `serl.clients.blocking`) waits on the sockets in its own way, calls `receive` and resumes the generator.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import msgpack
import zmq

from serl.clients.book import L2Book, L3Book, Level
from serl.clients.errors import ExchangeUnreachable, Rejected, RequestRejected, no_reply, silent, unreachable_advice
from serl.clients.feed_topics import Heard, subscribe, unsubscribe
from serl.clients.inbox import InboxItem, drain, rejections
from serl.clients.news import NewsFeed, NewsPages
from serl.clients.session import Grant, Order, Session
from serl.clients.stale_books import StaleBooks, snapshot_query
from serl.clients.values import AssetBalance, Balance, FeedMessage, Price, SymbolStatus, Trade, to_ticks
from serl.exchange.account import Account
from serl.exchange.config import socket_endpoints
from serl.exchange.keys import read_keys
from serl.exchange.news import FEED_KIND, TOPIC, News
from serl.exchange.records import CommandKind, HaltReason, Phase, Reason
from serl.exchange.terms import NO_TERMS, Terms
from serl.exchange.wire import FeedKind, Kind, with_token

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""A call in progress: yields while it waits for messages, returns a `Result`."""
REPLY_TIMEOUT_S = 5.0
"""An exchange that does not reply for this long counts as unreachable."""
SILENT_HEARTBEATS = 3
"""Heartbeats that have to be missing at least before an exchange counts as dead."""


class ClientCore:
    """Sockets, session and followed books of one client. `receive` never blocks; clients wait on `sockets` between steps."""

    def __init__(self, endpoint: str, session: Session, curve: Path | None) -> None:
        self.endpoint = endpoint
        self.session = session
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._endpoints = socket_endpoints(endpoint)
        self._curve = read_keys(curve) if curve else None
        self.orders = self._connect("orders", zmq.DEALER)
        self.queries = self._connect("queries", zmq.DEALER)
        self.feed = self._connect("feed", zmq.SUB)
        #: received reports, grants and feed messages that no call has returned yet
        self.inbox: deque[InboxItem] = deque()
        #: the last grant that `turn` has not returned yet; it is in the inbox too
        self.grant: Grant | None = None
        #: logins so far: each one ends the promise of the session before it
        self.logins = 0
        self.books: dict[str, L2Book | L3Book] = {}
        #: event and time up to which the feed is complete
        self.feed_sequence = self.feed_time_ns = -1
        self.news_feed: NewsFeed | None = None
        #: takes each feed message, with its topic, instead of followed books and `wait`
        self.on_feed: Callable[[str, list[Any]], None] | None = None
        self._heard = Heard()
        self._stale = StaleBooks(self.books, REPLY_TIMEOUT_S)
        self._subscribed = False
        self._replies: dict[int, list[Any]] = {}
        self._waiting: set[int] = set()  # queries without a reply
        self._rejections: dict[int, int] = {}  # reasons of commands whose callers wait, by command id; 0: none so far
        self._request = 0
        #: messages that have arrived, on all sockets
        self.received = 0
        self._received_s = self._sent_s = self._pinged_s = self._queried_s = time.monotonic()

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
        """The sockets to wait on between two steps."""
        return [self.orders, self.queries, self.feed]

    def send(self, message: bytes) -> None:
        """Sends a message on the orders socket."""
        self._sent_s = time.monotonic()
        self._transmit(message)

    def _transmit(self, message: bytes) -> None:
        try:
            self.orders.send(message, zmq.DONTWAIT)
        except zmq.Again:
            advice = unreachable_advice(self._curve is not None)
            raise ExchangeUnreachable(f"{self.endpoint} accepts no messages; {advice}") from None

    def receive(self) -> None:
        """Processes every message that has arrived; logs in again where needed and keeps the session alive."""
        for data in drain(self.orders):
            self._received_s = time.monotonic()
            self.received += 1
            was_live = self.session.live
            items = self.session.receive(data)
            self.inbox.extend(items)
            if self._rejections:
                self._note_rejections(items)
            if items and isinstance(items[-1], Grant):
                self.grant = items[-1]
            if was_live and not self.session.live:
                self.send(self.session.hello())
            if self.session.live and not was_live:
                self.logins += 1
                for message in self.session.unanswered.values():
                    self.send(message)
        for data in drain(self.queries):
            reply = msgpack.unpackb(data, strict_map_key=False)
            request = reply[3] if reply[0] == Kind.ERROR else reply[1]
            self.received += 1
            if request in self._waiting:
                self._replies[request] = reply
            elif self.news_feed is not None and request == self.news_feed.request:
                self.inbox.extend(self.news_feed.receive_reply(reply))
            elif reply[0] != Kind.ERROR:
                self._stale.apply(request, reply)
        while self.feed.poll(0):
            self.received += 1
            topic, data = self.feed.recv_multipart()
            self._receive_feed(topic.decode().removeprefix(self.session.topic_prefix), msgpack.unpackb(data))
        self._query_news()
        for message in self._stale.queries(self.session, self._request + 1):
            self._request += 1
            self.queries.send(message)
        silence_s = float(self.session.limits.get("silence_s", 30.0))
        if self.session.live and time.monotonic() - max(self._sent_s, self._pinged_s) > silence_s / 3:
            self.ping()

    def _receive_feed(self, topic: str, message: list[Any]) -> None:
        if self.on_feed is not None:
            self.on_feed(topic, message)
            return
        if message[0] == FeedKind.TIME:
            self.feed_sequence, self.feed_time_ns = message[3], message[4]
            for name, book in self.books.items():
                book.note_epoch(message[1])
                self._stale.note(name, book)
            return
        followed = self.books.get(topic)
        if followed is not None:
            followed.apply(message)
            self._stale.note(topic, followed)
        elif message[0] == FEED_KIND:
            self.inbox.extend(self.news_feed.receive(message) if self.news_feed is not None else ())
        elif self._heard.says_more(topic, message):
            self.inbox.append(FeedMessage(topic, message))

    def _query_news(self) -> None:
        """Asks for news that the feed missed."""
        if self.news_feed is not None and self.news_feed.is_query_due:
            self._request += 1
            after = self.news_feed.query(self._request)
            self.queries.send(msgpack.packb([Kind.NEWS, self._request, self.session.token, after]))

    @property
    def silent_s(self) -> float:
        """Seconds since the orders socket received its last message. An exchange that is there sends one each second (`heartbeat_s`)."""
        return time.monotonic() - self._received_s

    def ping(self) -> None:
        """Sends a PING. An exchange that was restarted answers that we are not logged in, and `receive` logs in again."""
        self._pinged_s = time.monotonic()  # not `_sent_s`: no call waits for it
        self._transmit(msgpack.packb([Kind.PING, 0]))

    def raise_if_dead(self, since_s: float = 0.0) -> None:
        """Raises `ExchangeUnreachable` if not even a heartbeat has come for `silence_s`, counted from `since_s` (monotonic) on at the earliest;
        call it only after `receive`."""
        limits = self.session.limits
        silence_s = max(float(limits.get("silence_s", 30.0)), SILENT_HEARTBEATS * float(limits.get("heartbeat_s", 1.0)))
        if time.monotonic() - max(self._received_s, since_s) > silence_s:
            raise silent(self.endpoint, silence_s)

    def raise_if_silent(self) -> None:
        """Raises `ExchangeUnreachable` if the exchange has been silent for `REPLY_TIMEOUT_S`; call it only after `receive`, while a reply is
        expected: in a process that stood still, the reply may be there."""
        if time.monotonic() - max(self._received_s, self._sent_s, self._queried_s) > REPLY_TIMEOUT_S:
            raise no_reply(self.endpoint, REPLY_TIMEOUT_S, with_keys=self._curve is not None)

    def login(self) -> Steps[None]:
        """Sends HELLO; returns with WELCOME."""
        self.send(self.session.hello())
        while not self.session.live:
            self.raise_if_silent()
            yield

    def order(
        self, symbol: str, side: int, qty_lots: int, price_ticks: int | None, time_in_force: int, post_only: bool,
        terms: Terms, price: Price | None = None,
    ) -> Steps[Order]:  # fmt: skip
        """Sends a new order; returns it with its first report (in lockstep at once). Raises `Rejected`."""
        price_ticks = to_ticks(self.session.instrument(symbol), price_ticks, price)
        order, messages = self.session.new_order(symbol, side, qty_lots, price_ticks, time_in_force, post_only, terms)
        for message in messages:
            self.send_command(message)
        if self.lockstep:
            return order
        yield from self._wait_for_reply(order.order_id, f"{('buy', 'sell')[side]} {qty_lots} {symbol} at {price_ticks}")
        return order

    def replace(
        self, order: Order, qty_lots: int, price_ticks: int | None, price: Price | None, terms: Terms
    ) -> Steps[Order]:
        """Sends REPLACE; without a price it keeps the order's. Raises `Rejected` if the order is no longer open."""
        ticks = to_ticks(self.session.instrument_numbered(order.symbol), price_ticks, price)
        values = qty_lots, order.price_ticks if ticks is None else ticks
        return (yield from self.amend(order, CommandKind.REPLACE, *values, terms=terms))

    def account(self) -> Steps[dict[str, Balance]]:
        """The balances of every symbol that the participant has traded, by name."""
        found = {}
        for number, last_ticks, *balances in (yield from self.ask(Kind.ACCOUNT, self.session.token, self.session.name))[
            5
        ]:
            instrument = self.session.instrument_numbered(number)
            found[instrument.name] = Balance.in_money(instrument, Account.from_balances(balances), last_ticks)
        return found

    def balances(self) -> Steps[dict[str, AssetBalance]]:
        """The balances of every asset, by name."""
        _, rows = (yield from self.ask(Kind.BALANCES, self.session.token, self.session.name))[5]
        return {asset: AssetBalance(*map(Decimal, amounts)) for asset, *amounts in rows}

    def amend(self, order: Order, kind: CommandKind, *values: int, terms: Terms = NO_TERMS) -> Steps[Order]:
        """Sends CANCEL, REDUCE or REPLACE. Raises `Rejected` if the order is no longer open."""
        command_id, messages = self.session.amend(order, kind, *values, terms=terms)
        for message in messages:
            self.send_command(message)
        if not self.lockstep:
            yield from self._wait_for_reply(command_id, f"{kind.name} of order {order.order_id}")
        return order

    def mass_cancel(self, symbol: str | None) -> Steps[None]:
        """Cancels all orders of this participant, in one symbol or in all."""
        command_id, message = self.session.mass_cancel(symbol)
        self.send_command(message)
        if not self.lockstep:
            yield from self._wait_for_reply(command_id, "MASS_CANCEL")

    def send_command(self, message: bytes) -> None:
        """Sends a command. While the session logs in again, the command waits with the unanswered ones, which are sent in order after WELCOME: if a
        later command arrived before them, the exchange would take them for repeated ones."""
        if self.session.live:
            self.send(message)

    @property
    def lockstep(self) -> bool:
        """Whether the exchange has a lockstep clock: replies then arrive once every participant has advanced."""
        return bool(self.session.clock[0] == "lockstep")

    def _wait_for_reply(self, command_id: int, command: str) -> Steps[None]:
        self._rejections[command_id] = 0
        try:
            while True:
                self.receive()
                if reason := self._rejections[command_id]:
                    raise Rejected(Reason(reason).name, command)
                if command_id not in self.session.unanswered:
                    return
                self.raise_if_silent()
                yield
        finally:
            del self._rejections[command_id]

    def _note_rejections(self, items: list[InboxItem]) -> None:
        for item in items:
            for command_id, reason in rejections(item):
                if command_id in self._rejections:
                    self._rejections[command_id] = reason

    def ask(self, kind: int, *values: Any) -> Steps[list[Any]]:
        """Sends a query; returns the whole reply. Raises `RequestRejected`.

        If an exchange that sends other messages has not replied for `REPLY_TIMEOUT_S`, it asks again: a broken connection has lost the query
        or its reply."""
        self._request += 1
        request = self._request
        asked_s = self._queried_s = time.monotonic()
        if kind < Kind.ACCOUNT:
            values = tuple(with_token(values, self.session.token))
        message = msgpack.packb([kind, request, *values])
        self.queries.send(message)
        self._waiting.add(request)
        while request not in self._replies:
            self.raise_if_silent()
            yield
            if request not in self._replies and time.monotonic() - asked_s > REPLY_TIMEOUT_S:
                asked_s = time.monotonic()
                self.queries.send(message)
        self._waiting.discard(request)
        reply = self._replies.pop(request)
        if reply[0] == Kind.ERROR:
            raise RequestRejected(reply[1], reply[2])
        return reply

    def book(self, symbol: str, depth: int) -> Steps[tuple[list[Level], list[Level]]]:
        """(bids, asks): from the feed if it is followed, else from a snapshot.

        A participant whose feed has a latency follows it from the first call on: a snapshot would show what cannot have reached it yet.
        """
        if self.session.topic_prefix and f"l2/{symbol}/" not in self.books:
            yield from self.follow(symbol, "l2")
        followed = self.books.get(f"l2/{symbol}/")
        if followed is None:
            reply = yield from self.ask(Kind.L2, self.session.instrument(symbol).number, depth)
            bids, asks = ([Level(*level) for level in side] for side in reply[5])
            return bids, asks
        yield from self._fill_gap(f"l2/{symbol}/", followed)
        return followed.levels(0, depth), followed.levels(1, depth)

    def _fill_gap(self, topic: str, book: L2Book | L3Book) -> Steps[None]:
        self._stale.filling.add(topic)
        try:
            self.receive()
            while book.needs_snapshot:
                book.apply_snapshot((yield from self.ask(*snapshot_query(self.session, topic))))
        finally:
            self._stale.filling.discard(topic)

    def follow(self, symbol: str, channel: str) -> Steps[L2Book | L3Book]:
        """Subscribes to channel l2 or l3 and returns a book that `receive` keeps up to date."""
        book = L3Book() if channel == "l3" else L2Book()
        topic = f"{channel}/{symbol}/"
        self.books[topic] = book
        self.subscribe(channel, symbol)
        yield from self._fill_gap(topic, book)
        return book

    def subscribe(self, channel: str, symbol: str) -> None:
        """Subscribes to a channel of a symbol; its messages go to the inbox."""
        self.session.instrument(symbol)
        self._subscribe(f"{channel}/{symbol}/".encode())

    def _subscribe(self, topic: bytes) -> None:
        for each in (self.session.topic_prefix.encode() + topic, b"time/"):
            subscribe(self.feed, each, self.session.token, self._curve is not None)
        self._subscribed = True

    def subscribe_news(self, after: int) -> None:
        """Subscribes to news; the messages after number `after` go to the inbox, below 0 those from now on."""
        if self.news_feed is None:
            self.news_feed = NewsFeed(after)
            self._subscribe(TOPIC)
        self._query_news()

    def news(self, count: int) -> Steps[list[News]]:
        """The last `count` messages, oldest first."""
        pages = NewsPages(count)
        while not pages.are_complete:
            pages.add((yield from self.ask(Kind.NEWS, self.session.token, pages.after))[5])
        return pages.messages

    def unsubscribe(self, channel: str, symbol: str) -> None:
        """Ends the subscription to a channel of a symbol, also that of a followed book."""
        topic = f"{channel}/{symbol}/"
        unsubscribe(
            self.feed, f"{self.session.topic_prefix}{topic}".encode(), self.session.token, self._curve is not None
        )
        self.books.pop(topic, None)
        self._heard.forget(topic)

    def trades(self, symbol: str, count: int) -> Steps[list[Trade]]:
        """The last trades, newest last."""
        reply = yield from self.ask(Kind.TRADES, self.session.instrument(symbol).number, count)
        return [Trade(*trade) for trade in reply[5]]

    def status(self, symbol: str) -> Steps[SymbolStatus]:
        """Whether a symbol is halted, and its phase."""
        halted, phase, reason = (yield from self.ask(Kind.STATUS, self.session.instrument(symbol).number))[5]
        return SymbolStatus(bool(halted), Phase(phase), HaltReason(reason))

    def next_item(self, timeout_s: float) -> Steps[InboxItem | None]:
        """Takes the next item from the inbox; None if there is none within timeout_s."""
        deadline = time.monotonic() + timeout_s
        self.receive()
        while not self.inbox:
            self.receive()
            if self.inbox or time.monotonic() >= deadline:
                break
            yield
        return self.inbox.popleft() if self.inbox else None

    def next_items(self, timeout_s: float) -> Steps[list[InboxItem]]:
        """Takes everything from the inbox; nothing if nothing comes within timeout_s."""
        first = yield from self.next_item(timeout_s)
        items = [*self.inbox] if first is None else [first, *self.inbox]
        self.inbox.clear()
        return items

    def is_feed_complete(self, grant: Grant) -> bool:
        """Whether the feed, if we subscribe to any of it, is complete up to this turn. News are no events, so they are complete by time."""
        if self.news_feed is not None and (self.news_feed.needs_query or self.feed_time_ns < grant.time_ns):
            return False
        return not self._subscribed or self.feed_sequence >= grant.event_sequence

    def close(self) -> None:
        """Sends BYE and closes the sockets. Once is enough: a second call does nothing."""
        if self.orders.closed:
            return
        if self.session.live:
            with contextlib.suppress(zmq.Again):  # an exchange that is away needs no BYE
                self.orders.send(msgpack.packb([Kind.BYE]), zmq.DONTWAIT)
        for socket in self.sockets:
            socket.close()
        self.context.term()
