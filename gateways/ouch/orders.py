"""The orders of one user: the entries, stored in a file before the exchange receives them, and their open quantities."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.gateways.ouch.options import APPENDAGE_BYTES_MAX

ENTRY = np.dtype(
    [
        ("command_id", "<i8"),  # id of the NEW, REPLACE or MASS_CANCEL; 0: not sent (yet)
        ("price", "<i8"),  # as entered, in 1/10,000
        ("user_ref", "<u4"),
        ("orig_user_ref", "<u4"),  # of the order that a replacement replaces
        ("quantity", "<u4"),  # shares, as entered
        ("symbol", "<u2"),
        ("kind", "u1"),  # O, U or C
        ("side", "u1"),
        ("time_in_force", "u1"),
        ("display", "u1"),
        ("capacity", "u1"),
        ("sweep", "u1"),
        ("cross", "u1"),
        ("appendage_bytes", "u1"),
        ("firm", "S4"),
        ("cl_ord_id", "S14"),
        ("stock", "S8"),
        ("appendage", f"V{APPENDAGE_BYTES_MAX}"),
    ]
)
"""An entered order, replacement or mass cancel; single letters are stored as their codes."""
ORDER, REPLACEMENT, MASS_CANCEL = (ord(letter) for letter in "OUC")
"""Kinds of entries."""
NO_ENTRY = -1
ROWS_MIN = 1024
COMMAND_ID_BYTES = 8


class OrderTable:
    """Entries in the order of their user reference numbers, which increase.

    Attributes:
        entries: all entries as ENTRY rows; only the first `count` are valid, as in the following arrays.
        base: place of the NEW of the order that an entry is, or replaces; `NO_ENTRY` for a replacement of an unknown order.
        open_shares: open shares of each entry as of the last report; before the first report, the entered quantity.
        answered: whether the exchange, or the gateway for it, has answered.
        current: by the place of an order's NEW: the entry in force after replacements.
        executed: by the place of an order's NEW: shares traded.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.count = self._stored = self._new_count = self._first_unanswered = 0
        self.entries: Rows = np.zeros(ROWS_MIN, ENTRY)
        self.base = np.full(ROWS_MIN, NO_ENTRY)
        self.open_shares = np.zeros(ROWS_MIN, np.int64)
        self.executed = np.zeros(ROWS_MIN, np.int64)
        self.answered = np.zeros(ROWS_MIN, bool)
        self.current = np.full(ROWS_MIN, NO_ENTRY)
        self._new_ids = np.zeros(ROWS_MIN, np.int64)
        self._new_places = np.zeros(ROWS_MIN, np.int64)
        stored = self._read()
        places = self.stage(stored)
        self._stored = self.count
        self.index_new(places[(stored["kind"] == ORDER) & (stored["command_id"] > 0)])

    def _read(self) -> Rows:
        """Reads the stored entries; removes an incomplete one, which was never sent to the exchange."""
        size = os.fstat(self._file).st_size // ENTRY.itemsize * ENTRY.itemsize
        os.ftruncate(self._file, size)
        stored = np.fromfile(self._path, ENTRY)
        if (np.diff(stored["user_ref"].astype(np.int64)) <= 0).any():
            raise ConfigError(f"{self._path}: expected the orders of a gateway, got another file; give another --state")
        return stored

    @property
    def last_user_ref(self) -> int:
        """The largest user reference number; 0 for none."""
        return int(self.entries["user_ref"][self.count - 1]) if self.count else 0

    def stage(self, rows: Rows) -> NDArray[np.int64]:
        """Adds entries, whose user reference numbers must be larger than those before; returns their places. `store` makes them durable."""
        first, end = self.count, self.count + len(rows)
        if end > len(self.entries):
            self._grow(end)
        places = np.arange(first, end)
        self.entries[first:end] = rows
        self.open_shares[first:end] = rows["quantity"]
        self.count = end
        is_new = rows["kind"] == ORDER
        self.base[places[is_new]] = self.current[places[is_new]] = places[is_new]
        self._find_bases(places[rows["kind"] == REPLACEMENT], first)
        return places

    def _find_bases(self, places: NDArray[np.int64], first: int) -> None:
        """Sets `base` of replacements from place `first` on, in their order: a replacement may be replaced by the next."""
        originals = self.find(self.entries["orig_user_ref"][places])
        originals[originals >= places] = NO_ENTRY
        self.base[places] = np.where(originals != NO_ENTRY, self.base[originals], NO_ENTRY)
        chained = (originals >= first) & (self.entries["kind"][originals] == REPLACEMENT)
        for place, original in zip(places[chained].tolist(), originals[chained].tolist(), strict=True):
            self.base[place] = self.base[original]

    def index_new(self, places: NDArray[np.int64]) -> None:
        """Indexes orders by the command ids of their NEW, which must be larger than those before."""
        end = self._new_count + len(places)
        self._new_ids[self._new_count : end] = self.entries["command_id"][places]
        self._new_places[self._new_count : end] = places
        self._new_count = end

    def store(self) -> None:
        """Writes the staged entries. Raises OSError if there is no room; the next call writes them again."""
        if self.count > self._stored:
            self._write(self.entries[self._stored : self.count].tobytes(), self._stored * ENTRY.itemsize)
            self._stored = self.count

    def set_command_id(self, place: int, command_id: int) -> None:
        """Stores the command id of an entry that was not sent when it was stored. Raises OSError."""
        self.entries["command_id"][place] = command_id
        if place < self._stored:
            self._write(self.entries["command_id"][place : place + 1].tobytes(), place * ENTRY.itemsize)

    def _write(self, data: bytes, at: int) -> None:
        if os.pwrite(self._file, data, at) != len(data):
            raise OSError(28, "expected room for orders, got none", str(self._path))

    def _grow(self, least: int) -> None:
        more = max(2 * len(self.entries), least) - len(self.entries)
        for name in ("entries", "open_shares", "executed", "answered", "_new_ids", "_new_places"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros(more, old.dtype)]))
        for name in ("base", "current"):
            setattr(self, name, np.concatenate([getattr(self, name), np.full(more, NO_ENTRY)]))

    def find(self, user_refs: Any) -> NDArray[np.int64]:
        """Places of the orders with these user reference numbers; `NO_ENTRY` for none, and for mass cancels."""
        if not self.count:
            return np.full(len(user_refs), NO_ENTRY)
        places = np.searchsorted(self.entries["user_ref"][: self.count], user_refs)
        places = np.minimum(places, self.count - 1)
        found = (self.entries["user_ref"][places] == user_refs) & (self.entries["kind"][places] != MASS_CANCEL)
        return np.where(found, places, NO_ENTRY)

    def find_new(self, order_ids: Any) -> NDArray[np.int64]:
        """Places of the NEW of orders with these order_ids; `NO_ENTRY` for those not entered here."""
        if not self._new_count:
            return np.full(len(order_ids), NO_ENTRY)
        index = np.minimum(np.searchsorted(self._new_ids[: self._new_count], order_ids), self._new_count - 1)
        return np.where(self._new_ids[index] == order_ids, self._new_places[index], NO_ENTRY)

    def unanswered(self, command_id: int) -> NDArray[np.int64]:
        """Places of the entries whose commands, up to this one, have no answer."""
        first = self._first_unanswered
        waiting = np.flatnonzero(~self.answered[first : self.count])
        self._first_unanswered = first + (int(waiting[0]) if len(waiting) else self.count - first)
        places = first + waiting
        ids = self.entries["command_id"][places]
        return places[(ids <= command_id) & (ids > 0)]

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)
