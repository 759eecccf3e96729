"""Converts LOBSTER files to the commands of a day."""

import numpy as np
from numpy.typing import NDArray

from serl.history.day import Day, Reference, SymbolReference
from serl.history.lobster import EMPTY_PRICE, TICK_UNITS, Lobster
from serl.history.reconstruct import reconstruct


def lobster_day(source: Lobster) -> Day:
    """The day of LOBSTER files; docs/history.md has the rules."""
    view_ticks, view_lots = book_view(source)
    book_prices = view_ticks[view_ticks > 0]
    visible = source.messages[:, 0] <= 4
    price_ticks = np.unique(np.concatenate([book_prices, source.messages[visible, 3] // TICK_UNITS]))
    view_rank = np.where(view_ticks > 0, np.searchsorted(price_ticks, view_ticks), -1)
    messages, orders = _messages(source, price_ticks)
    book, counts = reconstruct(price_ticks, messages, orders, view_rank, view_lots)
    written = int(book.totals[0])
    reference = Reference(
        symbols=(SymbolReference(source.symbol),),
        date=source.date,
        source="lobster",
        files=source.files,
        first_time_ns=int(source.time_ns[0]),
        last_time_ns=int(source.time_ns[-1]),
        levels=source.levels,
        source_rows=len(source),
        counts={**counts, "times_rounded": source.times_rounded},
    )
    return Day(book.commands[:written].copy(), book.rows[:written].copy(), reference)


def book_view(source: Lobster) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(price_ticks, qty_lots) of the book after each message, [row, side (bids first), level]; 0 for an empty level."""
    shaped = source.book.reshape(len(source), source.levels, 2, 2)[:, :, ::-1]  # [row, level, side, (price, size)]
    prices, sizes = shaped[..., 0].swapaxes(1, 2), shaped[..., 1].swapaxes(1, 2)
    ticks = np.where(np.abs(prices) == EMPTY_PRICE, 0, prices // TICK_UNITS)
    return np.ascontiguousarray(ticks), np.ascontiguousarray(sizes)


def _messages(source: Lobster, price_ticks: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Messages in the form of `reconstruct`, and the number of order ids."""
    kind, order, size, price, direction = source.messages.T
    ids, index = np.unique(order, return_inverse=True)
    # A hidden order at half a tick: numpy rounds half to even, so prints are not moved up or down on average.
    ticks = np.maximum(1, np.rint(price / TICK_UNITS)).astype(np.int64)
    price_or_rank = np.where(
        kind <= 4, np.searchsorted(price_ticks, price // TICK_UNITS), np.where(kind == 7, price, ticks)
    )
    rounded = (kind >= 5) & (kind <= 6) & (price % TICK_UNITS != 0)
    side = np.where(direction == 1, 0, 1)
    return np.stack([source.time_ns, kind, index, size, price_or_rank, side, rounded], 1).astype(np.int64), len(ids)
