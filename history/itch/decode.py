"""Applies ITCH messages to a book, block by block; compiled."""

from typing import Any

from serl.exchange.compiling import compiled, inlined, inner, int64
from serl.history.itch.messages import LENGTHS, STOCK_AT, offset, read_int
from serl.history.stream_book import BUY, ROW, SELL, TIME_NS, StreamBook, find_order, has_room, has_room_to_enter
from serl.history.stream_commands import (
    cancel_lots,
    enter_order,
    forget_order,
    halt,
    orders_at_price,
    print_trade,
    resume,
    trade,
)

MORE_DATA, NEEDS_ROOM, NEW_STOCK, UNKNOWN_TYPE, WRONG_LENGTH, TIME_BACKWARDS, UNKNOWN_ORDER, DUPLICATE_ORDER = range(8)
NO_SHARES, TOO_MANY_SHARES, BAD_SIDE, NO_PRICE = range(8, 12)
"""Why `decode` stopped."""
UNKNOWN, INCLUDED, EXCLUDED = -3, -2, -1
"""State of a stock without a number: not seen yet; selected, and gets a number with its first order; not selected."""
APPLIED = -1

COUNT_NAMES = (
    "replaces",
    "executions_other_price",  # at a price other than the order's: reduced and printed
    "executions_unprinted",  # part of a cross, whose own message is printed
    "crosses_empty",
    "broken_trades",
    "prices_rounded",  # off the tick: bids down, asks up
    "prints_rounded",
    "messages_left_out",  # of stocks that are not selected
    "messages_without_effect",  # directory, imbalance and the like
    "halts_elsewhere",  # operational halts of another market, which do not halt this one
)
"""Counts of the decoder, besides the book's."""
(
    REPLACES, EXECUTIONS_OTHER_PRICE, EXECUTIONS_UNPRINTED, CROSSES_EMPTY, BROKEN_TRADES, PRICES_ROUNDED, PRINTS_ROUNDED,
    MESSAGES_EXCLUDED, MESSAGES_WITHOUT_EFFECT, HALTS_ELSEWHERE,
) = range(len(COUNT_NAMES))  # fmt: skip

A, F, E, C, X, D, U, P, Q, B, H, HALT = (ord(kind) for kind in "AFECXDUPQBHh")
LOCATE, TIME = offset("S", "locate"), offset("S", "time_ns")
ORDER, SIDE, ADD_SHARES, ADD_PRICE = (
    offset("A", "order"),
    offset("A", "side"),
    offset("A", "shares"),
    offset("A", "price"),
)
SHARES = offset("E", "shares")
PRINTABLE, OTHER_PRICE = offset("C", "printable"), offset("C", "price")
NEW_ORDER, NEW_SHARES, NEW_PRICE = offset("U", "new_order"), offset("U", "shares"), offset("U", "price")
CROSS_SHARES, CROSS_PRICE = offset("Q", "shares"), offset("Q", "price")
STATE, ACTION, MARKET = offset("H", "state"), offset("h", "action"), offset("h", "market")
MARKETS = (ord("Q"), ord("B"), ord("X"))
"""Nasdaq, BX and PSX, whose feeds report each other's operational halts."""
BUYS, SELLS, YES, TRADES = (ord(letter) for letter in "BSYT")
REGULATORY, OPERATIONAL = 1, 2
"""Bits of `halt_flags`."""


@inlined
def _ticks(price: int, units: int, side: int) -> int:
    """The price in ticks, at least 1; rounded away from the other side, so that rounding never crosses the book."""
    return max(1, price // units if side == BUY else (price + units - 1) // units)


@inlined
def _print_ticks(price: int, units: int) -> int:
    """The price in ticks, at least 1; rounded to the nearest, half to even."""
    ticks, rest = price // units, price % units
    if 2 * rest > units or (2 * rest == units and ticks % 2 == 1):
        ticks += 1
    return max(1, ticks)


@inner
def _add(book: StreamBook, data: Any, at: int, symbol: int, units: int, counts: Any) -> int:
    order, shares, price = (
        read_int(data, at + ORDER, 8),
        read_int(data, at + ADD_SHARES, 4),
        read_int(data, at + ADD_PRICE, 4),
    )
    letter = data[at + SIDE]
    if letter != BUYS and letter != SELLS:
        return BAD_SIDE
    if shares == 0:
        return NO_SHARES
    if price == 0:
        return NO_PRICE
    if order == 0 or find_order(book, order) != 0:
        return DUPLICATE_ORDER
    side = BUY if letter == BUYS else SELL
    counts[PRICES_ROUNDED] += price % units != 0
    enter_order(book, order, symbol, side, _ticks(price, units, side), shares)
    return APPLIED


@inner
def _change(book: StreamBook, data: Any, at: int, kind: int, units: int, counts: Any) -> int:
    """E, C, X, D and U: change an open order."""
    slot = find_order(book, read_int(data, at + ORDER, 8))
    if slot == 0:
        return UNKNOWN_ORDER
    if not has_room(book, orders_at_price(book, slot)):
        return NEEDS_ROOM
    order = book.orders[slot]
    if kind == D:
        cancel_lots(book, slot, order.source_lots)
        forget_order(book, slot)
        return APPLIED
    if kind == U:
        return _replace(book, data, at, slot, units, counts)
    shares = read_int(data, at + SHARES, 4)
    if shares == 0:
        return NO_SHARES
    if shares > order.source_lots:
        return TOO_MANY_SHARES
    if kind == X:
        cancel_lots(book, slot, shares)
    elif kind == E:
        trade(book, slot, shares)
    else:
        symbol, side, price = int64(order.symbol), int64(order.side), read_int(data, at + OTHER_PRICE, 4)
        if price == 0 and data[at + PRINTABLE] == YES:
            return NO_PRICE
        cancel_lots(book, slot, shares)
        counts[EXECUTIONS_OTHER_PRICE] += 1
        if data[at + PRINTABLE] != YES:
            counts[EXECUTIONS_UNPRINTED] += 1
        else:
            counts[PRINTS_ROUNDED] += price % units != 0
            print_trade(book, symbol, side, _print_ticks(price, units), shares)
    if order.source_lots == 0:
        forget_order(book, slot)
    return APPLIED


@inner
def _replace(book: StreamBook, data: Any, at: int, slot: int, units: int, counts: Any) -> int:
    order = book.orders[slot]
    symbol, side = int64(order.symbol), int64(order.side)
    new, shares, price = (
        read_int(data, at + NEW_ORDER, 8),
        read_int(data, at + NEW_SHARES, 4),
        read_int(data, at + NEW_PRICE, 4),
    )
    if shares == 0:
        return NO_SHARES
    if price == 0:
        return NO_PRICE
    if new == 0 or find_order(book, new) != 0:
        return DUPLICATE_ORDER
    cancel_lots(book, slot, order.source_lots)
    forget_order(book, slot)
    counts[REPLACES] += 1
    counts[PRICES_ROUNDED] += price % units != 0
    enter_order(book, new, symbol, side, _ticks(price, units, side), shares)
    return APPLIED


@inner
def _print(book: StreamBook, data: Any, at: int, kind: int, symbol: int, units: int, counts: Any) -> int:
    """P and Q: prints a trade."""
    if kind == P:
        shares, price = read_int(data, at + ADD_SHARES, 4), read_int(data, at + ADD_PRICE, 4)
        side = SELL if data[at + SIDE] == SELLS else BUY
    else:
        shares, price, side = read_int(data, at + CROSS_SHARES, 8), read_int(data, at + CROSS_PRICE, 4), BUY
        if shares == 0:
            counts[CROSSES_EMPTY] += 1
            return APPLIED
    if shares <= 0:  # a cross has eight bytes for the shares; the first bit is read as the sign here
        return NO_SHARES
    if price == 0:
        return NO_PRICE
    counts[PRINTS_ROUNDED] += price % units != 0
    print_trade(book, symbol, side, _print_ticks(price, units), shares)
    return APPLIED


@inlined
def _is_elsewhere(data: Any, at: int, kind: int, market: int) -> bool:
    """Whether this is an operational halt of another market than the file's."""
    return kind == HALT and data[at + MARKET] != market and data[at + MARKET] in MARKETS


@inner
def _trading_state(book: StreamBook, data: Any, at: int, kind: int, symbol: int, halt_flags: Any) -> int:
    """H and h: the stock is halted while either message type reports a halt. Quotation only counts as a halt, since nothing matches."""
    bit = REGULATORY if kind == H else OPERATIONAL
    trading = data[at + (STATE if kind == H else ACTION)] == TRADES
    flags = (halt_flags[symbol] & ~bit) | (0 if trading else bit)
    if flags:
        halt(book, symbol)
    elif not has_room_to_enter(book, symbol):
        return NEEDS_ROOM
    else:
        resume(book, symbol)
    halt_flags[symbol] = flags
    return APPLIED


@inner
def _message(
    book: StreamBook, data: Any, at: int, kind: int, symbol: int, units: int, halt_flags: Any, counts: Any
) -> int:
    """Applies a message of a stock with a number; returns APPLIED, NEEDS_ROOM or why it is invalid."""
    if kind == A or kind == F:
        return _add(book, data, at, symbol, units, counts)
    if kind == D or kind == E or kind == X or kind == U or kind == C:
        return _change(book, data, at, kind, units, counts)
    if kind == P or kind == Q:
        return _print(book, data, at, kind, symbol, units, counts)
    if kind == H or kind == HALT:
        return _trading_state(book, data, at, kind, symbol, halt_flags)
    counts[BROKEN_TRADES if kind == B else MESSAGES_WITHOUT_EFFECT] += 1
    return APPLIED


@inlined
def _needs_number(data: Any, at: int, kind: int, market: int) -> bool:
    """Whether a stock gets its number with this message."""
    if kind == H or kind == HALT:
        return data[at + (STATE if kind == H else ACTION)] != TRADES and not _is_elsewhere(data, at, kind, market)
    return kind == A or kind == F or kind == P or kind == Q


@compiled
def decode(
    book: StreamBook, data: Any, at: int, stop: int, numbers: Any, units: int, market: int, halt_flags: Any, counts: Any
) -> tuple[int, int]:
    """Applies the messages of data[at:stop]; returns (where it stopped, at the length of a message; why).

    numbers: [locate] of the stock in the day, or UNKNOWN, INCLUDED, EXCLUDED. units: price units of a tick. market: one of
    MARKETS. halt_flags: [symbol] bits. counts: by COUNT_NAMES.
    """
    while at + 3 <= stop:
        length, kind = read_int(data, at, 2), int64(data[at + 2])
        if length == 0:
            at += 2
            continue
        if LENGTHS[kind] == 0:
            return at, UNKNOWN_TYPE
        if LENGTHS[kind] != length:
            return at, WRONG_LENGTH
        if at + 2 + length > stop:
            break
        body = at + 2
        time_ns = read_int(data, body + TIME, 6)
        if time_ns < book.counter[TIME_NS]:
            return at, TIME_BACKWARDS
        locate = read_int(data, body + LOCATE, 2)
        symbol = int64(numbers[locate])
        if (symbol == UNKNOWN and STOCK_AT[kind]) or (symbol == INCLUDED and _needs_number(data, body, kind, market)):
            return at, NEW_STOCK
        if symbol == EXCLUDED:
            counts[MESSAGES_EXCLUDED] += 1
        elif _is_elsewhere(data, body, kind, market):
            counts[HALTS_ELSEWHERE] += 1
        elif symbol < 0 and kind != D and kind != E and kind != X and kind != U and kind != C:
            counts[BROKEN_TRADES if kind == B else MESSAGES_WITHOUT_EFFECT] += 1
        else:
            if not has_room(book, 0):
                return at, NEEDS_ROOM
            book.counter[TIME_NS] = time_ns
            result = _message(book, data, body, kind, symbol, units, halt_flags, counts)
            if result != APPLIED:
                return at, result
        book.counter[TIME_NS] = time_ns
        book.counter[ROW] += 1
        at += 2 + length
    return at, MORE_DATA
