"""Market data: its subscriptions, the repeats of quiet topics, and the messages that only Python can publish.

Compiled code turns events into messages (gateway/publish.py), one per topic and batch. The exchange's loop publishes them itself where it can.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

import msgpack
import numpy as np
import zmq
from numpy.typing import NDArray

from serl.exchange.gateway.feed_items import status_of
from serl.exchange.gateway.feed_state import (
    AUCTION,
    AUCTIONS_DUE,
    ENCODED,
    EPOCH,
    INDICATIVE,
    KINDS,
    L1,
    LAST_SEQUENCE,
    LAST_TIME_NS,
    LOOP,
    NO_AUCTION,
    NOBODY,
    PYTHON,
    ROWS,
    STATUS,
    UNSEEN,
    new_feed_state,
    topics_of,
    with_room,
)
from serl.exchange.gateway.publish import encode, send
from serl.exchange.kernel import best
from serl.exchange.latency import Delays
from serl.exchange.market import indicative_now
from serl.exchange.outbound import DelayedFeed, without_number
from serl.exchange.records import Rows
from serl.exchange.subscriptions import Subscriptions
from serl.exchange.wire import FeedKind

QUIET_INTERVALS_MAX = 64
"""The longest time between two repeats of a quiet topic, in intervals."""
REPEATS_MAX = 256
"""Maximum number of topics repeated in one interval; others wait for the next."""
AFTER_NAMES = b"\xff"
"""A byte that sorts after every UTF-8 byte of a symbol's name."""
BATCH_EVENTS, BATCH_EVENTS_MAX = 1024, 32_768
"""Room for events: at first, and at most. More events are published in parts, each of which shows the book after all of them."""


class Feed:
    """The topics of an exchange. Encodes nothing without a subscriber."""

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        names: list[str],
        epoch: int,
        sequence: int,
        delays: Callable[[int], Delays | None],
        subscriptions: Subscriptions,
    ) -> None:
        self._socket = socket
        self._subscriptions = subscriptions
        self.delayed = DelayedFeed(socket.send_multipart, delays)
        self.state = new_feed_state(names, epoch, sequence, BATCH_EVENTS, socket.underlying)
        self.counter = self.state.counter
        self._interval = 0
        shape = self.state.subscribed.shape
        self._wait, self._repeat_at = np.ones(shape, np.int64), np.zeros(shape, np.int64)  # intervals
        self._next_repeat = 0  # where the next interval's repeats begin, so that each topic gets its turn
        self._auctions: dict[int, list[int]] = {}  # the last items published on channel `auction`, by symbol
        self._topics = topics_of(names)
        self._by_name = np.argsort(np.array(self._topics, np.bytes_), kind="stable")
        self._sorted = [self._topics[number] for number in self._by_name]
        subscriptions.is_known = self._is_known
        self.has_subscribers = False

    @property
    def publisher(self) -> int:
        """Who publishes events: NOBODY, PYTHON, or LOOP (the compiled loop, which cannot delay what it sends)."""
        if not self.has_subscribers:
            return NOBODY
        return PYTHON if self.delayed.has_participants else LOOP

    def _is_known(self, topic: bytes) -> bool:
        """Whether any message can have a topic with this prefix, also under a participant number."""
        topic = without_number(topic)
        return b"time/".startswith(topic) or len(self._beginning_with(topic)) > 0

    def _beginning_with(self, prefix: bytes) -> range:
        """The indices in `_sorted` of the topics with this prefix. O(log topics)."""
        return range(bisect_left(self._sorted, prefix), bisect_left(self._sorted, prefix + AFTER_NAMES))

    def _topics_of(self, prefixes: Iterable[bytes]) -> NDArray[np.bool_]:
        """Whether each topic begins with one of these prefixes, bool (channel, symbol). O(topics + prefixes log topics)."""
        found = np.zeros(len(self._sorted), np.bool_)
        for prefix in prefixes:
            places = self._beginning_with(prefix)
            found[self._by_name[places.start : places.stop]] = True
        return found.reshape(self.state.subscribed.shape)

    def read_subscriptions(self, sequence: int, time_ns: int, turn_s: float) -> float:
        """Reads new subscriptions; every event up to `sequence` must have been published. A topic that had no subscribers restarts its chain of
        sequences; one with a new subscriber is soon repeated. Reads none after `turn_s`. Returns the time to charge to unauthenticated
        connections."""
        if self._subscriptions.read(turn_s):
            self._restart_chains(sequence, time_ns)
        if self._subscriptions.new:
            self.state.is_active[:] |= self._topics_of(map(without_number, self._subscriptions.new))
        return self._subscriptions.owed_by_unauthenticated_s()

    def _restart_chains(self, sequence: int, time_ns: int) -> None:
        state = self.state
        subscribed = self._topics_of(self.delayed.set_subscriptions(self._subscriptions.prefixes))
        new = subscribed & ~state.subscribed
        state.previous[new], state.time_ns[new] = sequence, time_ns
        state.auction_published[new[AUCTION]] = UNSEEN
        for symbol in np.flatnonzero(new[AUCTION]).tolist():
            self._auctions.pop(symbol, None)
        state.subscribed[:] = subscribed
        self.has_subscribers = bool(self._subscriptions.prefixes)

    def publish(self, market: Any, events: Rows, start: int, stop: int) -> None:
        """Publishes event rows start..stop; `market` is its state after the last of them."""
        if not self.has_subscribers:
            return
        for first in range(start, stop, BATCH_EVENTS_MAX):
            self._publish_batch(market, events, first, min(stop, first + BATCH_EVENTS_MAX))
        if self.counter[AUCTIONS_DUE]:
            self._publish_auctions(market)

    def _publish_batch(self, market: Any, events: Rows, first: int, stop: int) -> None:
        self.state = with_room(self.state, stop - first)
        encode(self.state, market, events, first, stop)
        self._delay_encoded()
        send(self.state)

    def _delay_encoded(self) -> None:
        """Queues the encoded messages for participants with a latency."""
        if not self.delayed.has_participants:
            return
        state = self.state
        for topic, start, end, sequence, time_ns in state.message[: self.counter[ENCODED]].tolist():
            self.delayed.put(self._topics[topic], sequence, time_ns, state.bytes[start:end].tobytes())

    def _publish_auctions(self, market: Any) -> None:
        """Publishes the indicative auctions that have changed; [] when a symbol stops collecting orders."""
        sequence, time_ns = int(self.counter[LAST_SEQUENCE]), int(self.counter[LAST_TIME_NS])
        for symbol in np.flatnonzero(self.state.auction_due).tolist():
            items = list(indicative_now(market, symbol) or ())
            if self.state.subscribed[AUCTION, symbol] and items != self._auctions.get(symbol):
                self._auctions[symbol] = items
                self.state.auction_published[symbol] = INDICATIVE if items else NO_AUCTION
                self._send(AUCTION, symbol, sequence, time_ns, msgpack.packb(items))
        self.state.auction_due[:] = False
        self.counter[AUCTIONS_DUE] = 0

    def _send(self, channel: int, symbol: int, sequence: int, time_ns: int, items: bytes) -> None:
        state = self.state
        body = self._body_of(channel, int(state.previous[channel, symbol]), sequence, time_ns, items)
        state.previous[channel, symbol], state.time_ns[channel, symbol] = sequence, time_ns
        state.is_active[channel, symbol] = True
        topic = self._topic(channel, symbol)
        self._socket.send_multipart([topic, body])
        self.delayed.put(topic, sequence, time_ns, body)

    def _topic(self, channel: int, symbol: int) -> bytes:
        return self._topics[channel * self.state.subscribed.shape[1] + symbol]

    def _body_of(self, channel: int, previous: int, sequence: int, time_ns: int, items: bytes) -> bytes:
        head = KINDS[channel], int(self.counter[EPOCH]), previous, sequence, time_ns
        return b"\x96" + b"".join(map(msgpack.packb, head)) + items

    def repeat_quiet(self, market: Any) -> None:
        """Repeats quiet topics, so that a subscriber that missed their last message notices. Call it once in each interval, after every event has
        been published.

        A topic is repeated 1, 2, 4 ... QUIET_INTERVALS_MAX intervals after its last message or new subscriber, and then every
        QUIET_INTERVALS_MAX intervals."""
        if not self.has_subscribers:
            return
        state = self.state
        self._interval += 1
        self._wait[state.is_active] = 1
        self._repeat_at[state.is_active] = self._interval + 1
        state.is_active[:] = False
        due = np.flatnonzero(state.subscribed & (self._repeat_at <= self._interval))
        due = np.roll(due, -np.searchsorted(due, self._next_repeat))[:REPEATS_MAX]
        for channel, symbol in zip(*np.unravel_index(due, state.subscribed.shape), strict=True):
            self._repeat(market, int(channel), int(symbol))
        if len(due):
            self._next_repeat = int(due[-1]) + 1

    def _repeat(self, market: Any, channel: int, symbol: int) -> None:
        wait = int(self._wait[channel, symbol])
        self._repeat_at[channel, symbol] = self._interval + wait
        self._wait[channel, symbol] = min(2 * wait, QUIET_INTERVALS_MAX)
        sequence, time_ns = int(self.state.previous[channel, symbol]), int(self.state.time_ns[channel, symbol])
        topic = self._topic(channel, symbol)
        body = self._body_of(channel, sequence, sequence, time_ns, self._repeated_items(market, channel, symbol))
        self._socket.send_multipart([topic, body])
        self.delayed.repeat(topic, sequence, time_ns, body)

    def _repeated_items(self, market: Any, channel: int, symbol: int) -> bytes:
        """The state, for channels whose messages contain it; no items for channels whose messages list changes."""
        if channel == L1:
            return bytes(msgpack.packb([int(value) for value in best(market, symbol)]))
        if channel == STATUS:
            return bytes(msgpack.packb(symbol_status(market, symbol)))
        if channel == AUCTION:
            known = self._auctions.get(symbol)
            return bytes(msgpack.packb(list(indicative_now(market, symbol) or ()) if known is None else known))
        return bytes(msgpack.packb(b"" if channel == ROWS else []))

    def publish_time(self, sequence: int, time_ns: int) -> None:
        """Publishes on `time/` that the feed is complete up to event `sequence`."""
        if self.has_subscribers:
            head = FeedKind.TIME, int(self.counter[EPOCH]), sequence, sequence, time_ns, []
            self._socket.send_multipart([b"time/", msgpack.packb(head)])


def symbol_status(market: Any, symbol: int) -> list[int]:
    """[halted, phase, HaltReason] of a symbol; the reason is VOLATILITY while a price band interrupts trading."""
    return [int(value) for value in status_of(market, symbol)]
