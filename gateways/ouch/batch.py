"""The commands of one read."""

from typing import Any

import numpy as np

from serl.exchange.records import COMMAND, Rows
from serl.gateways.ouch.changes import Change
from serl.gateways.ouch.orders import NO_ENTRY


class Batch:
    """Commands of one read, in the order of its messages."""

    def __init__(self) -> None:
        self._parts: list[tuple[Rows, Any, Any, Any]] = []
        self._changes: list[tuple[int, Change]] = []  # with its place among all rows, in the order added
        self._count = 0
        self.changed: dict[int, int] = {}
        """By the entry of an order's NEW: the message in this read that changes it."""

    def add(self, rows: Rows, keys: Any, *, entry: Any = None, base: Any = None, change: Change | None = None) -> None:
        """Adds rows at the places given by the keys. entry: entries of their NEW; base: entries of the orders that they name."""
        blank = np.full(len(rows), NO_ENTRY)
        if change is not None:
            self._changes.append((self._count, change))
            base = np.full(len(rows), change.base)
        self._parts.append((rows, keys, blank if entry is None else entry, blank if base is None else base))
        self._count += len(rows)

    def build(self) -> tuple[Rows, Any, Any, list[tuple[int, Change]]]:
        """(rows, entry of each NEW, base of each row that names an order, (place in rows, change))."""
        if not self._parts:
            blank = np.zeros(0, np.int64)
            return np.zeros(0, COMMAND), blank, blank, []
        rows, keys, entry, base = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        order = np.argsort(keys, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return rows[order], entry[order], base[order], [(int(place[at]), change) for at, change in self._changes]
