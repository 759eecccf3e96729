"""Compiled execution of a strategy's commands on a day that gives way. The rules execute an order in pieces; its reports are those of one order.

docs/answering.md has the rules. The book is kept in history's prices; commands and reports are in real ones.
"""

from typing import Any

from serl.agents.execution.answering.rules import execute_live, give_way, submit, trades_continuously
from serl.agents.execution.answering.tape import WRITTEN
from serl.exchange.compiling import apart, inlined, inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.book import crosses
from serl.exchange.kernel.commands import DONE, GROW
from serl.exchange.records import CommandFlag, CommandKind, EventFlag, EventKind

SYMBOL = 0
# Indices into `progress`: number of ids in `resting`; then, for a replacement whose order has left the book: remaining lots (0: none), side,
# time in force
IDS, LEFT_LOTS, SIDE, TIME_IN_FORCE = range(4)
NEW, CANCEL, REPLACE = int(CommandKind.NEW), int(CommandKind.CANCEL), int(CommandKind.REPLACE)
ACCEPTED, REJECTED, RESTED = int(EventKind.ACCEPTED), int(EventKind.REJECTED), int(EventKind.RESTED)
FILLED, CANCELLED, REPLACED = int(EventKind.FILL), int(EventKind.CANCELLED), int(EventKind.REPLACED)
MARKET, POST_ONLY, RESTING = int(CommandFlag.MARKET), int(CommandFlag.POST_ONLY), int(EventFlag.RESTING)


@inlined
def _is_sound(state: Any, qty: int, price: int, market: bool) -> bool:
    """Whether a real price and a quantity are valid. Checked in real prices, because an invalid one may look valid once shifted to history's."""
    in_range = price == 0 if market else 1 <= price <= state.counters.price_ticks_max
    return 1 <= qty <= state.counters.qty_lots_max and in_range


@inner
def _merge_reports(tape: Any, own: int, named: int, command_id: int, price: int, qty: int, replaces: bool) -> None:
    """Turns the reports of the pieces, which have the order id `named`, into those of one order of `qty` lots."""
    last = -1
    for index in range(tape.counts[WRITTEN]):
        if tape.rows[index].participant == own and tape.rows[index].command_id == named:
            last = index
    written, left, accepted = 0, qty, replaces
    for index in range(tape.counts[WRITTEN]):
        event = tape.rows[index]
        if event.participant == own and event.command_id == named:
            kind = event.kind
            if kind == ACCEPTED and accepted and event.flags & RESTING == 0:
                continue
            if kind == CANCELLED and index != last:
                continue
            event.command_id = command_id
            if kind == FILLED:
                left -= event.qty_lots
                event.leaves_lots = left
            elif kind == ACCEPTED:
                event.price_ticks, event.qty_lots, event.leaves_lots = price, left, left
                if accepted:
                    event.kind, event.flags = RESTED, 0
                accepted = True
            else:  # the remainder was cancelled or rejected; a rejection after the first piece is reported as a cancellation
                event.price_ticks, event.qty_lots = price, left
                if kind == REJECTED and accepted:
                    event.kind = CANCELLED
        tape.rows[written] = event
        written += 1
    tape.counts[WRITTEN] = written


@inlined
def _remember_resting(state: Any, resting: Any, progress: Any, own: int, order_id: int, total: int) -> None:
    """Records an order that rests now, with its total quantity; the book has only that of the last piece."""
    slot = order_index.find(state, own, order_id)
    if slot < 0:
        return
    state.orders[slot].total_lots = total
    resting[0, progress[IDS]] = order_id
    progress[IDS] += 1


@inner
def _place(state: Any, row: Any, answer: Any, resting: Any, progress: Any, events: Any, tape: Any) -> int:
    """Executes a NEW command."""
    command = row[0]
    own, command_id, price, qty = int64(command.participant), command.command_id, command.price_ticks, command.qty_lots
    if _is_sound(state, qty, price, command.flags & MARKET != 0):
        status = execute_live(state, row, answer, SYMBOL, resting, own, own, events, None, None, tape)
    else:
        status = submit(state, row, answer, SYMBOL, own, events, None, None, tape)  # to be rejected
    if status == GROW:
        return GROW
    _merge_reports(tape, own, command_id, command_id, price, qty, False)
    _remember_resting(state, resting, progress, own, command_id, qty)
    return DONE


@inlined
def _take_out(
    state: Any, row: Any, answer: Any, progress: Any, own: int, slot: int, left: int, events: Any, tape: Any
) -> None:
    """Removes the order of a replacement that would trade from the book and reports it as REPLACED; `progress` keeps what remains to be sent."""
    command, order = row[0], state.orders[slot]
    command_id = command.command_id
    progress[LEFT_LOTS], progress[SIDE], progress[TIME_IN_FORCE] = left, order.side, order.time_in_force
    command.kind, command.command_id = CANCEL, 0
    submit(state, row, answer, SYMBOL, own, events, None, None, tape)
    event = tape.rows[tape.counts[WRITTEN] - 1]
    event.kind, event.command_id, event.leaves_lots, event.reason, event.flags = REPLACED, command_id, left, 0, 0


@apart
def _replace(state: Any, row: Any, answer: Any, resting: Any, progress: Any, events: Any, tape: Any) -> int:
    """Executes a REPLACE command. A replacement that would trade is executed like a new order: in pieces, under the old order id."""
    command = row[0]
    own, command_id, order_id = int64(command.participant), command.command_id, command.order_id
    price, total, time_ns = command.price_ticks, command.qty_lots, command.time_ns
    if progress[LEFT_LOTS] == 0:
        if give_way(state, row, answer, SYMBOL, resting, own, time_ns, own, events, None, None, tape) == GROW:
            return GROW
        command.symbol, command.participant, command.kind, command.side = SYMBOL, own, REPLACE, 0
        command.command_id, command.order_id, command.qty_lots = command_id, order_id, total
        command.time_in_force = command.flags = 0
        sound = _is_sound(state, total, price, False)
        limit = price - answer.shift_ticks if sound else price
        command.price_ticks = limit
        slot = order_index.find(state, own, order_id)
        left = total - (state.orders[slot].total_lots - state.orders[slot].open_lots) if slot >= 0 else 0
        trades = sound and left > 0 and trades_continuously(state, SYMBOL) and state.orders[slot].flags & POST_ONLY == 0
        if trades:
            side = int64(state.orders[slot].side)
            trades = crosses(side, limit, state.best[SYMBOL, 1 - side])
        if not trades:
            before = tape.counts[WRITTEN]
            if submit(state, row, answer, SYMBOL, own, events, None, None, tape) == GROW:
                return GROW
            if tape.rows[before].kind == REJECTED:
                tape.rows[before].price_ticks = price
            return DONE
        _take_out(state, row, answer, progress, own, slot, left, events, tape)
    left = progress[LEFT_LOTS]
    command.symbol, command.participant, command.kind, command.side = SYMBOL, own, NEW, progress[SIDE]
    command.command_id, command.order_id, command.price_ticks, command.qty_lots = order_id, 0, price, left
    command.time_in_force, command.flags, command.time_ns = progress[TIME_IN_FORCE], 0, time_ns
    if execute_live(state, row, answer, SYMBOL, resting, own, own, events, None, None, tape) == GROW:
        return GROW
    state.last_command_id[own] = command_id
    _merge_reports(tape, own, order_id, command_id, price, left, True)
    slot = order_index.find(state, own, order_id)
    if slot >= 0:  # its id is recorded already
        state.orders[slot].total_lots = total
    progress[LEFT_LOTS] = 0
    return DONE


@inlined
def execute_own(state: Any, row: Any, answer: Any, resting: Any, progress: Any, events: Any, tape: Any) -> int:
    """Executes a strategy's command, the first row. Returns DONE, or GROW: then call it again with the same command.

    resting: (1, n) ids of the strategy's resting orders, with room for one more.
    """
    kind, own = row[0].kind, int64(row[0].participant)
    if kind == NEW:
        return _place(state, row, answer, resting, progress, events, tape)
    if kind == REPLACE:
        return _replace(state, row, answer, resting, progress, events, tape)
    return submit(state, row, answer, SYMBOL, own, events, None, None, tape)
