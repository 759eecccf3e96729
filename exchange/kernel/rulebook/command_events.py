"""Events about a command itself."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel.book import emit
from serl.exchange.kernel.constants import DONE, NEW, REJECTED
from serl.exchange.kernel.state import (
    State,
)  # fmt: skip


@inner
def answer_command(
    state: State,
    row: Any,
    events: Any,
    count: int,
    kind: int,
    order_id: int,
    price: int,
    qty: int,
    reason: int,
    flags: int,
) -> int:
    """An event about the command itself: symbol and side as they were sent."""
    return int64(emit(
        state, row, events, count, kind, int64(row.participant), int64(row.symbol), int64(row.side), order_id, 0,
        row.command_id, price, qty, 0, reason, flags, 0,
    ))  # fmt: skip


@inner
def reject_and_finish(state: State, row: Any, events: Any, count: int, reason: int) -> tuple[int, int]:
    """REJECTED, with what was sent."""
    order_id = row.command_id if row.kind == NEW else row.order_id
    return answer_command(state, row, events, count, REJECTED, order_id, row.price_ticks, row.qty_lots, reason, 0), DONE
