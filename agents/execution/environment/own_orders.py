"""Our orders in a compiled book: the commands of one decision in sequence, and their fills.

A market whose arrays are full grows and calls the compiled step again. `env_state`, one int64 row per environment, records the progress of the
step.
"""

from typing import Any

from serl.agents.execution.environment.records import LEVELS
from serl.exchange.compiling import inlined, inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.rulebook.checks import is_on_tick
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.records import MICRO, CommandFlag, CommandKind, EventFlag, EventKind, TimeInForce

EVENT_ROWS = 2048
NEW, CANCEL = int(CommandKind.NEW), int(CommandKind.CANCEL)
IOC, GTC, MARKET = int(TimeInForce.IOC), int(TimeInForce.GTC), int(CommandFlag.MARKET)
FILLED, MAKER, AUCTION = int(EventKind.FILL), int(EventFlag.MAKER), int(EventFlag.AUCTION)
# Columns of `env_states`, one row per environment
NOW, COMMAND_ID, RESTING, PHASE, CURSOR, STOP = range(6)
FEES_PAID = CURSOR
"""Of rows of agents, which have no cursor in history: fees paid so far, microticks x lots."""
# Values of PHASE: between steps; orders in flight; sending cancel, market and limit order in turn; only the market moves
IDLE, ARRIVING, CANCELLING, SENDING_MARKET, SENDING_LIMIT, WAITING = range(6)


@inlined
def clear_traded(frame: Any) -> None:
    """Clears the trades of others in the last step."""
    frame.traded_lots = frame.traded_notional = frame.signed_lots = frame.trades = 0


@inlined
def begin_step(env_state: Any, frame: Any, fill: Any) -> None:
    """Clears the trades and fills of the last step, unless this step has already begun."""
    if env_state[PHASE] == IDLE:
        clear_traded(frame)
        fill.lots = fill.notional = 0
        env_state[PHASE] = ARRIVING


@inner
def align(state: Any, symbol: int, sign: int, child: Any) -> None:
    """Rounds a child to what the symbol's rules allow: quantities to whole multiples of its lot, the price to its tick table, away from the market."""
    lot = state.symbols[symbol].lot_multiple
    child.market_lots -= child.market_lots % lot
    child.limit_lots -= child.limit_lots % lot
    while child.limit_ticks > 0 and not is_on_tick(state, symbol, child.limit_ticks):
        child.limit_ticks += sign


@inlined
def next_command(env_state: Any, row: Any, symbol: int, own: int, side: int, child: Any, time_ns: int) -> bool:
    """Writes our next command to the first COMMAND row: cancel, market child, limit child. False if there is none."""
    while env_state[PHASE] < WAITING:
        phase = env_state[PHASE]
        needed = phase == CANCELLING and env_state[RESTING] != 0
        needed |= phase == SENDING_MARKET and child.market_lots > 0
        needed |= phase == SENDING_LIMIT and child.limit_lots > 0 and child.limit_ticks > 0
        if needed:
            break
        env_state[PHASE] += 1
    if env_state[PHASE] == WAITING:
        return False
    env_state[COMMAND_ID] += 1
    command = row[0]
    command.symbol, command.participant, command.side, command.time_ns = symbol, own, side, time_ns
    command.command_id, command.order_id = env_state[COMMAND_ID], 0
    command.kind, command.time_in_force, command.flags = NEW, 0, 0
    command.price_ticks = command.qty_lots = 0
    if env_state[PHASE] == CANCELLING:
        command.kind, command.side, command.order_id = CANCEL, 0, env_state[RESTING]
    elif env_state[PHASE] == SENDING_MARKET:
        command.qty_lots, command.time_in_force, command.flags = child.market_lots, IOC, MARKET
    else:
        command.qty_lots, command.price_ticks, command.time_in_force = child.limit_lots, child.limit_ticks, GTC
    return True


@inlined
def command_executed(env_state: Any, child: Any, fill: Any) -> None:
    """Moves on to the next command. Subtracts from the child what was filled while it was in flight, so that a parent order is never overfilled."""
    if env_state[PHASE] == CANCELLING:
        env_state[RESTING] = 0
        late = min(fill.lots, child.limit_lots)  # subtracted from the limit order first
        child.limit_lots -= late
        child.market_lots -= min(fill.lots - late, child.market_lots)
    elif env_state[PHASE] == SENDING_LIMIT:
        env_state[RESTING] = env_state[COMMAND_ID]
    env_state[PHASE] += 1


@inner
def charge_fees(state: Any, env_state: Any, symbol: int, own: int, fill: Any) -> None:
    """Writes the fees that the market has charged participant `own` since the last step."""
    account = state.balances[own, symbol]
    paid = account.fee_ticks * MICRO + account.fee_microticks
    fill.fee_microticks = paid - env_state[FEES_PAID]
    env_state[FEES_PAID] = paid


@inlined
def record_fills(events: Any, count: int, first_own: int, frame: Any, fills: Any, shift_ticks: int) -> None:
    """Adds the fills among the first `count` events: ours to the rows of `fills`, trades between others to `frame`.

    Participants from `first_own` on are ours, in the order of the rows. shift_ticks: added to all prices.
    """
    for index in range(count):
        if events[index].kind == FILLED:
            record_fill(events, index, first_own, frame, fills, shift_ticks)


@inlined
def record_fill(events: Any, index: int, first_own: int, frame: Any, fills: Any, shift_ticks: int) -> None:
    """Adds the fill at `index` of the events, as `record_fills` does."""
    event = events[index]
    if event.participant >= first_own:
        fill = fills[event.participant - first_own]
        fill.lots += event.qty_lots
        fill.notional += event.qty_lots * (event.price_ticks + shift_ticks)
    elif event.flags & MAKER and events[index + 1].participant < first_own:  # the taker's fill of the same match
        frame.traded_lots += event.qty_lots
        frame.traded_notional += event.qty_lots * (event.price_ticks + shift_ticks)
        if not event.flags & AUCTION:  # an auction has no taker
            frame.signed_lots += event.qty_lots if event.side == ASK else -event.qty_lots
        frame.trades += 1


@inner
def write_book(state: Any, symbol: int, frame: Any) -> None:
    """Writes the current book to a FRAME row."""
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
def end_step(state: Any, symbol: int, env_state: Any, own: int, time_ns: int, frame: Any, fill: Any) -> None:
    """Writes the book, the open quantity of our limit order, and the quantity ahead of it."""
    env_state[PHASE] = IDLE
    env_state[NOW] = frame.time_ns = time_ns
    write_book(state, symbol, frame)
    fill.resting_lots = fill.ahead_lots = 0
    if env_state[RESTING] == 0:
        return
    slot = order_index.find(state, own, env_state[RESTING])
    if slot < 0:
        env_state[RESTING] = 0
        return
    fill.resting_lots = state.orders[slot].open_lots
    ahead = int64(state.orders[slot].previous)
    while ahead >= 0:
        fill.ahead_lots += state.orders[ahead].open_lots
        ahead = int64(state.orders[ahead].previous)
