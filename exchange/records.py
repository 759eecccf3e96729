"""The one record layout, shared by the order book, the journal, the wire and day files.

`COMMAND` rows go in, `EVENT` rows come out. All fields are integers: prices in ticks, quantities in lots, times in
nanoseconds of exchange time. Rows are aligned and little-endian, so that a file of rows is read by mapping it.
"""

from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.void]
"""A one-dimensional array of `COMMAND`, `EVENT`, `ORDER` or other structured rows."""


class CommandKind(IntEnum):
    """The kind of a command. Any participant may send 1-6, only an operator the rest."""

    NEW = 1
    CANCEL = 2
    REDUCE = 3  # partial cancel: reduces the open quantity by qty_lots
    REPLACE = 4  # new limit price and new total quantity
    MASS_CANCEL = 5  # every order of the participant; in symbol, or everywhere with symbol = ALL_SYMBOLS
    TERM = 6  # one more term for the participant's next NEW with flag TERMS: flags = Term, price_ticks = value
    END_DAY = 16  # cancels every DAY order
    HALT = 17  # flags = HaltReason
    RESUME = 18
    PRINT = 19  # a trade outside the visible book (hidden order, cross): published, changes nothing; side = the resting party's
    PHASE = 20  # flags = Phase
    UNCROSS = 21  # an auction now, in a collecting phase
    TIME = 22  # time has passed: orders that expire by time_ns do so
    ACCOUNT = 23  # order_id = participant, flags = Setting, price_ticks = value
    RULE = 24  # flags = Rule, price_ticks = value
    PURGE = 25  # a mass cancel for participant order_id
    DEPOSIT = 26  # order_id = participant, qty_lots = asset, price_ticks = amount in units, below 0 a withdrawal


class Side(IntEnum):
    """Side of an order."""

    BUY = 0
    SELL = 1


class TimeInForce(IntEnum):
    """How long an order lives."""

    DAY = 0
    GTC = 1
    IOC = 2
    FOK = 3
    GTT = 4  # until the time of its term EXPIRE_NS
    AT_OPEN = 5
    AT_CLOSE = 6


class CommandFlag(IntFlag):
    """Bits of COMMAND.flags."""

    NONE = 0
    POST_ONLY = 1
    MARKET = 2  # no limit price: price_ticks must be 0; the remainder never rests
    HIDDEN = 4
    ALL_OR_NONE = 8
    REDUCE_ONLY = 16
    TERMS = 32  # consumes the terms that were sent before
    TO_LIMIT = 64  # with MARKET: the first fill sets its limit, and the remainder rests there


class Term(IntEnum):
    """The terms that a TERM command can set for the next order; docs/orders.md explains them."""

    DISPLAY_LOTS = 0
    MIN_LOTS = 1
    STOP_TICKS = 2
    TRAIL_TICKS = 3
    PEG = 4  # a Peg
    OFFSET_TICKS = 5
    EXPIRE_NS = 6
    LINK = 7  # order_id of the other order
    SELF_TRADE = 8  # a SelfTrade
    TOUCH_TICKS = 10  # 9 is none: NO_TERM
    UPDATE_LINK = 11  # order_id of the other order
    WAITS = 12  # 1: inactive until the order that names it as its child is filled
    CHILD = 13  # order_id of an order that waits for this one


class Peg(IntEnum):
    """The price that a pegged order follows."""

    NONE = 0
    PRIMARY = 1
    MID = 2


class SelfTrade(IntEnum):
    """Which order is cancelled when an incoming order meets one of the same participant."""

    NONE = 0
    NEWEST = 1
    OLDEST = 2
    BOTH = 3
    DECREMENT = 4


class Queue(IntEnum):
    """The queues in which a symbol's orders stand; market data shows only DISPLAYED."""

    DISPLAYED = 0
    HIDDEN = 1
    MIN_QTY = 2
    STOP = 3
    INACTIVE = 4


class Phase(IntEnum):
    """A phase of a symbol's day."""

    CONTINUOUS = 0
    PRE_OPEN = 1
    OPENING = 2
    INTRADAY = 3
    VOLATILITY = 4
    CLOSING = 5
    CLOSED = 6


COLLECTING = range(Phase.PRE_OPEN, Phase.CLOSED)
"""Phases in which orders are collected for an auction."""


class HaltReason(IntEnum):
    """Why a symbol is halted."""

    NONE = 0  # no reason was given, or the symbol is not halted
    OPERATOR = 1
    NEWS = 2
    VOLATILITY = 3
    TECHNICAL = 4
    REGULATORY = 5


class Setting(IntEnum):
    """A setting of an account."""

    SELF_TRADE = 0
    ORDER_LOTS_MAX = 1
    ORDER_NOTIONAL_MAX = 2
    COLLAR_TICKS = 3
    ORDERS_OPEN_MAX = 4
    POSITION_LOTS_MAX = 5
    KILLED = 6
    OWN_FEES = 7  # 1: the following fees replace the symbols'
    MAKER_MICROTICKS = 8  # as in Rule
    MAKER_PPM = 9
    TAKER_MICROTICKS = 10
    TAKER_PPM = 11
    AUCTION_MICROTICKS = 12
    AUCTION_PPM = 13
    BALANCE_CHECKS = 14  # 1: no order may spend more than the free balance
    SHORT_SALES = 15  # 1: sells are exempt from that


class Rule(IntEnum):
    """A rule of a symbol."""

    LOT = 0
    TICK = 1  # order_id = the price from which it applies; value 0: removes the entry there
    MATCHING = 2
    BAND_LOW = 3
    BAND_HIGH = 4
    BAND_ACTION = 5
    MAKER_MICROTICKS = 6  # fee per lot
    MAKER_PPM = 7  # of the notional
    TAKER_MICROTICKS = 8
    TAKER_PPM = 9
    AUCTION_MICROTICKS = 10
    AUCTION_PPM = 11
    BASE_ASSET = 12  # number of an asset; 0: its own
    QUOTE_ASSET = 13  # 0: the common one of all symbols without this rule
    BASE_UNITS = 14  # of the base asset, in a lot; 0: 1
    QUOTE_UNITS = 15  # of the quote asset, in a tick x lot; 0: 1


class EventKind(IntEnum):
    """The kind of an event. docs/orders.md gives the order of events for each command."""

    ACCEPTED = 1
    REJECTED = 2
    FILL = 3
    CANCELLED = 4
    REDUCED = 5
    REPLACED = 6
    RESTED = 7
    PRINT = 8
    HALTED = 9  # flags = HaltReason
    RESUMED = 10
    MASS_CANCELLED = 11
    DAY_ENDED = 12
    PHASED = 13  # flags = Phase, price_ticks and qty_lots of the auction
    TRIGGERED = 14  # a stop order leaves its queue
    SET = 15  # answers ACCOUNT, RULE and DEPOSIT


class EventFlag(IntFlag):
    """Bits of EVENT.flags."""

    NONE = 0
    RESTING = 1  # ACCEPTED: went into the book unchanged; CANCELLED: was removed from the book
    MAKER = 2  # FILL: the resting side's
    HIDDEN = 4  # about an order that the displayed book does not show
    AUCTION = 8  # FILL: in an auction; both sides rested, the sell order's is MAKER too


class Reason(IntEnum):
    """Why a command was rejected or an order cancelled."""

    NONE = 0
    # rejections
    UNKNOWN_KIND = 1
    UNKNOWN_SYMBOL = 2
    BAD_SIDE = 3
    BAD_QTY = 4  # not in 1..qty_lots_max
    BAD_PRICE = 5  # not in 1..price_ticks_max (or a price on a market order)
    BAD_TIME_IN_FORCE = 6
    BAD_FLAGS = 7  # e.g. post-only together with market, IOC or FOK
    UNKNOWN_ORDER = 8  # no open order of this participant has this order_id
    WOULD_CROSS = 9  # post-only order that would take liquidity; also the reason of a cancellation
    HALTED = 10
    NOT_PERMITTED = 11  # operator commands
    BOOK_FULL = 12  # a limit of configs/exchange.yaml is reached
    STALE_COMMAND_ID = 13  # command_id is not greater than the last one of this participant
    KILLED = 14
    NOT_REPLACEABLE = 15
    BAD_TERMS = 16
    WRONG_PHASE = 17
    OUTSIDE_BAND = 18  # also the reason of a cancellation
    LIMIT_QTY = 19
    LIMIT_NOTIONAL = 20
    LIMIT_PRICE = 21
    LIMIT_ORDERS = 22
    LIMIT_POSITION = 23
    REDUCE_ONLY = 24
    BAD_SETTING = 25
    LIMIT_DISPLAY = 26  # an iceberg that displays too little of its quantity
    LIMIT_BALANCE = 27  # more than the free balance of an asset
    # cancellations
    REQUESTED = 32
    IOC_REMAINDER = 33
    FOK_UNFILLABLE = 34
    MARKET_REMAINDER = 35
    MASS_CANCEL = 36
    DISCONNECT = 37
    DAY_END = 38
    REPLACED_BELOW_FILLED = 39  # a replace to a total that is already filled
    SELF_TRADE = 40
    EXPIRED = 41
    LINKED = 42
    AUCTION_REMAINDER = 43
    NO_ROOM = 44
    KILL = 45
    NOT_REDUCING = 46
    PURGED = 47  # by an operator


CASH_MAX = 1 << 53
"""Ticks x lots of the largest trade: a float represents that exactly. Sums of trades may exceed 64 bits."""

FEE_PPM_MAX = 1_000_000
"""Maximum proportional fee: the whole notional."""
FEE_LOTS_MAX = 1 << 62
"""Microticks x lots of the per-lot fee of the largest trade."""
MICRO = 1_000_000

ALL_SYMBOLS = 0xFFFF
"""COMMAND.symbol of a mass cancel in every symbol."""

COMMAND = np.dtype(
    [
        ("time_ns", "<i8"),  # arrival at the exchange, exchange time
        ("sequence", "<i8"),  # of the journal, 1, 2, 3 ...; set by the exchange
        ("command_id", "<i8"),  # > 0, strictly increasing per participant; that of a NEW becomes the order's id
        ("order_id", "<i8"),  # CANCEL, REDUCE, REPLACE: the command_id that created the order
        ("price_ticks", "<i8"),
        ("qty_lots", "<i8"),  # NEW, REPLACE: total quantity; REDUCE: lots to take off; PRINT: lots traded
        ("symbol", "<u2"),
        ("participant", "<u2"),  # set by the exchange
        ("kind", "u1"),
        ("side", "u1"),
        ("time_in_force", "u1"),
        ("flags", "u1"),
        ("check", "<u4"),  # of the journal: mix of all other bytes; 0 elsewhere
        ("reason", "<u4"),  # MASS_CANCEL by the exchange itself: DISCONNECT; 0 elsewhere
    ],
    align=True,
)

EVENT = np.dtype(
    [
        ("time_ns", "<i8"),
        ("sequence", "<i8"),  # of all events, 1, 2, 3 ...
        ("command_sequence", "<i8"),  # journal sequence of the command that caused it
        ("report", "<i8"),  # of this participant's events, 1, 2, 3 ...
        ("command_id", "<i8"),  # of the command that this event answers; 0 for a fill of a resting order
        ("order_id", "<i8"),  # the participant's name of the order
        ("order_number", "<i8"),  # the public name of a resting order, 0 if it has none (yet)
        ("price_ticks", "<i8"),
        ("qty_lots", "<i8"),  # accepted, filled, cancelled, taken off
        ("leaves_lots", "<i8"),  # open after this event
        ("match_id", "<i8"),  # FILL, PRINT: the same on both sides, 1, 2, 3 ...
        ("symbol", "<u2"),
        ("participant", "<u2"),
        ("kind", "u1"),
        ("side", "u1"),
        ("reason", "u1"),
        ("flags", "u1"),
    ],
    align=True,
)

ORDER = np.dtype(
    [
        ("order_number", "<i8"),
        ("order_id", "<i8"),
        ("price_ticks", "<i8"),
        ("open_lots", "<i8"),
        ("total_lots", "<i8"),
        ("symbol", "<u2"),
        ("participant", "<u2"),
        ("side", "u1"),
        ("time_in_force", "u1"),
        ("flags", "u1"),
    ],
    align=True,
)
"""A displayed order, as in snapshots: sorted by symbol, side (bids first), price from best to worst, then time priority.
For an iceberg, open_lots is its displayed part."""

# Columns of Snapshot.symbols: the state of a symbol besides its orders
PHASE, LAST_TICKS, HIGH_TICKS, LOW_TICKS, LOT, MATCHING, BAND_LOW, BAND_HIGH, BAND_ACTION, HALT_REASON = range(10)
HAS_FEES, MAKER_FEE, TAKER_FEE, AUCTION_FEE = 10, 11, 13, 15  # fees: microticks per lot, then ppm of the notional
FEE_COLUMNS = 6
TICKS = 17
TICK_ENTRIES_MAX = 8
SYMBOL_COLUMNS = TICKS + 2 * TICK_ENTRIES_MAX  # (from price, multiple) each, by price; zeros where there is none

# Columns of Snapshot.balances: the result of an account's trades in a symbol
POSITION, CASH, COST, FEE, FEE_MICRO = range(5)  # lots; ticks x lots; the rest of FEE in microticks x lots, below MICRO
CASH_HIGH, COST_HIGH, FEE_HIGH = range(5, 8)  # if a sum ever exceeded 64 bits: the high words, times 2^64
BALANCES, WIDE_BALANCES = 5, 8

ACCOUNT_COLUMNS = len(Setting)
"""Columns of Snapshot.accounts, by Setting."""
FIRST_ACCOUNT_COLUMNS = int(Setting.BALANCE_CHECKS)
"""Number of columns of Snapshot.accounts in the first version."""
LIMIT_SETTINGS = (*range(Setting.OWN_FEES), int(Setting.BALANCE_CHECKS))
"""Settings that affect which orders are accepted and matched; the others are fees."""
ASSET_COLUMNS = 4
"""Columns of Snapshot.assets: the rules from BASE_ASSET on."""
UNITS_MAX = 1 << 31
"""Maximum units of an asset in a lot or a tick x lot."""
DEPOSITS_MAX = (1 << 62) - 1
"""Maximum units of an asset that an account may have deposited or withdrawn in total."""

NO_TERM = 9
"""Not the number of a term: the column of Snapshot.terms with a bit for each given term. The bit 1 << NO_TERM means an unknown term."""
TERM_COLUMNS = max(Term) + 1
"""Columns of Snapshot.terms: values by Term, and NO_TERM."""
ACCOUNT_SELF_TRADE = 255

TRADE = np.dtype(
    [
        ("match_id", "<i8"),
        ("time_ns", "<i8"),
        ("price_ticks", "<i8"),
        ("qty_lots", "<i8"),
        ("symbol", "<u2"),
        ("side", "u1"),  # the aggressor's; for a PRINT the side opposite to the resting party's; in an auction BUY
        ("flags", "u1"),  # EventFlag, of which AUCTION may be set
        ("off_book", "u1"),  # 1: a PRINT
    ],
    align=True,
)
"""A trade, as the market publishes it."""

LEVEL = np.dtype([("price_ticks", "<i8"), ("qty_lots", "<i8"), ("orders", "<i8")], align=True)
"""A price level of a book; levels are sorted best first."""


def command(
    kind: int,
    *,
    symbol: int = 0,
    side: int = 0,
    qty_lots: int = 0,
    price_ticks: int = 0,
    time_in_force: int = 0,
    flags: int = 0,
    command_id: int = 0,
    order_id: int = 0,
    participant: int = 0,
    time_ns: int = 0,
    reason: int = 0,
) -> Rows:
    """One `COMMAND` row, shape (1,). For tests and tools; the hot path never builds rows one by one."""
    row = np.zeros(1, COMMAND)
    values: dict[str, Any] = {
        "kind": kind, "symbol": symbol, "side": side, "qty_lots": qty_lots, "price_ticks": price_ticks,
        "time_in_force": time_in_force, "flags": flags, "command_id": command_id, "order_id": order_id,
        "participant": participant, "time_ns": time_ns, "reason": reason,
    }  # fmt: skip
    for name, value in values.items():
        row[name] = value
    return row
