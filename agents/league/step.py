"""The compiled step of one simulated market with an executor and a market maker. Their commands arrive at the same time, the executor's first."""

from typing import Any

from serl.agents.execution.environment.own_orders import (
    ARRIVING,
    CANCELLING,
    IDLE,
    NOW,
    PHASE,
    WAITING,
    begin_step,
    command_executed,
    end_step,
    next_command,
)
from serl.agents.execution.environment.simulated_step import OUR_PARTICIPANT, run_traders, submit
from serl.agents.positions.step import CANCEL_BID, align, end_quoting, next_quote_command, quote_command_executed
from serl.agents.traders.handle import traders_at
from serl.agents.traders.inprocess import FINISHED
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled, inner
from serl.exchange.kernel.handle import state_at
from serl.exchange.kernel.state import ASK, BID, State
from serl.exchange.records import Rows

EXECUTOR, MAKER = OUR_PARTICIPANT, OUR_PARTICIPANT + 1
"""Participant numbers. The fills of both are kept apart from the trades of the simulated traders."""


@inner
def _advance_one(
    traders: Traders, state: State, row: Rows, env_state: Any, maker_state: Any, sign: int, decides: int, child: Any, quotes: Any,
    until_ns: int, latency_ns: int, events: Rows, frames: Rows, fills: Rows, position: Any, kept: Rows, kept_count: Any,
) -> int:  # fmt: skip
    if env_state[PHASE] == IDLE:
        fills[1].lots = fills[1].notional = 0
    begin_step(env_state, frames[0], fills[0])
    arrival_ns = min(env_state[NOW] + latency_ns, until_ns)
    if env_state[PHASE] == ARRIVING:
        status = run_traders(traders, state, arrival_ns, env_state, events, frames, fills, kept, kept_count)
        if status != FINISHED:
            return status
        env_state[PHASE] = CANCELLING if decides != 0 else WAITING
        align(state, quotes)
        maker_state[PHASE] = CANCEL_BID
    side = ASK if sign > 0 else BID
    while next_command(env_state, row, 0, EXECUTOR, side, child, arrival_ns):
        status = submit(traders, state, row, 0, env_state, events, frames, fills, kept, kept_count)
        if status != FINISHED:
            return status
        command_executed(env_state, child, fills[0])
    while next_quote_command(state, maker_state, row, quotes, arrival_ns, MAKER):
        status = submit(traders, state, row, 0, env_state, events, frames, fills, kept, kept_count)
        if status != FINISHED:
            return status
        quote_command_executed(maker_state)
    status = run_traders(traders, state, until_ns, env_state, events, frames, fills, kept, kept_count)
    if status == FINISHED:
        end_step(state, 0, env_state, EXECUTOR, until_ns, frames[0], fills[0])
        end_quoting(state, maker_state, until_ns, MAKER, position)
    return status


@compiled(nogil=True)
def advance(
    markets: Any, which: Any, first: int, last: int, step: int, row: Rows, env_states: Any, maker_states: Any, signs: Any, decides: Any,
    children: Rows, quotes: Rows, until_ns: Any, latency_ns: int, events: Rows, frames: Rows, fills: Rows, positions: Rows, kept: Rows,
    kept_count: Any,
) -> tuple[int, int]:  # fmt: skip
    """Like `simulated_step.advance`, in a market without rules. An executor that does not decide keeps its resting order. fills: (N, 2), those of the
    executor and the maker."""
    place = first
    while place < last:
        env = which[place]
        status = _advance_one(
            traders_at(markets[env, 0]), state_at(markets[env, 1]), row, env_states[env], maker_states[env], signs[env], decides[place],
            children[place], quotes[place], until_ns[place], latency_ns, events, frames[env : env + 1], fills[env], positions[env], kept,
            kept_count,
        )  # fmt: skip
        if status != FINISHED:
            return place, status
        place += step
    return last, FINISHED
