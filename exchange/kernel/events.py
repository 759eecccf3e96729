"""Events: each is numbered when it begins, then its fields are set."""

from serl.exchange.compiling import apart, inlined, inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.rows import CommandRow, EventRow
from serl.exchange.kernel.state import State
from serl.exchange.records import Rows


@inlined
def begin_event(
    state: State, command: CommandRow, events: Rows, count: int, kind: int, participant: int, symbol: int, side: int
) -> EventRow:
    """The event at `count`, numbered; the caller sets the fields that are not 0 and adds one to its count.

    On hot paths the caller reads their values before: then no read keeps apart the writes of a row, and they become few.
    """
    event: EventRow = events[count]
    state.counters.event_sequence += 1
    state.report[participant] += 1
    sequence, report = state.counters.event_sequence, state.report[participant]
    time_ns, command_sequence = command.time_ns, command.sequence
    event.symbol = symbol
    event.participant = participant
    event.kind = kind
    event.side = side
    event.reason = 0
    event.flags = 0
    event.time_ns = time_ns
    event.sequence = sequence
    event.command_sequence = command_sequence
    event.report = report
    event.command_id = 0
    event.order_id = 0
    event.order_number = 0
    event.price_ticks = 0
    event.qty_lots = 0
    event.leaves_lots = 0
    event.match_id = 0
    return event


@inlined
def append_order_event(
    state: State, command: CommandRow, events: Rows, count: int, kind: int, slot: int, command_id: int,
    qty_lots: int, leaves_lots: int, reason: int, flags: int,
) -> int:  # fmt: skip
    """Appends an event about an order in the displayed book; the new count."""
    order = state.orders[slot]
    order_id, order_number, price = order.order_id, order.order_number, order.price_ticks
    event = begin_event(
        state, command, events, count, kind, int64(order.participant), int64(order.symbol), int64(order.side)
    )
    event.command_id = command_id
    event.order_id = order_id
    event.order_number = order_number
    event.price_ticks = price
    event.qty_lots = qty_lots
    event.leaves_lots = leaves_lots
    event.reason = reason
    event.flags = flags
    return count + 1


@inlined
def append_active_event(
    state: State, command: CommandRow, events: Rows, count: int, kind: int, qty_lots: int, leaves_lots: int, reason: int
) -> int:
    """Appends an event about the active order, which is not in the book; the new count."""
    active = state.active_order
    command_id, order_id, price = command.command_id, active.order_id, active.price_ticks
    event = begin_event(state, command, events, count, kind, active.participant, active.symbol, active.side)
    event.command_id = command_id
    event.order_id = order_id
    event.price_ticks = price
    event.qty_lots = qty_lots
    event.leaves_lots = leaves_lots
    event.reason = reason
    return count + 1


@inlined
def begin_active_event(state: State, command: CommandRow, events: Rows, count: int, kind: int) -> EventRow:
    """`begin_event` about the active order, which has no order_number yet."""
    active = state.active_order
    event = begin_event(state, command, events, count, kind, active.participant, active.symbol, active.side)
    event.order_id = active.order_id
    return event


@inner
def begin_answer(state: State, command: CommandRow, events: Rows, count: int, kind: int) -> EventRow:
    """`begin_event` about the command itself, symbol and side as they were sent."""
    event = begin_event(
        state, command, events, count, kind, int64(command.participant), int64(command.symbol), int64(command.side)
    )
    event.command_id = command.command_id
    event.order_id = command.order_id
    return event


@apart
def reject_command(state: State, command: CommandRow, events: Rows, count: int, reason: int) -> int:
    """REJECTED, with what was sent: the new count."""
    event = begin_answer(state, command, events, count, k.REJECTED)
    event.order_id = command.command_id if command.kind == k.NEW else command.order_id
    event.price_ticks = command.price_ticks
    event.qty_lots = command.qty_lots
    event.reason = reason
    return count + 1
