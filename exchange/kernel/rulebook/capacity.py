"""Capacity: memory for more price levels, and the limit on levels of a queue."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.state import ASK, BID, PEGS, QUEUES, State


@inner
def has_far_room(state: State, symbol: int) -> bool:
    """Whether one more order can rest in any queue of a symbol without more memory."""
    most, count = 0, state.halted.size
    for queue in range(QUEUES):
        book = queue * count + symbol
        most = max(most, state.far_count[book, BID], state.far_count[book, ASK])
    return _has_far_levels(state, most)


@inner
def _has_far_levels(state: State, levels: int) -> bool:
    enough = levels + state.window.shape[2] + 1 <= state.far_price.shape[2]
    if not enough:
        state.counters.wants_far_levels = 1
    return enough


@inner
def has_room_for_pegs(state: State, symbol: int) -> bool:
    """The same for all pegged orders of a symbol in INACTIVE."""
    book, pegs = k.INACTIVE_QUEUE * state.halted.size + symbol, state.settled[symbol, PEGS]
    return _has_far_levels(state, max(state.far_count[book, BID], state.far_count[book, ASK]) + pegs)


@inner
def is_full(state: State, queue: int, symbol: int) -> bool:
    """Whether a queue has as many price levels as it may."""
    return state.level_count[queue * state.halted.size + symbol] >= state.counters.levels_max


@inner
def is_full_for_move(state: State, slot: int, queue: int) -> bool:
    """The same for an order that moves to another price or queue."""
    order, count = state.orders[slot], state.halted.size
    own = order.queue == queue and state.levels[order.level].orders == 1
    return state.level_count[queue * count + int64(order.symbol)] - own >= state.counters.levels_max
