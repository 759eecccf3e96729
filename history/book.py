"""An order book that mirrors the exchange's after the commands written so far, for readers that know all prices in advance.

Prices are *ranks*: indices into the sorted array of all prices, so that levels are plain arrays. An order's id and index is the
`command_id` of its NEW. Every change of the book writes the COMMAND with the same effect.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import allocating_inner
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce

NEW, CANCEL, REDUCE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REDUCE)
GTC, IOC = int(TimeInForce.GTC), int(TimeInForce.IOC)
BUY, SELL = 0, 1


class HistoryBook(NamedTuple):
    """Levels by [side, rank], orders by command_id, and the written commands."""

    price_ticks: NDArray[np.int64]
    """[rank], strictly increasing."""
    head: NDArray[np.int64]
    """[side, rank] oldest order, 0 = none."""
    tail: NDArray[np.int64]
    level_lots: NDArray[np.int64]
    """[side, rank] sum of the open_lots of its orders."""
    best: NDArray[np.int64]
    """[side] rank of the best level; -1 = no bids, len(price_ticks) = no asks."""
    next_order: NDArray[np.int64]
    """[order] the next younger order of its level, 0 = none."""
    previous_order: NDArray[np.int64]
    open_lots: NDArray[np.int64]
    source_lots: NDArray[np.int64]
    """[order] lots open at the source; 0: anonymous, because the source has no id for the order, or no longer has one."""
    side: NDArray[np.uint8]
    rank: NDArray[np.int64]
    commands: Rows
    """COMMAND rows; the first totals[0] are set."""
    rows: NDArray[np.int64]
    """Source row of each command."""
    totals: NDArray[np.int64]
    """[0] commands written, [1] orders open."""
    stamp: NDArray[np.int64]
    """[0] source row and [1] time_ns of the next commands."""


def empty_book(price_ticks: NDArray[np.int64], commands_max: int) -> HistoryBook:
    """An empty book over the given prices, with room for `commands_max` commands."""
    levels, orders = (2, len(price_ticks)), commands_max + 1
    return HistoryBook(
        price_ticks=price_ticks,
        head=np.zeros(levels, np.int64),
        tail=np.zeros(levels, np.int64),
        level_lots=np.zeros(levels, np.int64),
        best=np.array([-1, len(price_ticks)], np.int64),
        next_order=np.zeros(orders, np.int64),
        previous_order=np.zeros(orders, np.int64),
        open_lots=np.zeros(orders, np.int64),
        source_lots=np.zeros(orders, np.int64),
        side=np.zeros(orders, np.uint8),
        rank=np.zeros(orders, np.int64),
        commands=np.zeros(commands_max, COMMAND),
        rows=np.zeros(commands_max, np.int64),
        totals=np.zeros(2, np.int64),
        stamp=np.array([-1, 0], np.int64),
    )


@allocating_inner
def write_command(
    book: HistoryBook, kind: int, order_id: int, side: int, price_ticks: int, qty_lots: int, time_in_force: int
) -> int:
    """Writes one command; returns its command_id."""
    index = book.totals[0]
    book.totals[0] = index + 1
    row = book.commands[index]
    row["time_ns"] = book.stamp[1]
    row["command_id"] = index + 1
    row["order_id"] = order_id
    row["price_ticks"] = price_ticks
    row["qty_lots"] = qty_lots
    row["kind"] = kind
    row["side"] = side
    row["time_in_force"] = time_in_force
    book.rows[index] = book.stamp[0]
    return int(index + 1)


@allocating_inner
def next_level(book: HistoryBook, side: int, rank: int) -> int:
    """Rank of the next worse level with orders; outside the array if there is none."""
    step = -1 if side == BUY else 1
    rank += step
    while 0 <= rank < book.price_ticks.shape[0] and book.level_lots[side, rank] == 0:
        rank += step
    return rank


@allocating_inner
def _remove_lots(book: HistoryBook, order: int, qty_lots: int) -> None:
    """Removes lots from an order, and the order from its level once nothing is left."""
    side, rank = book.side[order], book.rank[order]
    book.open_lots[order] -= qty_lots
    book.level_lots[side, rank] -= qty_lots
    if book.open_lots[order] > 0:
        return
    older, younger = book.previous_order[order], book.next_order[order]
    if older:
        book.next_order[older] = younger
    else:
        book.head[side, rank] = younger
    if younger:
        book.previous_order[younger] = older
    else:
        book.tail[side, rank] = older
    book.totals[1] -= 1
    if book.level_lots[side, rank] == 0 and book.best[side] == rank:
        book.best[side] = next_level(book, side, rank)


@allocating_inner
def _match(book: HistoryBook, side: int, rank: int, qty_lots: int) -> int:
    """Matches an incoming order against the other side in price-time priority; returns its remaining lots."""
    other = 1 - side
    while qty_lots > 0:
        best = book.best[other]
        if best < 0 or best >= book.price_ticks.shape[0] or (best > rank if side == BUY else best < rank):
            break
        order = book.head[other, best]
        lots = min(qty_lots, book.open_lots[order])
        _remove_lots(book, order, lots)
        qty_lots -= lots
    return qty_lots


@allocating_inner
def add_order(book: HistoryBook, side: int, rank: int, qty_lots: int, named: bool) -> int:
    """Writes a GTC limit order and applies it; returns its command_id."""
    order = write_command(book, NEW, 0, side, book.price_ticks[rank], qty_lots, GTC)
    leaves_lots = _match(book, side, rank, qty_lots)
    book.source_lots[order] = qty_lots if named else 0
    if leaves_lots == 0:
        return int(order)
    book.side[order], book.rank[order], book.open_lots[order] = side, rank, leaves_lots
    tail = book.tail[side, rank]
    book.previous_order[order], book.next_order[order] = tail, 0
    if tail:
        book.next_order[tail] = order
    else:
        book.head[side, rank] = order
    book.tail[side, rank] = order
    book.level_lots[side, rank] += leaves_lots
    book.totals[1] += 1
    best = book.best[side]
    if best < 0 or best >= book.price_ticks.shape[0] or (rank > best if side == BUY else rank < best):
        book.best[side] = rank
    return int(order)


@allocating_inner
def send_ioc(book: HistoryBook, side: int, rank: int, qty_lots: int) -> int:
    """Writes an IOC limit order of `side` and applies it; returns the lots that did not trade."""
    write_command(book, NEW, 0, side, book.price_ticks[rank], qty_lots, IOC)
    return int(_match(book, side, rank, qty_lots))


@allocating_inner
def reduce_order(book: HistoryBook, order: int, qty_lots: int) -> int:
    """Reduces an order by up to qty_lots with a REDUCE, or a CANCEL if nothing is left; returns the lots removed."""
    lots = min(qty_lots, book.open_lots[order])
    if lots <= 0:
        return 0
    side, price = book.side[order], book.price_ticks[book.rank[order]]
    if lots == book.open_lots[order]:
        write_command(book, CANCEL, order, side, price, 0, 0)
    else:
        write_command(book, REDUCE, order, side, price, lots, 0)
    _remove_lots(book, order, lots)
    return int(lots)


@allocating_inner
def reduce_level(book: HistoryBook, side: int, rank: int, qty_lots: int) -> int:
    """Removes lots from a level: first from anonymous orders, then from named ones, newest first; returns how many lots were missing."""
    for named in range(2):
        order = book.tail[side, rank]
        while order and qty_lots > 0:
            older = book.previous_order[order]
            if (book.source_lots[order] > 0) == (named == 1):
                qty_lots -= reduce_order(book, order, qty_lots)
            order = older
    return qty_lots
