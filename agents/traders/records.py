"""The arrays that traders live in. One layout in process and in a host process.

Times are ns of exchange time, prices ticks, quantities lots. Fields called `*_address` are memory addresses of this
process, set when the arrays are made or grow; traders read what is there through words.py.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DEPTH_MAX = 10
REQUESTS_MAX = 128
"""What a trader may ask for at one wake-up: the low bits of a command id count them."""
REQUEST_BITS = 7
FLOW_ROWS = 256
"""Public orders and trades that are remembered per symbol; a power of two."""

AGENT = np.dtype(
    [
        ("wake_ns", "<i8"),  # next wake-up, -1: none
        ("arrival_ns", "<i8"),  # of its latest command: a trader's commands never overtake each other
        ("latency_ns", "<i8"),  # from its wake-up to the exchange
        ("seed", "<u8"),
        ("draws", "<u8"),  # random numbers taken so far
        ("position_lots", "<i8"),
        ("cash_ticks", "<i8"),  # ticks x lots
        ("function_address", "<i8"),
        ("profile_address", "<i8"),
        ("memory_address", "<i8"),
        ("number", "<i4"),  # in the population, the same in every host
        ("depth", "<i4"),  # levels a side that it looks at
        ("symbol", "<i4"),
        ("kind", "<i4"),  # place in the population's list of groups
        ("list_start", "<i4"),  # its open orders: a block of `slab`
        ("list_room", "<i4"),
        ("orders_open", "<i4"),
    ],
    align=True,
)

VIEW = np.dtype(
    [
        ("time_ns", "<i8"),
        ("open_ns", "<i8"),
        ("close_ns", "<i8"),
        ("bid_ticks", "<i8"),  # 0: nobody bids
        ("bid_lots", "<i8"),
        ("ask_ticks", "<i8"),
        ("ask_lots", "<i8"),
        ("last_ticks", "<i8"),  # of the last trade, 0: none yet
        ("traded_lots", "<i8"),  # since the open
        ("bid_levels", "<i8"),  # filled below, up to the trader's depth
        ("ask_levels", "<i8"),
        ("bid_price", "<i8", (DEPTH_MAX,)),
        ("bid_qty", "<i8", (DEPTH_MAX,)),
        ("ask_price", "<i8", (DEPTH_MAX,)),
        ("ask_qty", "<i8", (DEPTH_MAX,)),
        ("orders_open", "<i8"),  # of this trader
        ("list_address", "<i8"),
        ("nodes_address", "<i8"),
        ("memory_address", "<i8"),
        ("value_address", "<i8"),
        ("value_step_ns", "<i8"),
        ("value_count", "<i8"),
        ("flow_address", "<i8"),
        ("flow_count", "<i8"),  # public orders and trades ever seen
    ],
    align=True,
)

REQUESTS = np.dtype(
    [
        ("count", "<i8"),
        ("wake_ns", "<i8"),
        ("dropped", "<i8"),  # requests beyond REQUESTS_MAX
        ("rows", "<i8", (REQUESTS_MAX, 6)),  # kind, side, price, lots, time in force, flags; or CANCEL, node
    ],
    align=True,
)

NODE = np.dtype(
    [
        ("order_id", "<i8"),  # the command id of its NEW; 0 = free
        ("price_ticks", "<i8"),  # 0: market order
        ("open_lots", "<i8"),
        ("since_ns", "<i8"),  # when it was sent
        ("agent", "<i4"),  # place in `agents`; next free node while free
        ("place", "<i4"),  # in its trader's list
        ("side", "<i4"),
        ("cancelling", "<i4"),  # a cancel is under way
    ],
    align=True,
)

# Traders.counter: named places
WAKES, FLIGHTS, NODE_FREE, NODES_USED, FLIGHT_FREE, SLAB_TOP, SPACING, DROPPED, WAKEUPS = range(9)


class Traders(NamedTuple):
    """N traders (of this host), K nodes, F commands under way, S symbols."""

    counter: NDArray[np.int64]  # (16,)
    agents: NDArray[np.void]  # (N,) AGENT
    sight: NDArray[np.void]  # (1,) VIEW
    requests: NDArray[np.void]  # (1,) REQUESTS
    wake_key: NDArray[np.int64]  # (N + 1,) heap by wake-up time
    wake_item: NDArray[np.int32]  # (N + 1,)
    flight: NDArray[np.void]  # (F,) COMMAND: on their way to the exchange
    flight_key: NDArray[np.int64]  # (F + 1,) heap by command id, which grows with the arrival time
    flight_item: NDArray[np.int32]  # (F + 1,)
    flight_next: NDArray[np.int32]  # (F,) free list
    nodes: NDArray[np.void]  # (K,) NODE
    table: NDArray[np.int64]  # (4 K,) order id to node, open addressing: [id, node] pairs
    slab: NDArray[np.int32]  # (L,) blocks of node numbers
    slab_free: NDArray[np.int32]  # (32,) first free block of each power of two, -1 = none
    flow: NDArray[np.int64]  # (S, FLOW_ROWS, 4) time, side, price, lots; side + 2 for trades (of the aggressor)
    seen: NDArray[np.int64]  # (S, 4) last trade price, traded lots, flow rows ever, trades
    value: NDArray[np.float64]  # (S, T) fundamental value in ticks on a grid
    times: NDArray[np.int64]  # (3,) open, close, step of `value`


LAST, TRADED, FLOW, TRADES = range(4)
