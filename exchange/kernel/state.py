"""The state of a market as arrays: everything the compiled functions read and write, and nothing else."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SLOT = np.dtype(
    [
        ("order_id", "<i8"),
        ("order_number", "<i8"),
        ("price_ticks", "<i8"),
        ("open_lots", "<i8"),
        ("total_lots", "<i8"),  # filled + open
        ("level", "<i4"),
        ("next", "<i4"),  # behind in the queue; also links the free slots
        ("previous", "<i4"),
        ("symbol", "<u2"),
        ("participant", "<u2"),
        ("side", "u1"),
        ("time_in_force", "u1"),
        ("flags", "u1"),
    ],
    align=True,
)
"""A resting order in the pool: one cache line."""

LEVEL_SLOT = np.dtype(
    [("price_ticks", "<i8"), ("qty_lots", "<i8"), ("orders", "<i4"), ("first", "<i4"), ("last", "<i4")], align=True
)
"""A price level in the pool; `first` also links the free levels."""

# State.counter: named places
EVENT_SEQUENCE, MATCH_ID, ORDER_NUMBER, COMMAND_SEQUENCE = 0, 1, 2, 3
FREE_ORDER, FREE_LEVEL, ORDERS_OPEN = 4, 5, 6
QTY_MAX, PRICE_MAX, ORDERS_MAX, LEVELS_MAX = 7, 8, 9, 10
CANCELLED_COUNT = 11  # of the mass cancel that goes on
COUNTERS = 16

# State.incoming: the order that is being matched
ACTIVE, SYMBOL, SIDE, LIMIT, LEFT, TOTAL, PARTICIPANT, ORDER_ID, TIME_IN_FORCE, FLAGS, PRICE = range(11)

BID, ASK = 0, 1


class State(NamedTuple):
    """Arrays of a market: S symbols, P participants, W window prices, C order slots, F far levels."""

    counter: NDArray[np.int64]  # (COUNTERS,)
    incoming: NDArray[np.int64]  # (11,)
    orders: NDArray[np.void]  # (C,) SLOT
    levels: NDArray[np.void]  # (C,) LEVEL_SLOT: a level has at least one order
    table: NDArray[np.int64]  # (2 C,) open addressing: tag << 32 | slot + 1; 0 = free
    base: NDArray[np.int64]  # (S,) price of the window's first place
    window: NDArray[np.int32]  # (S, W) level of a price, -1 = none
    bits: NDArray[np.uint64]  # (S, W / 64) occupied places
    summary: NDArray[np.uint64]  # (S, W / 4096) words of `bits` that are not zero
    best: NDArray[np.int64]  # (S, 2) best bid and ask price, 0 = none
    far_price: NDArray[np.int64]  # (S, 2, F) prices outside the window, best last
    far_level: NDArray[np.int32]  # (S, 2, F)
    far_count: NDArray[np.int64]  # (S, 2)
    far_use: NDArray[np.int64]  # (S,) far operations since the window moved
    level_count: NDArray[np.int64]  # (S,)
    halted: NDArray[np.uint8]  # (S,)
    last_command_id: NDArray[np.int64]  # (P,)
    report: NDArray[np.int64]  # (P,) number of the last report
    operator: NDArray[np.uint8]  # (P,)
    position_lots: NDArray[np.int64]  # (P, S)
    cash_ticks: NDArray[np.int64]  # (P, S) ticks x lots
    scratch: NDArray[np.int32]  # (W,)


def new_state(symbols: int, participants: int, window: int, capacity: int, far: int) -> State:
    """An empty market; limits in `counter` are the caller's to set."""
    state = State(
        counter=np.zeros(COUNTERS, np.int64),
        incoming=np.zeros(11, np.int64),
        orders=np.zeros(capacity, SLOT),
        levels=np.zeros(capacity, LEVEL_SLOT),
        table=np.zeros(2 * capacity, np.int64),
        base=np.zeros(symbols, np.int64),
        window=np.full((symbols, window), -1, np.int32),
        bits=np.zeros((symbols, window // 64), np.uint64),
        summary=np.zeros((symbols, -(-window // 4096)), np.uint64),
        best=np.zeros((symbols, 2), np.int64),
        far_price=np.zeros((symbols, 2, far), np.int64),
        far_level=np.zeros((symbols, 2, far), np.int32),
        far_count=np.zeros((symbols, 2), np.int64),
        far_use=np.zeros(symbols, np.int64),
        level_count=np.zeros(symbols, np.int64),
        halted=np.zeros(symbols, np.uint8),
        last_command_id=np.zeros(participants, np.int64),
        report=np.zeros(participants, np.int64),
        operator=np.zeros(participants, np.uint8),
        position_lots=np.zeros((participants, symbols), np.int64),
        cash_ticks=np.zeros((participants, symbols), np.int64),
        scratch=np.zeros(window, np.int32),
    )
    link_free(state, 0)
    state.counter[FREE_ORDER] = state.counter[FREE_LEVEL] = 0
    return state


def link_free(state: State, first: int) -> None:
    """Links the slots from `first` on as free; the last one ends the list (-1)."""
    capacity = len(state.orders)
    following = np.arange(first + 1, capacity + 1, dtype=np.int32)
    following[-1] = -1
    state.orders["next"][first:] = following
    state.levels["first"][first:] = following
