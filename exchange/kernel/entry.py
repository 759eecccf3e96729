"""Commands from Python through one address: a call with arrays would unpack the headers of two dozen of them each time."""

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.commands import execute, prefetch_commands
from serl.exchange.kernel.constants import DONE, EVENTS_FULL, GROW
from serl.exchange.kernel.handle import commands_at, events_at, rows_at, state_at
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.state import State
from serl.exchange.records import TRADE, Rows

__all__ = ["EVENTS_FULL", "GROW", "NO_PARTICIPANT", "NO_SYMBOL", "ROW", "run"]

# Words of an entry, what one call reads and writes: integers of 64 bits, and behind them its own COMMAND row
HANDLE = 0  # address of the State's handle
COMMANDS, STOP = 1, 2  # address and number of COMMAND rows: one, the entry's own, but during a submit
NEXT, RESUMED = 3, 4  # the row to go on with; 1: the call goes on with what was not DONE
SEQUENCE = 5  # of the first row
STATUS = 6  # why the call returned 0
EVENTS, EVENTS_SIZE, COUNT = 7, 8, 9  # address of EVENT rows, how many there are, and are written
SPILLED = 10  # 1: events of this call were taken away to make room
TRADES, TRADES_SIZE, TRADES_COUNT = (
    11,
    12,
    13,
)  # address of a ring of TRADE rows; how many trades there were since the market was made
TIME_NS = 14  # of the last command
WORDS = 16
ROW = 8 * WORDS

NO_PARTICIPANT, NO_SYMBOL = 4, 5
"""Why a call returned 0, besides EVENTS_FULL and GROW; nothing was executed."""

EntryWords = NDArray[np.int64]

words_at, trades_at = rows_at(np.dtype(np.int64)), rows_at(TRADE)


@inlined
def _check(state: State, commands: Rows, own: bool) -> int:
    """Why nothing is executed, or DONE. What the book itself answers with a REJECTED is the book's."""
    for index in range(commands.size):
        if commands[index].participant >= state.report.size:
            return NO_PARTICIPANT
    if own and commands[0].kind == k.NEW and commands[0].symbol >= state.halted.size:
        return NO_SYMBOL
    return DONE


@inlined
def _complete(state: State, entry: EntryWords, row: CommandRow) -> None:
    """The command_id and time that the caller left out."""
    if row.command_id == 0:
        row.command_id = state.last_command_id[row.participant] + 1
    if row.time_ns < 0:
        row.time_ns = entry[TIME_NS]


@inlined
def _keep_trades(entry: EntryWords, trades: Rows, events: Rows, first: int, stop: int) -> None:
    """Of the two fills of a trade, the one that is not the maker's; and prints, whose side is that of the resting party."""
    for index in range(first, stop):
        event = events[index]
        if (event.kind == k.FILL and event.flags & k.MAKER == 0) or event.kind == k.PRINTED:
            trade = trades[entry[TRADES_COUNT] % entry[TRADES_SIZE]]
            trade.match_id, trade.time_ns = event.match_id, event.time_ns
            trade.price_ticks, trade.qty_lots = event.price_ticks, event.qty_lots
            is_print = event.kind == k.PRINTED
            trade.symbol, trade.flags, trade.off_book = event.symbol, event.flags, is_print
            trade.side = 1 - event.side if is_print else event.side
            entry[TRADES_COUNT] += 1


@compiled
def run(address: int) -> int:
    """Executes the rows of the entry at an address: the command_id of the last one, or minus the Reason of its rejection.

    0: `status` says why it could not; call again with `resumed` set after EVENTS_FULL (and `count` reset) or GROW.
    The rows are not written to, but for the entry's own.
    """
    entry = words_at(address, WORDS)
    state = state_at(entry[HANDLE])
    stop = entry[STOP]
    commands, rows = commands_at(entry[COMMANDS], stop), commands_at(address + ROW, 1)
    events, trades = events_at(entry[EVENTS], entry[EVENTS_SIZE]), trades_at(entry[TRADES], entry[TRADES_SIZE])
    own = entry[COMMANDS] == address + ROW
    row = rows[0]
    if entry[RESUMED] == 0:
        entry[COUNT] = entry[SPILLED] = entry[NEXT] = 0
        entry[STATUS] = _check(state, commands, own)
        if entry[STATUS] != DONE:
            return 0
        entry[SEQUENCE] = state.counters.command_sequence + 1
        if own:
            _complete(state, entry, row)
    entry[RESUMED] = 0
    count = entry[COUNT]
    for index in range(entry[NEXT], stop):
        if not own:
            prefetch_commands(state, commands, index, stop)
            rows[0] = commands[index]
        row.sequence = entry[SEQUENCE] + index
        before = count
        count, status = execute(state, rows, 0, events, count)
        _keep_trades(entry, trades, events, before, count)
        if status != DONE:
            entry[COUNT], entry[NEXT], entry[STATUS] = count, index, status
            return 0
    entry[COUNT], entry[NEXT], entry[TIME_NS] = count, 0, row.time_ns
    if count > 0 and events[count - 1].kind == k.REJECTED:
        return -int64(events[count - 1].reason)
    return int64(max(row.command_id, 1))
