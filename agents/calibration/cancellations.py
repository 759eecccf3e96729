"""Which orders are cancelled: how much likelier one is than another, by its distance from the touch, its age and its size.

The partial likelihood of Cox (1975) in its simplest form: a cancellation at the touch is one of the orders at the touch then, one behind it one
of the orders in view behind it. The odds of a cell are its cancellations per order that could have been cancelled instead.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.realism.messages import CANCEL, LIMIT
from serl.agents.realism.tape import Floats, Tape
from serl.agents.traders.flow_tables import (
    CANCEL_AGES,
    CANCEL_SIZES,
    DISTANCE_BANDS,
    age_step,
    band_of,
)
from serl.exchange.compiling import allocating, allocating_inner
from serl.exchange.records import Side

BUY = int(Side.BUY)
SIDE, PRICE, LOTS, TIME = range(4)
"""Columns of the open orders."""


def cancel_edges(behind_ticks: Floats) -> Floats:
    """[DISTANCE_BANDS - 1] edges of the distance bands: the touch, and the quarters of the distances of orders cancelled behind it."""
    quarters = np.arange(1, DISTANCE_BANDS - 1) / (DISTANCE_BANDS - 1)
    return np.append(
        0.0, np.quantile(behind_ticks, quarters) if len(behind_ticks) else np.arange(1.0, DISTANCE_BANDS - 1)
    )


def cancel_odds(windows: Sequence[Tape], edges_ticks: Floats, edges_lots: Floats) -> Floats:
    """[distance band, step of the age, size class] cancellations for each order that was there at a cancellation, over all windows.

    Orders that arrived before the window are not known, and count neither as cancelled nor as there. Each cell is given
    one more order, with the odds of its distance and age at any size, and each of these one more, with the odds of its side of the touch.
    """
    cancelled, there = np.zeros((2, DISTANCE_BANDS, CANCEL_AGES, CANCEL_SIZES))
    for window in windows:
        most = int((window.kind == LIMIT).sum()) + 1
        orders = np.zeros((most, TIME + 1), np.int64)
        _count(
            window.kind, window.side, window.price_ticks, window.qty_lots, window.time_ns, window.entered_ns, window.book_ticks, edges_ticks, edges_lots,
            orders, cancelled, there,
        )  # fmt: skip
    odds = np.zeros_like(there)
    for bands in (slice(0, 1), slice(1, None)):
        mean = (cancelled[bands].sum() + 1.0) / (there[bands].sum() + 1.0)
        any_size = (cancelled[bands].sum(axis=2) + mean) / (there[bands].sum(axis=2) + 1.0)
        odds[bands] = (cancelled[bands] + any_size[:, :, np.newaxis]) / (there[bands] + 1.0)
    return odds


@allocating
def _count(
    kind: Any, side: Any, price_ticks: Any, qty_lots: Any, time_ns: Any, entered_ns: Any, book_ticks: Any, edges_ticks: Any, edges_lots: Any,
    orders: Any, cancelled: Any, there: Any,
) -> None:  # fmt: skip
    """Adds a window's cancellations. orders: room for the open ones, the columns SIDE to TIME. O(messages x open orders)."""
    count = 0
    for message in range(len(kind)):
        if kind[message] == LIMIT:
            orders[count, SIDE], orders[count, PRICE] = side[message], price_ticks[message]
            orders[count, LOTS], orders[count, TIME] = qty_lots[message], time_ns[message]
            count += 1
            continue
        book = book_ticks[message]
        if kind[message] == CANCEL:
            index = _find(orders, count, side[message], price_ticks[message], entered_ns[message])
            if index >= 0 and book[0, 0] > 0 and book[1, 0] > 0:
                distance_ticks = _distance_ticks(book, side[message], price_ticks[message])
                band, age = band_of(edges_ticks, distance_ticks), age_step(time_ns[message] - entered_ns[message])
                cancelled[band, age, band_of(edges_lots, orders[index, LOTS])] += 1.0
                _count_there(orders, count, book, edges_ticks, edges_lots, distance_ticks <= 0, time_ns[message], there)
            if index >= 0:
                orders[index, LOTS] -= qty_lots[message]
        else:
            _trade(orders, count, side[message], price_ticks[message], qty_lots[message])
        count = _keep_open(orders, count, book_ticks[message + 1])


@allocating_inner
def _count_there(
    orders: Any, count: int, book: Any, edges_ticks: Any, edges_lots: Any, at_touch: bool, time_ns: int, there: Any
) -> None:
    """Adds the orders in view at the touch, or behind it."""
    for index in range(count):
        side, price = orders[index, SIDE], orders[index, PRICE]
        distance_ticks, last = _distance_ticks(book, side, price), book[side, book.shape[1] - 1]
        in_view = last == 0 or distance_ticks <= _distance_ticks(book, side, last)
        if in_view and (distance_ticks <= 0) == at_touch:
            band, age = band_of(edges_ticks, distance_ticks), age_step(time_ns - orders[index, TIME])
            there[band, age, band_of(edges_lots, orders[index, LOTS])] += 1.0


@allocating_inner
def _find(orders: Any, count: int, side: int, price_ticks: int, entered_ns: int) -> int:
    """The order that is cancelled, or in part; -1 if it is not known."""
    for index in range(count):
        same_time = orders[index, TIME] == entered_ns
        if same_time and orders[index, PRICE] == price_ticks and orders[index, SIDE] == side:
            return index
    return -1


@allocating_inner
def _trade(orders: Any, count: int, side: int, worst_ticks: int, lots: int) -> None:
    """Takes the lots of a market order from the opposite orders up to its worst price, by price and then time."""
    sign = 1 if side == BUY else -1
    while lots > 0:
        best = -1
        for index in range(count):
            ahead = sign * (worst_ticks - orders[index, PRICE])
            if orders[index, SIDE] == side or orders[index, LOTS] <= 0 or ahead < 0:
                continue
            # orders are in the order of their arrival: the first of a price is the oldest
            if best < 0 or ahead > sign * (worst_ticks - orders[best, PRICE]):
                best = index
        if best < 0:
            return
        taken = min(lots, orders[best, LOTS])
        orders[best, LOTS] -= taken
        lots -= taken


@allocating_inner
def _keep_open(orders: Any, count: int, book: Any) -> int:
    """Drops orders without lots, and those ahead of the book's touch, which are gone; returns how many stay, in their order."""
    kept = 0
    for index in range(count):
        side, price = orders[index, SIDE], orders[index, PRICE]
        if orders[index, LOTS] > 0 and book[side, 0] > 0 and _distance_ticks(book, side, price) >= 0:
            orders[kept] = orders[index]
            kept += 1
    return kept


@allocating_inner
def _distance_ticks(book: Any, side: int, price_ticks: int) -> int:
    """Ticks from the touch of its side back to a price."""
    touch = book[side, 0]
    return touch - price_ticks if side == BUY else price_ticks - touch
