"""Orders that may only bring a position nearer to 0."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.rulebook.reserves import total_open_lots
from serl.exchange.kernel.state import BID, State


@inner
def reducing_lots(state: State, participant: int, symbol: int, side: int) -> int:
    """How much of that side brings the position nearer to 0."""
    position = state.balances[participant, symbol].position_lots
    return max(0, -position if side == BID else position)


@inner
def is_not_reducing(state: State, slot: int) -> bool:
    """Whether an order that may only reduce a position would do more."""
    order = state.orders[slot]
    if order.flags & k.REDUCE_ONLY == 0:
        return False
    return total_open_lots(state, slot) > reducing_lots(
        state, int64(order.participant), int64(order.symbol), int64(order.side)
    )


@inner
def is_active_order_not_reducing(state: State) -> bool:
    """Whether the active order may only reduce a position and would do more."""
    active = state.active_order
    if active.flags & k.REDUCE_ONLY == 0:
        return False
    return active.leaves_lots > reducing_lots(state, active.participant, active.symbol, active.side)
