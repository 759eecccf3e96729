"""The book that streaming readers play on: orders under the names that their source gives them, several symbols, no end known.

Like `serl.history.book` it is what stands in the exchange after the commands written so far, and every change of it
is written as the COMMAND that makes the exchange do the same. Unlike there prices and names need not be known before:
orders and levels are found by hashing, and blocks of commands are taken away while the day goes on. Whoever calls
makes sure of room first (`room`), so that nothing here stops in the middle of a message.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce

NEW, CANCEL, REDUCE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REDUCE)
HALT, RESUME, PRINT = int(CommandKind.HALT), int(CommandKind.RESUME), int(CommandKind.PRINT)
GTC, IOC = int(TimeInForce.GTC), int(TimeInForce.IOC)
BUY, SELL = 0, 1

NAMED_ORDER = np.dtype(
    [
        ("name", "<i8"),
        ("known_lots", "<i8"),  # what the source says is open; 0: anonymous, or not open there any more
        ("filled_lots", "<i8"),  # traded here, which the source takes off its order in a later record
        ("open_lots", "<i8"),  # what is open in the exchange; 0: not there (any more, or not yet: the symbol is halted)
        ("command_id", "<i8"),
        ("price_ticks", "<i8"),
        ("level", "<i4"),
        ("after", "<i4"),  # next younger of the level, or of those that wait for the end of a halt; 0 = none
        ("before", "<i4"),
        ("symbol", "<u2"),
        ("side", "u1"),
        ("waits", "u1"),
    ],
    align=True,
)
NAMED_LEVEL = np.dtype(
    [
        ("price_ticks", "<i8"),
        ("lots", "<i8"),
        ("orders", "<i4"),
        ("head", "<i4"),
        ("tail", "<i4"),
        ("better", "<i4"),
        ("worse", "<i4"),
        ("symbol", "<u2"),
        ("side", "u1"),
    ],
    align=True,
)
COUNT_NAMES = (
    "new_orders",
    "orders_crossing",  # that traded when they came, as the book stood
    "cancels",
    "executions",
    "executions_other_head",  # the queue's head was not the order that history executed
    "executions_unfilled",
    "executions_halted",  # taken off and printed: nothing matches while halted
    "executions_behind_best",  # likewise: an IOC order at this price would take the better ones, whose cancels are yet to come
    "prints",
    "halts",
    "resumes",
    "missing_lots",  # that the source takes off a level which does not hold them
)
"""What the book itself counts; readers add their own."""
(
    NEW_ORDERS, ORDERS_CROSSING, CANCELS, EXECUTIONS, EXECUTIONS_OTHER_HEAD, EXECUTIONS_UNFILLED, EXECUTIONS_HALTED,
    EXECUTIONS_BEHIND_BEST, PRINTS, HALTS, RESUMES, MISSING_LOTS,
) = range(len(COUNT_NAMES))  # fmt: skip
FREE_ORDER, FREE_LEVEL, FREE_ORDERS, FREE_LEVELS, WRITTEN, COMMANDS, ROW, TIME_NS, FIRST_NS = range(9)
"""Places of `counter`: heads and lengths of the free lists, commands of this block and of all, the moment of the
next commands, the time of the first."""
ROOM = 4
"""Free orders and levels that a message may need at most, and commands besides those of a whole level."""


class NamedBook(NamedTuple):
    """Orders and levels by slot (0 is none), the tables that find them, and the block of commands being written."""

    orders: Any
    """NAMED_ORDER rows."""
    names: NDArray[np.int32]
    """Hash table of names: slots of orders, 0 = empty; at least twice as long as `orders`."""
    levels: Any
    """NAMED_LEVEL rows."""
    prices: NDArray[np.int32]
    """Hash table of (symbol, side, price): slots of levels."""
    best: NDArray[np.int32]
    """[symbol, side] slot of the best level."""
    waiting: NDArray[np.int32]
    """[symbol, 3] first and last of the orders that wait for the end of a halt, and how many."""
    halted: NDArray[np.uint8]
    """[symbol]"""
    commands: Rows
    rows: NDArray[np.int64]
    counter: NDArray[np.int64]
    counts: NDArray[np.int64]
    """By COUNT_NAMES."""


def named_book(symbols: int, *, orders: int = 1 << 16, levels: int = 1 << 14, block: int = 1 << 18) -> NamedBook:
    """An empty book with room for orders and levels (powers of two), and for `block` commands at a time."""
    book = NamedBook(
        orders=np.zeros(orders, NAMED_ORDER),
        names=np.zeros(2 * orders, np.int32),
        levels=np.zeros(levels, NAMED_LEVEL),
        prices=np.zeros(2 * levels, np.int32),
        best=np.zeros((symbols, 2), np.int32),
        waiting=np.zeros((symbols, 3), np.int32),
        halted=np.zeros(symbols, np.uint8),
        commands=np.zeros(block, COMMAND),
        rows=np.zeros(block, np.int64),
        counter=np.zeros(9, np.int64),
        counts=np.zeros(len(COUNT_NAMES), np.int64),
    )
    _free(book.orders, "after", 1, book.counter[FREE_ORDER:], book.counter[FREE_ORDERS:])
    _free(book.levels, "worse", 1, book.counter[FREE_LEVEL:], book.counter[FREE_LEVELS:])
    return book


def _free(rows: Any, link: str, first: int, head: NDArray[np.int64], length: NDArray[np.int64]) -> None:
    """Puts the slots from `first` on before the free list that head[0] and length[0] describe."""
    rows[link][first:-1] = np.arange(first + 1, len(rows))
    rows[link][-1] = head[0]
    head[0] = first
    length[0] += len(rows) - first


def grown(book: NamedBook) -> NamedBook:
    """The same book with more room, wherever it is short of it. The commands of its block must have been taken away."""
    counter, orders, levels = book.counter, len(book.orders), len(book.levels)
    short = False
    if counter[FREE_ORDERS] < ROOM:
        short = True
        book = book._replace(orders=_longer(book.orders), names=np.zeros(4 * orders, np.int32))
        _index_names(book, orders)
        _free(book.orders, "after", orders, counter[FREE_ORDER:], counter[FREE_ORDERS:])
    if counter[FREE_LEVELS] < ROOM:
        short = True
        book = book._replace(levels=_longer(book.levels), prices=np.zeros(4 * levels, np.int32))
        _index_prices(book, levels)
        _free(book.levels, "worse", levels, counter[FREE_LEVEL:], counter[FREE_LEVELS:])
    if not short:
        block = 2 * len(book.commands)
        book = book._replace(commands=np.zeros(block, COMMAND), rows=np.zeros(block, np.int64))
    return book


def _longer(rows: Any) -> Any:
    longer = np.zeros(2 * len(rows), rows.dtype)
    longer[: len(rows)] = rows
    return longer


def take_block(book: NamedBook) -> tuple[Rows, NDArray[np.int64]]:
    """The commands written since the last call, and their source rows: views that the next commands overwrite."""
    written = int(book.counter[WRITTEN])
    if written and written == book.counter[COMMANDS]:
        book.counter[FIRST_NS] = book.commands[0]["time_ns"]
    book.counter[WRITTEN] = 0
    return book.commands[:written], book.rows[:written]


@inlined
def room(book: NamedBook, commands: int) -> bool:
    """Whether a message that writes up to this many commands beyond ROOM can be played to its end."""
    counter = book.counter
    return (
        counter[FREE_ORDERS] >= ROOM
        and counter[FREE_LEVELS] >= ROOM
        and counter[WRITTEN] + commands + ROOM <= book.commands.size
    )


@inlined
def hash_place(key: int, size: int) -> int:
    """Where the search for a key begins, by Fibonacci hashing."""
    return int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (size - 1)


@inlined
def _price_place(symbol: int, side: int, price_ticks: int, size: int) -> int:
    return hash_place(price_ticks * 131072 + symbol * 2 + side, size)


@inlined
def find(book: NamedBook, name: int) -> int:
    """Slot of the order that the source calls so; 0 if there is none."""
    size = book.names.size
    place = hash_place(name, size)
    while True:
        slot = int64(book.names[place])
        if slot == 0 or book.orders[slot].name == name:
            return slot
        place = (place + 1) & (size - 1)


@inlined
def forget(book: NamedBook, slot: int) -> None:
    """Takes the name of an order out of the table; what came behind it moves up, so that no gap stops a search."""
    names, orders = book.names, book.orders
    size = names.size
    place = hash_place(orders[slot].name, size)
    while names[place] != slot:
        place = (place + 1) & (size - 1)
    gap = place
    while True:
        place = (place + 1) & (size - 1)
        other = int64(names[place])
        if other == 0:
            break
        home = hash_place(orders[other].name, size)
        if ((place - home) & (size - 1)) >= ((place - gap) & (size - 1)):
            names[gap] = other
            gap = place
    names[gap] = 0
    orders[slot].name = 0


@compiled
def _index_names(book: NamedBook, orders: int) -> None:
    size = book.names.size
    for slot in range(1, orders):
        if book.orders[slot].name != 0:
            place = hash_place(book.orders[slot].name, size)
            while book.names[place] != 0:
                place = (place + 1) & (size - 1)
            book.names[place] = slot


@compiled
def _index_prices(book: NamedBook, levels: int) -> None:
    size = book.prices.size
    for slot in range(1, levels):
        level = book.levels[slot]
        if level.orders > 0:
            place = _price_place(int64(level.symbol), int64(level.side), level.price_ticks, size)
            while book.prices[place] != 0:
                place = (place + 1) & (size - 1)
            book.prices[place] = slot


@inlined
def level_of(book: NamedBook, symbol: int, side: int, price_ticks: int) -> int:
    """Slot of a level; 0 if nothing stands there."""
    size = book.prices.size
    place = _price_place(symbol, side, price_ticks, size)
    while True:
        slot = int64(book.prices[place])
        if slot == 0:
            return 0
        level = book.levels[slot]
        if level.price_ticks == price_ticks and level.symbol == symbol and level.side == side:
            return slot
        place = (place + 1) & (size - 1)


@compiled
def new_level(book: NamedBook, symbol: int, side: int, price_ticks: int) -> int:
    """A level without orders, in its place between better and worse ones."""
    levels, size = book.levels, book.prices.size
    slot = book.counter[FREE_LEVEL]
    level = levels[slot]
    book.counter[FREE_LEVEL] = level.worse
    book.counter[FREE_LEVELS] -= 1
    level.price_ticks, level.lots, level.orders, level.head, level.tail = price_ticks, 0, 0, 0, 0
    level.symbol, level.side = symbol, side
    place = _price_place(symbol, side, price_ticks, size)
    while book.prices[place] != 0:
        place = (place + 1) & (size - 1)
    book.prices[place] = slot
    better, worse = int64(0), int64(book.best[symbol, side])
    while worse != 0 and (
        levels[worse].price_ticks > price_ticks if side == BUY else levels[worse].price_ticks < price_ticks
    ):
        better, worse = worse, int64(levels[worse].worse)
    level.better, level.worse = better, worse
    if better:
        levels[better].worse = slot
    else:
        book.best[symbol, side] = slot
    if worse:
        levels[worse].better = slot
    return slot


@compiled
def drop_level(book: NamedBook, slot: int) -> None:
    """Takes a level without orders out of its side and out of the table."""
    levels, prices = book.levels, book.prices
    level, size = levels[slot], prices.size
    if level.better:
        levels[level.better].worse = level.worse
    else:
        book.best[level.symbol, level.side] = level.worse
    if level.worse:
        levels[level.worse].better = level.better
    gap = _price_place(int64(level.symbol), int64(level.side), level.price_ticks, size)
    while prices[gap] != slot:
        gap = (gap + 1) & (size - 1)
    place = gap
    while True:
        place = (place + 1) & (size - 1)
        other = int64(prices[place])
        if other == 0:
            break
        row = levels[other]
        home = _price_place(int64(row.symbol), int64(row.side), row.price_ticks, size)
        if ((place - home) & (size - 1)) >= ((place - gap) & (size - 1)):
            prices[gap] = other
            gap = place
    prices[gap] = 0
    level.worse = book.counter[FREE_LEVEL]
    book.counter[FREE_LEVEL] = slot
    book.counter[FREE_LEVELS] += 1
