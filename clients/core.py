"""The client API, written once for the asyncio and the blocking client.

Each method of `ClientCore` that has to wait is a generator: whenever it needs another message, it yields the longest wait in seconds; it returns its
result. A client (`serl.clients.asynchronous`, `serl.clients.blocking`) waits on the sockets in its own way, calls `receive` and resumes the generator.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgpack

from serl.clients.book import L2Book, L3Book, Level, depth_max
from serl.clients.connection import Connection
from serl.clients.errors import (
    ExchangeUnreachable,
    LoginRefused,
    RequestRejected,
    SessionEnded,
    no_reply,
    not_kept,
    silent,
)
from serl.clients.feed_topics import Heard
from serl.clients.inbox import InboxItem, drain
from serl.clients.news import NewsFeed
from serl.clients.pending_commands import PendingCommands
from serl.clients.pending_queries import IN_FLIGHT_MAX, PendingQueries
from serl.clients.relogin import Relogin
from serl.clients.session import Grant, Order, RowsMessage, Session
from serl.clients.stale_books import StaleBooks, snapshot_query
from serl.clients.values import FeedMessage, Price, to_ticks
from serl.exchange.integers import integer
from serl.exchange.news import FEED_KIND, TOPIC
from serl.exchange.records import CommandKind
from serl.exchange.terms import NO_TERMS, Terms
from serl.exchange.wire import FeedKind, Kind

Result = TypeVar("Result")
Steps = Generator[float, None, Result]
"""A call in progress: yields the longest wait for messages in seconds, after which it checks its timeouts, and returns a `Result`."""
REPLY_WAIT_S = 0.05
"""The longest wait of a call that expects a reply."""
IDLE_WAIT_S = 1.0
"""The longest wait of a call that expects nothing in particular; see `ClientCore.idle_wait_s`."""
REPLY_TIMEOUT_S = 5.0
"""An exchange that has not replied for this long counts as unreachable."""
SILENT_HEARTBEATS = 3
"""Minimum number of missing heartbeats before an exchange counts as dead."""


class ClientCore(Connection):
    """Sockets, session and followed books of one client. `receive` never blocks; clients wait on `sockets` between steps."""

    def __init__(self, endpoint: str, session: Session, curve: Path | None) -> None:
        super().__init__(endpoint, curve)
        self.session = session
        #: received reports, grants and feed messages that no call has returned yet
        self.inbox: deque[InboxItem] = deque()
        #: the last grant that `turn` has not returned yet; it is in the inbox too
        self.grant: Grant | None = None
        #: logins so far: each one ends the promise of the previous session
        self.logins = 0
        self.books: dict[str, L2Book | L3Book] = {}
        #: event and time up to which the feed is complete
        self.feed_sequence = self.feed_time_ns = -1
        self.news_feed: NewsFeed | None = None
        #: called with the topic and message of the feed, in place of followed books and `wait`
        self.on_feed: Callable[[str, list[Any]], None] | None = None
        self._heard = Heard()
        self._stale = StaleBooks(self.books, REPLY_TIMEOUT_S)
        self._subscribed = False
        self._queries, self._commands, self.relogin = PendingQueries(), PendingCommands(session), Relogin()
        #: the last error that `receive` raised
        self.failure: Exception | None = None
        self._received_s = self._sent_s = self._pinged_s = self._queried_s = time.monotonic()

    def send(self, message: bytes) -> None:
        """Sends a message on the orders socket."""
        self._sent_s = time.monotonic()
        self.transmit(message)

    def receive(self) -> None:
        """Processes every message that has arrived, logs in again if needed and keeps the session alive."""
        if self.is_held:
            return
        self.is_unread = False
        try:
            self._receive()
        except Exception as error:
            self.failure = error  # it concerns every call in progress, not only the one that happens to receive
            raise

    def _receive(self) -> None:
        for data in drain(self.orders):
            self._received_s = time.monotonic()
            self.received += 1
            was_live = self.session.live
            items = self._receive_answer(data)
            self.inbox.extend(items)
            self._commands.note(items)
            if items and isinstance(items[-1], Grant):
                self.grant = items[-1]
            if was_live and not self.session.live:
                self.relogin.begin()
                self.send(self.session.hello())
            if self.session.live and not was_live:
                self._begin_session()
        if self.relogin.is_due(REPLY_TIMEOUT_S):
            self.transmit(self.session.hello())  # not `send`: a waiting call must notice that the exchange is silent
        for data in drain(self.queries):
            reply = msgpack.unpackb(data, strict_map_key=False)
            request = reply[3] if reply[0] == Kind.ERROR else reply[1]
            self.received += 1
            if self._queries.note(request, reply):
                continue
            if self.news_feed is not None and request == self.news_feed.request:
                self.inbox.extend(self.news_feed.receive_reply(reply))
            elif reply[0] != Kind.ERROR:
                self._stale.apply(request, reply)
        while self.feed.poll(0):
            self.received += 1
            topic, data = self.feed.recv_multipart()
            self._receive_feed(topic.decode().removeprefix(self.session.topic_prefix), msgpack.unpackb(data))
        self._query_news()
        for message in self._stale.queries(self.session, self._queries.new_number):
            self.try_query(message)
        if self.session.live and time.monotonic() - max(self._sent_s, self._pinged_s) > self._silence_s / 3:
            self.ping()

    def _receive_answer(self, data: bytes) -> list[InboxItem]:
        """Processes a message of the orders socket. A refusal of a command is kept for the call that waits for it."""
        try:
            return self.session.receive(data)
        except SessionEnded as error:
            self.relogin.end(error)
            raise
        except LoginRefused as error:
            if not self.relogin.is_repeat(error.code):
                raise
        except RequestRejected as error:
            if not self.relogin.is_repeat(error.code) and not self._commands.note_refusal(error):
                raise
        return []

    def _begin_session(self) -> None:
        """After a login: resends unanswered commands, and requests followed books again if the exchange may have another journal."""
        self.logins += 1
        self.relogin.end()
        self._stale.note_depth(depth_max(self.session.limits))
        if self.session.has_gap:
            self._stale.distrust()
        for message in (*self._commands.replayed(), *self.session.unanswered.values()):
            self.send(message)

    def _receive_feed(self, topic: str, message: list[Any]) -> None:
        if self.on_feed is not None:
            self.on_feed(topic, message)
            return
        if message[0] == FeedKind.TIME:
            if message[3] < self.feed_sequence:
                self._stale.distrust()  # without its journal, a restarted exchange numbers from 1, in the same epoch
            self.feed_sequence, self.feed_time_ns = message[3], message[4]
            self._stale.note_epoch(message[1])
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
        """Requests news that the feed has missed."""
        if self.news_feed is not None and self.news_feed.is_query_due:
            number = self._queries.new_number()
            after = self.news_feed.query(number)
            self.try_query(msgpack.packb([Kind.NEWS, number, self.session.token, after]))

    @property
    def _silence_s(self) -> float:
        return float(self.session.limits.get("silence_s", 30.0))

    @property
    def idle_wait_s(self) -> float:
        """The longest wait of a call that expects nothing in particular: short enough to send a PING in time."""
        return min(IDLE_WAIT_S, self._silence_s / 6)

    @property
    def silent_s(self) -> float:
        """Seconds since the last message on the orders socket. A live exchange sends one each second (`heartbeat_s`)."""
        return time.monotonic() - self._received_s

    def ping(self) -> None:
        """Sends a PING. A restarted exchange answers that we are not logged in, and `receive` then logs in again."""
        self._pinged_s = time.monotonic()  # not `_sent_s`: no call waits for it
        self.transmit(msgpack.packb([Kind.PING, 0]))

    def raise_if_dead(self, since_s: float = 0.0) -> None:
        """Raises `ExchangeUnreachable` if not even a heartbeat has arrived for `silence_s`, counted at the earliest from `since_s` (monotonic).
        Call it only after `receive`."""
        silence_s = max(self._silence_s, SILENT_HEARTBEATS * float(self.session.limits.get("heartbeat_s", 1.0)))
        if time.monotonic() - max(self._received_s, since_s) > silence_s:
            raise silent(self.endpoint, silence_s)

    def raise_if_silent(self) -> None:
        """Raises `ExchangeUnreachable` if the exchange has been silent for `REPLY_TIMEOUT_S`. Call it only while a reply is expected, and only after
        `receive`: if this process was suspended, the reply may have arrived meanwhile."""
        last_s = max(self._received_s, self._sent_s, self._queried_s, self._queries.noted_s)
        if time.monotonic() - last_s > REPLY_TIMEOUT_S:
            raise no_reply(self.endpoint, REPLY_TIMEOUT_S, with_keys=self._curve is not None)

    def login(self) -> Steps[None]:
        """Sends HELLO; returns once WELCOME has arrived."""
        self.send(self.session.hello())
        while not self.session.live:
            self.raise_if_silent()
            yield REPLY_WAIT_S

    def order(
        self, symbol: str, side: int, qty_lots: int, price_ticks: int | None, time_in_force: int, post_only: bool,
        terms: Terms, price: Price | None = None,
    ) -> Steps[Order]:  # fmt: skip
        """Sends a new order; returns it once its first report has arrived (in lockstep at once). Raises `Rejected`."""
        self.relogin.raise_if_over()
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
        """Sends REPLACE; without a price the order keeps its own. Raises `Rejected` if the order is no longer open."""
        ticks = to_ticks(self.session.instrument_numbered(order.symbol), price_ticks, price)
        values = qty_lots, order.price_ticks if ticks is None else ticks
        return (yield from self.amend(order, CommandKind.REPLACE, *values, terms=terms))

    def amend(self, order: Order, kind: CommandKind, *values: int, terms: Terms = NO_TERMS) -> Steps[Order]:
        """Sends CANCEL, REDUCE or REPLACE. Raises `Rejected` if the order is no longer open."""
        self.relogin.raise_if_over()
        command_id, messages = self.session.amend(order, kind, *values, terms=terms)
        for message in messages:
            self.send_command(message)
        if not self.lockstep:
            yield from self._wait_for_reply(command_id, f"{kind.name} of order {order.order_id}")
        return order

    def mass_cancel(self, symbol: str | None) -> Steps[None]:
        """Cancels all orders of this participant, in one symbol or in all."""
        self.relogin.raise_if_over()
        command_id, message = self.session.mass_cancel(symbol)
        self.send_command(message)
        if not self.lockstep:
            yield from self._wait_for_reply(command_id, "MASS_CANCEL")

    def send_command(self, message: bytes) -> None:
        """Sends a command. While the session logs in again, the command joins the unanswered ones, which are sent in order after WELCOME: if a
        later command arrived first, the exchange would take them for repeats. Raises SessionEnded for rows that are not kept there: they would be lost."""
        if self.session.live:
            self.send(message)
        elif isinstance(message, RowsMessage) and message not in self.session.unanswered.values():
            raise not_kept()

    @property
    def lockstep(self) -> bool:
        """Whether the exchange has a lockstep clock: replies then arrive once every participant has advanced."""
        return bool(self.session.clock[0] == "lockstep")

    def _wait_for_reply(self, command_id: int, command: str) -> Steps[None]:
        self._commands.add(command_id)
        try:
            self.receive()
            while not self._commands.has_answer(command_id, command):
                self.raise_if_silent()
                yield REPLY_WAIT_S
                self.receive()
        finally:
            self._commands.remove(command_id)

    def ask(self, kind: int, *values: Any) -> Steps[list[Any]]:
        """Sends a query; returns the whole reply. Raises `RequestRejected`; see `ask_all`."""
        return (yield from self.ask_all([(kind, *values)]))[0]

    def ask_all(self, queries: Sequence[tuple[Any, ...]]) -> Steps[list[list[Any]]]:
        """Pipelines queries (kind, values ..), up to IN_FLIGHT_MAX at a time; returns the whole replies in the order of the queries. Raises
        `RequestRejected` for the first rejected one.

        Repeats the queries if no reply has arrived for `REPLY_TIMEOUT_S`: a broken connection has lost them or their replies."""
        replies: list[list[Any]] = []
        for first in range(0, len(queries), IN_FLIGHT_MAX):
            replies += yield from self._ask_in_flight(queries[first : first + IN_FLIGHT_MAX])
        for reply in replies:
            if reply[0] == Kind.ERROR:
                raise RequestRejected(reply[1], reply[2])
        return replies

    def _ask_in_flight(self, queries: Sequence[tuple[Any, ...]]) -> Steps[list[list[Any]]]:
        messages = self._queries.add(queries, self.session.token)
        self._queried_s, missing = time.monotonic(), list(messages)
        try:
            while missing:
                asked_s = time.monotonic()
                for number in missing:
                    self.query(messages[number])
                while missing and time.monotonic() - max(asked_s, self._queries.noted_s) <= REPLY_TIMEOUT_S:
                    self.raise_if_silent()
                    yield REPLY_WAIT_S
                    missing = self._queries.without_reply(missing)
            return self._queries.replies(messages)
        finally:
            self._queries.remove(messages)

    def book(self, symbol: str, depth: int) -> Steps[tuple[list[Level], list[Level]]]:
        """(bids, asks): from the feed if the book is followed, otherwise from a snapshot.

        A participant whose feed has a latency follows the book from its first call on: a snapshot would show what cannot have reached it yet.
        """
        depth = integer("depth", depth, least=0)
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
                reply = yield from self.ask(*snapshot_query(self.session, topic))
                if book.needs_snapshot:  # another call may have loaded a newer snapshot meanwhile
                    book.apply_snapshot(reply)
        finally:
            self._stale.filling.discard(topic)

    def follow(self, symbol: str, channel: str) -> Steps[L2Book | L3Book]:
        """Subscribes to channel l2 or l3 and returns a book that `receive` keeps up to date: one per channel and symbol."""
        topic = f"{channel}/{symbol}/"
        book = self.books.get(topic)
        if book is None:
            self.subscribe(channel, symbol)
            book = self.books[topic] = L3Book() if channel == "l3" else L2Book(depth_max(self.session.limits))
        yield from self._fill_gap(topic, book)
        return book

    def subscribe(self, channel: str, symbol: str) -> None:
        """Subscribes to a channel of a symbol; its messages go to the inbox."""
        self.session.instrument(symbol)
        self._subscribe(f"{channel}/{symbol}/".encode())

    def _subscribe(self, topic: bytes) -> None:
        for each in (self.session.topic_prefix.encode() + topic, b"time/"):
            self.open_topic(each, self.session.token)
        self._subscribed = True

    def subscribe_news(self, after: int) -> None:
        """Subscribes to news; the messages after number `after` go to the inbox (`after` below 0: messages from now on)."""
        if self.news_feed is None:
            self.news_feed = NewsFeed(after)
            self._subscribe(TOPIC)
        self._query_news()

    def unsubscribe(self, channel: str, symbol: str) -> None:
        """Ends the subscription to a channel of a symbol, including that of a followed book."""
        topic = f"{channel}/{symbol}/"
        self.close_topic(f"{self.session.topic_prefix}{topic}".encode(), self.session.token)
        self.books.pop(topic, None)
        self._heard.forget(topic)

    def next_item(self, timeout_s: float) -> Steps[InboxItem | None]:
        """Takes the next item from the inbox; None if there is none within timeout_s. Raises SessionEnded if none can come."""
        deadline = time.monotonic() + timeout_s
        self.receive()
        if not self.inbox:
            self.relogin.raise_if_over()
        while not self.inbox:
            self.receive()
            remaining_s = deadline - time.monotonic()
            if self.inbox or remaining_s <= 0:
                break
            yield min(remaining_s, self.idle_wait_s)
        return self.inbox.popleft() if self.inbox else None

    def next_items(self, timeout_s: float) -> Steps[list[InboxItem]]:
        """Takes everything from the inbox; an empty list if nothing arrives within timeout_s."""
        first = yield from self.next_item(timeout_s)
        items = [*self.inbox] if first is None else [first, *self.inbox]
        self.inbox.clear()
        return items

    def is_feed_complete(self, grant: Grant) -> bool:
        """Whether the feed, if we subscribe to any of it, is complete up to this turn. News messages are not events, so for them time decides."""
        if self.news_feed is not None and (self.news_feed.needs_query or self.feed_time_ns < grant.time_ns):
            return False
        return not self._subscribed or self.feed_sequence >= grant.event_sequence

    def close(self) -> None:
        """Sends BYE and closes the sockets. A second call does nothing."""
        if self.orders.closed:
            return
        if self.session.live:
            with contextlib.suppress(ExchangeUnreachable):  # an unreachable exchange needs no BYE
                self.transmit(msgpack.packb([Kind.BYE]))
        self.disconnect()
