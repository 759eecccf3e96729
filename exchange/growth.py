"""Grows a market's arrays when the compiled code, which allocates nothing, asks for it."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.code_cache import alone
from serl.exchange.compiling import entry
from serl.exchange.kernel.commands import execute_fast
from serl.exchange.kernel.order_index import move_entries
from serl.exchange.kernel.state import FULL_BOOK, State, link_free, with_queues
from serl.exchange.limits import MarketLimits
from serl.exchange.log import log
from serl.exchange.memory import populate
from serl.exchange.struct_pointer import OWN_WORDS, with_handle

STEP_SLOTS = 16_384
"""Maximum number of slots by which a pool with room grows at once, because nothing trades meanwhile."""
AHEAD_SLOTS = 4 * STEP_SLOTS
"""Slots beyond the current ones whose memory the system has already provided."""


POOLS = ("orders", "levels")
"""Arrays of State with a row for each order slot; once there are special orders, `extras` and `heap` too."""


def pools(state: State) -> tuple[str, ...]:
    """The names of a market's arrays that grow with its orders."""
    return (*POOLS, "extras", "heap") if len(state.extras) else POOLS


class Room:
    """Memory in which arrays of orders grow in place: room for `slots` of them, 0 = none. Beyond that, they are copied."""

    def __init__(self, slots: int = 0) -> None:
        self._slots = slots
        self._arrays: dict[str, NDArray[Any]] = {}
        self._populated: dict[str, int] = {}
        self._table: NDArray[np.int64] | None = None  # the next one

    def next_slots(self, slots: int) -> int:
        """How many slots a pool with `slots` grows to."""
        return 2 * slots if slots >= self._slots else min(2 * slots, slots + STEP_SLOTS, self._slots)

    def longer(self, name: str, rows: NDArray[Any], slots: int) -> NDArray[Any]:
        """The rows followed by zeros, `slots` in total; copies them if they are not in this room or it is too small."""
        array = self._arrays.get(name)
        if array is None or array.ctypes.data != rows.ctypes.data or len(array) < slots:
            array = self._new(name, rows, slots)
            array[: len(rows)] = rows
        return array[:slots]

    def reserved(self, name: str, rows: NDArray[Any], slots: int) -> NDArray[Any]:
        """The memory under this name for `slots` rows like these; its old content stays."""
        array = self._arrays.get(name)
        if array is None or len(array) < slots:
            array = self._new(name, rows, slots)
        return array[:slots]

    def copy(self, name: str, rows: NDArray[Any]) -> NDArray[Any]:
        """A copy of the rows, which overwrites the last copy under this name."""
        array = self.reserved(name, rows, len(rows))
        array.view(np.uint8)[:] = rows.view(np.uint8)  # numpy copies records field by field
        return array

    def _new(self, name: str, rows: NDArray[Any], slots: int) -> NDArray[Any]:
        array = np.zeros(max(slots, self._slots), rows.dtype)
        if self._slots:
            self._populated[name], self._arrays[name] = 0, array
        return array

    def table(self, size: int) -> NDArray[np.int64]:
        """An empty hash table of `size` entries."""
        table, self._table = self._table, None
        return np.zeros(size, np.int64) if table is None or len(table) != size else table

    def populate(self, names: tuple[str, ...], slots: int, table_size: int = 0) -> None:
        """Makes the system provide the memory of these arrays up to some steps beyond `slots`, and of the table after that of `table_size`.
        Not for the thread of the exchange's loop, which would wait longer for it than for anything else."""
        stop = min(slots + AHEAD_SLOTS, self._slots)
        for name in names:
            array = self._arrays.get(name)
            if array is not None and self._populated[name] < stop:
                populate(array, self._populated[name], stop)
                self._populated[name] = stop
        next_size = 2 * table_size
        if table_size and (self._table is None or len(self._table) != next_size):
            table = np.zeros(next_size, np.int64)
            populate(table, 0, len(table))
            self._table = table


@cache
def fast_path() -> int:
    """The address of `execute_fast`, compiled once for all loops that contain a book. Valid for the lifetime of the process."""
    with alone("book"):
        return int(entry(execute_fast).address)


@cache
def full_rule_book() -> int:
    """The address of `execute_full`, compiled or loaded when it is first needed. Valid for the lifetime of the process."""
    from serl.exchange.kernel.rulebook.execute import execute_full

    with alone("rulebook", _say_wait):
        return int(entry(execute_full).address)


def _say_wait() -> None:
    log("compiling", "waiting for another process to compile the full rule book")


def rebound(state: State) -> State:
    """The state with a new handle: the current addresses of its arrays and of this process's rule books."""
    return with_handle(state, (full_rule_book() if state.handle[FULL_BOOK] else 0, fast_path()))


def grow(state: State, limits: MarketLimits, room: Room) -> State:
    """The state with what the compiled code asked for: the full rule book, more far levels or more orders; one of them per call."""
    if state.counters["wants_full_book"][0]:  # one at a time: the compiled code asks again for anything else it needs
        state.counters["wants_full_book"] = 0
        return with_handle(with_queues(state), (full_rule_book(), fast_path()))
    far = state.far_price.shape[2]
    if state.counters["wants_far_levels"][0] or int(state.far_count.max()) + state.window.shape[2] + 1 > far:
        state.counters["wants_far_levels"] = 0
        return grow_far(state, 2 * far)
    return grow_orders(state, min(room.next_slots(len(state.orders)), capacity_for(limits.orders_open_max)), room)


def capacity_for(orders: int) -> int:
    """Number of slots for this many orders, a power of two."""
    return 1 << max(5, (orders - 1).bit_length())


def grow_orders(state: State, capacity: int, room: Room) -> State:
    """The same state with room for `capacity` orders."""
    before = len(state.orders)
    assert capacity > before, "the pool is at its limit: the kernel rejects with BOOK_FULL instead"
    longer: dict[str, Any] = {name: room.longer(name, getattr(state, name), capacity) for name in pools(state)}
    if len(state.table) < 2 * capacity:
        longer["table"] = room.table(2 * capacity_for(capacity))
        move_entries(state.table, longer["table"])
    grown = state._replace(**longer)
    link_free(grown, before)
    for free, field, rows in (("free_order", "next", grown.orders), ("free_level", "first", grown.levels)):
        # the new slots go to the front: levels have a long free list, because few are used
        rows[-1][field] = state.counters[free][0]
        state.counters[free] = before
    return with_handle(grown, state.handle[:OWN_WORDS])


def grow_far(state: State, far: int) -> State:
    """The same state with room for `far` prices per side outside the window."""
    shape = (*state.far_price.shape[:2], far)
    price, level = np.zeros(shape, np.int64), np.zeros(shape, np.int32)
    price[..., : state.far_price.shape[2]] = state.far_price
    level[..., : state.far_level.shape[2]] = state.far_level
    return with_handle(state._replace(far_price=price, far_level=level), state.handle[:OWN_WORDS])
