"""The order book of streaming readers: orders under their source ids, several symbols, unbounded length.

Like `serl.history.book`, it mirrors the exchange's book after the commands written so far, and every change writes the COMMAND with the
same effect. Unlike there, prices and ids need not be known in advance: hash tables find orders and levels, and commands are taken in blocks
(`take_commands`). Callers check for room first (`has_room`), so that no function here stops in the middle of a message.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, inner, int64
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce

NEW, CANCEL, REDUCE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REDUCE)
HALT, RESUME, PRINT = int(CommandKind.HALT), int(CommandKind.RESUME), int(CommandKind.PRINT)
GTC, IOC = int(TimeInForce.GTC), int(TimeInForce.IOC)
BUY, SELL = 0, 1

ORDER_DTYPE = np.dtype(
    [
        ("source_id", "<i8"),
        ("source_lots", "<i8"),  # open at the source; 0: anonymous, or no longer open there
        ("filled_lots", "<i8"),  # traded in the exchange, which the source removes from the order in a later record
        ("open_lots", "<i8"),  # open in the exchange; 0: gone, or held until the end of a halt
        ("command_id", "<i8"),
        ("price_ticks", "<i8"),
        ("level", "<i4"),
        ("next", "<i4"),  # next younger order of the level, or of the held orders; 0 = none
        ("previous", "<i4"),
        ("symbol", "<u2"),
        ("side", "u1"),
        ("is_held", "u1"),
    ],
    align=True,
)
LEVEL_DTYPE = np.dtype(
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
    "orders_crossing",  # traded on arrival
    "cancels",
    "executions",
    "executions_other_head",  # the head of the queue was not the executed order
    "executions_unfilled",
    "executions_halted",  # reduced and printed: nothing matches while halted
    "executions_behind_best",  # likewise: an IOC order would fill better orders, whose cancels come later
    "prints",
    "halts",
    "resumes",
    "missing_lots",  # lots that the source removes from a level that lacks them
)
"""Counts of the book; readers add their own."""
(
    NEW_ORDERS, ORDERS_CROSSING, CANCELS, EXECUTIONS, EXECUTIONS_OTHER_HEAD, EXECUTIONS_UNFILLED, EXECUTIONS_HALTED,
    EXECUTIONS_BEHIND_BEST, PRINTS, HALTS, RESUMES, MISSING_LOTS,
) = range(len(COUNT_NAMES))  # fmt: skip
FREE_ORDER, FREE_LEVEL, FREE_ORDERS, FREE_LEVELS, WRITTEN, COMMANDS, ROW, TIME_NS, FIRST_NS, HELD_ORDERS = range(10)
"""Indices of `counter`: heads and lengths of the free lists, commands in this block and in total, source row and time of the next command,
time of the first, and how many held orders are about to enter, each perhaps at a level of its own."""
NEWEST, SLOTS_USED = 2, 3
"""Columns of `best` and `held_orders`."""
NEAR_STEPS = 16
"""Levels from the best one after which the place of a new level is searched from the newest level."""
HEADROOM = 4
"""Free orders and levels that a message may need, and commands in addition to one for each order of a level."""


class StreamBook(NamedTuple):
    """Orders and levels by slot (0 is none), their hash tables, and the block of commands being written."""

    orders: Any
    """ORDER_DTYPE rows."""
    id_table: NDArray[np.int32]
    """Hash table of source ids: slots of orders, 0 = empty; at least twice as long as `orders`."""
    levels: Any
    """LEVEL_DTYPE rows."""
    level_table: NDArray[np.int32]
    """Hash table of (symbol, side, price): slots of levels."""
    best: NDArray[np.int32]
    """[symbol, side] slot of the best level; [symbol, NEWEST + side] slot of the level that was inserted last, or of a neighbour that still exists.
    0 = no levels. They share an array, because each further array makes all calls slower."""
    held_orders: NDArray[np.int32]
    """[symbol, 3] first, last and number of the orders that are held until the end of a halt; [symbol, SLOTS_USED] how many slots of
    `orders` have an order of the symbol."""
    halted: NDArray[np.uint8]
    """[symbol]"""
    commands: Rows
    rows: NDArray[np.int64]
    counter: NDArray[np.int64]
    counts: NDArray[np.int64]
    """Counts by COUNT_NAMES."""


def empty_book(symbols: int, *, orders: int = 1 << 16, levels: int = 1 << 14, block: int = 1 << 18) -> StreamBook:
    """An empty book with room for orders and levels (powers of two), and for `block` commands at a time."""
    book = StreamBook(
        orders=np.zeros(orders, ORDER_DTYPE),
        id_table=np.zeros(2 * orders, np.int32),
        levels=np.zeros(levels, LEVEL_DTYPE),
        level_table=np.zeros(2 * levels, np.int32),
        best=np.zeros((symbols, 4), np.int32),
        held_orders=np.zeros((symbols, 4), np.int32),
        halted=np.zeros(symbols, np.uint8),
        commands=np.zeros(block, COMMAND),
        rows=np.zeros(block, np.int64),
        counter=np.zeros(10, np.int64),
        counts=np.zeros(len(COUNT_NAMES), np.int64),
    )
    _free(book.orders, "next", 1, book.counter[FREE_ORDER:], book.counter[FREE_ORDERS:])
    _free(book.levels, "worse", 1, book.counter[FREE_LEVEL:], book.counter[FREE_LEVELS:])
    return book


def _free(rows: Any, link: str, first: int, head: NDArray[np.int64], length: NDArray[np.int64]) -> None:
    """Puts the slots from `first` on at the front of the free list with head[0] and length[0]."""
    rows[link][first:-1] = np.arange(first + 1, len(rows))
    rows[link][-1] = head[0]
    head[0] = first
    length[0] += len(rows) - first


def grow(book: StreamBook) -> StreamBook:
    """Grows what is exhausted: orders, levels, or else the block, whose commands must have been taken. Returns the new book."""
    counter, orders, levels = book.counter, len(book.orders), len(book.levels)
    short = False
    if counter[FREE_ORDERS] < HEADROOM:
        short = True
        book = book._replace(orders=_doubled(book.orders), id_table=np.zeros(4 * orders, np.int32))
        _index_ids(book, orders)
        _free(book.orders, "next", orders, counter[FREE_ORDER:], counter[FREE_ORDERS:])
    if lacks_levels(counter):
        short = True
        book = book._replace(levels=_doubled(book.levels), level_table=np.zeros(4 * levels, np.int32))
        _index_prices(book, levels)
        _free(book.levels, "worse", levels, counter[FREE_LEVEL:], counter[FREE_LEVELS:])
    if not short:
        block = 2 * len(book.commands)
        book = book._replace(commands=np.zeros(block, COMMAND), rows=np.zeros(block, np.int64))
    return book


def lacks_levels(counter: NDArray[np.int64]) -> bool:
    """Whether a message, or the held orders that are about to enter, may need more levels than are free."""
    return bool(counter[FREE_LEVELS] < HEADROOM + counter[HELD_ORDERS])


def _doubled(rows: Any) -> Any:
    doubled = np.zeros(2 * len(rows), rows.dtype)
    doubled[: len(rows)] = rows
    return doubled


def take_commands(book: StreamBook) -> tuple[Rows, NDArray[np.int64]]:
    """The commands since the last call and their source rows: views that the next commands overwrite."""
    written = int(book.counter[WRITTEN])
    if written and written == book.counter[COMMANDS]:
        book.counter[FIRST_NS] = book.commands[0]["time_ns"]
    book.counter[WRITTEN] = 0
    return book.commands[:written], book.rows[:written]


@inlined
def has_room(book: StreamBook, commands: int) -> bool:
    """Whether there is room for a message that writes up to this many commands beyond HEADROOM."""
    counter = book.counter
    return (
        counter[FREE_ORDERS] >= HEADROOM
        and counter[FREE_LEVELS] >= HEADROOM
        and counter[WRITTEN] + commands + HEADROOM <= book.commands.size
    )


@inlined
def has_room_to_enter(book: StreamBook, symbol: int) -> bool:
    """Whether there is room for all held orders of a symbol to enter. If not, `grow` makes it."""
    held = int64(book.held_orders[symbol, 2])
    enough = has_room(book, held) and book.counter[FREE_LEVELS] >= HEADROOM + held
    book.counter[HELD_ORDERS] = 0 if enough else held
    return enough


@inlined
def hash_position(key: int, size: int) -> int:
    """Where the search for a key begins (Fibonacci hashing)."""
    return int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (size - 1)


@inlined
def _price_position(symbol: int, side: int, price_ticks: int, size: int) -> int:
    return hash_position(price_ticks * 131072 + symbol * 2 + side, size)


@inlined
def find_order(book: StreamBook, source_id: int) -> int:
    """Slot of the order with this source id; 0 if there is none."""
    size = book.id_table.size
    place = hash_position(source_id, size)
    while True:
        slot = int64(book.id_table[place])
        if slot == 0 or book.orders[slot].source_id == source_id:
            return slot
        place = (place + 1) & (size - 1)


@inlined
def find_order_of(book: StreamBook, source_id: int, symbol: int) -> int:
    """As `find_order`, but for ids that are unique only within a symbol: another symbol may have an order with this id."""
    size = book.id_table.size
    place = hash_position(source_id, size)
    while True:
        slot = int64(book.id_table[place])
        if slot == 0 or (book.orders[slot].source_id == source_id and book.orders[slot].symbol == symbol):
            return slot
        place = (place + 1) & (size - 1)


@inlined
def remove_id(book: StreamBook, slot: int) -> None:
    """Removes an order's id from the table; later entries move up, so that no gap stops a search."""
    table, orders = book.id_table, book.orders
    size = table.size
    place = hash_position(orders[slot].source_id, size)
    while table[place] != slot:
        place = (place + 1) & (size - 1)
    gap = place
    while True:
        place = (place + 1) & (size - 1)
        other = int64(table[place])
        if other == 0:
            break
        target = hash_position(orders[other].source_id, size)
        if ((place - target) & (size - 1)) >= ((place - gap) & (size - 1)):
            table[gap] = other
            gap = place
    table[gap] = 0
    orders[slot].source_id = 0


@compiled
def _index_ids(book: StreamBook, orders: int) -> None:
    size = book.id_table.size
    for slot in range(1, orders):
        if book.orders[slot].source_id != 0:
            place = hash_position(book.orders[slot].source_id, size)
            while book.id_table[place] != 0:
                place = (place + 1) & (size - 1)
            book.id_table[place] = slot


@compiled
def _index_prices(book: StreamBook, levels: int) -> None:
    size = book.level_table.size
    for slot in range(1, levels):
        level = book.levels[slot]
        if level.orders > 0:
            place = _price_position(int64(level.symbol), int64(level.side), level.price_ticks, size)
            while book.level_table[place] != 0:
                place = (place + 1) & (size - 1)
            book.level_table[place] = slot


@inlined
def find_level(book: StreamBook, symbol: int, side: int, price_ticks: int) -> int:
    """Slot of a level; 0 if it has no orders."""
    size = book.level_table.size
    place = _price_position(symbol, side, price_ticks, size)
    while True:
        slot = int64(book.level_table[place])
        if slot == 0:
            return 0
        level = book.levels[slot]
        if level.price_ticks == price_ticks and level.symbol == symbol and level.side == side:
            return slot
        place = (place + 1) & (size - 1)


@inlined
def _neighbours(book: StreamBook, symbol: int, side: int, price_ticks: int) -> tuple[int, int]:
    """(the next better level, the next worse level) of a price without a level, 0 for none.

    The search starts at the best level and, if the price is far from it, continues at the newest: snapshots come in order of price, and from the
    best level each new level would be as many steps away as there are levels before it.
    """
    levels = book.levels
    better, worse, steps = int64(0), int64(book.best[symbol, side]), 0
    while worse != 0 and (
        levels[worse].price_ticks > price_ticks if side == BUY else levels[worse].price_ticks < price_ticks
    ):
        better, worse, steps = worse, int64(levels[worse].worse), steps + 1
        if steps == NEAR_STEPS:
            worse = _nearer(book, symbol, side, price_ticks, worse)
            better = int64(levels[worse].better) if worse else better
    return better, worse


@inner
def _nearer(book: StreamBook, symbol: int, side: int, price_ticks: int, level: int) -> int:
    """This level, or if the newest level is nearer to the price, the first level from there on that is not better than the price."""
    levels, newest = book.levels, int64(book.best[symbol, NEWEST + side])
    if level == 0 or abs(levels[newest].price_ticks - price_ticks) >= abs(levels[level].price_ticks - price_ticks):
        return level
    while levels[newest].price_ticks < price_ticks if side == BUY else levels[newest].price_ticks > price_ticks:
        better = int64(levels[newest].better)
        if better == 0 or (
            levels[better].price_ticks > price_ticks if side == BUY else levels[better].price_ticks < price_ticks
        ):
            break
        newest = better
    return newest


@inner
def insert_level(book: StreamBook, symbol: int, side: int, price_ticks: int) -> int:
    """Inserts an empty level between the better and the worse ones; returns its slot."""
    levels, size = book.levels, book.level_table.size
    slot = book.counter[FREE_LEVEL]
    level = levels[slot]
    book.counter[FREE_LEVEL] = level.worse
    book.counter[FREE_LEVELS] -= 1
    level.price_ticks, level.lots, level.orders, level.head, level.tail = price_ticks, 0, 0, 0, 0
    level.symbol, level.side = symbol, side
    place = _price_position(symbol, side, price_ticks, size)
    while book.level_table[place] != 0:
        place = (place + 1) & (size - 1)
    book.level_table[place] = slot
    better, worse = _neighbours(book, symbol, side, price_ticks)
    book.best[symbol, NEWEST + side] = slot
    level.better, level.worse = better, worse
    if better:
        levels[better].worse = slot
    else:
        book.best[symbol, side] = slot
    if worse:
        levels[worse].better = slot
    return slot


@inner
def remove_level(book: StreamBook, slot: int) -> None:
    """Removes an empty level."""
    levels, table = book.levels, book.level_table
    level, size = levels[slot], table.size
    if book.best[level.symbol, NEWEST + level.side] == slot:
        book.best[level.symbol, NEWEST + level.side] = level.better if level.better else level.worse
    if level.better:
        levels[level.better].worse = level.worse
    else:
        book.best[level.symbol, level.side] = level.worse
    if level.worse:
        levels[level.worse].better = level.better
    gap = _price_position(int64(level.symbol), int64(level.side), level.price_ticks, size)
    while table[gap] != slot:
        gap = (gap + 1) & (size - 1)
    place = gap
    while True:
        place = (place + 1) & (size - 1)
        other = int64(table[place])
        if other == 0:
            break
        row = levels[other]
        target = _price_position(int64(row.symbol), int64(row.side), row.price_ticks, size)
        if ((place - target) & (size - 1)) >= ((place - gap) & (size - 1)):
            table[gap] = other
            gap = place
    table[gap] = 0
    level.worse = book.counter[FREE_LEVEL]
    book.counter[FREE_LEVEL] = slot
    book.counter[FREE_LEVELS] += 1
