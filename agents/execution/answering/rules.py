"""The compiled rules by which history continues among live participants; docs/answering.md states them.

A book's history is participant `symbol`; live participants are those from `first_own` on. The kernel executes all commands that the rules
add; they belong to history and never need more room in the market.

resting: ids of live resting orders, see queues.py. Trades are written to `frame` and `fills`, every event to `tape`, unless these are None.
"""

from typing import Any, NamedTuple

from serl.agents.execution.answering.memory import (
    UPDATE_NS,
    forget,
    lots_until_change,
    remember,
    remembered,
    wanted_shift,
)
from serl.agents.execution.answering.queues import has_room, is_crossed, move_live_orders
from serl.agents.execution.answering.tape import append_events
from serl.agents.execution.environment.own_orders import record_fills
from serl.exchange.compiling import inlined, inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.book import crosses
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, GROW, execute
from serl.exchange.kernel.levels import find_level
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.records import CommandFlag, CommandKind, EventFlag, EventKind, Phase, TimeInForce

CHASE_TICKS = 20
"""An order of history that no longer finds what it took searches up to this many ticks beyond the worst price at which it traded."""
NEW, REDUCE = int(CommandKind.NEW), int(CommandKind.REDUCE)
FILLED, MAKER, AUCTION = int(EventKind.FILL), int(EventFlag.MAKER), int(EventFlag.AUCTION)
MARKET, POST_ONLY = int(CommandFlag.MARKET), int(CommandFlag.POST_ONLY)
IOC, CONTINUOUS = int(TimeInForce.IOC), int(Phase.CONTINUOUS)


class Answers(NamedTuple):
    """The data of the compiled rules: a row of `books` for each book, and the HistoryRecord of all days, command by command."""

    books: Any
    starts: Any
    order_ids: Any
    leaves_lots: Any
    taken_lots: Any
    worst_ticks: Any


@inlined
def _count_fills(answer: Any, events: Any, count: int, history: int) -> None:
    """Counts what each side took, and adds what live participants took to the memory.

    A live resting order that is filled replaces an order of history, and the demand of the other side is in the day already. So these
    fills are not added, except where they reverse what live participants did before: otherwise one could push the price and exit at it.
    """
    for index in range(count):
        event = events[index]
        if event.kind != FILLED or event.flags & MAKER == 0:
            continue
        qty, bought = event.qty_lots, 1 if event.side == ASK else -1
        maker_is_live, taker_is_live = event.participant != history, events[index + 1].participant != history
        takes = event.flags & AUCTION == 0  # in an auction both sides rested; the other event is the buyer's
        if takes and taker_is_live:
            answer.sent_lots += qty
        elif takes:
            answer.taken_lots += qty
        if taker_is_live == maker_is_live:
            continue
        forget(answer, event.time_ns)
        lots, sign = remembered(answer), bought if taker_is_live else -bought
        if takes and taker_is_live:
            remember(answer, float(sign * qty))
        elif sign * lots < 0:
            remember(answer, sign * min(float(qty), abs(lots)))
        else:
            continue
        answer.due_ns = 0


@inlined
def submit(
    state: Any, row: Any, answer: Any, symbol: int, first_own: int, events: Any, frame: Any, fills: Any, tape: Any
) -> int:
    """Executes the first COMMAND row, in history's prices. Returns DONE or GROW."""
    status = EVENTS_FULL
    while status == EVENTS_FULL:
        count, status = execute(state, row, 0, events, 0)
        if tape is not None:
            append_events(tape, events, count, answer.shift_ticks)
        if count > 1:  # an order that trades also has an ACCEPTED event
            if frame is not None:
                record_fills(events, count, first_own, frame, fills, answer.shift_ticks)
            _count_fills(answer, events, count, symbol)
    return status


@inner
def _take(
    state: Any, row: Any, answer: Any, symbol: int, side: int, price: int, qty: int, first_own: int, events: Any, frame: Any,
    fills: Any, tape: Any,
) -> None:  # fmt: skip
    """Executes an IOC order of history. Its id stays free for history's next command, because it never rests."""
    command, last = row[0], state.last_command_id[symbol]
    command.symbol = command.participant = symbol
    command.kind, command.side, command.time_in_force, command.flags = NEW, side, IOC, 0
    command.order_id, command.command_id = 0, last + 1
    command.price_ticks, command.qty_lots = min(max(price, 1), state.counters.price_ticks_max), qty
    submit(state, row, answer, symbol, first_own, events, frame, fills, tape)
    state.last_command_id[symbol] = last


@inner
def _reduce(
    state: Any, row: Any, answer: Any, symbol: int, order_id: int, qty: int, first_own: int, events: Any, frame: Any,
    fills: Any, tape: Any,
) -> None:  # fmt: skip
    """Reduces an order of history by some lots."""
    command = row[0]
    command.symbol = command.participant = symbol
    command.kind, command.side, command.time_in_force, command.flags = REDUCE, 0, 0, 0
    command.command_id, command.order_id, command.price_ticks, command.qty_lots = 0, order_id, 0, qty
    submit(state, row, answer, symbol, first_own, events, frame, fills, tape)


@inlined
def _first_at_touch(state: Any, symbol: int, side: int) -> Any:
    """The first order in the queue at the best price of a side."""
    return state.orders[state.levels[find_level(state, symbol, side, state.best[symbol, side])].first]


@inlined
def _trade_through(
    state: Any, row: Any, answer: Any, symbol: int, first_own: int, events: Any, frame: Any, fills: Any, tape: Any
) -> None:  # fmt: skip
    """Trades history's quote with the live order that it has moved onto or through, at the price of the live order, which was there first."""
    own_side = BID if _first_at_touch(state, symbol, ASK).participant == symbol else ASK
    price = state.best[symbol, own_side]
    quote, live = _first_at_touch(state, symbol, 1 - own_side), _first_at_touch(state, symbol, own_side)
    sign = -1 if own_side == ASK else 1  # sign of the live order's trade
    qty = min(quote.open_lots, live.open_lots)
    if sign * remembered(answer) < 0.0:  # it reverses earlier trades, so the shift changes on the way
        qty = lots_until_change(answer, sign, qty)
    _reduce(state, row, answer, symbol, quote.order_id, qty, first_own, events, frame, fills, tape)
    _take(state, row, answer, symbol, 1 - own_side, price, qty, first_own, events, frame, fills, tape)


@inner
def _follow(
    state: Any, row: Any, answer: Any, symbol: int, resting: Any, first_live: int, first_own: int, events: Any, frame: Any,
    fills: Any, tape: Any,
) -> int:  # fmt: skip
    """Sets the shift to the value that the memory implies. Returns DONE, or GROW before anything has changed."""
    while True:
        wanted = wanted_shift(answer)
        ticks = wanted - answer.shift_ticks
        if ticks == 0:
            return DONE
        if not has_room(state, symbol, resting.size + 1):
            state.counters.wants_far_levels = 1
            return GROW
        move_live_orders(state, row, answer, symbol, resting, first_live, -ticks, tape)
        answer.shift_ticks = wanted
        while is_crossed(state, symbol) and wanted_shift(answer) == wanted:
            _trade_through(state, row, answer, symbol, first_own, events, frame, fills, tape)


@inlined
def trades_continuously(state: Any, symbol: int) -> bool:
    """Whether orders trade as they arrive: trading is not halted, and no orders are collected for an auction."""
    return state.halted[symbol] == 0 and state.symbols[symbol].phase == CONTINUOUS


@inner
def give_way(
    state: Any, row: Any, answer: Any, symbol: int, resting: Any, first_live: int, time_ns: int, first_own: int,
    events: Any, frame: Any, fills: Any, tape: Any,
) -> int:  # fmt: skip
    """Updates the shift before something happens at `time_ns`: at once after trades, otherwise once per UPDATE_NS. Returns DONE or GROW.

    When this happens depends on the commands alone, not on when the book is read. Nothing moves while trading is halted or orders are collected for
    an auction, when history's own orders may cross.
    """
    row[0].time_ns = time_ns
    while (
        answer.disturbed != 0
        and trades_continuously(state, symbol)
        and (answer.due_ns == 0 or answer.due_ns <= time_ns)
    ):
        if answer.due_ns != 0:
            forget(answer, time_ns)
        due_ns = (answer.updated_ns // UPDATE_NS + 1) * UPDATE_NS
        if _follow(state, row, answer, symbol, resting, first_live, first_own, events, frame, fills, tape) == GROW:
            return GROW
        answer.due_ns = due_ns
    return DONE


@inlined
def show_last_trades(
    state: Any, row: Any, answer: Any, symbol: int, resting: Any, first_live: int, first_own: int, events: Any, frame: Any,
    fills: Any, tape: Any,
) -> int:  # fmt: skip
    """Lets the book give way to the last trades, but not to the time since, which history's next command does. Returns DONE or GROW."""
    if answer.due_ns != 0:
        return DONE
    time_ns = answer.updated_ns
    return int(
        give_way(state, row, answer, symbol, resting, first_live, time_ns, first_own, events, frame, fills, tape)
    )


@inlined
def _revise(state: Any, row: Any, answers: Any, symbol: int, index: int) -> bool:
    """Adjusts a reduction of an order that is no longer what it was; returns False if nothing is left to do.

    No order of history ever has more left than in the undisturbed day (`_correct`), so no level holds more of history than it did. A cancellation
    whose order is missing, because live trades used it up, is therefore not reassigned to another order of the level; the kernel rejects it.
    For the same reason a reduction reduces to what history's order had left. So what live participants took is absorbed as history's orders end.
    """
    if row[0].kind != REDUCE or answers.starts[index] == answers.starts[index + 1]:
        return True
    slot = order_index.find(state, symbol, row[0].order_id)
    if slot < 0:
        return False
    row[0].qty_lots = state.orders[slot].open_lots - answers.leaves_lots[answers.starts[index]]
    return row[0].qty_lots > 0


@inner
def _correct(
    state: Any, row: Any, answers: Any, symbol: int, index: int, first_own: int, events: Any, frame: Any, fills: Any, tape: Any,
) -> None:  # fmt: skip
    """Corrects the book after history's command: reduces orders that have more left than in the undisturbed day, and takes elsewhere what the
    command did not find."""
    answer = answers.books[symbol]
    taken_lots = answer.taken_lots
    for entry in range(answers.starts[index], answers.starts[index + 1]):
        slot = order_index.find(state, symbol, answers.order_ids[entry])
        if slot >= 0 and state.orders[slot].open_lots > answers.leaves_lots[entry]:
            excess = state.orders[slot].open_lots - answers.leaves_lots[entry]
            _reduce(state, row, answer, symbol, answers.order_ids[entry], excess, first_own, events, frame, fills, tape)
    taken = answers.taken_lots[index]
    missing = abs(taken) - taken_lots
    if missing > 0:
        side, chase = (BID, CHASE_TICKS) if taken > 0 else (ASK, -CHASE_TICKS)
        price = answers.worst_ticks[index] + chase
        _take(state, row, answer, symbol, side, price, missing, first_own, events, frame, fills, tape)


@inlined
def execute_history(
    state: Any, history: Any, index: int, row: Any, answers: Any, symbol: int, resting: Any, first_live: int, first_own: int,
    events: Any, frame: Any, fills: Any, tape: Any,
) -> int:  # fmt: skip
    """Executes history's command `index` in a book. Returns DONE, or GROW: then call it again."""
    answer = answers.books[symbol]
    if answer.disturbed != 0 and answer.due_ns <= history[index].time_ns and give_way(
        state, row, answer, symbol, resting, first_live, history[index].time_ns, first_own, events, frame, fills, tape,
    ) == GROW:  # fmt: skip
        return GROW
    row[0] = history[index]
    row[0].symbol = row[0].participant = symbol
    if answer.disturbed != 0 and not _revise(state, row, answers, symbol, index):
        return DONE
    answer.taken_lots = 0
    if submit(state, row, answer, symbol, first_own, events, frame, fills, tape) == GROW:
        return GROW
    if answer.disturbed != 0 and answers.starts[index] < answers.starts[index + 1]:  # it traded, or changed an order
        _correct(state, row, answers, symbol, index, first_own, events, frame, fills, tape)
    return DONE


@inner
def execute_live(
    state: Any, row: Any, answer: Any, symbol: int, resting: Any, first_live: int, first_own: int, events: Any, frame: Any,
    fills: Any, tape: Any,
) -> int:  # fmt: skip
    """Executes a live participant's command, the first row, in real prices. Returns DONE, or GROW: then call it again with the same command.

    An order that takes liquidity is executed in pieces: the book gives way while it is filled, so that it pays for its own impact.
    """
    command = row[0]
    if command.kind != NEW:
        return submit(state, row, answer, symbol, first_own, events, frame, fills, tape)
    own, command_id, side, total = int64(command.participant), command.command_id, int64(command.side), command.qty_lots
    price, tif, flags, time_ns = command.price_ticks, command.time_in_force, command.flags, command.time_ns
    answer.disturbed, sign = 1, 1 if side == BID else -1
    while True:
        if (
            give_way(state, row, answer, symbol, resting, first_live, time_ns, first_own, events, frame, fills, tape)
            == GROW
        ):
            return GROW
        before, left = answer.sent_lots, total - answer.sent_lots
        if left == 0:
            break
        limit = 0 if flags & MARKET else price - answer.shift_ticks
        if flags & MARKET == 0 and side == ASK and limit < 1:  # below all of history's prices
            limit = 1
        command.symbol, command.participant, command.kind, command.side = symbol, own, NEW, side
        command.order_id, command.command_id, command.price_ticks = 0, command_id, limit
        command.time_in_force, command.flags, command.qty_lots = tif, flags, left
        state.last_command_id[own] = command_id - 1
        crossing = crosses(side, limit, state.best[symbol, 1 - side]) and state.symbols[symbol].phase == CONTINUOUS
        if flags & MARKET == 0 and (flags & POST_ONLY or not crossing):
            if submit(state, row, answer, symbol, first_own, events, frame, fills, tape) == GROW:
                return GROW
            break
        command.time_in_force, command.qty_lots = IOC, lots_until_change(answer, sign, left)
        piece = command.qty_lots
        submit(state, row, answer, symbol, first_own, events, frame, fills, tape)
        filled = answer.sent_lots - before
        if filled == 0 or (flags & MARKET and filled < piece):  # no fill: rejected, as while trading is halted
            break
    answer.sent_lots = 0
    return DONE


@inlined
def show_shift(frame: Any, ticks: int) -> None:
    """Converts the prices of a FRAME's book to real prices; clears levels below one tick."""
    for level in range(frame.bid_ticks.size):
        if frame.bid_ticks[level] > 0:
            frame.bid_ticks[level] += ticks
            if frame.bid_ticks[level] < 1:
                frame.bid_ticks[level] = frame.bid_lots[level] = 0
        if frame.ask_ticks[level] > 0:
            frame.ask_ticks[level] += ticks
