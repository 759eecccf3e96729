"""The book that makers of day files play on: what stands in the exchange after the commands written so far.

Prices are *ranks*: indices into the sorted array of every price that can occur, so that levels are plain arrays. Orders
are named by the `command_id` of the NEW that made them, which is also their index here. Every change of the book is
written as the COMMAND that makes the exchange do the same.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import allocating
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce

NEW, CANCEL, REDUCE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REDUCE)
GTC, IOC = int(TimeInForce.GTC), int(TimeInForce.IOC)
BUY, SELL = 0, 1


class HistoryBook(NamedTuple):
    """Levels by [side, rank], orders by command_id, and the commands written."""

    price_ticks: NDArray[np.int64]
    """[rank], strictly increasing."""
    head: NDArray[np.int64]
    """[side, rank] oldest order, 0 = none."""
    tail: NDArray[np.int64]
    level_lots: NDArray[np.int64]
    """[side, rank] sum of open_lots of the level's orders."""
    best: NDArray[np.int64]
    """[side] rank of the best level; -1 = no bids, len(price_ticks) = no asks."""
    after: NDArray[np.int64]
    """[order] next younger order of the level, 0 = none."""
    before: NDArray[np.int64]
    open_lots: NDArray[np.int64]
    known_lots: NDArray[np.int64]
    """[order] what the source says is open; 0 = anonymous: the source does not name the order (any more)."""
    side: NDArray[np.uint8]
    rank: NDArray[np.int64]
    commands: Rows
    """COMMAND rows; the first written[0] are set."""
    rows: NDArray[np.int64]
    """Source row of each command."""
    written: NDArray[np.int64]
    """[0] commands written, [1] orders open."""
    moment: NDArray[np.int64]
    """[0] source row, [1] time_ns that the next commands get."""


def empty_book(price_ticks: NDArray[np.int64], commands_max: int) -> HistoryBook:
    """A book without orders over the given prices, with room for `commands_max` commands."""
    levels, orders = (2, len(price_ticks)), commands_max + 1
    return HistoryBook(
        price_ticks=price_ticks,
        head=np.zeros(levels, np.int64),
        tail=np.zeros(levels, np.int64),
        level_lots=np.zeros(levels, np.int64),
        best=np.array([-1, len(price_ticks)], np.int64),
        after=np.zeros(orders, np.int64),
        before=np.zeros(orders, np.int64),
        open_lots=np.zeros(orders, np.int64),
        known_lots=np.zeros(orders, np.int64),
        side=np.zeros(orders, np.uint8),
        rank=np.zeros(orders, np.int64),
        commands=np.zeros(commands_max, COMMAND),
        rows=np.zeros(commands_max, np.int64),
        written=np.zeros(2, np.int64),
        moment=np.array([-1, 0], np.int64),
    )


@allocating
def write(
    book: HistoryBook, kind: int, order_id: int, side: int, price_ticks: int, qty_lots: int, time_in_force: int
) -> int:
    """Writes one command; returns its command_id."""
    index = book.written[0]
    book.written[0] = index + 1
    row = book.commands[index]
    row["time_ns"] = book.moment[1]
    row["command_id"] = index + 1
    row["order_id"] = order_id
    row["price_ticks"] = price_ticks
    row["qty_lots"] = qty_lots
    row["kind"] = kind
    row["side"] = side
    row["time_in_force"] = time_in_force
    book.rows[index] = book.moment[0]
    return int(index + 1)


@allocating
def next_level(book: HistoryBook, side: int, rank: int) -> int:
    """The next worse level that holds orders; outside the array if there is none."""
    step = -1 if side == BUY else 1
    rank += step
    while 0 <= rank < book.price_ticks.shape[0] and book.level_lots[side, rank] == 0:
        rank += step
    return rank


@allocating
def _take(book: HistoryBook, order: int, qty_lots: int) -> None:
    """Takes lots off an order, and the order out of its level once nothing is left."""
    side, rank = book.side[order], book.rank[order]
    book.open_lots[order] -= qty_lots
    book.level_lots[side, rank] -= qty_lots
    if book.open_lots[order] > 0:
        return
    older, younger = book.before[order], book.after[order]
    if older:
        book.after[older] = younger
    else:
        book.head[side, rank] = younger
    if younger:
        book.before[younger] = older
    else:
        book.tail[side, rank] = older
    book.written[1] -= 1
    if book.level_lots[side, rank] == 0 and book.best[side] == rank:
        book.best[side] = next_level(book, side, rank)


@allocating
def _match(book: HistoryBook, side: int, rank: int, qty_lots: int) -> int:
    """Trades an incoming order against the other side by price and time; returns what is left of it."""
    other = 1 - side
    while qty_lots > 0:
        best = book.best[other]
        if best < 0 or best >= book.price_ticks.shape[0] or (best > rank if side == BUY else best < rank):
            break
        order = book.head[other, best]
        lots = min(qty_lots, book.open_lots[order])
        _take(book, order, lots)
        qty_lots -= lots
    return qty_lots


@allocating
def add(book: HistoryBook, side: int, rank: int, qty_lots: int, known: bool) -> int:
    """Writes a GTC limit order and plays it; returns its command_id."""
    order = write(book, NEW, 0, side, book.price_ticks[rank], qty_lots, GTC)
    left = _match(book, side, rank, qty_lots)
    book.known_lots[order] = qty_lots if known else 0
    if left == 0:
        return int(order)
    book.side[order], book.rank[order], book.open_lots[order] = side, rank, left
    tail = book.tail[side, rank]
    book.before[order], book.after[order] = tail, 0
    if tail:
        book.after[tail] = order
    else:
        book.head[side, rank] = order
    book.tail[side, rank] = order
    book.level_lots[side, rank] += left
    book.written[1] += 1
    best = book.best[side]
    if best < 0 or best >= book.price_ticks.shape[0] or (rank > best if side == BUY else rank < best):
        book.best[side] = rank
    return int(order)


@allocating
def execute(book: HistoryBook, side: int, rank: int, qty_lots: int) -> int:
    """Writes an IOC limit order of `side` and plays it; returns what found no counterpart."""
    write(book, NEW, 0, side, book.price_ticks[rank], qty_lots, IOC)
    return int(_match(book, side, rank, qty_lots))


@allocating
def cut(book: HistoryBook, order: int, qty_lots: int) -> int:
    """Takes up to qty_lots off an order by REDUCE, or by CANCEL if that is all of it; returns what it took."""
    lots = min(qty_lots, book.open_lots[order])
    if lots <= 0:
        return 0
    side, price = book.side[order], book.price_ticks[book.rank[order]]
    if lots == book.open_lots[order]:
        write(book, CANCEL, order, side, price, 0, 0)
    else:
        write(book, REDUCE, order, side, price, lots, 0)
    _take(book, order, lots)
    return int(lots)


@allocating
def cut_level(book: HistoryBook, side: int, rank: int, qty_lots: int) -> int:
    """Takes lots off a level: anonymous orders first, then named ones, each from the newest; returns what it lacks."""
    for named in range(2):
        order = book.tail[side, rank]
        while order and qty_lots > 0:
            older = book.before[order]
            if (book.known_lots[order] > 0) == (named == 1):
                qty_lots -= cut(book, order, qty_lots)
            order = older
    return qty_lots
