"""Market data in compiled code: events become feed messages, one for each topic and batch, and go to the feed socket."""

from typing import Any

from serl.exchange.compiling import apart, compiled, inlined, int64
from serl.exchange.gateway.codec import copy_bytes, write_array, write_bin, write_int
from serl.exchange.gateway.feed_items import (
    copy_public_rows,
    is_auction_fill,
    is_status,
    status_of,
    write_l2,
    write_l3,
    write_trades,
)
from serl.exchange.gateway.feed_state import (
    AUCTION,
    AUCTIONS_DUE,
    BYTES_USED,
    ENCODED,
    END,
    EPOCH,
    HEAD_BYTES_MAX,
    ITEMS_MAX,
    KINDS,
    L1,
    L2,
    L3,
    LAST_SEQUENCE,
    LAST_TIME_NS,
    NO_AUCTION,
    PUBLISHED,
    ROWS,
    SEQUENCE,
    SOCKET,
    START,
    STATUS,
    TIME_NS,
    TOPIC,
    TRADE,
    FeedState,
    new_feed_state,
)
from serl.exchange.kernel import best
from serl.exchange.libzmq import DONTWAIT, EINTR, SNDMORE, zmq_errno, zmq_send
from serl.exchange.records import COLLECTING, EVENT, EventKind, Rows

SORTED_ONE_BY_ONE = 64
"""Number of events up to which an insertion sort is faster than counting all symbols."""
_REJECTED, _ROW_BYTES = int(EventKind.REJECTED), EVENT.itemsize
_COLLECTING_FROM, _COLLECTING_TO = COLLECTING.start, COLLECTING.stop
_FIRST_KIND, _AFTER_TIME = KINDS[L1], ROWS
assert all(kind == _FIRST_KIND + channel + (channel >= _AFTER_TIME) for channel, kind in enumerate(KINDS))


@inlined
def _sort_by_symbol(feed: FeedState, events: Any, first: int, stop: int) -> None:
    """Writes the event indices to feed.order, sorted by symbol and stable. O(n²) for a few events, otherwise O(n + symbols)."""
    order, count = feed.order, stop - first
    if count <= SORTED_ONE_BY_ONE:
        for place in range(count):
            symbol, at = events[first + place].symbol, place
            while at > 0 and events[order[at - 1]].symbol > symbol:
                order[at] = order[at - 1]
                at -= 1
            order[at] = first + place
        return
    starts = feed.starts
    symbols = starts.size - 1
    starts[:] = 0
    others = 0
    for index in range(first, stop):
        if events[index].symbol < symbols:
            starts[events[index].symbol + 1] += 1
    for symbol in range(symbols):
        starts[symbol + 1] += starts[symbol]
    for index in range(first, stop):
        symbol = int64(events[index].symbol)
        if symbol < symbols:
            order[starts[symbol]] = index
            starts[symbol] += 1
        else:  # of a command that was rejected
            others += 1
            order[count - others] = index


@inlined
def _items_at(feed: FeedState) -> int:
    """The position at which the items of the next message begin; its head, of unknown size, ends there."""
    return feed.counter[BYTES_USED] + HEAD_BYTES_MAX


@inlined
def _finish(feed: FeedState, channel: int, symbol: int, sequence: int, time_ns: int, end: int, items: int) -> None:
    """Writes the head of a message whose items end at `end`. items: their number; for a binary its size in bytes, negated; 0 with `end` at the
    beginning means no items."""
    counter, head = feed.counter, feed.head
    head[0] = 0x96
    at = write_int(head, 1, _FIRST_KIND + channel + (1 if channel >= _AFTER_TIME else 0))
    at = write_int(head, at, counter[EPOCH])
    at = write_int(head, at, feed.previous[channel, symbol])
    at = write_int(head, at, sequence)
    at = write_int(head, at, time_ns)
    at = write_bin(head, at, -items) if items < 0 else write_array(head, at, items)
    start = _items_at(feed) - at
    copy_bytes(feed.bytes, start, head, 0, at)
    message = feed.message[counter[ENCODED]]
    message[TOPIC], message[START], message[END] = channel * (feed.starts.size - 1) + symbol, start, end
    message[SEQUENCE], message[TIME_NS] = sequence, time_ns
    counter[ENCODED] += 1
    counter[BYTES_USED] = end
    feed.previous[channel, symbol], feed.time_ns[channel, symbol] = sequence, time_ns
    feed.is_active[channel, symbol] = True


@inlined
def _encode_l1(feed: FeedState, state: Any, symbol: int, sequence: int, time_ns: int) -> None:
    bid, bid_lots, ask, ask_lots = best(state, symbol)
    at = write_int(feed.bytes, _items_at(feed), bid)
    at = write_int(feed.bytes, at, bid_lots)
    at = write_int(feed.bytes, at, ask)
    at = write_int(feed.bytes, at, ask_lots)
    _finish(feed, L1, symbol, sequence, time_ns, at, 4)


@inlined
def _encode_l2(feed: FeedState, state: Any, symbol: int, sequence: int, time_ns: int, events: Any, order: Any) -> None:
    for index in order:
        if is_auction_fill(events[index]):
            # a deliberate gap: subscribers request the book again after an auction
            feed.previous[L2, symbol] = sequence - 1
            _finish(feed, L2, symbol, sequence, time_ns, _items_at(feed), 0)
            return
    size = 1
    while size < 2 * order.size:
        size *= 2
    end, items = write_l2(state, symbol, events, order, feed.levels[:size], feed.bytes, _items_at(feed))
    if items > 0:
        _finish(feed, L2, symbol, sequence, time_ns, end, items)


@inlined
def _encode_parts(feed: FeedState, symbol: int, events: Any, order: Any) -> None:
    """Encodes the channels that list changes, in messages of at most ITEMS_MAX items."""
    for channel in (L3, TRADE):
        if not feed.subscribed[channel, symbol]:
            continue
        for first in range(0, order.size, ITEMS_MAX):
            part = order[first : first + ITEMS_MAX]
            last = events[part[part.size - 1]]
            at = _items_at(feed)
            end, items = (
                write_l3(events, part, feed.bytes, at) if channel == L3 else write_trades(events, part, feed.bytes, at)
            )
            if items > 0:
                _finish(feed, channel, symbol, last.sequence, last.time_ns, end, items)


@inlined
def _encode_status(feed: FeedState, state: Any, symbol: int, events: Any, order: Any) -> None:
    for index in order:
        event = events[index]
        if is_status(event):
            halted, phase, reason = status_of(state, symbol)
            at = write_int(feed.bytes, _items_at(feed), halted)
            at = write_int(feed.bytes, at, phase)
            at = write_int(feed.bytes, at, reason)
            _finish(feed, STATUS, symbol, event.sequence, event.time_ns, at, 3)


@inlined
def _encode_rows(feed: FeedState, symbol: int, events: Any, order: Any) -> None:
    for first in range(0, order.size, ITEMS_MAX):
        count = copy_public_rows(events, order[first : first + ITEMS_MAX], feed.rows)
        if count > 0:
            last, at, size = feed.rows[count - 1], _items_at(feed), count * _ROW_BYTES
            copy_bytes(feed.bytes, at, feed.row_bytes, 0, size)
            _finish(feed, ROWS, symbol, last.sequence, last.time_ns, at + size, -size)


@inlined
def _note_auction(feed: FeedState, state: Any, symbol: int, events: Any, order: Any) -> None:
    """Makes Python check a symbol's auction if it may have changed; only a collecting symbol has one."""
    phase = state.symbols[symbol].phase
    collects = phase >= _COLLECTING_FROM and phase < _COLLECTING_TO
    if feed.auction_due[symbol] or (not collects and feed.auction_published[symbol] == NO_AUCTION):
        return
    for index in order:
        if events[index].kind != _REJECTED:
            feed.auction_due[symbol] = True
            feed.counter[AUCTIONS_DUE] += 1
            return


@inlined
def _encode(feed: FeedState, state: Any, events: Any, first: int, stop: int) -> None:
    """Encodes the messages of events first..stop, at most as many as fit; `state` is the market after the last of them."""
    sequence, time_ns = events[stop - 1].sequence, events[stop - 1].time_ns
    counter, symbols, count = feed.counter, feed.starts.size - 1, stop - first
    counter[LAST_SEQUENCE], counter[LAST_TIME_NS] = sequence, time_ns
    _sort_by_symbol(feed, events, first, stop)
    begin = 0
    while begin < count:
        symbol, end = int64(events[feed.order[begin]].symbol), begin + 1
        while end < count and events[feed.order[end]].symbol == symbol:
            end += 1
        order = feed.order[begin:end]
        begin = end
        if symbol >= symbols:
            continue
        if feed.subscribed[L1, symbol]:
            _encode_l1(feed, state, symbol, sequence, time_ns)
        if feed.subscribed[L2, symbol]:
            _encode_l2(feed, state, symbol, sequence, time_ns, events, order)
        _encode_parts(feed, symbol, events, order)
        if feed.subscribed[STATUS, symbol]:
            _encode_status(feed, state, symbol, events, order)
        if feed.subscribed[ROWS, symbol]:
            _encode_rows(feed, symbol, events, order)
        if feed.subscribed[AUCTION, symbol]:
            _note_auction(feed, state, symbol, events, order)


@inlined
def _send_frame(socket: int, address: int, size: int, flags: int) -> None:
    """Sends a frame; retries if a signal interrupts it."""
    while zmq_send(socket, address, size, flags) < 0 and zmq_errno() == EINTR:
        pass


@inlined
def _send(feed: FeedState) -> None:
    """Sends the encoded messages, and makes room for the next ones. libzmq drops those of a subscriber that does not keep up."""
    counter = feed.counter
    for number in range(counter[ENCODED]):
        message = feed.message[number]
        topic = message[TOPIC]
        _send_frame(counter[SOCKET], feed.topic[topic].ctypes.data, feed.topic_bytes[topic], SNDMORE | DONTWAIT)
        start = feed.bytes.ctypes.data + message[START]
        _send_frame(counter[SOCKET], start, message[END] - message[START], DONTWAIT)
    counter[ENCODED] = counter[BYTES_USED] = 0


@apart
def publish_unpublished(feed: FeedState, state: Any, events: Any, stop: int) -> bool:
    """Publishes the unpublished event rows up to `stop`. Returns False if Python must: there is no room for that many, or an auction is due."""
    first = feed.counter[PUBLISHED]
    if stop - first > feed.order.size:
        return False
    if stop > first:
        _encode(feed, state, events, first, stop)
        _send(feed)
        feed.counter[PUBLISHED] = stop
    return feed.counter[AUCTIONS_DUE] == 0


@compiled
def encode(feed: FeedState, state: Any, events: Any, first: int, stop: int) -> None:
    """Encodes the messages of events first..stop; there must be room for them."""
    _encode(feed, state, events, first, stop)


@compiled
def send(feed: FeedState) -> None:
    """Sends the encoded messages, and makes room for the next ones."""
    _send(feed)


def warm_feed(state: Any, events: Rows) -> None:
    """Compiles or loads the functions that Python calls, so that the first message does not wait for them. Needs a symbol and an event."""
    feed = new_feed_state(("",), 0, 0, 1, 0)
    encode(feed, state, events, 0, 1)
    send(feed)
    best(state, 0)
    status_of(state, 0)
