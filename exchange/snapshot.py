"""The state of a market in an implementation-independent form, for restarts and state hashes."""

import dataclasses
import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import FIRST_ACCOUNT_COLUMNS, Rows

SPECIAL = np.dtype(
    [
        ("order_number", "<i8"),
        ("order_id", "<i8"),
        ("price_ticks", "<i8"),  # the limit, 0 = none
        ("queue_ticks", "<i8"),  # its price in its queue
        ("open_lots", "<i8"),  # an iceberg: its displayed part
        ("reserve_lots", "<i8"),
        ("total_lots", "<i8"),  # filled + open + reserve, and the lots of it that a linked order has traded
        ("display_lots", "<i8"),  # 0: not an iceberg; likewise 0 = unset for the other terms
        ("min_lots", "<i8"),
        ("stop_ticks", "<i8"),
        ("trail_ticks", "<i8"),
        ("offset_ticks", "<i8"),
        ("expire_ns", "<i8"),
        ("link", "<i8"),  # order_id of the linked order
        ("symbol", "<u2"),
        ("participant", "<u2"),
        ("side", "u1"),
        ("time_in_force", "u1"),
        ("flags", "u1"),
        ("queue", "u1"),
        ("peg", "u1"),
        ("self_trade", "u1"),  # 255: as the account says
        ("touch_ticks", "<i8"),
        ("updates", "<i8"),  # 1: its fills reduce the linked order, 0: they cancel it
        ("waits", "<i8"),  # 1: waits for its parent, 2: the parent is filled and this order is due
        ("child", "<i8"),  # order_id of the order that waits for this one
        ("parent", "<i8"),  # order_id of the order that it waits for, 0 = none yet
    ],
    align=True,
)
"""An order that is not displayed, or has a display, expiry or link; sorted by symbol, queue, side, price from best to worst, then time. In STOP
the orders triggered by rising prices come first, then those triggered by falling prices."""
FIRST_SPECIAL_NAMES = 22
"""Number of columns of SPECIAL in the first version; the hash omits the later ones if all of them are 0."""
FIRST_COLUMNS = {"terms": 10, "accounts": FIRST_ACCOUNT_COLUMNS}
"""Number of columns of Snapshot.terms and Snapshot.accounts in the first version."""
LATER_FIELDS = ("assets", "deposits")
"""Fields of Snapshot that the first version did not have; the hash omits them if they are all 0."""


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The complete state of a market. P participants (up to the last one that did anything), S symbols."""

    orders: Rows  # ORDER rows: by symbol, side (bids first), price from best, then time priority
    specials: Rows  # SPECIAL rows
    counters: NDArray[np.int64]  # (4,) last event sequence, match id, order number, command sequence
    last_command_id: NDArray[np.int64]  # (P,)
    report: NDArray[np.int64]  # (P,) number of the last report
    balances: NDArray[np.int64]  # (P, S, BALANCES)
    halted: NDArray[np.uint8]  # (S,)
    symbols: NDArray[np.int64]  # (S, SYMBOL_COLUMNS)
    accounts: NDArray[np.int64]  # (P, ACCOUNT_COLUMNS)
    terms: NDArray[np.int64]  # (P, TERM_COLUMNS): sent for the next NEW
    assets: NDArray[np.int64]  # (S, ASSET_COLUMNS)
    deposits: NDArray[np.int64]  # (P, 2 S) units by asset number - 1

    def digest(self) -> str:
        """SHA-256 over all fields, hexadecimal: equal for equal markets in any implementation and version."""
        digest = hashlib.sha256()
        for field in dataclasses.fields(self):
            value = np.ascontiguousarray(getattr(self, field.name))
            if field.name in LATER_FIELDS and not value.any():
                continue
            if field.name in FIRST_COLUMNS:
                value = without_unused(value, FIRST_COLUMNS[field.name])
            names = value.dtype.names or ()
            columns = [value[name] for name in names] if names else [value]
            first = FIRST_SPECIAL_NAMES if field.name == "specials" else len(columns)
            digest.update(f"{field.name}{value.shape}".encode())
            for column in columns[:first]:  # column by column, so that padding between fields does not count
                digest.update(np.ascontiguousarray(column, dtype=np.int64).tobytes())
            for name, column in zip(names[first:], columns[first:], strict=True):
                if column.any():
                    digest.update(name.encode() + np.ascontiguousarray(column, dtype=np.int64).tobytes())
        return digest.hexdigest()


def without_unused(values: NDArray[Any], columns: int) -> NDArray[Any]:
    """The first `columns` columns and any further ones up to the last that is used, so that the hash equals that of versions without them."""
    used = np.flatnonzero(values[:, columns:].any(axis=0))
    return values[:, : columns + (int(used[-1]) + 1 if len(used) else 0)]


def participants_used(
    last_command_id: NDArray[np.int64],
    report: NDArray[np.int64],
    *tables: NDArray[np.int64],
) -> int:
    """The number of participants in a snapshot: up to the last one that sent or received anything, or for whom one of `tables`, (P, columns)
    each, has something: settings, terms, deposits."""
    used = np.flatnonzero(
        (last_command_id != 0) | (report != 0) | np.any([rows.any(axis=1) for rows in tables], axis=0)
    )
    return int(used[-1]) + 1 if len(used) else 0
