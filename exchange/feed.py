"""Market data: encodes event rows as feed messages in compiled code, one message per topic and iteration of the exchange loop."""

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import zmq
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inner
from serl.exchange.gateway.codec import write_array, write_int
from serl.exchange.kernel import best, level_at
from serl.exchange.latency import Delays
from serl.exchange.market import indicative_now
from serl.exchange.outbound import DelayedFeed, without_number
from serl.exchange.records import EVENT, HALT_REASON, PHASE, EventFlag, EventKind, HaltReason, Phase, Rows
from serl.exchange.subscriptions import Subscriptions
from serl.exchange.wire import FeedKind

_KINDS = tuple(int(kind) for kind in FeedKind if kind != FeedKind.TIME)
CHANNELS = tuple(FeedKind(kind).name.lower() for kind in _KINDS)
ITEM_BYTES_MAX = 64
"""The largest size of an encoded item (level, order, trade)."""
L3_ITEMS_MAX = 4096
"""Items per l3 or trade message."""
QUIET_INTERVALS_MAX = 64
"""The longest time between two repeats of a topic without messages, in intervals."""
REPEATS_MAX = 256
"""Topics that are repeated in one interval; others wait for the next."""
ADD, TRADED, REMOVED = 1, 2, 3

_ACCEPTED, _FILL, _CANCELLED = int(EventKind.ACCEPTED), int(EventKind.FILL), int(EventKind.CANCELLED)
_REDUCED, _REPLACED, _RESTED = int(EventKind.REDUCED), int(EventKind.REPLACED), int(EventKind.RESTED)
_PRINT, _HALTED, _RESUMED = int(EventKind.PRINT), int(EventKind.HALTED), int(EventKind.RESUMED)
_RESTING, _MAKER = int(EventFlag.RESTING), int(EventFlag.MAKER)
_HIDDEN, _AUCTION, _PHASED = int(EventFlag.HIDDEN), int(EventFlag.AUCTION), int(EventKind.PHASED)
_STATUS = (EventKind.HALTED, EventKind.RESUMED, EventKind.PHASED)


@inner
def book_action(event: Any) -> int:
    """What an event does to the book at its price and side: ADD, TRADED, REMOVED, or 0 for nothing."""
    kind = event.kind
    if event.flags & _HIDDEN:
        return 0
    if (kind == _ACCEPTED and event.flags & _RESTING) or kind == _RESTED:
        return ADD
    if kind == _FILL:
        return TRADED if event.flags & (_MAKER | _AUCTION) else 0
    if (kind == _CANCELLED and event.flags & _RESTING) or kind == _REDUCED or kind == _REPLACED:
        return REMOVED
    return 0


@compiled
def group_by_symbol(events: Any, start: int, stop: int, starts: Any, order: Any) -> None:
    """Stable counting sort of event indices by symbol: those of symbol s are order[starts[s]:starts[s + 1]]. O(events + symbols)."""
    symbols = starts.size - 1
    starts[:] = 0
    for index in range(start, stop):
        if events[index].symbol < symbols:
            starts[events[index].symbol + 1] += 1
    for symbol in range(symbols):
        starts[symbol + 1] += starts[symbol]
    for index in range(start, stop):
        symbol = events[index].symbol
        if symbol < symbols:
            order[starts[symbol]] = index
            starts[symbol] += 1  # becomes the start of the next one
    for symbol in range(symbols - 1, 0, -1):
        starts[symbol] = starts[symbol - 1]
    starts[0] = 0


@compiled
def encode_l3(events: Any, order: Any, body: Any) -> tuple[int, int]:
    """Encodes the items of an l3 message: (bytes, items)."""
    at = items = 0
    for index in order:
        event = events[index]
        action = book_action(event)
        if action != 0:
            at = write_array(body, at, 5)
            at = write_int(body, at, action)
            at = write_int(body, at, event.order_number)
            at = write_int(body, at, np.int64(event.side))
            at = write_int(body, at, event.price_ticks)
            at = write_int(body, at, event.qty_lots)
            items += 1
    return at, items


@compiled
def encode_trades(events: Any, order: Any, body: Any) -> tuple[int, int]:
    """Encodes the items of a trade message: (bytes, items). A trade is the fill of a resting order, or a PRINT."""
    at = items = 0
    for index in order:
        event = events[index]
        if (event.kind == _FILL and event.flags & _MAKER) or event.kind == _PRINT:
            at = write_array(body, at, 6)
            at = write_int(body, at, event.match_id)
            at = write_int(body, at, event.time_ns)
            at = write_int(body, at, event.price_ticks)
            at = write_int(body, at, event.qty_lots)
            at = write_int(body, at, 1 - np.int64(event.side))
            at = write_int(body, at, 1 if event.kind == _PRINT else 2 if event.flags & _AUCTION else 0)
            items += 1
    return at, items


@compiled
def encode_l2(state: Any, symbol: int, events: Any, order: Any, keys: Any, body: Any) -> tuple[int, int]:
    """Encodes the current state of the levels that changed: (bytes, items). keys: int64 hash table, a power of two >= 2 events."""
    mask = keys.size - 1
    keys[:] = -1
    at = items = 0
    for index in order:
        event = events[index]
        if book_action(event) == 0:
            continue
        key = event.price_ticks * 2 + np.int64(event.side)
        slot = (key * 0x9E3779B1) & mask
        while keys[slot] != -1 and keys[slot] != key:
            slot = (slot + 1) & mask
        if keys[slot] == key:
            continue
        keys[slot] = key
        qty, orders = level_at(state, symbol, np.int64(event.side), event.price_ticks)
        at = write_array(body, at, 4)
        at = write_int(body, at, np.int64(event.side))
        at = write_int(body, at, event.price_ticks)
        at = write_int(body, at, qty)
        at = write_int(body, at, orders)
        items += 1
    return at, items


@compiled
def copy_public_rows(events: Any, order: Any, out: Any) -> int:
    """Copies the public fields of events that change a book, and of prints, halts and phases, to `out`. Returns the number of rows.

    leaves_lots stays out: it counts the reserve of an iceberg. So does the number of an order that is not displayed.
    """
    count = 0
    for index in order:
        event = events[index]
        is_status = event.kind == _PRINT or event.kind == _HALTED or event.kind == _RESUMED or event.kind == _PHASED
        if book_action(event) == 0 and not is_status and not (event.kind == _FILL and event.flags & _MAKER):
            continue
        row = out[count]
        row.time_ns, row.sequence = event.time_ns, event.sequence
        row.order_number, row.match_id = 0 if event.flags & _HIDDEN else event.order_number, event.match_id
        row.price_ticks, row.qty_lots = event.price_ticks, event.qty_lots
        row.symbol, row.kind, row.side, row.flags = event.symbol, event.kind, event.side, event.flags
        count += 1
    return count


def warm_encoders(state: Any, events: Rows) -> None:
    """Compiles or loads the functions that publish, so that the first message does not wait for them."""
    order, body = np.zeros(0, np.int64), np.zeros(0, np.uint8)
    group_by_symbol(events, 0, 0, np.zeros(2, np.int64), order)
    encode_l2(state, 0, events, order, np.zeros(2, np.int64), body)
    encode_l3(events, order, body)
    encode_trades(events, order, body)
    copy_public_rows(events, order, events)
    write_array(np.zeros(5, np.uint8), 0, 0)
    _best_quotes(state, 0)


class Feed:
    """Publishes event rows on the subscribed topics; encodes nothing without a subscriber."""

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
        self._names = names
        self._epoch = epoch
        self._subscribed: NDArray[np.bool_] = np.zeros((len(CHANNELS), len(names)), np.bool_)
        self._previous: NDArray[np.int64] = np.full((len(CHANNELS), len(names)), sequence)
        self._time_ns = np.zeros_like(self._previous)  # of the last message, or of the subscription
        self._interval = 0
        self._is_active = np.zeros_like(self._subscribed)  # a message or a subscription since the last interval
        self._wait, self._repeat_at = np.ones_like(self._previous), np.zeros_like(self._previous)  # intervals
        self._next_repeat = 0  # where the repeats of an interval begin, so that each topic gets its turn
        self._published_auctions: dict[int, list[int]] = {}  # the last items published on channel `auction`, by symbol
        self._topics = [[f"{channel}/{name}/".encode() for name in names] for channel in CHANNELS]
        self._all_topics = [topic for topics in self._topics for topic in topics]
        subscriptions.is_known = self._is_known
        self._starts = np.zeros(len(names) + 1, np.int64)
        self._allocate(1024)
        self.has_subscribers = False
        self.messages = 0

    def _allocate(self, events: int) -> None:
        size = 1 << (2 * events - 1).bit_length()
        self._keys = np.zeros(size, np.int64)
        self._order = np.zeros(size // 2, np.int64)
        self._rows = np.zeros(L3_ITEMS_MAX, EVENT)
        self._body = np.zeros(size // 2 * ITEM_BYTES_MAX, np.uint8)

    def _is_known(self, topic: bytes) -> bool:
        """Whether any message can have a topic that begins so, also under a participant number."""
        topic = without_number(topic)
        return b"time/".startswith(topic) or any(own.startswith(topic) for own in self._all_topics)

    def read_subscriptions(self, sequence: int, time_ns: int, turn_s: float) -> None:
        """Reads new subscriptions; every event up to `sequence` must be published. A topic without subscribers before restarts its chain of
        sequences; one with a new subscriber is soon repeated. Reads none after `turn_s`."""
        if self._subscriptions.read(turn_s):
            self._restart_chains(sequence, time_ns)
        if self._subscriptions.new:
            prefixes = tuple(without_number(prefix) for prefix in self._subscriptions.new)
            for channel, topics in enumerate(self._topics):
                self._is_active[channel] |= np.array([topic.startswith(prefixes) for topic in topics], np.bool_)

    def _restart_chains(self, sequence: int, time_ns: int) -> None:
        prefixes = self.delayed.set_subscriptions(self._subscriptions.prefixes)
        for channel, topics in enumerate(self._topics):
            for symbol, topic in enumerate(topics):
                subscribed = any(topic.startswith(prefix) for prefix in prefixes)
                if subscribed and not self._subscribed[channel, symbol]:
                    self._previous[channel, symbol], self._time_ns[channel, symbol] = sequence, time_ns
                    self._published_auctions.pop(symbol, None)
                self._subscribed[channel, symbol] = subscribed
        self.has_subscribers = bool(self._subscriptions.prefixes)

    def publish(self, state: Any, events: Rows, start: int, stop: int) -> None:
        """Publishes event rows start..stop; `state` is the market after the last of them."""
        if stop <= start or not self.has_subscribers:
            return
        if stop - start > len(self._order):
            self._allocate(stop - start)
        group_by_symbol(events, start, stop, self._starts, self._order)
        sequence = int(events[stop - 1]["sequence"])
        time_ns = int(events[stop - 1]["time_ns"])
        for symbol in np.flatnonzero(np.diff(self._starts)):
            order = self._order[self._starts[symbol] : self._starts[symbol + 1]]
            subscribed = self._subscribed[:, symbol]
            if subscribed[0]:
                self._send(0, symbol, sequence, time_ns, _best_quotes(state, symbol))
            if subscribed[1]:
                size = 1 << (2 * len(order)).bit_length()
                if (events["flags"][order] & EventFlag.AUCTION)[events["kind"][order] == EventKind.FILL].any():
                    # a gap on purpose: subscribers request the book again after an auction
                    self._previous[1, symbol] = sequence - 1
                    self._send(1, symbol, sequence, time_ns, msgpack.packb([]))
                else:
                    encoded = encode_l2(state, symbol, events, order, self._keys[:size], self._body)
                    self._send_items(1, symbol, sequence, time_ns, encoded)
            for channel, encode in ((2, encode_l3), (3, encode_trades)):
                if subscribed[channel]:
                    self._publish_each(channel, symbol, encode, events, order)
            if subscribed[4]:
                self._publish_status(state, int(symbol), events, order)
            if subscribed[5]:
                self._publish_rows(symbol, events, order)
            if subscribed[6] and (events["kind"][order] != EventKind.REJECTED).any():
                self._publish_auction(state, int(symbol), sequence, time_ns)

    def _publish_each(self, channel: int, symbol: Any, encode: Any, events: Rows, order: NDArray[np.int64]) -> None:
        for first in range(0, len(order), L3_ITEMS_MAX):
            part = order[first : first + L3_ITEMS_MAX]
            last = events[part[-1]]
            encoded = encode(events, part, self._body)
            self._send_items(channel, symbol, int(last["sequence"]), int(last["time_ns"]), encoded)

    def _publish_rows(self, symbol: Any, events: Rows, order: NDArray[np.int64]) -> None:
        for first in range(0, len(order), L3_ITEMS_MAX):
            rows = self._rows[: copy_public_rows(events, order[first : first + L3_ITEMS_MAX], self._rows)]
            if len(rows):
                last = rows[-1]
                self._send(5, symbol, int(last["sequence"]), int(last["time_ns"]), msgpack.packb(rows.tobytes()))

    def _publish_status(self, state: Any, symbol: int, events: Rows, order: NDArray[np.int64]) -> None:
        for index in order:
            event = events[index]
            if event["kind"] in _STATUS:
                items = symbol_status(state, symbol)
                self._send(4, symbol, int(event["sequence"]), int(event["time_ns"]), msgpack.packb(items))

    def _publish_auction(self, state: Any, symbol: int, sequence: int, time_ns: int) -> None:
        """Publishes the indicative auction if it changed; [] when the symbol stops collecting orders."""
        items = list(indicative_now(state, symbol) or ())
        if items != self._published_auctions.get(symbol):
            self._published_auctions[symbol] = items
            self._send(6, symbol, sequence, time_ns, msgpack.packb(items))

    def _send_items(self, channel: int, symbol: Any, sequence: int, time_ns: int, encoded: tuple[int, int]) -> None:
        size, items = encoded
        if items:
            head = np.zeros(5, np.uint8)
            at = write_array(head, 0, items)
            self._send(channel, symbol, sequence, time_ns, head[:at].tobytes() + self._body[:size].tobytes())

    def _send(self, channel: int, symbol: Any, sequence: int, time_ns: int, items: bytes) -> None:
        body = self._body_of(channel, int(self._previous[channel, symbol]), sequence, time_ns, items)
        self._previous[channel, symbol], self._time_ns[channel, symbol] = sequence, time_ns
        self._is_active[channel, symbol] = True
        topic = self._topics[channel][symbol]
        self._socket.send_multipart([topic, body])
        self.delayed.put(topic, sequence, time_ns, body)
        self.messages += 1

    def _body_of(self, channel: int, previous: int, sequence: int, time_ns: int, items: bytes) -> bytes:
        return (
            b"\x96" + b"".join(map(msgpack.packb, (_KINDS[channel], self._epoch, previous, sequence, time_ns))) + items
        )

    def repeat_quiet(self, state: Any) -> None:
        """Repeats topics without messages, so that a subscriber that missed their last one sees it. Call it once in each interval, with every
        event published.

        A topic is repeated 1, 2, 4 ... QUIET_INTERVALS_MAX intervals after its last message or new subscriber, from then on each
        QUIET_INTERVALS_MAX."""
        if not self.has_subscribers:
            return
        self._interval += 1
        self._wait[self._is_active] = 1
        self._repeat_at[self._is_active] = self._interval + 1
        self._is_active[:] = False
        due = np.flatnonzero(self._subscribed & (self._repeat_at <= self._interval))
        due = np.roll(due, -np.searchsorted(due, self._next_repeat))[:REPEATS_MAX]
        for channel, symbol in zip(*np.unravel_index(due, self._subscribed.shape), strict=True):
            self._repeat(state, int(channel), int(symbol))
        if len(due):
            self._next_repeat = int(due[-1]) + 1

    def _repeat(self, state: Any, channel: int, symbol: int) -> None:
        wait = int(self._wait[channel, symbol])
        self._repeat_at[channel, symbol] = self._interval + wait
        self._wait[channel, symbol] = min(2 * wait, QUIET_INTERVALS_MAX)
        sequence, time_ns = int(self._previous[channel, symbol]), int(self._time_ns[channel, symbol])
        topic = self._topics[channel][symbol]
        body = self._body_of(channel, sequence, sequence, time_ns, self._repeated_items(state, channel, symbol))
        self._socket.send_multipart([topic, body])
        self.delayed.repeat(topic, sequence, time_ns, body)

    def _repeated_items(self, state: Any, channel: int, symbol: int) -> bytes:
        """The state of a channel whose messages give it; nothing of those that list changes."""
        kind = _KINDS[channel]
        if kind == FeedKind.L1:
            return _best_quotes(state, symbol)
        if kind == FeedKind.STATUS:
            return bytes(msgpack.packb(symbol_status(state, symbol)))
        if kind == FeedKind.AUCTION:
            known = self._published_auctions.get(symbol)
            return bytes(msgpack.packb(list(indicative_now(state, symbol) or ()) if known is None else known))
        return bytes(msgpack.packb(b"" if kind == FeedKind.ROWS else []))

    def publish_time(self, sequence: int, time_ns: int) -> None:
        """Publishes on `time/` that the feed is complete up to event `sequence`."""
        if self.has_subscribers:
            self._socket.send_multipart(
                [b"time/", msgpack.packb([FeedKind.TIME, self._epoch, sequence, sequence, time_ns, []])]
            )


def symbol_status(state: Any, symbol: int) -> list[int]:
    """[halted, phase, HaltReason] of a symbol; the reason is VOLATILITY while a price band interrupts trading."""
    halted, phase, reason = (
        int(value) for value in (state.halted[symbol], *state.symbols[symbol, [PHASE, HALT_REASON]])
    )
    interrupted = phase == Phase.VOLATILITY and not halted
    return [halted, phase, int(HaltReason.VOLATILITY) if interrupted else reason]


def _best_quotes(state: Any, symbol: Any) -> bytes:
    bid, bid_lots, ask, ask_lots = best(state, symbol)
    return bytes(msgpack.packb([int(bid), int(bid_lots), int(ask), int(ask_lots)]))
