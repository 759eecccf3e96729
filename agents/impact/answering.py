"""Metaorders on a replayed day that gives way to them (docs/answering.md)."""

from typing import Any

import numpy as np

from serl.agents.execution.answering.model import AnsweringDay, compiled_answers
from serl.agents.execution.answering.rules import execute_history, execute_live
from serl.agents.execution.environment.records import FILL, FRAME
from serl.exchange.compiling import compiled
from serl.exchange.kernel.commands import DONE, GROW
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, Rows
from serl.history.limits import limits_for

EVENT_ROWS = 4096
HISTORY, LIVE = 0, 1
# Indices into `position`: the next command, and the next command of history
NEXT, OF_HISTORY = 0, 1


@compiled
def _execute_all(
    state: Any, commands: Any, history: Any, is_own: Any, row: Any, answers: Any, resting: Any, events: Any, position: Any,
    touch: Any, traded: Any, frame: Any, fills: Any,
) -> int:  # fmt: skip
    """Continues at position[NEXT]; writes touch [command, side] and traded [command]. Returns DONE or GROW."""
    answer = answers.books[0]
    while position[NEXT] < commands.size:
        index, before = position[NEXT], frame[0].traded_lots + fills[0].lots
        if is_own[index]:
            row[0] = commands[index]
            row[0].participant = LIVE
            status = execute_live(state, row, answer, 0, resting, LIVE, LIVE, events, frame[0], fills, None)
        else:
            status = execute_history(
                state,
                history,
                position[OF_HISTORY],
                row,
                answers,
                0,
                resting,
                LIVE,
                LIVE,
                events,
                frame[0],
                fills,
                None,
            )
        if status == GROW:
            return GROW
        traded[index] += frame[0].traded_lots + fills[0].lots - before
        for side in (BID, ASK):
            best = state.best[0, side]
            touch[index, side] = best + answer.shift_ticks if best > 0 else 0
        position[OF_HISTORY] += not is_own[index]
        position[NEXT] += 1
    return DONE


def execute_answering(commands: Rows, is_own: Any, day: AnsweringDay) -> tuple[Any, Any, int]:
    """Executes a live participant's commands (`is_own`) among the first commands of the day. Returns (touch [command, side], lots executed
    [command], lots that the live participant traded). Its orders must not rest."""
    history = commands[~is_own].copy()
    market = Market(limits=limits_for([history]))
    market.grant_operator(HISTORY)
    answers = compiled_answers([day], 1)
    answers.books[0] = day.new_state()[0]
    touch, traded = np.zeros((len(commands), 2), np.int64), np.zeros(len(commands), np.int64)
    row, events, position = np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT), np.zeros(2, np.int64)
    frame, fills, resting = np.zeros(1, FRAME), np.zeros(1, FILL), np.zeros((1, 1), np.int64)
    while _execute_all(
        market.state, commands, history, is_own, row, answers, resting, events, position, touch, traded, frame, fills
    ) != DONE:  # fmt: skip
        market.grow()
    return touch, traded, int(fills["lots"][0])
