"""Which pegged orders to look at: after a change of the displayed book only those that it concerns.

An order that its reference could move follows it at an offset (floating), or stands at its limit until the reference comes back beyond a
price (waiting). The others are due: `triggers` looks at them by order_number.
"""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.rulebook import heaps
from serl.exchange.kernel.rulebook.pricing import reference
from serl.exchange.kernel.state import (
    ASK,
    BID,
    COLLARED,
    DUE_PEGS,
    FLOATING,
    SETTLED_ASK,
    SETTLED_BID,
    SETTLED_LAST,
    WAITING_PEGS,
    State,
)

UNKNOWN = -1


@inner
def _kind_of(state: State, slot: int) -> int:
    """0 to 3: primary buys and sells, mid buys and sells."""
    return 2 * (int64(state.extras[slot].peg) - 1) + int64(state.orders[slot].side)


@inner
def float_peg(state: State, slot: int) -> None:
    """Puts a pegged order among those to look at when the reference has changed."""
    heaps.remove(state, slot)
    heaps.push(state, slot, FLOATING + _kind_of(state, slot), -state.orders[slot].order_number)


@inner
def settle_peg(state: State, slot: int) -> None:
    """Puts a pegged order that stands where it should among those that need not be looked at until a price changes."""
    order, extra = state.orders[slot], state.extras[slot]
    side, symbol, limit = int64(order.side), int64(order.symbol), extra.limit_ticks
    price = reference(side, int64(extra.peg), state.best[symbol, BID], state.best[symbol, ASK])
    if limit == 0 and state.accounts[order.participant, k.SETTING_COLLAR_TICKS] != 0:
        heaps.remove(state, slot)
        heaps.push(state, slot, COLLARED, -order.order_number)
        return
    turn = limit + extra.offset_ticks if side == BID else extra.offset_ticks - limit
    if limit == 0 or price == 0 or turn > (price if side == BID else -price):
        float_peg(state, slot)
        return
    heaps.remove(state, slot)
    heaps.push(state, slot, WAITING_PEGS + _kind_of(state, slot), turn)


@inner
def _end_waiting(state: State, symbol: int, kind: int, price: int, everyone: bool) -> None:
    """Makes those orders due that a reference at `price` moves off their limit."""
    signed = price if kind & 1 == BID else -price
    slot = int64(state.roots[symbol, WAITING_PEGS + kind])
    while slot >= 0 and (everyone or state.extras[slot].key > signed):
        heaps.remove(state, slot)
        heaps.push(state, slot, DUE_PEGS, -state.orders[slot].order_number)
        slot = int64(state.roots[symbol, WAITING_PEGS + kind])


@inner
def find_due_pegs(state: State, symbol: int) -> None:
    """Makes the pegged orders due that could have to move since the last call. O(those, and log orders for each)."""
    bid, ask, last = state.best[symbol, BID], state.best[symbol, ASK], state.symbols[symbol].last_ticks
    settled = state.settled[symbol]
    if settled[SETTLED_BID] == bid and settled[SETTLED_ASK] == ask and settled[SETTLED_LAST] == last:
        return
    for kind in range(4):
        side, peg = kind & 1, 1 + (kind >> 1)
        price = reference(side, peg, bid, ask)
        if price != reference(side, peg, settled[SETTLED_BID], settled[SETTLED_ASK]):
            heaps.move_all(state, symbol, FLOATING + kind, DUE_PEGS)
            _end_waiting(state, symbol, kind, price, price == 0)
    heaps.move_all(state, symbol, COLLARED, DUE_PEGS)
    settled[SETTLED_BID], settled[SETTLED_ASK], settled[SETTLED_LAST] = bid, ask, last


@inner
def make_pegs_due(state: State, symbol: int) -> None:
    """Makes all pegged orders of a symbol due."""
    for kind in range(4):
        heaps.move_all(state, symbol, FLOATING + kind, DUE_PEGS)
        _end_waiting(state, symbol, kind, 0, True)
    heaps.move_all(state, symbol, COLLARED, DUE_PEGS)
    forget_settled(state, symbol)


@inner
def forget_settled(state: State, symbol: int) -> None:
    """Has all floating orders of a symbol looked at again."""
    settled = state.settled[symbol]
    settled[SETTLED_BID] = settled[SETTLED_ASK] = settled[SETTLED_LAST] = UNKNOWN
