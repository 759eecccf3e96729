"""ITCH messages onto a book, compiled: one block of a file after the other."""

from typing import Any

from serl.exchange.compiling import compiled, inlined, int64
from serl.history.itch.messages import LENGTHS, STOCK_AT, offset, read_int
from serl.history.named_book import BUY, ROW, SELL, TIME_NS, NamedBook, find, room
from serl.history.named_play import crowd, enter, halt, publish, resume, retire, take_off, trade

MORE_DATA, MORE_ROOM, NEW_STOCK, UNKNOWN_TYPE, WRONG_LENGTH, TIME_BACK, UNKNOWN_ORDER, ORDER_TWICE = range(8)
NO_SHARES, TOO_MANY_SHARES, BAD_SIDE, NO_PRICE = range(8, 12)
"""Why `decode` stopped."""
UNKNOWN, WANTED, LEFT_OUT = -3, -2, -1
"""Of a stock that has no number: not met yet, to be numbered with its first order, not asked for."""
PLAYED = -1

COUNT_NAMES = (
    "replaces",
    "executions_other_price",  # at another price than that of the order: taken off it, and printed
    "executions_unprinted",  # part of a cross, whose volume its own message prints
    "crosses_empty",
    "broken_trades",
    "prices_rounded",  # off the tick: bids down, asks up
    "prints_rounded",
    "messages_left_out",  # of stocks not asked for
    "messages_without_effect",  # directory, imbalance and the like
)
"""What the decoder counts beside the book."""
(
    REPLACES, EXECUTIONS_OTHER_PRICE, EXECUTIONS_UNPRINTED, CROSSES_EMPTY, BROKEN_TRADES, PRICES_ROUNDED, PRINTS_ROUNDED,
    MESSAGES_LEFT_OUT, MESSAGES_WITHOUT_EFFECT,
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
STATE, ACTION = offset("H", "state"), offset("h", "action")
BUYS, SELLS, YES, TRADES = (ord(letter) for letter in "BSYT")
REGULATORY, OPERATIONAL = 1, 2
"""Bits of why a stock is halted."""


@inlined
def _ticks(price: int, units: int, side: int) -> int:
    """Away from the other side where the price is off the tick, so that rounding crosses no book; at least 1."""
    return max(1, price // units if side == BUY else (price + units - 1) // units)


@inlined
def _print_ticks(price: int, units: int) -> int:
    """The nearest tick, half to even, at least 1."""
    ticks, rest = price // units, price % units
    if 2 * rest > units or (2 * rest == units and ticks % 2 == 1):
        ticks += 1
    return max(1, ticks)


@compiled
def _add(book: NamedBook, data: Any, at: int, symbol: int, units: int, counts: Any) -> int:
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
    if order == 0 or find(book, order) != 0:
        return ORDER_TWICE
    side = BUY if letter == BUYS else SELL
    counts[PRICES_ROUNDED] += price % units != 0
    enter(book, order, symbol, side, _ticks(price, units, side), shares)
    return PLAYED


@compiled
def _change(book: NamedBook, data: Any, at: int, kind: int, units: int, counts: Any) -> int:
    """E, C, X, D and U: of an order that must be open."""
    slot = find(book, read_int(data, at + ORDER, 8))
    if slot == 0:
        return UNKNOWN_ORDER
    if not room(book, crowd(book, slot)):
        return MORE_ROOM
    order = book.orders[slot]
    if kind == D:
        take_off(book, slot, order.known_lots)
        retire(book, slot)
        return PLAYED
    if kind == U:
        return _replace(book, data, at, slot, units, counts)
    shares = read_int(data, at + SHARES, 4)
    if shares == 0:
        return NO_SHARES
    if shares > order.known_lots:
        return TOO_MANY_SHARES
    if kind == X:
        take_off(book, slot, shares)
    elif kind == E:
        trade(book, slot, shares)
    else:
        symbol, side, price = int64(order.symbol), int64(order.side), read_int(data, at + OTHER_PRICE, 4)
        take_off(book, slot, shares)
        counts[EXECUTIONS_OTHER_PRICE] += 1
        if data[at + PRINTABLE] != YES:
            counts[EXECUTIONS_UNPRINTED] += 1
        else:
            counts[PRINTS_ROUNDED] += price % units != 0
            publish(book, symbol, side, _print_ticks(price, units), shares)
    if order.known_lots == 0:
        retire(book, slot)
    return PLAYED


@compiled
def _replace(book: NamedBook, data: Any, at: int, slot: int, units: int, counts: Any) -> int:
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
    if new == 0 or find(book, new) != 0:
        return ORDER_TWICE
    take_off(book, slot, order.known_lots)
    retire(book, slot)
    counts[REPLACES] += 1
    counts[PRICES_ROUNDED] += price % units != 0
    enter(book, new, symbol, side, _ticks(price, units, side), shares)
    return PLAYED


@compiled
def _trade_outside(book: NamedBook, data: Any, at: int, kind: int, symbol: int, units: int, counts: Any) -> int:
    """P and Q: printed."""
    if kind == P:
        shares, price = read_int(data, at + ADD_SHARES, 4), read_int(data, at + ADD_PRICE, 4)
        side = SELL if data[at + SIDE] == SELLS else BUY
    else:
        shares, price, side = read_int(data, at + CROSS_SHARES, 8), read_int(data, at + CROSS_PRICE, 4), BUY
        if shares == 0:
            counts[CROSSES_EMPTY] += 1
            return PLAYED
    if shares == 0:
        return NO_SHARES
    if price == 0:
        return NO_PRICE
    counts[PRINTS_ROUNDED] += price % units != 0
    publish(book, symbol, side, _print_ticks(price, units), shares)
    return PLAYED


@compiled
def _trading_state(book: NamedBook, data: Any, at: int, kind: int, symbol: int, why_halted: Any) -> int:
    """H and h: halted while any of the two says so; quotation only is a halt here, for nothing matches in it."""
    bit = REGULATORY if kind == H else OPERATIONAL
    trading = data[at + (STATE if kind == H else ACTION)] == TRADES
    why = (why_halted[symbol] & ~bit) | (0 if trading else bit)
    if why:
        halt(book, symbol)
    elif not room(book, int64(book.waiting[symbol, 2])):
        return MORE_ROOM
    else:
        resume(book, symbol)
    why_halted[symbol] = why
    return PLAYED


@compiled
def _message(
    book: NamedBook, data: Any, at: int, kind: int, symbol: int, units: int, why_halted: Any, counts: Any
) -> int:
    """One message whose stock has a number; PLAYED, MORE_ROOM or what is wrong with it."""
    if kind == A or kind == F:
        return _add(book, data, at, symbol, units, counts)
    if kind == D or kind == E or kind == X or kind == U or kind == C:
        return _change(book, data, at, kind, units, counts)
    if kind == P or kind == Q:
        return _trade_outside(book, data, at, kind, symbol, units, counts)
    if kind == H or kind == HALT:
        return _trading_state(book, data, at, kind, symbol, why_halted)
    counts[BROKEN_TRADES if kind == B else MESSAGES_WITHOUT_EFFECT] += 1
    return PLAYED


@inlined
def _needs_number(data: Any, at: int, kind: int) -> bool:
    """Whether a stock that has been quiet so far must be known to the day from this message on."""
    if kind == H or kind == HALT:
        return data[at + (STATE if kind == H else ACTION)] != TRADES
    return kind == A or kind == F or kind == P or kind == Q


@compiled
def decode(
    book: NamedBook, data: Any, at: int, stop: int, numbers: Any, units: int, why_halted: Any, counts: Any
) -> tuple[int, int]:
    """Plays the messages of data[at:stop]: (where it stopped, at the length of a message; why).

    numbers: [locate] of the stock in the day, or UNKNOWN, WANTED, LEFT_OUT. units: price units of a tick. why_halted:
    [symbol] bits. counts: by COUNT_NAMES.
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
            return at, TIME_BACK
        locate = read_int(data, body + LOCATE, 2)
        symbol = int64(numbers[locate])
        if (symbol == UNKNOWN and STOCK_AT[kind]) or (symbol == WANTED and _needs_number(data, body, kind)):
            return at, NEW_STOCK
        if symbol == LEFT_OUT:
            counts[MESSAGES_LEFT_OUT] += 1
        elif symbol < 0 and kind != D and kind != E and kind != X and kind != U and kind != C:
            counts[BROKEN_TRADES if kind == B else MESSAGES_WITHOUT_EFFECT] += 1
        else:
            if not room(book, 0):
                return at, MORE_ROOM
            book.counter[TIME_NS] = time_ns
            result = _message(book, data, body, kind, symbol, units, why_halted, counts)
            if result != PLAYED:
                return at, result
        book.counter[TIME_NS] = time_ns
        book.counter[ROW] += 1
        at += 2 + length
    return at, MORE_DATA
