"""The open orders of a market as rows, and copies of its books from which another thread can list them."""

from typing import Any

import numpy as np

from serl.exchange.growth import POOLS, Room
from serl.exchange.kernel.dump import list_orders, list_specials
from serl.exchange.kernel.state import State
from serl.exchange.records import ORDER, Rows
from serl.exchange.snapshot import SPECIAL
from serl.exchange.struct_pointer import with_handle

BOOKS = ("counters", "base", "window", "bits", "summary", "best", "far_count")
"""Together with POOLS, the arrays needed to list orders; far_price and far_level too, of which only a small part is in use."""
ORDER_BYTES = 500
"""Bytes that can be copied in the time it takes to list one order, which may lie anywhere in memory."""


def listed_orders(state: State, symbol: int = -1) -> Rows:
    """The resting orders of a symbol, -1: of all, as ORDER rows, sorted by symbol, side (bids first), price (best first) and time priority."""
    out = np.zeros(int(state.counters["orders_open"][0]), ORDER)
    return out[: list_orders(state, symbol, out)]


def listed_specials(state: State) -> Rows:
    """SPECIAL rows of the orders that are not displayed, or have a display, expiry, link or self-trade prevention of their own."""
    out = np.zeros(int(state.counters["orders_open"][0]) if len(state.extras) else 0, SPECIAL)
    return out[: list_specials(state, out)] if len(out) else out


def is_copy_cheaper(state: State) -> bool:
    """Whether copying the arrays takes less time than listing the orders. It does not if there are many symbols with few orders."""
    orders = int(state.counters["orders_open"][0])
    return sum(getattr(state, name).nbytes for name in (*POOLS, *BOOKS)) < ORDER_BYTES * orders


def copied_books(state: State, room: Room) -> State:
    """A copy of the books for the functions above; it stays unchanged until the next copy into the same room. O(orders)."""
    copies: dict[str, Any] = {name: room.copy(name, getattr(state, name)) for name in POOLS}
    copies |= {name: getattr(state, name).copy() for name in BOOKS}
    if len(state.extras):
        special = np.flatnonzero(state.orders["special"])
        copies["extras"] = room.reserved("extras", state.extras, len(state.extras))
        copies["extras"][special] = state.extras[special]  # the others are not looked at
    used = int(state.far_count.max())
    for name in ("far_price", "far_level"):
        far = getattr(state, name)
        copies[name] = np.zeros(far.shape, far.dtype)  # `zeros_like` would write every page
        copies[name][..., :used] = far[..., :used]
    return with_handle(state._replace(**copies))
