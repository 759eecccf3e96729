"""Our orders in a compiled book: the commands of a decision one after the other, and what came of them.

A market whose arrays were too small is made larger and entered again; `place`, an int64 row for each environment, says how far it was.
"""

from typing import Any

from serl.agents.execution.environment.records import LEVELS
from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.records import CommandFlag, CommandKind, EventFlag, EventKind, TimeInForce

EVENT_ROWS = 2048
NEW, CANCEL = int(CommandKind.NEW), int(CommandKind.CANCEL)
IOC, GTC, MARKET = int(TimeInForce.IOC), int(TimeInForce.GTC), int(CommandFlag.MARKET)
FILLED, MAKER = int(EventKind.FILL), int(EventFlag.MAKER)
# Columns of `places`, one row an environment
NOW, COMMAND_ID, RESTING, PHASE, CURSOR, STOP = range(6)
BEGINNING, ARRIVING, CANCELLING, TAKING, PLACING, GOING_ON = range(6)


@inlined
def begin_step(place: Any, fill: Any, frame: Any) -> None:
    """Forgets the last step, unless this one only goes on."""
    if place[PHASE] == BEGINNING:
        fill.lots = fill.notional = 0
        frame.traded_lots = frame.traded_notional = frame.signed_lots = frame.trades = 0
        place[PHASE] = ARRIVING


@inlined
def has_orders(place: Any, child: Any) -> bool:
    """Whether anything of ours is to be cancelled or sent."""
    return place[RESTING] != 0 or child.market_lots > 0 or (child.limit_lots > 0 and child.limit_ticks > 0)


@inlined
def next_command(place: Any, row: Any, symbol: int, own: int, side: int, child: Any, time_ns: int) -> bool:
    """Writes our next command into the first COMMAND row: cancel, market child, limit child; False if there is none."""
    while place[PHASE] < GOING_ON:
        phase = place[PHASE]
        due = phase == CANCELLING and place[RESTING] != 0
        due |= phase == TAKING and child.market_lots > 0
        due |= phase == PLACING and child.limit_lots > 0 and child.limit_ticks > 0
        if due:
            break
        place[PHASE] += 1
    if place[PHASE] == GOING_ON:
        return False
    place[COMMAND_ID] += 1
    command = row[0]
    command.symbol, command.participant, command.side, command.time_ns = symbol, own, side, time_ns
    command.command_id, command.order_id = place[COMMAND_ID], 0
    command.kind, command.time_in_force, command.flags = NEW, 0, 0
    command.price_ticks = command.qty_lots = 0
    if place[PHASE] == CANCELLING:
        command.kind, command.side, command.order_id = CANCEL, 0, place[RESTING]
    elif place[PHASE] == TAKING:
        command.qty_lots, command.time_in_force, command.flags = child.market_lots, IOC, MARKET
    else:
        command.qty_lots, command.price_ticks, command.time_in_force = child.limit_lots, child.limit_ticks, GTC
    return True


@inlined
def sent(place: Any, child: Any, fill: Any) -> None:
    """The command was executed. What filled while the child was on its way comes off it: a parent order is never overdone."""
    if place[PHASE] == CANCELLING:
        place[RESTING] = 0
        late = min(fill.lots, child.limit_lots)  # the limit order gives way first
        child.limit_lots -= late
        child.market_lots -= min(fill.lots - late, child.market_lots)
    elif place[PHASE] == PLACING:
        place[RESTING] = place[COMMAND_ID]
    place[PHASE] += 1


@inlined
def note(events: Any, count: int, own: int, frame: Any, fill: Any) -> None:
    """Adds the fills among events 0 .. count to what others traded and to what we did."""
    for index in range(count):
        event = events[index]
        if event.kind != FILLED:
            continue
        if event.participant == own:
            fill.lots += event.qty_lots
            fill.notional += event.qty_lots * event.price_ticks
        if event.flags & MAKER:
            taker = events[index + 1]  # the other side of the same match
            if event.participant != own and taker.participant != own:
                frame.traded_lots += event.qty_lots
                frame.traded_notional += event.qty_lots * event.price_ticks
                frame.signed_lots += event.qty_lots if event.side == ASK else -event.qty_lots
                frame.trades += 1


@compiled
def look(state: Any, symbol: int, frame: Any) -> None:
    """The book as it stands."""
    for side in range(2):
        price = state.best[symbol, side]
        for level in range(LEVELS):
            lots = int64(0)
            if price != 0:
                lots = int64(state.levels[find_level(state, symbol, side, price)].qty_lots)
            if side == BID:
                frame.bid_ticks[level] = price
                frame.bid_lots[level] = lots
            else:
                frame.ask_ticks[level] = price
                frame.ask_lots[level] = lots
            if price != 0:
                price = next_price(state, symbol, side, price)


@inlined
def end_step(state: Any, symbol: int, place: Any, own: int, time_ns: int, frame: Any, fill: Any) -> None:
    """What is seen now: the book, what our limit order still has open, and how much stands before it."""
    place[PHASE] = BEGINNING
    place[NOW] = frame.time_ns = time_ns
    look(state, symbol, frame)
    fill.resting_lots = fill.ahead_lots = 0
    if place[RESTING] == 0:
        return
    slot = order_index.find(state, own, place[RESTING])
    if slot < 0:
        place[RESTING] = 0
        return
    fill.resting_lots = state.orders[slot].open_lots
    before = int64(state.orders[slot].previous)
    while before >= 0:
        fill.ahead_lots += state.orders[before].open_lots
        before = int64(state.orders[before].previous)
