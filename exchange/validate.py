"""Checks every invariant of a market's arrays. Slow: reads everything twice."""

from typing import Any

import numpy as np

from serl.exchange.kernel import order_index
from serl.exchange.kernel.constants import DUE
from serl.exchange.kernel.levels import find_level
from serl.exchange.kernel.state import (
    ASK,
    BID,
    CLOSERS,
    COLLARED,
    DUE_CHILDREN,
    DUE_PEGS,
    DUE_TRAILS,
    FLOATING,
    PEGS,
    RESERVED_BUYS,
    RESERVED_HIGH,
    RESERVED_LOW,
    ROOTS,
    WAITING_PEGS,
    WAITING_TRAILS,
    State,
)
from serl.exchange.records import CASH, FEE_MICRO, LIMIT_SETTINGS, MICRO, PHASE, POSITION, Phase, Queue, Setting


def validate(state: State) -> None:
    """Raises AssertionError with the first violated invariant."""
    open_slots: set[int] = set()
    symbols = len(state.halted)
    for book in range(len(state.base)):
        queue, symbol = divmod(book, symbols)
        sides = [_validate_side(state, book, side, open_slots) for side in (BID, ASK)]
        best = [max(sides[BID], default=0), min(sides[ASK], default=0)]
        assert state.best[book].tolist() == best, (
            f"queue {queue} of symbol {symbol}: best {state.best[book]} is not {best}"
        )
        found = len(sides[BID]) + len(sides[ASK])
        assert found == state.level_count[book], (
            f"queue {queue} of symbol {symbol}: {found} levels, {state.level_count[book]} counted"
        )
        if queue == Queue.DISPLAYED and all(best) and state.symbols[symbol, PHASE] == Phase.CONTINUOUS:
            assert best[BID] < best[ASK], f"symbol {symbol}: crossed, bid {best[BID]} and ask {best[ASK]}"
    assert len(open_slots) == state.counters["orders_open"][0], (
        f"{len(open_slots)} orders, {state.counters['orders_open'][0]} counted"
    )
    _validate_table(state, open_slots)
    _validate_free(state, len(open_slots))
    if len(state.extras):
        _validate_heaps(state, open_slots)
    _validate_balances(state)
    _validate_accounts(state)
    if state.counters["counts_reserves"][0]:
        _validate_reserves(state, open_slots)


def _validate_balances(state: State) -> None:
    positions = state.balances[..., POSITION].sum(axis=0)
    assert not positions.any(), f"positions must sum to zero over participants, got {positions}"
    cash = state.balances[..., CASH].astype(object) + state.carries[..., 0].astype(object) * 2**64
    assert not cash.sum(axis=0).any(), f"cash must sum to zero over participants, got {cash.sum(axis=0)}"
    assert state.counters["wide_balances"][0] or not state.carries.any(), "carries that nobody would read"
    fraction = state.balances[..., FEE_MICRO]
    assert ((fraction >= 0) & (fraction < MICRO)).all(), "the fraction of a fee is a whole tick or more"


def _validate_accounts(state: State) -> None:
    limited = state.accounts[:, LIMIT_SETTINGS].any(axis=1)
    assert (state.has_limits == limited).all(), "`has_limits` differs from the accounts that have limits"
    own = int(state.accounts[:, Setting.OWN_FEES].sum())
    assert own == state.counters["own_fee_accounts"][0], (
        f"{own} accounts with their own fees, {state.counters['own_fee_accounts'][0]} counted"
    )


def _validate_reserves(state: State, open_slots: set[int]) -> None:
    """Checks that accounts reserve what their open orders need; of a linked pair on one side the smaller lots at the lower price count once."""
    named = {
        (int(order["participant"]), int(order["order_id"])): slot
        for slot in open_slots
        for order in [state.orders[slot]]
    }
    found = np.zeros(state.reserves.shape, object)
    for (participant, order_id), slot in named.items():
        order, (lots, price) = state.orders[slot], _reserved(state, slot)
        link = int(state.extras[slot]["link"]) if order["special"] else 0
        partner = named.get((participant, link), -1)
        shared, shared_price = 0, 0
        if partner >= 0 and order_id > link:
            other = state.orders[partner]
            if (other["symbol"], other["side"]) == (order["symbol"], order["side"]):
                shared, shared_price = map(min, (lots, price), _reserved(state, partner))
        row = found[participant, int(order["symbol"])]
        row[RESERVED_BUYS + int(order["side"])] += lots - shared
        if order["side"] == BID:
            row[RESERVED_LOW] += lots * price - shared * shared_price
    kept = state.reserves.astype(object)
    kept[..., RESERVED_LOW] += kept[..., RESERVED_HIGH] * 2**64
    kept[..., RESERVED_HIGH] = 0
    assert (kept == found).all(), "what accounts reserve is not that of their open orders"


def _reserved(state: State, slot: int) -> tuple[int, int]:
    """(lots, price) of an open order alone."""
    order, extra = state.orders[slot], state.extras[slot]
    if not order["special"]:
        return int(order["open_lots"]), int(order["price_ticks"])
    if extra["waits"]:
        return 0, 0
    price = extra["limit_ticks"] or extra["stop_ticks"] or extra["touch_ticks"] or state.counters["price_ticks_max"][0]
    return int(order["open_lots"] + extra["reserve_lots"]), int(price)


def _levels(state: State, book: int, side: int) -> list[int]:
    """The levels of a side, found through every index."""
    places = np.flatnonzero(state.window[book, side] >= 0)
    bits = np.unpackbits(state.bits[book, side].view(np.uint8), bitorder="little").nonzero()[0]
    assert np.array_equal(places, bits), f"book {book}: bitmap and window differ"
    words = np.unpackbits(state.summary[book, side].view(np.uint8), bitorder="little").nonzero()[0]
    assert np.array_equal(words, state.bits[book, side].nonzero()[0]), f"book {book}: summary and bitmap differ"
    found = []
    for place in places.tolist():
        level = int(state.window[book, side, place])
        assert state.levels[level]["price_ticks"] == state.base[book] + place, f"level {level} lies at another price"
        found.append(level)
    count = state.far_count[book, side]
    prices = state.far_price[book, side, :count]
    assert (np.diff(prices) > 0).all() if side == BID else (np.diff(prices) < 0).all(), "far levels are not sorted"
    inside = (prices >= state.base[book]) & (prices < state.base[book] + state.window.shape[2])
    assert not inside.any(), f"book {book}: far prices inside the window"
    return found + state.far_level[book, side, :count].tolist()


def _validate_side(state: State, book: int, side: int, open_slots: set[int]) -> list[int]:
    prices = []
    for level in _levels(state, book, side):
        price = int(state.levels[level]["price_ticks"])
        assert find_level(state, book, side, price) == level, f"level {level} is not found at {price}"
        prices.append(price)
        _validate_queue(state, book, side, level, open_slots)
    return prices


def _validate_queue(state: State, book: int, side: int, level: int, open_slots: set[int]) -> None:
    queue, symbol = divmod(book, len(state.halted))
    row = state.levels[level]
    slot, previous, total, count, number = int(row["first"]), -1, 0, 0, 0
    while slot >= 0:
        order = state.orders[slot]
        where = f"order {order['order_id']} of participant {order['participant']}"
        assert slot not in open_slots, f"{where} is in two queues"
        open_slots.add(slot)
        assert order["previous"] == previous, f"{where}: broken link"
        turned = queue == Queue.STOP and not state.extras[slot]["touch_ticks"]
        place = (order["symbol"], order["queue"], 1 - order["side"] if turned else order["side"], order["level"])
        assert place == (symbol, queue, side, level), f"{where} is in a wrong queue"
        assert queue == Queue.DISPLAYED or order["special"], f"{where}: not displayed, but plain"
        assert 0 < order["open_lots"] <= order["total_lots"], (
            f"{where}: {order['open_lots']} of {order['total_lots']} open"
        )
        assert order["order_number"] > number, f"{where} is before an older one"
        number, previous = int(order["order_number"]), slot
        total, count, slot = total + int(order["open_lots"]), count + 1, int(order["next"])
    assert row["last"] == previous, f"level {level}: broken end"
    assert (row["qty_lots"], row["orders"]) == (total, count), f"level {level}: {row} is not the sum of its orders"


def _validate_table(state: State, open_slots: set[int]) -> None:
    entries = state.table[state.table != 0]
    assert len(entries) == len(open_slots), f"{len(entries)} table entries for {len(open_slots)} orders"
    for slot in open_slots:
        order = state.orders[slot]
        found = order_index.find(state, int(order["participant"]), int(order["order_id"]))
        assert found == slot, f"order {order['order_id']} of participant {order['participant']} is not found"


def _validate_free(state: State, used_orders: int) -> None:
    for head, rows, field, used in (
        (state.counters["free_order"][0], state.orders, "next", used_orders),
        (state.counters["free_level"][0], state.levels, "first", int(state.level_count.sum())),
    ):
        free, place = 0, int(head)
        while place >= 0:
            free, place = free + 1, int(rows[place][field])
        assert free + used == len(rows), f"{free} free and {used} used slots of {len(rows)}"


def _validate_heaps(state: State, open_slots: set[int]) -> None:
    """Checks that every order with a trigger is in one of the heaps that are searched for it, and that the counts of them are right."""
    found: dict[int, int] = {}
    for symbol in range(len(state.halted)):
        for heap, root in enumerate(state.roots[symbol].tolist()):
            _walk_heap(state, root, heap, found)
    for slot in open_slots:
        order = state.orders[slot]
        if order["queue"] == Queue.MIN_QTY and state.levels[order["level"]]["first"] == slot:
            _walk_heap(state, int(state.levels[order["level"]]["heap"]), ROOTS, found)
    settled = np.zeros_like(state.settled[:, PEGS:])
    for slot in open_slots:
        order, extra = state.orders[slot], state.extras[slot]
        special = bool(order["special"])
        expected = _heaps_of(order, extra) if special else ()
        where = f"order {order['order_id']} of participant {order['participant']}"
        assert found.pop(slot, None) in (expected or (None,)), f"{where}: expected it in one of the heaps {expected}"
        if special:
            settled[order["symbol"], 0] += extra["peg"] > 0
            settled[order["symbol"], 1 + order["side"]] += extra["reserve_lots"]
    assert not found, f"slots {list(found)} are in heaps, but not open"
    assert (settled == state.settled[:, PEGS:]).all(), "pegs or reserves are not those of the open orders"


def _heaps_of(order: Any, extra: Any) -> tuple[int, ...]:
    """The heaps in which an order may be."""
    side, queue = int(order["side"]), int(order["queue"])
    if extra["waits"]:
        return (DUE_CHILDREN,) if extra["waits"] == DUE else ()
    if extra["peg"]:
        kind = 2 * (int(extra["peg"]) - 1) + side
        return FLOATING + kind, COLLARED, WAITING_PEGS + kind, DUE_PEGS
    if queue == Queue.MIN_QTY:
        return (ROOTS,)
    if queue == Queue.STOP and extra["trail_ticks"]:
        return WAITING_TRAILS + side, DUE_TRAILS
    return (CLOSERS,) if queue == Queue.INACTIVE else ()


def _walk_heap(state: State, root: int, heap: int, found: dict[int, int]) -> None:
    """Adds the heap of each order of a heap, and checks its links and keys."""
    waiting = [(root, -1)]
    while waiting:
        slot, above = waiting.pop()
        if slot < 0:
            continue
        extra = state.extras[slot]
        assert slot not in found, f"slot {slot} is in two heaps"
        assert extra["above"] == above, f"slot {slot}: broken link in heap {heap}"
        assert above < 0 or state.extras[above]["key"] >= extra["key"], f"slot {slot}: out of order in heap {heap}"
        assert above >= 0 or extra["heap"] == heap, f"slot {slot}: is the root of heap {heap}, says {extra['heap']}"
        found[slot] = heap
        waiting += [(int(extra["left"]), slot), (int(extra["right"]), slot)]
