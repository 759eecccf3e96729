"""Reconstructs commands from LOBSTER messages and book rows: the opening book, each message, and levels that come into view.

docs/history.md has the rules. Sides and ranks are as in `serl.history.book`.
"""

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import allocating, allocating_inner
from serl.exchange.records import CommandKind
from serl.history.book import (
    BUY,
    SELL,
    HistoryBook,
    add_order,
    empty_book,
    next_level,
    reduce_level,
    reduce_order,
    send_ioc,
    write_command,
)

PRINT, HALT, RESUME = int(CommandKind.PRINT), int(CommandKind.HALT), int(CommandKind.RESUME)


COUNT_NAMES = (
    "opening_orders",
    "new_orders",
    "cancels",  # messages of types 2 and 3
    "unnamed_cancels",  # of an order whose NEW is not in the file
    "executions",
    "executions_other_head",  # the head of the queue was not the executed order
    "executions_unfilled",
    "prints",
    "prints_rounded",  # off the tick grid
    "crosses_empty",
    "halts",
    "resumes",
    "halted_orders",  # new orders and executions while halted, which are dropped
    "refresh_adds",
    "refresh_cuts",
    "unexplained",
    "missing_lots",  # lots that a message removes from a level that lacks them
)
"""Counts of the reconstruction."""
(
    OPENING_ORDERS, NEW_ORDERS, CANCELS, UNNAMED_CANCELS, EXECUTIONS, EXECUTIONS_OTHER_HEAD, EXECUTIONS_UNFILLED,
    PRINTS, PRINTS_ROUNDED, CROSSES_EMPTY, HALTS, RESUMES, HALTED_ORDERS, REFRESH_ADDS, REFRESH_CUTS, UNEXPLAINED,
    MISSING_LOTS,
) = range(len(COUNT_NAMES))  # fmt: skip


@allocating_inner
def _opening_book(
    book: HistoryBook, message: NDArray[np.int64], order_of: NDArray[np.int64], view_rank: NDArray[np.int64],
    view_lots: NDArray[np.int64], counts: NDArray[np.int64],
) -> None:  # fmt: skip
    """Adds one anonymous order per level of the first row. If the first message has type 1, its order is separate."""
    kind, order, lots, rank, side = message[1], message[2], message[3], message[4], message[5]
    for level in range(view_rank.shape[1]):
        for at in range(2):
            if view_rank[at, level] < 0:
                continue
            is_new = kind == 1 and at == side and view_rank[at, level] == rank
            anonymous = view_lots[at, level] - (lots if is_new else 0)
            if anonymous > 0:
                add_order(book, at, view_rank[at, level], anonymous, False)
                counts[OPENING_ORDERS] += 1
    book.stamp[0] = 0
    if kind == 1:
        order_of[order] = add_order(book, side, rank, lots, True)
        counts[NEW_ORDERS] += 1


@allocating_inner
def _add_order(
    book: HistoryBook, message: NDArray[np.int64], order_of: NDArray[np.int64], view_rank: NDArray[np.int64],
    view_lots: NDArray[np.int64], edge: NDArray[np.int64], counts: NDArray[np.int64],
) -> None:  # fmt: skip
    """Type 1. First removes excess lots at a price that was out of view, because they would be ahead of the order."""
    lots, rank, side = message[3], message[4], message[5]
    if book.level_lots[side, rank] > 0 and (rank < edge[side] if side == BUY else rank > edge[side]):
        for level in range(view_rank.shape[1]):
            if view_rank[side, level] == rank:
                excess = book.level_lots[side, rank] + lots - view_lots[side, level]
                if excess > 0:
                    counts[REFRESH_CUTS] += 1
                    reduce_level(book, side, rank, excess)
    order_of[message[2]] = add_order(book, side, rank, lots, True)
    counts[NEW_ORDERS] += 1


@allocating_inner
def _cancel(
    book: HistoryBook, message: NDArray[np.int64], order_of: NDArray[np.int64], counts: NDArray[np.int64]
) -> None:
    """Types 2 and 3: removes lots from the order, and lots that the order lacks from the rest of its level."""
    kind, lots, rank, side = message[1], message[3], message[4], message[5]
    order = order_of[message[2]]
    counts[CANCELS] += 1
    missing = lots
    if order:
        missing -= reduce_order(book, order, lots)
        book.source_lots[order] = 0 if kind == 3 else max(0, book.source_lots[order] - lots)
    else:
        counts[UNNAMED_CANCELS] += 1
    counts[MISSING_LOTS] += reduce_level(book, side, rank, missing)


@allocating_inner
def _execute(
    book: HistoryBook, message: NDArray[np.int64], order_of: NDArray[np.int64], counts: NDArray[np.int64]
) -> None:
    """Type 4: sends the aggressor, an IOC order of the other side."""
    lots, rank, side = message[3], message[4], message[5]
    order = order_of[message[2]]
    head = book.head[side, rank]
    same = head == order if order else book.source_lots[head] == 0
    counts[EXECUTIONS] += 1
    counts[EXECUTIONS_OTHER_HEAD] += 0 if same else 1
    if send_ioc(book, 1 - side, rank, lots) > 0:
        counts[EXECUTIONS_UNFILLED] += 1
    if order:
        book.source_lots[order] = max(0, book.source_lots[order] - lots)


@allocating_inner
def _print_trade(book: HistoryBook, message: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Types 5 and 6; their price is already in ticks."""
    if message[3] == 0:
        counts[CROSSES_EMPTY] += 1
        return
    write_command(book, PRINT, 0, message[5], message[4], message[3], 0)
    counts[PRINTS] += 1
    counts[PRINTS_ROUNDED] += message[6]


@allocating_inner
def _halt(book: HistoryBook, price: int, halted: bool, counts: NDArray[np.int64]) -> bool:
    """Type 7: -1 halts; the first 0 (quoting) or 1 (trading) resumes. Returns whether the symbol is halted."""
    if price < 0:
        if not halted:
            write_command(book, HALT, 0, 0, 0, 0, 0)
            counts[HALTS] += 1
        return True
    if halted:
        write_command(book, RESUME, 0, 0, 0, 0, 0)
        counts[RESUMES] += 1
    return False


@allocating_inner
def _remove_excess(
    book: HistoryBook, side: int, view_rank: NDArray[np.int64], view_lots: NDArray[np.int64], edge: int,
    counts: NDArray[np.int64],
) -> None:  # fmt: skip
    """Removes the lots that exceed those of the row, within the row's view of this side."""
    levels, sign = view_rank.shape[1], -1 if side == BUY else 1
    rank, level = book.best[side], 0
    while 0 <= rank < book.price_ticks.shape[0]:
        while level < levels and view_rank[side, level] >= 0 and (view_rank[side, level] - rank) * sign < 0:
            level += 1
        if level == levels:
            return
        expected = view_lots[side, level] if view_rank[side, level] == rank else 0
        worse = next_level(book, side, rank)
        excess = book.level_lots[side, rank] - expected
        if excess > 0:
            counts[UNEXPLAINED if (rank - edge) * sign <= 0 else REFRESH_CUTS] += 1
            reduce_level(book, side, rank, excess)
        rank = worse


@allocating_inner
def _add_missing(
    book: HistoryBook, side: int, view_rank: NDArray[np.int64], view_lots: NDArray[np.int64], edge: int,
    counts: NDArray[np.int64],
) -> None:  # fmt: skip
    """Adds the lots that the book lacks compared with the row, one anonymous order per level."""
    sign = -1 if side == BUY else 1
    for level in range(view_rank.shape[1]):
        rank = view_rank[side, level]
        if rank < 0:
            return
        missing = view_lots[side, level] - book.level_lots[side, rank]
        if missing > 0:
            counts[UNEXPLAINED if (rank - edge) * sign <= 0 else REFRESH_ADDS] += 1
            add_order(book, side, rank, missing, False)


@allocating_inner
def _set_edge(view_rank: NDArray[np.int64], ranks: int, edge: NDArray[np.int64]) -> None:
    """Sets the worst price in view of each side: every price is in view if the row has empty levels."""
    last = view_rank.shape[1] - 1
    edge[BUY] = view_rank[BUY, last] if view_rank[BUY, last] >= 0 else 0
    edge[SELL] = view_rank[SELL, last] if view_rank[SELL, last] >= 0 else ranks - 1


@allocating_inner
def _apply(
    book: HistoryBook, message: NDArray[np.int64], order_of: NDArray[np.int64], view_rank: NDArray[np.int64],
    view_lots: NDArray[np.int64], edge: NDArray[np.int64], halted: bool, counts: NDArray[np.int64],
) -> bool:  # fmt: skip
    """Applies a message; returns whether the symbol is halted after it."""
    kind = message[1]
    if kind == 7:
        return bool(_halt(book, message[4], halted, counts))
    if kind == 5 or kind == 6:
        _print_trade(book, message, counts)
    elif kind == 2 or kind == 3:
        _cancel(book, message, order_of, counts)
    elif halted:
        counts[HALTED_ORDERS] += 1
    elif kind == 1:
        _add_order(book, message, order_of, view_rank, view_lots, edge, counts)
    else:
        _execute(book, message, order_of, counts)
    return halted


@allocating
def _run(
    book: HistoryBook, messages: NDArray[np.int64], order_of: NDArray[np.int64], view_rank: NDArray[np.int64],
    view_lots: NDArray[np.int64], counts: NDArray[np.int64],
) -> bool:  # fmt: skip
    """Applies the whole day; False if there is not enough room for its commands."""
    levels, ranks = view_rank.shape[2], book.price_ticks.shape[0]
    edge = np.empty(2, np.int64)
    halted = False
    for row in range(messages.shape[0]):
        message = messages[row]
        # At worst every open order is cancelled and every level of the row is added.
        if book.totals[0] + book.totals[1] + 8 * levels + 8 > book.commands.shape[0]:
            return False
        book.stamp[0], book.stamp[1] = row, message[0]
        if row == 0:
            book.stamp[0] = -1
            _opening_book(book, message, order_of, view_rank[0], view_lots[0], counts)
            if message[1] >= 5:
                halted = _apply(book, message, order_of, view_rank[0], view_lots[0], edge, halted, counts)
        else:
            before = halted
            halted = _apply(book, message, order_of, view_rank[row], view_lots[row], edge, halted, counts)
            if before and not halted:  # the whole book may have changed during the halt
                edge[BUY], edge[SELL] = ranks, -1
            if not halted:
                for side in range(2):  # first remove, then add, so that removed lots do not trade
                    _remove_excess(book, side, view_rank[row], view_lots[row], edge[side], counts)
                for side in range(2):
                    _add_missing(book, side, view_rank[row], view_lots[row], edge[side], counts)
        _set_edge(view_rank[row], ranks, edge)
    return True


def reconstruct(
    price_ticks: NDArray[np.int64],
    messages: NDArray[np.int64],
    orders: int,
    view_rank: NDArray[np.int64],
    view_lots: NDArray[np.int64],
) -> tuple[HistoryBook, dict[str, int]]:
    """Applies a day of messages; returns the book at its end, with its commands, and the counts by COUNT_NAMES.

    price_ticks: [rank] every price of the day, strictly increasing. messages: [row, 7] time_ns, type, index of the
    order (0..orders - 1), lots, rank of the price (types 5, 6: price in ticks; type 7: -1, 0 or 1), side of the resting
    order, 1 if the price was rounded. view_rank, view_lots: [row, side, level] the book after each message, best first;
    rank -1 and 0 lots where there is no level.
    """
    commands_max = 2 * len(messages) + 64 * view_rank.shape[2] + 64
    while True:
        book = empty_book(price_ticks, commands_max)
        counts = np.zeros(len(COUNT_NAMES), np.int64)
        if _run(book, messages, np.zeros(orders, np.int64), view_rank, view_lots, counts):
            return book, dict(zip(COUNT_NAMES, counts.tolist(), strict=True))
        commands_max *= 2
