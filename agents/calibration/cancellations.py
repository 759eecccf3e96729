"""Which orders are cancelled: the odds of an order by its distance from the touch, its age and its size.

This is the partial likelihood of Cox (1975) in its simplest form: a cancellation at the touch picks one of the orders then at the touch, a
cancellation behind it one of the orders in view behind it. The odds of a cell are its cancellations per order that could have been cancelled instead.
Touches also have odds: with the odds of single orders alone, touches with many lots would be cancelled far too often.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from serl.agents.realism.messages import CANCEL, LIMIT
from serl.agents.realism.tape import Floats, Ints, Tape
from serl.agents.traders.flow_tables import (
    CANCEL_AGES,
    CANCEL_SIZES,
    DISTANCE_BANDS,
    TOUCH_STATES,
    age_step,
    band_of,
)
from serl.exchange.compiling import allocating, allocating_inner
from serl.exchange.records import Side

BUY = int(Side.BUY)
SIDE, PRICE, LOTS, TIME = range(4)
"""Columns of the open orders."""
FITTING_STEPS = 50


class CancelOdds(NamedTuple):
    """The relative probability that an order is the one cancelled."""

    orders: Floats
    """[distance band, step of the age, size class]"""
    piles: Floats
    """[touch state] factors for orders at the touch, by its lots."""


def cancel_edges(behind_ticks: Floats) -> Floats:
    """[DISTANCE_BANDS - 1] edges of the distance bands: the touch, and the quartiles of the distances of orders cancelled behind it."""
    quarters = np.arange(1, DISTANCE_BANDS - 1) / (DISTANCE_BANDS - 1)
    return np.append(
        0.0, np.quantile(behind_ticks, quarters) if len(behind_ticks) else np.arange(1.0, DISTANCE_BANDS - 1)
    )


def touch_cancel_odds(windows: Sequence[Tape], touch_edges_lots: Floats) -> Floats:
    """[touch state] how often a cancellation is at a side's touch in this state, relative to all touches."""
    at_touch, there = np.zeros((2, TOUCH_STATES))
    for window in windows:
        cancels = np.flatnonzero((window.kind == CANCEL) & window.two_sided[:-1])
        side = window.side[cancels].astype(np.int64)
        states = np.searchsorted(touch_edges_lots, window.book_lots[cancels, :, 0], side="left")
        chosen = window.book_ticks[cancels, side, 0] == window.price_ticks[cancels]
        there += np.bincount(states.ravel(), minlength=TOUCH_STATES)
        at_touch += np.bincount(states[np.arange(len(cancels)), side][chosen], minlength=TOUCH_STATES)
    mean = (at_touch.sum() + 1.0) / (there.sum() + 1.0)
    return np.asarray((at_touch / mean + 1.0) / (there + 1.0))


def cancel_odds(
    windows: Sequence[Tape], edges_ticks: Floats, edges_lots: Floats, touch_edges_lots: Floats
) -> CancelOdds:
    """Counts cancellations per order that was present at a cancellation, over all windows; then fits factors by touch, by iterative proportional
    fitting.

    Orders that arrived before the window are not known, and count neither as cancelled nor as present. Each cell gets one more order, with the odds
    of its distance and age at any size; each of these gets one more, with the odds of its side of the touch.
    """
    odds = np.zeros((DISTANCE_BANDS, CANCEL_AGES, CANCEL_SIZES))
    counted = [_count_window(window, edges_ticks, edges_lots, odds)[:2] for window in windows]
    cancelled, there = np.sum(counted, axis=0)
    for bands in (slice(0, 1), slice(1, None)):
        mean = (cancelled[bands].sum() + 1.0) / (there[bands].sum() + 1.0)
        any_size = (cancelled[bands].sum(axis=2) + mean) / (there[bands].sum(axis=2) + 1.0)
        odds[bands] = (cancelled[bands] + any_size[:, :, np.newaxis]) / (there[bands] + 1.0)
    rows = []
    for window in windows:
        weights = _count_window(window, edges_ticks, edges_lots, odds)[2]
        known = np.flatnonzero(weights.min(axis=1) > 0.0)  # both sides could have been chosen
        states = np.searchsorted(touch_edges_lots, window.book_lots[known, :, 0], side="left")
        rows.append((weights[known], states, window.side[known].astype(np.int64)))
    return CancelOdds(odds, _pile_factors(*(np.concatenate(column) for column in zip(*rows, strict=True))))


def _pile_factors(weights: Floats, states: Ints, side: Ints) -> Floats:
    """[touch state] factors for which the expected number of cancellations at touches in each state equals the counted number.

    weights, states: [cancellation, side] sum of the odds of the orders at a touch, and its state. side: side of the cancelled order.
    """
    factors = np.ones(TOUCH_STATES)
    counted = np.bincount(states[np.arange(len(side)), side], minlength=TOUCH_STATES)
    for _ in range(FITTING_STEPS):
        expected = weights * factors[states]
        expected /= expected.sum(axis=1, keepdims=True)
        factors *= (counted + 1.0) / (np.bincount(states.ravel(), expected.ravel(), TOUCH_STATES) + 1.0)
    return factors


def _count_window(window: Tape, edges_ticks: Floats, edges_lots: Floats, odds: Floats) -> tuple[Floats, Floats, Floats]:
    """([cell] cancelled orders, [cell] orders that were present, [message, side] sum of the odds of the orders at a touch, 0 except at cancellations
    at the touch)."""
    cancelled, there = np.zeros((2, *odds.shape))
    orders = np.zeros((int((window.kind == LIMIT).sum()) + 1, TIME + 1), np.int64)
    weights = np.zeros((len(window), 2))
    _count(
        window.kind, window.side, window.price_ticks, window.qty_lots, window.time_ns, window.entered_ns, window.book_ticks, edges_ticks, edges_lots,
        odds, orders, cancelled, there, weights,
    )  # fmt: skip
    return cancelled, there, weights


@allocating
def _count(
    kind: Any, side: Any, price_ticks: Any, qty_lots: Any, time_ns: Any, entered_ns: Any, book_ticks: Any, edges_ticks: Any, edges_lots: Any,
    odds: Any, orders: Any, cancelled: Any, there: Any, weights: Any,
) -> None:  # fmt: skip
    """See _count_window. orders: room for the open orders, with columns SIDE to TIME. O(messages x open orders)."""
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
                _count_there(
                    orders, count, book, edges_ticks, edges_lots, odds, distance_ticks <= 0, time_ns[message], there, weights[message]
                )  # fmt: skip
            if index >= 0:
                orders[index, LOTS] -= qty_lots[message]
        else:
            _trade(orders, count, side[message], price_ticks[message], qty_lots[message])
        count = _keep_open(orders, count, book_ticks[message + 1])


@allocating_inner
def _count_there(
    orders: Any, count: int, book: Any, edges_ticks: Any, edges_lots: Any, odds: Any, at_touch: bool, time_ns: int, there: Any, weights: Any
) -> None:  # fmt: skip
    """Counts the orders in view at the touch or behind it, and adds the odds of those at the touch to the weight of their side."""
    for index in range(count):
        side, price = orders[index, SIDE], orders[index, PRICE]
        distance_ticks, last = _distance_ticks(book, side, price), book[side, book.shape[1] - 1]
        in_view = last == 0 or distance_ticks <= _distance_ticks(book, side, last)
        if in_view and (distance_ticks <= 0) == at_touch:
            band, age = band_of(edges_ticks, distance_ticks), age_step(time_ns - orders[index, TIME])
            size = band_of(edges_lots, orders[index, LOTS])
            there[band, age, size] += 1.0
            if at_touch:
                weights[side] += odds[band, age, size]


@allocating_inner
def _find(orders: Any, count: int, side: int, price_ticks: int, entered_ns: int) -> int:
    """The order that is cancelled or reduced; -1 if it is not known."""
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
            # orders are in order of arrival: the first at a price is the oldest
            if best < 0 or ahead > sign * (worst_ticks - orders[best, PRICE]):
                best = index
        if best < 0:
            return
        taken = min(lots, orders[best, LOTS])
        orders[best, LOTS] -= taken
        lots -= taken


@allocating_inner
def _keep_open(orders: Any, count: int, book: Any) -> int:
    """Drops orders without lots, and those ahead of the book's touch, which no longer exist; returns how many remain. Keeps their order."""
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
