"""Converts a market's events to changes of the displayed book: of each order (l3) or price level (l2)."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import EventFlag, EventKind, Rows

Detail = Literal["l2", "l3"]
"""Price levels, or single orders (market by order)."""
ADD, UPDATE, DELETE = 1, 2, 3
"""Values of nautilus_trader's BookAction."""
TAKER_EVENTS = EventFlag.MAKER | EventFlag.AUCTION


class BookChanges(NamedTuple):
    """n changes of a symbol's book."""

    event: NDArray[np.int64]
    """(n,) index of the event that caused the change, increasing."""
    action: NDArray[np.int64]
    """(n,) ADD, UPDATE or DELETE."""
    key: NDArray[np.int64]
    """(n,) number of the order; 0 for a level."""
    side: NDArray[np.int64]
    """(n,) 0 buy, 1 sell."""
    price_ticks: NDArray[np.int64]
    """(n,)"""
    qty_lots: NDArray[np.int64]
    """(n,) quantity of the order or level after the change."""
    is_last: NDArray[np.bool_]
    """(n,) whether it is the last change by its command."""


class BookTracker:
    """Follows one symbol's displayed book through its EVENT rows, which must arrive in order; docs/orders.md describes their effect."""

    def __init__(self, detail: Detail) -> None:
        self._detail = detail
        #: lots of each open order or level, by its key
        self._lots: dict[int, int] = {}
        #: the price at which each order rests; a fill in an auction has another price
        self._prices = np.zeros(1024, np.int64)

    def update(self, events: Rows) -> BookChanges:
        """The changes caused by EVENT rows of the symbol. Pass all events of a command in one call."""
        added, signed_lots = _effects(events)
        where = np.flatnonzero(signed_lots)
        rows, change = events[where], signed_lots[where]
        ticks = self._resting_ticks(rows, added[where])
        keys = rows["order_number"] if self._detail == "l3" else ticks * 2 + rows["side"]
        before, after = self._apply(keys, change)
        action = np.where(after == 0, DELETE, np.where(before == 0, ADD, UPDATE))
        command = rows["command_sequence"]
        is_last = np.append(command[1:] != command[:-1], True)[: len(rows)]
        number = keys if self._detail == "l3" else np.zeros_like(keys)
        return BookChanges(where, action, number, rows["side"].astype(np.int64), ticks, after, is_last)

    def _resting_ticks(self, rows: Rows, added: NDArray[np.bool_]) -> NDArray[np.int64]:
        numbers, ticks = rows["order_number"], rows["price_ticks"].copy()
        if len(numbers) and numbers.max() >= len(self._prices):
            self._prices = np.concatenate([self._prices, np.zeros(int(numbers.max()) + 1, np.int64)])
        self._prices[numbers[added]] = ticks[added]
        auctioned = rows["flags"] & EventFlag.AUCTION > 0
        ticks[auctioned] = self._prices[numbers[auctioned]]
        return ticks

    def _apply(self, keys: NDArray[np.int64], change: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(lots before, lots after) of the order or level, for each change."""
        if not len(keys):
            return change, change
        distinct, group = np.unique(keys, return_inverse=True)
        start = np.array([self._lots.get(key, 0) for key in distinct.tolist()], np.int64)
        order = np.argsort(group, kind="stable")
        totals = np.cumsum(change[order])
        firsts = np.searchsorted(group[order], np.arange(len(distinct)))
        offset = start - (totals[firsts] - change[order][firsts])
        after = np.zeros_like(change)
        after[order] = totals + offset[group[order]]
        lasts = np.append(firsts[1:], len(order)) - 1
        for key, lots in zip(distinct.tolist(), after[order][lasts].tolist(), strict=True):
            if lots:
                self._lots[key] = lots
            else:
                self._lots.pop(key, None)
        assert (after >= 0).all(), "an order or level of a market has lots or is gone"
        return after - change, after


def _effects(events: Rows) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """(whether each event adds to the displayed book, the lots that it adds; below 0: removes)."""
    kind, flags, lots = events["kind"], events["flags"], events["qty_lots"].copy()
    displayed, resting = flags & EventFlag.HIDDEN == 0, flags & EventFlag.RESTING > 0
    added = displayed & (((kind == EventKind.ACCEPTED) & resting) | (kind == EventKind.RESTED))
    taken = displayed & (
        ((kind == EventKind.FILL) & (flags & TAKER_EVENTS > 0))
        | ((kind == EventKind.CANCELLED) & resting)
        | (kind == EventKind.REDUCED)
        | (kind == EventKind.REPLACED)
    )
    return added, np.where(added, lots, np.where(taken, -lots, 0))
