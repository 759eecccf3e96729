"""The compiled loop of a backtest: the book, a population or a recorded day, and one strategy.

At equal times the strategy's commands come first, like those of a participant that logged in before the others; a wake-up comes after the
commands that arrive at its time. Scheduled actions of the exchange come before both; `BacktestMarket` executes them between two calls, except
for the expiry of orders that arrived meanwhile.
"""

from typing import Any

import numpy as np

from serl.agents.traders.engine import (
    WAKEUPS_A_CALL,
    has_capacity,
    next_arrival_ns,
    next_wake_ns,
    observe,
    remove_arrived,
    wake_next,
)
from serl.agents.traders.handle import traders_at
from serl.agents.traders.inprocess import PARTICIPANT as CROWD_PARTICIPANT
from serl.agents.traders.records import Traders
from serl.exchange.compiling import apart, compiled, inlined, int64
from serl.exchange.kernel.commands import DONE, GROW, execute
from serl.exchange.kernel.handle import commands_at, events_at, rows_at, state_at
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.state import State
from serl.exchange.records import LEVEL, CommandKind, EventFlag, EventKind, Rows

# Words of the block at the address, which a call reads and writes
STATE, CROWD, BOTS = 0, 1, 2  # addresses of handles; CROWD, BOTS: 0 = none
HISTORY, HISTORY_STOP, HISTORY_AT = 3, 4, 5  # COMMAND rows of a recorded day, their number, the next one
OWN, OWN_STOP, OWN_AT = 6, 7, 8  # COMMAND rows of a Python strategy by arrival time
EVENTS, ROW = 9, 10  # EVENT_ROWS rows and one COMMAND row, buffers of the call
REPORTS, REPORTS_SIZE, REPORTS_COUNT = 11, 12, 13  # EVENT rows of the strategy
TAPE, TAPE_SIZE, TAPE_COUNT = 14, 15, 16  # EVENT rows of everybody; size 0: not kept
TRADES, TRADE_COUNTS = 17, 18  # ring buffers of TRADES_KEPT EVENT rows by symbol, and trades in each so far
SYMBOLS, PARTICIPANT, SEQUENCE, UNTIL = 19, 20, 21, 22
LEVELS, LEVELS_SIZE = 23, 24  # 2 x LEVELS_SIZE LEVEL rows: bids, then asks
KEPT, KEPT_SIZE, KEPT_COUNT = (
    25,
    26,
    27,
)  # EVENT rows of trades and phases for the price bands, capacity, address of their count; size 0: not kept
LAST_NS, PHASE_CHANGES = 28, 29  # time of the last command, number of phase changes it caused
WORDS = 30

EVENT_ROWS, TRADES_KEPT = 1024, 1024
NEVER = 1 << 62
# Statuses that `advance` returns
FINISHED, CROWD_FULL, BOTS_FULL, MARKET_FULL, ROWS_FULL, PHASE_CHANGED, PAUSED = 0, 1, 2, 3, 4, 5, 6

_FROM_OWN, _FROM_BOTS, _FROM_HISTORY, _FROM_CROWD = 0, 1, 2, 3
_FILL, _PRINT, _PHASED, _MAKER = int(EventKind.FILL), int(EventKind.PRINT), int(EventKind.PHASED), int(EventFlag.MAKER)
_TIME, _EXCHANGE = int(CommandKind.TIME), 0
words_at, levels_at = rows_at(np.dtype(np.int64)), rows_at(LEVEL)


@inlined
def publish(words: Any, crowd: Traders, bots: Traders, events: Rows, count: int) -> None:
    """Distributes events: to the traders, the strategy's reports, the tape, the last trades and the kept rows."""
    reports, tape = events_at(words[REPORTS], words[REPORTS_SIZE]), events_at(words[TAPE], words[TAPE_SIZE])
    trades = events_at(words[TRADES], words[SYMBOLS] * TRADES_KEPT)
    trade_counts = words_at(words[TRADE_COUNTS], words[SYMBOLS])
    kept, kept_count = events_at(words[KEPT], words[KEPT_SIZE]), words_at(words[KEPT_COUNT], 1)
    if words[CROWD] != 0:
        observe(crowd, events, count, CROWD_PARTICIPANT)
    if words[BOTS] != 0:
        observe(bots, events, count, words[PARTICIPANT])
    for index in range(count):
        event = events[index]
        own = event.participant == words[PARTICIPANT]
        if own:
            reports[words[REPORTS_COUNT]] = event
            words[REPORTS_COUNT] += 1
        if words[TAPE_SIZE] != 0:
            tape[words[TAPE_COUNT]] = event
            words[TAPE_COUNT] += 1
        is_fill, is_phase = event.kind == _FILL and event.flags & _MAKER > 0, event.kind == _PHASED
        if is_fill or event.kind == _PRINT:
            symbol = int64(event.symbol)
            trades[symbol * TRADES_KEPT + (trade_counts[symbol] & (TRADES_KEPT - 1))] = event
            trade_counts[symbol] += 1
        words[PHASE_CHANGES] += is_phase
        if words[KEPT_SIZE] != 0 and (is_fill or is_phase):
            kept[kept_count[0]] = event
            kept_count[0] += 1


@inlined
def _has_room(words: Any) -> bool:
    """Whether the reports, the tape and the kept rows can take another EVENT_ROWS rows."""
    if words[KEPT_SIZE] != 0 and words[KEPT_SIZE] - words_at(words[KEPT_COUNT], 1)[0] < EVENT_ROWS:
        return False
    reports = words[REPORTS_SIZE] - words[REPORTS_COUNT] >= EVENT_ROWS
    return reports and (words[TAPE_SIZE] == 0 or words[TAPE_SIZE] - words[TAPE_COUNT] >= EVENT_ROWS)


@apart
def _execute(words: Any, state: State, crowd: Traders, bots: Traders, row: Rows) -> int:
    """Executes the COMMAND row and publishes its events.

    Returns FINISHED, or MARKET_FULL or ROWS_FULL: then call it again with the same row to continue.
    """
    events = events_at(words[EVENTS], EVENT_ROWS)
    row[0].sequence = words[SEQUENCE] + 1
    while True:
        if not _has_room(words):
            return ROWS_FULL
        count, status = execute(state, row, 0, events, 0)
        publish(words, crowd, bots, events, count)
        if status == DONE:
            words[SEQUENCE] += 1
            words[LAST_NS] = row[0].time_ns
            return FINISHED
        if status == GROW:
            return MARKET_FULL


@apart
def _wake(traders: Traders, state: State) -> bool:
    """Wakes the next trader; returns False if the arrays have no room for its requests."""
    if not has_capacity(traders):
        return False
    wake_next(traders, state)
    return True


@compiled(nogil=True)
def advance(address: int) -> int:
    """Runs the market of the block at `address` up to UNTIL (exclusive).

    Returns FINISHED; what must grow before the next call; PHASE_CHANGED; or PAUSED after WAKEUPS_A_CALL wake-ups.

    Takes O(log traders + log commands in flight) per event.
    """
    words = words_at(address, WORDS)
    state, crowd, bots = state_at(words[STATE]), traders_at(words[CROWD]), traders_at(words[BOTS])
    history, own = commands_at(words[HISTORY], words[HISTORY_STOP]), commands_at(words[OWN], words[OWN_STOP])
    row, until_ns, wakeups_left = commands_at(words[ROW], 1), words[UNTIL], WAKEUPS_A_CALL
    while True:
        own_ns, source = NEVER, _FROM_OWN
        bot_wake_ns = crowd_wake_ns = other_ns = NEVER
        if words[OWN_AT] < own.size:
            own_ns = own[words[OWN_AT]].time_ns
        if words[BOTS] != 0:
            own_ns, source, bot_wake_ns = next_arrival_ns(bots), _FROM_BOTS, next_wake_ns(bots)
        if words[CROWD] != 0:
            other_ns, crowd_wake_ns = next_arrival_ns(crowd), next_wake_ns(crowd)
        elif words[HISTORY_AT] < history.size:
            other_ns = history[words[HISTORY_AT]].time_ns
        wake_ns, event_ns = min(bot_wake_ns, crowd_wake_ns), min(own_ns, other_ns)
        expiry_ns = state.counters.next_expiry_ns
        if min(wake_ns, event_ns, expiry_ns) >= until_ns:
            return FINISHED
        if expiry_ns <= min(wake_ns, event_ns):
            words[PHASE_CHANGES] = 0
            row[0].kind, row[0].participant, row[0].command_id, row[0].time_ns = _TIME, _EXCHANGE, 0, expiry_ns
            status = _execute(words, state, crowd, bots, row)
            if status != FINISHED:
                return status
            if words[PHASE_CHANGES] != 0:
                return PHASE_CHANGED
            continue
        if wake_ns < event_ns:
            if wakeups_left == 0:
                return PAUSED
            wakeups_left -= 1
            if bot_wake_ns <= crowd_wake_ns:
                if not _wake(bots, state):
                    return BOTS_FULL
            elif not _wake(crowd, state):
                return CROWD_FULL
            continue
        if own_ns > other_ns:
            source = _FROM_HISTORY if words[CROWD] == 0 else _FROM_CROWD
        if source == _FROM_OWN:
            row[0] = own[words[OWN_AT]]
        elif source == _FROM_HISTORY:
            row[0] = history[words[HISTORY_AT]]
        elif source == _FROM_CROWD:
            row[0] = crowd.in_flight[crowd.in_flight_item[1]]
        else:
            row[0] = bots.in_flight[bots.in_flight_item[1]]
            row[0].participant = words[PARTICIPANT]
        words[PHASE_CHANGES] = 0
        status = _execute(words, state, crowd, bots, row)
        if status != FINISHED:
            return status
        if source == _FROM_OWN:
            words[OWN_AT] += 1
        elif source == _FROM_HISTORY:
            words[HISTORY_AT] += 1
        elif source == _FROM_CROWD:
            remove_arrived(crowd)
        else:
            remove_arrived(bots)
        if words[PHASE_CHANGES] != 0:
            return PHASE_CHANGED


@compiled
def execute_row(address: int) -> int:
    """Executes the COMMAND row at ROW, a command of the exchange itself. Returns FINISHED, or what must grow before the next call."""
    words = words_at(address, WORDS)
    state, crowd, bots = state_at(words[STATE]), traders_at(words[CROWD]), traders_at(words[BOTS])
    return _execute(words, state, crowd, bots, commands_at(words[ROW], 1))


@compiled
def next_arrival(address: int) -> int:
    """Arrival time of the next command of the strategy or the population, ns; NEVER if none is in flight."""
    words = words_at(address, WORDS)
    own, arrival_ns = commands_at(words[OWN], words[OWN_STOP]), NEVER
    if words[OWN_AT] < own.size:
        arrival_ns = own[words[OWN_AT]].time_ns
    for place in (BOTS, CROWD):
        if words[place] != 0:
            arrival_ns = min(arrival_ns, next_arrival_ns(traders_at(words[place])))
    return arrival_ns


@inlined
def _write_levels(state: State, symbol: int, side: int, out: Rows, first: int, depth: int) -> int:
    """Writes at most the best `depth` levels of a side from row `first` on; returns their number."""
    count, price = 0, state.best[symbol, side]
    while price != 0 and count < depth:
        level = state.levels[find_level(state, symbol, side, price)]
        out[first + count].price_ticks = price
        out[first + count].qty_lots = level.qty_lots
        out[first + count].orders = level.orders
        count += 1
        price = next_price(state, symbol, side, price)
    return count


@compiled
def read_book(address: int, symbol: int, depth: int) -> int:
    """Writes the book of a symbol to LEVELS; returns the numbers of levels as bids << 32 | asks."""
    words = words_at(address, WORDS)
    state, size = state_at(words[STATE]), words[LEVELS_SIZE]
    out = levels_at(words[LEVELS], 2 * size)
    bids = _write_levels(state, symbol, 0, out, 0, min(depth, size))
    return bids << 32 | _write_levels(state, symbol, 1, out, size, min(depth, size))
