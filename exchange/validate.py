"""Every invariant of a market's arrays, checked one by one. Slow on purpose: reads everything twice."""

import numpy as np

from serl.exchange.kernel import ids
from serl.exchange.kernel.levels import find_level
from serl.exchange.kernel.state import ASK, BID, FREE_LEVEL, FREE_ORDER, ORDERS_OPEN, State


def validate(state: State) -> None:
    """AssertionError naming the first invariant that does not hold."""
    open_slots: set[int] = set()
    for symbol in range(len(state.base)):
        prices = {side: _validate_side(state, symbol, side, open_slots) for side in (BID, ASK)}
        bid, ask = (max(prices[BID], default=0), min(prices[ASK], default=0))
        assert not (bid and ask) or bid < ask, f"symbol {symbol}: crossed, bid {bid} and ask {ask}"
        assert state.best[symbol].tolist() == [bid, ask], (
            f"symbol {symbol}: best {state.best[symbol]} is not {bid}, {ask}"
        )
        found = len(prices[BID]) + len(prices[ASK])
        assert found == state.level_count[symbol], (
            f"symbol {symbol}: {found} levels, {state.level_count[symbol]} counted"
        )
    assert len(open_slots) == state.counter[ORDERS_OPEN], (
        f"{len(open_slots)} orders, {state.counter[ORDERS_OPEN]} counted"
    )
    _validate_table(state, open_slots)
    _validate_free(state, len(open_slots))
    for name in ("position_lots", "cash_ticks"):
        totals = getattr(state, name).sum(axis=0)
        assert not totals.any(), f"{name} must sum to zero over participants, got {totals}"


def _levels(state: State, symbol: int) -> list[tuple[int, int | None]]:
    """(level, side if it is known from where the level lies)."""
    places = np.flatnonzero(state.window[symbol] >= 0)
    bits = np.unpackbits(state.bits[symbol].view(np.uint8), bitorder="little").nonzero()[0]
    assert np.array_equal(places, bits), f"symbol {symbol}: bitmap and window differ"
    words = np.unpackbits(state.summary[symbol].view(np.uint8), bitorder="little").nonzero()[0]
    assert np.array_equal(words, state.bits[symbol].nonzero()[0]), f"symbol {symbol}: summary and bitmap differ"
    found: list[tuple[int, int | None]] = []
    for place in places.tolist():
        level = int(state.window[symbol, place])
        assert state.levels[level]["price_ticks"] == state.base[symbol] + place, f"level {level} lies at another price"
        found.append((level, None))
    for side in (BID, ASK):
        count = state.far_count[symbol, side]
        prices = state.far_price[symbol, side, :count]
        assert (np.diff(prices) > 0).all() if side == BID else (np.diff(prices) < 0).all(), "far levels are not sorted"
        inside = (prices >= state.base[symbol]) & (prices < state.base[symbol] + state.window.shape[1])
        assert not inside.any(), f"symbol {symbol}: far prices inside the window"
        found += [(int(level), side) for level in state.far_level[symbol, side, :count]]
    return found


def _validate_side(state: State, symbol: int, side: int, open_slots: set[int]) -> list[int]:
    prices = []
    for level, known in _levels(state, symbol):
        row = state.levels[level]
        first = state.orders[row["first"]]
        if int(first["side"]) != side:
            continue
        assert known in (None, side), f"level {level} is among the far levels of the wrong side"
        price = int(row["price_ticks"])
        assert find_level(state, symbol, side, price) == level, f"level {level} is not found at {price}"
        prices.append(price)
        _validate_queue(state, symbol, side, level, open_slots)
    return prices


def _validate_queue(state: State, symbol: int, side: int, level: int, open_slots: set[int]) -> None:
    row = state.levels[level]
    slot, previous, total, count, number = int(row["first"]), -1, 0, 0, 0
    while slot >= 0:
        order = state.orders[slot]
        where = f"order {order['order_id']} of participant {order['participant']}"
        assert slot not in open_slots, f"{where} is in two queues"
        open_slots.add(slot)
        assert order["previous"] == previous, f"{where}: broken link"
        assert (order["symbol"], order["side"], order["level"]) == (symbol, side, level), f"{where} is in a wrong queue"
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
        found = ids.find(state, int(order["participant"]), int(order["order_id"]))
        assert found == slot, f"order {order['order_id']} of participant {order['participant']} is not found"


def _validate_free(state: State, used_orders: int) -> None:
    for head, rows, field, used in (
        (FREE_ORDER, state.orders, "next", used_orders),
        (FREE_LEVEL, state.levels, "first", int(state.level_count.sum())),
    ):
        free, place = 0, int(state.counter[head])
        while place >= 0:
            free, place = free + 1, int(rows[place][field])
        assert free + used == len(rows), f"{free} free and {used} used slots of {len(rows)}"
