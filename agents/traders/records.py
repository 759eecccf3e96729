"""The arrays of a population's traders; the same layout in process and in a host process.

Times are exchange time in ns, prices are in ticks, quantities in lots. Fields called `*_address` are memory addresses of this
process, set when the arrays are allocated or grow; traders read through them with trader_api.py.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.struct_pointer import passed_by_pointer

DEPTH_MAX = 10
REQUESTS_MAX = 128
"""The most requests that a trader may make at one wake-up; the low bits of a command id number them."""
REQUEST_BITS = 7
FLOW_ROWS = 256
"""Number of public orders and trades kept per symbol; a power of two."""

AGENT = np.dtype(
    [
        ("wake_ns", "<i8"),  # next wake-up, -1: none
        ("arrival_ns", "<i8"),  # arrival of its latest command: a trader's commands never overtake each other
        ("latency_ns", "<i8"),  # from its wake-up to the exchange
        ("seed", "<u8"),
        ("draws", "<u8"),  # random numbers drawn so far
        ("position_lots", "<i8"),
        ("cash_ticks", "<i8"),  # ticks x lots, before fees
        ("fee_microticks", "<i8"),  # fees paid so far, microticks x lots
        ("function_address", "<i8"),
        ("profile_address", "<i8"),
        ("memory_address", "<i8"),
        ("sleep_ns", "<f8"),  # the invalid duration that it passed to `sleep`, if any
        ("number", "<i4"),  # in the population, the same in every host
        ("depth", "<i4"),  # levels per side that it sees
        ("symbol", "<i4"),
        ("kind", "<i4"),  # index of its group in the population
        ("list_start", "<i4"),  # its open orders: a block of `slab`
        ("list_capacity", "<i4"),
        ("orders_open", "<i4"),
        ("legs", "<i4"),  # members of the basket that it trades, each with an account; 0: it trades one symbol
        ("leg_start", "<i4"),  # its first row of `legs`
        ("memory_slots", "<i4"),  # numbers in its memory
    ],
    align=True,
)

LEG = np.dtype(
    [
        ("agent", "<i4"),  # the trader's account in this symbol, index in `agents`
        ("symbol", "<i4"),
        ("weight", "<f8"),  # lots in a lot of the basket
        ("basket_ticks", "<f8"),  # weight x ticks of the basket that a tick of this symbol is worth
        ("bid_ticks", "<i8"),  # from here on, as of the latest wake-up
        ("bid_lots", "<i8"),
        ("ask_ticks", "<i8"),
        ("ask_lots", "<i8"),
        ("position_lots", "<i8"),
        ("orders_open", "<i8"),
        ("taker_microticks", "<i8"),  # fee of a lot
        ("taker_ppm", "<i8"),  # fee in ppm of the notional
    ],
    align=True,
)
LEG_SHIFT = 8
"""A request's kind is a command's kind, with the leg from this bit on."""

VIEW = np.dtype(
    [
        ("time_ns", "<i8"),
        ("open_ns", "<i8"),
        ("close_ns", "<i8"),
        ("bid_ticks", "<i8"),  # 0: no bid
        ("bid_lots", "<i8"),
        ("ask_ticks", "<i8"),
        ("ask_lots", "<i8"),
        ("last_ticks", "<i8"),  # price of the last trade, 0: none yet
        ("traded_lots", "<i8"),  # since the open
        ("bought_lots", "<i8"),  # that buyers took in the book since the open, without auctions
        ("sold_lots", "<i8"),  # that sellers took
        ("bid_levels", "<i8"),  # levels in the arrays below, up to the trader's depth
        ("ask_levels", "<i8"),
        ("bid_price", "<i8", (DEPTH_MAX,)),
        ("bid_qty", "<i8", (DEPTH_MAX,)),
        ("ask_price", "<i8", (DEPTH_MAX,)),
        ("ask_qty", "<i8", (DEPTH_MAX,)),
        ("orders_open", "<i8"),  # open orders of this trader
        ("list_address", "<i8"),
        ("nodes_address", "<i8"),
        ("memory_address", "<i8"),
        ("memory_slots", "<i8"),  # numbers in the memory
        ("outside_slots", "<i8"),  # uses of memory beyond them; ignored
        ("outside_slot", "<i8"),  # the last of these
        ("value_address", "<i8"),
        ("value_step_ns", "<i8"),
        ("value_count", "<i8"),
        ("flow_address", "<i8"),
        ("flow_count", "<i8"),  # public orders and trades since the start
        ("legs", "<i8"),  # members of the basket
        ("legs_address", "<i8"),  # set if there are any
        ("board_address", "<i8"),  # the symbol's row of Traders.forecast_board
    ],
    align=True,
)

REQUESTS = np.dtype(
    [
        ("count", "<i8"),
        ("wake_ns", "<i8"),
        ("dropped", "<i8"),  # requests beyond REQUESTS_MAX
        ("sleep_ns", "<f8"),  # the invalid duration that the trader passed to `sleep`, if any
        ("rows", "<i8", (REQUESTS_MAX, 6)),  # kind, side, price, lots, time in force, flags; or CANCEL, node
    ],
    align=True,
)

NODE = np.dtype(
    [
        ("order_id", "<i8"),  # the command id of its NEW; 0 = free
        ("price_ticks", "<i8"),  # 0: market order
        ("open_lots", "<i8"),
        ("sent_ns", "<i8"),  # wake-up that sent the order
        ("agent", "<i4"),  # index in `agents`; for a free node, the next free node
        ("list_index", "<i4"),  # position in its trader's list
        ("side", "<i4"),
        ("cancel_pending", "<i4"),  # a cancel is in flight
    ],
    align=True,
)

NO_WAKE_UP, NO_SLEEP = -1, -2
"""Values of `wake_ns` in REQUESTS: the trader has not called `sleep`; it has called it with an invalid duration."""

# Indices of Traders.counter; SLEEPLESS is 1 + the first agent that slept for no time, OUTSIDE 1 + the first that used memory which it does not
# have, in OUTSIDE_SLOT; 0 if none has
(
    SCHEDULED, IN_FLIGHT, NODE_FREE, NODES_USED, IN_FLIGHT_FREE, SLAB_TOP, SPACING, REQUESTS_DROPPED, WAKEUPS, SLEEPLESS, OUTSIDE, OUTSIDE_SLOT,
) = range(12)  # fmt: skip


@passed_by_pointer
class Traders(NamedTuple):
    """The arrays of N traders (of this host), with K nodes, F commands in flight and S symbols. Compiled code sees them through `handle`, which
    `with_handle` renews."""

    counter: NDArray[np.int64]  # (16,)
    agents: NDArray[np.void]  # (N,) AGENT
    market_view: NDArray[np.void]  # (1,) VIEW of the trader that is awake
    requests: NDArray[np.void]  # (1,) REQUESTS
    wake_key: NDArray[np.int64]  # (N + 1,) heap by wake-up time
    wake_item: NDArray[np.int32]  # (N + 1,)
    in_flight: NDArray[np.void]  # (F,) COMMAND, on the way to the exchange
    in_flight_key: NDArray[np.int64]  # (F + 1,) heap by command id, which grows with the arrival time
    in_flight_item: NDArray[np.int32]  # (F + 1,)
    in_flight_next: NDArray[np.int32]  # (F,) free list
    nodes: NDArray[np.void]  # (K,) NODE
    order_table: NDArray[np.int64]  # (4 K,) order id to node, open addressing: [id, node] pairs
    slab: NDArray[np.int32]  # (L,) blocks of node numbers, one block per trader
    slab_free: NDArray[np.int32]  # (32,) first free block of each power of two, -1 = none
    flow: NDArray[np.int64]  # (S, FLOW_ROWS, 4) time, side, price, lots; side + 2 for trades (of the aggressor)
    public_totals: NDArray[
        np.int64
    ]  # (S, 6) last trade price, traded lots, flow rows so far, trades, lots that buyers took, that sellers took
    value: NDArray[np.float64]  # (S, T) fundamental value in ticks on a grid
    times: NDArray[np.int64]  # (3,) open, close, step of `value`
    legs: NDArray[np.void]  # (L,) LEG, those of a trader in a row
    forecast_board: NDArray[
        np.float64
    ]  # (S, BOARD_START, or BOARD_NUMBERS where there are forecasters) the last forecast
    fees: NDArray[np.int64]  # (S, 6) of a fill: microticks a lot and ppm of the notional for makers, takers, auctions
    handle: NDArray[np.int64]  # of serl.exchange.struct_pointer


# Columns of Traders.public_totals
LAST_TICKS, TRADED_LOTS, FLOW_COUNT, TRADE_COUNT, BOUGHT_LOTS, SOLD_LOTS = range(6)

# Columns of Traders.forecast_board: horizons, 0 without a forecast; time of the forecast, ns; then FORECAST_NUMBERS for each horizon
BOARD_COUNT, BOARD_TIME, BOARD_START = range(3)
FORECAST_HORIZONS_MAX = 20
FORECAST_NUMBERS = 7
"""Horizon in s, probabilities that the mid goes down, stays flat, goes up, expected volume in lots, probabilities that a bid and an ask fill."""
BOARD_NUMBERS = BOARD_START + FORECAST_NUMBERS * FORECAST_HORIZONS_MAX
