"""The kernel benchmark's stream over several symbols with a deep book: as rows, and encoded one message an order."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from benchmarks.stream import CANCEL, NEW, REPLACE, make
from serl.exchange.gateway.codec import write_int
from serl.exchange.records import Rows

SYMBOLS = 4
MESSAGE_BYTES_MAX = 64


class Messages(NamedTuple):
    """Encoded commands, one after the other."""

    data: Any
    ends: Any
    """(n + 1,) where each message begins and the last one ends."""
    first_id: int


def deep_stream(count: int, resting: int, first_symbol: int, seed: int) -> tuple[Rows, Rows]:
    """(rows that build a book of `resting` orders, the stream of `count` commands) of a participant whose first command they are.

    Orders alternate between SYMBOLS symbols from `first_symbol` on; on each, adds spread over 200 prices a side and have 1 to 99 lots.
    """
    build, stream = make(count, resting, seed)
    for rows in (build, stream):
        order = np.where(rows["kind"] == NEW, rows["command_id"], rows["order_id"])
        rows["symbol"] = first_symbol + order % SYMBOLS
    return build, stream


@njit(cache=True)
def _encode(rows: Any, data: Any, ends: Any) -> None:
    """Write the rows as NEW, CANCEL and REPLACE messages of the protocol."""
    at = 0
    for index in range(rows.size):
        row = rows[index]
        ends[index] = at
        kind = row.kind
        data[at] = 0x99 if kind == NEW else (0x94 if kind == CANCEL else 0x96)
        data[at + 1] = kind
        at = write_int(data, at + 2, row.command_id)
        if kind == NEW:
            at = write_int(data, at, row.symbol)
            at = write_int(data, at, row.side)
        else:
            at = write_int(data, at, row.order_id)
        if kind != CANCEL:
            at = write_int(data, at, row.qty_lots)
            at = write_int(data, at, row.price_ticks)
        if kind == NEW:
            at = write_int(data, at, row.time_in_force)
            at = write_int(data, at, row.flags)
        at = write_int(data, at, 0)
    ends[rows.size] = at


def encode(rows: Rows) -> Messages:
    """Rows of `deep_stream` as messages of the protocol, one an order."""
    data, ends = np.zeros(len(rows) * MESSAGE_BYTES_MAX, np.uint8), np.zeros(len(rows) + 1, np.int64)
    _encode(rows, data, ends)
    return Messages(data[: ends[-1]], ends, int(rows["command_id"][0]))


def message_lists(rows: Rows) -> list[list[int]]:
    """The same as lists for msgpack."""
    names = ("kind", "command_id", "symbol", "side", "qty_lots", "price_ticks", "time_in_force", "flags", "order_id")
    lists = []
    for kind, command_id, symbol, side, qty, price, time_in_force, flags, order in zip(*(rows[name].tolist() for name in names), strict=True):  # fmt: skip
        if kind == NEW:
            lists.append([NEW, command_id, symbol, side, qty, price, time_in_force, flags, 0])
        elif kind == CANCEL:
            lists.append([CANCEL, command_id, order, 0])
        else:
            lists.append([REPLACE, command_id, order, qty, price, 0])
    return lists
