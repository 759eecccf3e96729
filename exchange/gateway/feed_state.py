"""The feed's state: the subscriptions, the chain of each topic, and the messages that are encoded but not sent yet. Arrays only, no sockets."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import EVENT
from serl.exchange.struct_pointer import passed_by_pointer, with_handle
from serl.exchange.wire import FeedKind

KINDS = tuple(int(kind) for kind in FeedKind if kind != FeedKind.TIME)
CHANNELS = tuple(FeedKind(kind).name.lower() for kind in KINDS)
L1, L2, L3, TRADE, STATUS, ROWS, AUCTION = range(len(CHANNELS))
ITEM_BYTES_MAX = 64
"""The largest size of an encoded item (level, order, trade)."""
HEAD_BYTES_MAX = 64
"""The largest size of the part of a message before its items."""
ITEMS_MAX = 4096
"""Maximum number of items in an l3, trade or rows message."""
EVENT_MESSAGES_MAX = len(CHANNELS)
"""Maximum number of messages that an event can cause."""
BATCH_BYTES = 3 * ITEM_BYTES_MAX + EVENT.itemsize + EVENT_MESSAGES_MAX * HEAD_BYTES_MAX

# Indices of FeedState.counter
SOCKET = 0  # raw handle of the feed socket
EPOCH = 1
PUBLISHED = 2  # rows of the event segment that are published
ENCODED = 3  # messages that are encoded but not sent
BYTES_USED = 4  # of `bytes`
AUCTIONS_DUE = 5  # symbols whose auction Python must check
LAST_SEQUENCE, LAST_TIME_NS = 6, 7  # of the last published event
COUNTERS = 8

# Columns of FeedState.message
TOPIC, START, END, SEQUENCE, TIME_NS = range(5)
# Values of FeedState.auction_published: nothing published yet; published that no orders are collected; published an indicative auction
UNSEEN, NO_AUCTION, INDICATIVE = range(3)
# Who publishes events. For PYTHON the loop returns after each batch.
NOBODY, PYTHON, LOOP = range(3)


@passed_by_pointer
class FeedState(NamedTuple):
    """Arrays for S symbols and batches of N events. Topic t is channel t // S of symbol t % S."""

    counter: NDArray[np.int64]  # (COUNTERS,)
    topic: NDArray[np.uint8]  # (7 S, bytes)
    topic_bytes: NDArray[np.int64]  # (7 S,)
    subscribed: NDArray[np.bool_]  # (7, S)
    previous: NDArray[np.int64]  # (7, S) sequence of the last message
    time_ns: NDArray[np.int64]  # (7, S) of the last message, or of the subscription
    is_active: NDArray[np.bool_]  # (7, S) a message or a subscription since the last interval
    auction_published: NDArray[np.uint8]  # (S,) UNSEEN, NO_AUCTION or INDICATIVE
    auction_due: NDArray[np.bool_]  # (S,) counted by AUCTIONS_DUE
    order: NDArray[np.int64]  # (N,) event indices by symbol
    starts: NDArray[np.int64]  # (S + 1,) scratch of the sort
    levels: NDArray[np.int64]  # (2 N rounded up to a power of two,) hash table of the levels that changed
    rows: NDArray[np.void]  # (ITEMS_MAX,) EVENT rows of a message
    row_bytes: NDArray[np.uint8]  # the same memory as bytes
    head: NDArray[np.uint8]  # (HEAD_BYTES_MAX + 8,) scratch
    message: NDArray[np.int64]  # (7 N, 5) encoded messages: topic, start and end in `bytes`, sequence, time
    bytes: NDArray[np.uint8]  # (N BATCH_BYTES,)
    handle: NDArray[np.int64]  # address and shape of each array


def topics_of(symbols: Sequence[str]) -> list[bytes]:
    """The topics of all channels by number."""
    return [f"{channel}/{name}/".encode() for channel in CHANNELS for name in symbols]


def new_feed_state(symbols: Sequence[str], epoch: int, sequence: int, events: int, socket: int) -> FeedState:
    """A feed without subscribers. sequence: that of the last event so far; events: minimum batch size; socket: raw handle, 0 for none."""
    topics = topics_of(symbols)
    width = max(map(len, topics), default=1)
    padded = np.frombuffer(b"".join(topic.ljust(width, b"\0") for topic in topics), np.uint8).reshape(
        len(topics), width
    )
    shape, rows = (len(CHANNELS), len(symbols)), np.zeros(ITEMS_MAX, EVENT)
    counter = np.zeros(COUNTERS, np.int64)
    counter[SOCKET], counter[EPOCH], counter[LAST_SEQUENCE] = socket, epoch, sequence
    state = FeedState(
        counter=counter,
        topic=padded.copy(),
        topic_bytes=np.array([len(topic) for topic in topics], np.int64),
        subscribed=np.zeros(shape, np.bool_),
        previous=np.full(shape, sequence),
        time_ns=np.zeros(shape, np.int64),
        is_active=np.zeros(shape, np.bool_),
        auction_published=np.zeros(len(symbols), np.uint8),
        auction_due=np.zeros(len(symbols), np.bool_),
        starts=np.zeros(len(symbols) + 1, np.int64),
        rows=rows,
        row_bytes=rows.view(np.uint8),
        head=np.zeros(HEAD_BYTES_MAX + 8, np.uint8),
        **_batch(events),
        handle=np.zeros(0, np.int64),
    )
    return with_handle(state)


def with_room(state: FeedState, events: int) -> FeedState:
    """The state with room for batches of at least `events`; call it between two batches."""
    return state if events <= len(state.order) else with_handle(state._replace(**_batch(events)))


def _batch(events: int) -> dict[str, Any]:
    """The arrays that a batch of events needs. Their memory pages are allocated on first use."""
    levels = 1 << (2 * events - 1).bit_length()
    size = levels // 2
    return {
        "order": np.zeros(size, np.int64),
        "levels": np.zeros(levels, np.int64),
        "message": np.zeros((EVENT_MESSAGES_MAX * size, 5), np.int64),
        "bytes": np.zeros(size * BATCH_BYTES, np.uint8),
    }


NO_FEED = new_feed_state((), 0, 0, 1, 0)
"""The feed state if nobody publishes."""
