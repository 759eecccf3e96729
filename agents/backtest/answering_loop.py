"""The compiled loop of a backtest on a day that gives way (docs/answering.md): one Python strategy and history, otherwise as in loop.py."""

from typing import Any

from serl.agents.backtest.answering_orders import IDS, SYMBOL, execute_own
from serl.agents.backtest.loop import (
    BOTS,
    CROWD,
    EVENT_ROWS,
    EVENTS,
    FINISHED,
    HISTORY,
    HISTORY_AT,
    HISTORY_STOP,
    LAST_NS,
    MARKET_FULL,
    NEVER,
    OWN,
    OWN_AT,
    OWN_STOP,
    PARTICIPANT,
    REPORTS_COUNT,
    REPORTS_SIZE,
    ROW,
    ROWS_FULL,
    SEQUENCE,
    STATE,
    TAPE_COUNT,
    TAPE_SIZE,
    UNTIL,
    WORDS,
    publish,
    words_at,
)
from serl.agents.execution.answering.rules import execute_history, show_last_trades
from serl.agents.execution.answering.tape import COMMAND_SEQUENCE, LOST, WRITTEN
from serl.agents.traders.handle import traders_at
from serl.exchange.compiling import apart, compiled, inlined
from serl.exchange.kernel import order_index
from serl.exchange.kernel.commands import GROW
from serl.exchange.kernel.handle import commands_at, events_at, state_at

EVENTS_LOST = 6
"""A status of `advance`, in addition to those of loop.py: the tape was full."""
# Indices into `published`: complete rows of the tape, published rows; events so far, and reports so far of history and of the strategy
COMPLETE, PUBLISHED, EVENTS_SO_FAR, REPORTS_SO_FAR = range(4)
PUBLISHED_WORDS = 5


@inlined
def _complete(tape: Any, published: Any) -> None:
    """Numbers the events of a finished command, without gaps."""
    for index in range(published[COMPLETE], tape.counts[WRITTEN]):
        event = tape.rows[index]
        published[EVENTS_SO_FAR] += 1
        event.sequence = published[EVENTS_SO_FAR]
        published[REPORTS_SO_FAR + event.participant] += 1
        event.report = published[REPORTS_SO_FAR + event.participant]
    published[COMPLETE] = tape.counts[WRITTEN]


@apart
def _publish_tape(words: Any, tape: Any, published: Any) -> bool:
    """Publishes the complete rows to the strategy; returns False if its arrays have no room."""
    crowd, bots = traders_at(words[CROWD]), traders_at(words[BOTS])
    while published[PUBLISHED] < published[COMPLETE]:
        first, last = published[PUBLISHED], min(published[PUBLISHED] + EVENT_ROWS, published[COMPLETE])
        room = words[REPORTS_SIZE] - words[REPORTS_COUNT]
        if words[TAPE_SIZE] != 0:
            room = min(room, words[TAPE_SIZE] - words[TAPE_COUNT])
        if room < last - first:
            return False
        publish(words, crowd, bots, tape.rows[first:last], last - first)
        published[PUBLISHED] = last
    if published[COMPLETE] > 0:
        tape.counts[WRITTEN] = published[COMPLETE] = published[PUBLISHED] = 0
    return True


@compiled(nogil=True)
def advance(address: int, answers: Any, resting: Any, progress: Any, tape: Any, published: Any) -> int:
    """Runs the market of the block at `address` up to UNTIL (exclusive). Returns FINISHED, or what must be done before the next call.

    answers: Answers of one book. resting, progress: see answering_orders.py. tape, published: events that are not published yet.
    """
    words = words_at(address, WORDS)
    state, row, until_ns = state_at(words[STATE]), commands_at(words[ROW], 1), words[UNTIL]
    history, own = commands_at(words[HISTORY], words[HISTORY_STOP]), commands_at(words[OWN], words[OWN_STOP])
    answer, events, participant = answers.books[SYMBOL], events_at(words[EVENTS], EVENT_ROWS), words[PARTICIPANT]
    while True:
        if not _publish_tape(words, tape, published):
            return ROWS_FULL
        own_ns = own[words[OWN_AT]].time_ns if words[OWN_AT] < own.size else NEVER
        history_ns = history[words[HISTORY_AT]].time_ns if words[HISTORY_AT] < history.size else NEVER
        if min(own_ns, history_ns) >= until_ns:
            break
        tape.counts[COMMAND_SEQUENCE] = words[SEQUENCE] + 1
        if own_ns <= history_ns:
            row[0] = own[words[OWN_AT]]
            status = execute_own(state, row, answer, resting, progress, events, tape)
        else:
            status = execute_history(
                state, history, words[HISTORY_AT], row, answers, SYMBOL, resting, participant, participant, events, None, None, tape
            )  # fmt: skip
        if tape.counts[LOST] > 0:
            return EVENTS_LOST
        if status == GROW:
            return MARKET_FULL
        words[OWN_AT if own_ns <= history_ns else HISTORY_AT] += 1
        words[SEQUENCE] += 1
        words[LAST_NS] = min(own_ns, history_ns)
        _complete(tape, published)
    if show_last_trades(
        state, row, answer, SYMBOL, resting, participant, participant, events, None, None, tape
    ) == GROW:  # fmt: skip
        return MARKET_FULL
    _complete(tape, published)
    return FINISHED if _publish_tape(words, tape, published) else ROWS_FULL


@compiled
def forget_closed(address: int, resting: Any, progress: Any) -> None:
    """Removes the ids of orders that no longer rest from `resting`."""
    words = words_at(address, WORDS)
    state, kept = state_at(words[STATE]), 0
    for place in range(progress[IDS]):
        order_id = resting[0, place]
        if order_index.find(state, words[PARTICIPANT], order_id) >= 0:
            resting[0, kept] = order_id
            kept += 1
    resting[0, kept:] = 0
    progress[IDS] = kept
