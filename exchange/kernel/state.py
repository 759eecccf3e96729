"""The state of a market as arrays: everything the compiled functions read and write, and nothing else."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.kernel.rows import ActiveOrder, Counters
from serl.exchange.records import (
    ACCOUNT_COLUMNS,
    ASSET_COLUMNS,
    BALANCES,
    FEE_COLUMNS,
    LOT,
    SYMBOL_COLUMNS,
    TERM_COLUMNS,
    TICK_ENTRIES_MAX,
    WIDE_BALANCES,
    Queue,
)
from serl.exchange.struct_pointer import passed_by_pointer

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
        ("queue", "u1"),
        ("special", "u1"),  # whether EXTRA tells more of it
    ],
    align=True,
)
"""A resting order in the pool: one cache line."""

EXTRA = np.dtype(
    [
        ("limit_ticks", "<i8"),  # as sent; price_ticks of the slot is where it stands
        ("reserve_lots", "<i8"),
        ("display_lots", "<i8"),
        ("min_lots", "<i8"),
        ("stop_ticks", "<i8"),
        ("touch_ticks", "<i8"),
        ("trail_ticks", "<i8"),
        ("offset_ticks", "<i8"),
        ("expire_ns", "<i8"),
        ("link", "<i8"),  # order_id of the linked order, 0 = none
        ("child", "<i8"),  # order_id of the order that waits for this one, 0 = none
        ("parent", "<i8"),  # order_id of the order that it waits for, 0 = none
        ("heap_place", "<i4"),  # among the orders that expire, -1 = not there
        ("key", "<i8"),  # in its heap (rulebook/heaps.py)
        ("above", "<i4"),  # slots in its heap, -1 = none
        ("left", "<i4"),
        ("right", "<i4"),
        ("updates", "u1"),  # of a link: 1 = fills are taken off the other order
        ("heap", "i1"),  # of State.roots, ROOTS = that of its level; -1 = in none
        ("peg", "u1"),
        ("self_trade", "u1"),
        ("waits", "u1"),  # 1 for its parent, 2: that is filled
    ],
    align=True,
)
"""What an order has that is not just a price and a quantity; by slot."""

LEVEL_SLOT = np.dtype(
    [
        ("price_ticks", "<i8"),
        ("qty_lots", "<i8"),
        ("orders", "<i4"),
        ("first", "<i4"),
        ("last", "<i4"),
        ("heap", "<i4"),
    ],
    align=True,
)
"""A price level in the pool; `first` also links the free levels. `heap`: of MIN_QTY, the order with the smallest minimum."""

COUNTERS = np.dtype(
    [
        ("event_sequence", "<i8"),
        ("match_id", "<i8"),
        ("order_number", "<i8"),
        ("command_sequence", "<i8"),
        ("free_order", "<i8"),  # first of the free slots, -1 = none
        ("free_level", "<i8"),
        ("orders_open", "<i8"),
        ("qty_lots_max", "<i8"),
        ("price_ticks_max", "<i8"),
        ("orders_open_max", "<i8"),
        ("levels_max", "<i8"),
        ("display_divisor_max", "<i8"),  # 0 = none
        ("cancelled_orders", "<i8"),  # by the mass cancel in progress
        ("next_expiry_ns", "<i8"),  # the earliest expire_ns of an open order
        ("stage", "<i8"),  # STAGE_*: where the full rule book is in a command, 0 = in none
        ("wants_full_book", "<i8"),  # a command needs the full rule book, which is not loaded
        ("expiring_orders", "<i8"),  # in the heap
        ("symbols_pending", "<i8"),  # with triggers_pending set
        ("counts_open", "<i8"),  # whether open orders are counted by account
        ("auction_ticks", "<i8"),
        ("auction_lots", "<i8"),
        ("auction_first_ticks", "<i8"),
        ("triggers_symbol", "<i8"),  # whose triggers run now
        ("wants_far_levels", "<i8"),  # more far levels are needed
        ("own_fee_accounts", "<i8"),  # accounts with fees of their own
        ("wide_balances", "<i8"),  # whether cash, cost or fee of any account was ever beyond 64 bits
        ("counts_reserves", "<i8"),  # whether what open orders reserve is counted by account
    ],
    align=True,
)
"""Counters, limits and progress of a market."""

# State.handle: addresses of compiled functions
FULL_BOOK, FAST_BOOK = 0, 1  # 0: not loaded

NEVER = (1 << 63) - 1

ACTIVE_ORDER = np.dtype(
    [
        ("is_active", "<i8"),
        ("symbol", "<i8"),
        ("side", "<i8"),
        ("limit_ticks", "<i8"),  # how far it trades now
        ("leaves_lots", "<i8"),
        ("total_lots", "<i8"),
        ("participant", "<i8"),
        ("order_id", "<i8"),
        ("time_in_force", "<i8"),
        ("flags", "<i8"),
        ("price_ticks", "<i8"),  # its limit as sent, 0 = none
        # the full rule book's:
        ("command_id", "<i8"),  # of its events
        ("origin", "<i8"),  # FROM_NEW, FROM_REPLACE, FROM_QUEUE
        ("cancel_reason", "<i8"),  # why its remainder is cancelled, 0 = it is not
        ("self_trade", "<i8"),  # a SelfTrade
        ("self_trade_term", "<i8"),  # as sent: ACCOUNT_SELF_TRADE or a SelfTrade
        ("display_lots", "<i8"),
        ("min_lots", "<i8"),
        ("stop_ticks", "<i8"),
        ("touch_ticks", "<i8"),
        ("trail_ticks", "<i8"),
        ("peg", "<i8"),
        ("offset_ticks", "<i8"),
        ("expire_ns", "<i8"),
        ("link", "<i8"),
        ("updates", "<i8"),
        ("waits", "<i8"),
        ("child", "<i8"),
        ("round_lots", "<i8"),  # a pro-rata round allocates these lots, 0 = there is no round
        ("round_level_lots", "<i8"),  # to a level that had so many when the round began
        ("round_spare_lots", "<i8"),  # what rounding left: to the oldest
        ("round_served_number", "<i8"),  # order_number of the last order served
        ("round_served_slot", "<i8"),  # where it was then
        ("round_last_number", "<i8"),  # and of the last of the level
        ("round_price_ticks", "<i8"),
        # of a call by address, which has one result:
        ("next_row", "<i8"),  # the command to go on with
    ],
    align=True,
)
"""The order that is being matched."""

INSTRUMENT = np.dtype(
    [
        ("phase", "<i8"),
        ("last_ticks", "<i8"),
        ("high_ticks", "<i8"),  # since triggers ran last, as low_ticks
        ("low_ticks", "<i8"),
        ("lot_multiple", "<i8"),
        ("matching", "<i8"),
        ("band_low_ticks", "<i8"),
        ("band_high_ticks", "<i8"),
        ("band_action", "<i8"),
        ("halt_reason", "<i8"),
        ("has_fees", "<i8"),
        ("fees", "<i8", (FEE_COLUMNS,)),  # microticks a lot, then ppm of the notional: of makers, takers, auctions
        (
            "tick_table",
            "<i8",
            (TICK_ENTRIES_MAX, 2),
        ),  # (from price, multiple) each, by price; zeros where there is none
    ],
    align=True,
)
"""A row of State.symbols: the columns of Snapshot.symbols by name."""

BALANCE = np.dtype(
    [
        ("position_lots", "<i8"),
        ("cash_ticks", "<i8"),
        ("cost_ticks", "<i8"),
        ("fee_ticks", "<i8"),
        ("fee_microticks", "<i8"),
    ],
    align=True,
)
"""A row of State.balances: the columns of Snapshot.balances by name."""

assert INSTRUMENT.itemsize == 8 * SYMBOL_COLUMNS and BALANCE.itemsize == 8 * BALANCES

QUEUES = len(Queue)
# columns of State.roots; kinds of pegs are 2 * (peg - 1) + side
FLOATING = 0  # four kinds of pegged orders that are where their reference wants them
COLLARED = 4  # pegged orders whose limit follows the last trade
WAITING_PEGS = 5  # four kinds that stand at their limit: the one first that the reference would move first
DUE_PEGS = 9  # those to look at, by order_number
WAITING_TRAILS = 10  # trailing buys and sells: the one first that a trade would move first
DUE_TRAILS = 12
CLOSERS = 13  # AT_CLOSE orders in INACTIVE, by order_number
DUE_CHILDREN = 14  # orders whose parents are filled, by order_number
ROOTS = 15

# columns of State.settled
SETTLED_BID, SETTLED_ASK, SETTLED_LAST = (
    0,
    1,
    2,
)  # prices for which all pegs but the due ones were found in place, -1 = unknown
PEGS = 3  # pegged orders
RESERVES = 4  # lots of reserves by side
SETTLED = 6

# columns of State.reserves
RESERVED_HIGH, RESERVED_LOW = 0, 1  # notional of buys in ticks x lots, two words
RESERVED_BUYS, RESERVED_SELLS = 2, 3  # lots
RESERVE_COLUMNS = 4

SPECIAL_RULES, OPEN_COUNTED = 1 << 32, 1 << 33
"""Added to State.needs_full_book where a symbol's phase or rules are not the plain ones, and where open orders are counted; below them is
the number of special orders."""

BID, ASK = 0, 1


@passed_by_pointer(counters=COUNTERS, active_order=ACTIVE_ORDER, symbols=INSTRUMENT, balances=BALANCE)
class State(NamedTuple):
    """Arrays of a market: S symbols, P participants, W window prices, C order slots, F far levels.

    B books: the displayed one of each symbol (B = S) until the first order that needs another queue; then that of queue q and symbol s is
    q * S + s (B = 5 S), and `extras`, `heap`, `roots` and `settled` are there.
    """

    counters: Counters  # (1,) COUNTERS; compiled code: the record
    active_order: ActiveOrder  # (1,) ACTIVE_ORDER; compiled code: the record
    orders: NDArray[np.void]  # (C,) SLOT
    levels: NDArray[np.void]  # (C,) LEVEL_SLOT: a level has at least one order
    table: NDArray[np.int64]  # (2 C,) open addressing: tag << 32 | slot + 1; 0 = free
    base: NDArray[np.int64]  # (B,) price of the window's first place
    window: NDArray[np.int32]  # (B, 2, W) level of a price and side, -1 = none
    bits: NDArray[np.uint64]  # (B, 2, W / 64) occupied places
    summary: NDArray[np.uint64]  # (B, 2, W / 4096) words of `bits` that are not zero
    best: NDArray[np.int64]  # (B, 2) best bid and ask price, 0 = none
    far_price: NDArray[np.int64]  # (B, 2, F) prices outside the window, best last
    far_level: NDArray[np.int32]  # (B, 2, F)
    far_count: NDArray[np.int64]  # (B, 2)
    far_use: NDArray[np.int64]  # (B,) far operations since the window moved
    level_count: NDArray[np.int64]  # (B,)
    halted: NDArray[np.uint8]  # (S,)
    last_command_id: NDArray[np.int64]  # (P,)
    report: NDArray[np.int64]  # (P,) number of the last report
    operator: NDArray[np.uint8]  # (P,)
    balances: NDArray[np.int64]  # (P, S, BALANCES); compiled code: (P, S) BALANCE
    carries: NDArray[np.int64]  # (P, S, 3) words above cash, cost and fee, times 2^64
    scratch: NDArray[np.int32]  # (2 W,)
    needs_full_book: NDArray[
        np.int64
    ]  # (S,) special orders, + SPECIAL_RULES; 0: the plain rules are all there is to it
    has_limits: NDArray[np.uint8]  # (P,) whether a setting of the account is not 0, its fees left aside
    symbols: NDArray[np.int64]  # (S, SYMBOL_COLUMNS); compiled code: (S,) INSTRUMENT
    accounts: NDArray[np.int64]  # (P, ACCOUNT_COLUMNS)
    terms: NDArray[np.int64]  # (P, TERM_COLUMNS)
    extras: NDArray[np.void]  # (C or 0,) EXTRA
    heap: NDArray[np.int32]  # (C or 0,) slots by expiry
    roots: NDArray[np.int32]  # (S or 0, ROOTS) slots, -1 = an empty heap
    settled: NDArray[np.int64]  # (S or 0, SETTLED)
    triggers_pending: NDArray[np.uint8]  # (S,)
    open_lots: NDArray[np.int64]  # (P, S, 2) of an account's orders, while counters.counts_open
    open_orders: NDArray[np.int64]  # (P,)
    assets: NDArray[np.int64]  # (S, ASSET_COLUMNS)
    deposits: NDArray[np.int64]  # (P, 2 S) units of the asset with that number, less 1
    reserves: NDArray[np.int64]  # (P, S, RESERVE_COLUMNS) of an account's orders, while counters.counts_reserves
    handle: NDArray[np.int64]  # FULL_BOOK and FAST_BOOK, then address and shape of each array


def new_state(symbols: int, participants: int, window: int, capacity: int, far: int) -> State:
    """An empty market; limits in `counters` are the caller's to set."""
    counters: Any = np.zeros(1, COUNTERS)
    active_order: Any = np.zeros(1, ACTIVE_ORDER)
    state = State(
        counters=counters,
        active_order=active_order,
        orders=np.zeros(capacity, SLOT),
        levels=np.zeros(capacity, LEVEL_SLOT),
        table=np.zeros(2 * capacity, np.int64),
        halted=np.zeros(symbols, np.uint8),
        last_command_id=np.zeros(participants, np.int64),
        report=np.zeros(participants, np.int64),
        operator=np.zeros(participants, np.uint8),
        balances=np.zeros((participants, symbols, BALANCES), np.int64),
        carries=np.zeros((participants, symbols, WIDE_BALANCES - BALANCES), np.int64),
        scratch=np.zeros(2 * window, np.int32),
        needs_full_book=np.zeros(symbols, np.int64),
        has_limits=np.zeros(participants, np.uint8),
        symbols=np.zeros((symbols, SYMBOL_COLUMNS), np.int64),
        accounts=np.zeros((participants, ACCOUNT_COLUMNS), np.int64),
        terms=np.zeros((participants, TERM_COLUMNS), np.int64),
        extras=np.zeros(0, EXTRA),
        heap=np.zeros(0, np.int32),
        roots=np.zeros((0, ROOTS), np.int32),
        settled=np.zeros((0, SETTLED), np.int64),
        triggers_pending=np.zeros(symbols, np.uint8),
        open_lots=np.zeros((0, symbols, 2), np.int64),
        open_orders=np.zeros(0, np.int64),
        assets=np.zeros((symbols, ASSET_COLUMNS), np.int64),
        deposits=np.zeros((participants, 2 * symbols), np.int64),
        reserves=np.zeros((0, symbols, RESERVE_COLUMNS), np.int64),
        handle=np.zeros(1, np.int64),
        **new_books(symbols, window, far),
    )
    state.symbols[:, LOT] = 1
    state.counters["next_expiry_ns"] = NEVER
    link_free(state, 0)
    return state


def link_free(state: State, first: int) -> None:
    """Links the slots from `first` on as free; the last one ends the list (-1)."""
    capacity = len(state.orders)
    following = np.arange(first + 1, capacity + 1, dtype=np.int32)
    following[-1] = -1
    state.orders["next"][first:] = following
    state.levels["first"][first:] = following


def new_books(books: int, window: int, far: int) -> dict[str, Any]:
    """Empty ones."""
    return {
        "base": np.zeros(books, np.int64),
        "window": np.full((books, 2, window), -1, np.int32),
        "bits": np.zeros((books, 2, window // 64), np.uint64),
        "summary": np.zeros((books, 2, -(-window // 4096)), np.uint64),
        "best": np.zeros((books, 2), np.int64),
        "far_price": np.zeros((books, 2, far), np.int64),
        "far_level": np.zeros((books, 2, far), np.int32),
        "far_count": np.zeros((books, 2), np.int64),
        "far_use": np.zeros(books, np.int64),
        "level_count": np.zeros(books, np.int64),
    }


def with_queues(state: State) -> State:
    """The same market with room for special orders."""
    capacity, (books, _, window), far = len(state.orders), state.window.shape, state.far_price.shape[2]
    longer = new_books(QUEUES * books, window, far)
    for name, array in longer.items():
        array[:books] = getattr(state, name)
    return state._replace(
        extras=np.zeros(capacity, EXTRA),
        heap=np.zeros(capacity, np.int32),
        roots=np.full((books, ROOTS), -1, np.int32),
        settled=np.zeros((books, SETTLED), np.int64),
        open_lots=np.zeros((len(state.report), books, 2), np.int64),
        open_orders=np.zeros(len(state.report), np.int64),
        reserves=np.zeros((len(state.report), books, RESERVE_COLUMNS), np.int64),
        **longer,
    )
