"""The compiled step of one simulated market in which an agent takes positions in two symbols.

A market order in each symbol brings the position to its target, the first symbol's before the second's; both arrive at the same time. Quantity
that a book does not have is not traded, so one leg may fall short of its target.
"""

from typing import Any

import numpy as np

from serl.agents.execution.environment.own_orders import (
    ARRIVING,
    COMMAND_ID,
    IDLE,
    IOC,
    MARKET,
    NEW,
    NOW,
    PHASE,
    clear_traded,
    write_book,
)
from serl.agents.execution.environment.simulated_step import OUR_PARTICIPANT, run_traders, submit
from serl.agents.positions.step import write_account
from serl.agents.traders.handle import traders_at
from serl.agents.traders.inprocess import FINISHED, KEPT_FULL, MARKET_FULL, PHASE_CHANGED
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled, inner
from serl.exchange.kernel.handle import state_at
from serl.exchange.kernel.state import State
from serl.exchange.records import Rows

TARGETS = np.dtype([("target_lots", "<i8", (2,))], align=True)
"""The positions to take, one in each symbol; above 0 is long."""
# Values of PHASE after ARRIVING: an order in each symbol
TAKE, DONE = ARRIVING + 1, ARRIVING + 3


@inner
def _next_command(state: Any, env_state: Any, row: Any, decision: Any, time_ns: int) -> bool:
    """Writes our next command to the first COMMAND row; returns False if there is none."""
    while env_state[PHASE] < DONE:
        symbol = env_state[PHASE] - TAKE
        missing = decision.target_lots[symbol] - state.balances[OUR_PARTICIPANT, symbol].position_lots
        if missing != 0:
            command = row[0]
            command.symbol, command.participant, command.time_ns = symbol, OUR_PARTICIPANT, time_ns
            command.side, command.qty_lots, command.price_ticks = (1, -missing, 0) if missing < 0 else (0, missing, 0)
            command.kind, command.time_in_force, command.flags, command.order_id = NEW, IOC, MARKET, 0
            env_state[COMMAND_ID] += 1
            command.command_id = env_state[COMMAND_ID]
            return True
        env_state[PHASE] += 1
    return False


@inner
def _end_step(state: Any, env_state: Any, time_ns: int, frames: Any, positions: Any) -> None:
    """Writes the books and our accounts."""
    env_state[PHASE] = IDLE
    env_state[NOW] = time_ns
    for symbol in range(frames.size):
        frames[symbol].time_ns = time_ns
        write_book(state, symbol, frames[symbol])
        write_account(state, symbol, OUR_PARTICIPANT, positions[symbol])


@inner
def _advance_one(
    traders: Traders, state: State, row: Rows, env_state: Any, decision: Any, until_ns: int, limit_ns: int, latency_ns: int,
    events: Rows, frames: Rows, fills: Rows, positions: Rows, kept: Rows, kept_count: Any,
) -> int:  # fmt: skip
    if env_state[PHASE] == IDLE:
        for symbol in range(frames.size):
            clear_traded(frames[symbol])
            fills[symbol].lots = fills[symbol].notional = 0
        env_state[PHASE] = ARRIVING
    arrival_ns = min(env_state[NOW] + latency_ns, until_ns)
    if env_state[PHASE] == ARRIVING:
        status = run_traders(
            traders, state, min(arrival_ns, limit_ns), env_state, events, frames, fills, kept, kept_count
        )
        if status != FINISHED or limit_ns <= arrival_ns:
            return status
        env_state[PHASE] = TAKE
    while _next_command(state, env_state, row, decision, arrival_ns):
        status = submit(traders, state, row, 0, env_state, events, frames, fills, kept, kept_count)
        if status == MARKET_FULL or status == KEPT_FULL:
            env_state[COMMAND_ID] -= 1
            return status
        env_state[PHASE] += 1
        if status == PHASE_CHANGED:
            return status
    status = run_traders(traders, state, min(until_ns, limit_ns), env_state, events, frames, fills, kept, kept_count)
    if status == FINISHED and limit_ns > until_ns:
        _end_step(state, env_state, until_ns, frames, positions)
    return status


@compiled(nogil=True)
def advance(
    markets: Any, which: Any, first: int, last: int, step: int, row: Rows, env_states: Any, positions: Rows, decisions: Rows, until_ns: Any,
    limit_ns: int, latency_ns: int, events: Rows, frames: Rows, fills: Rows, kept: Rows, kept_count: Any,
) -> tuple[int, int]:  # fmt: skip
    """Like `simulated_step.advance`, with TARGETS rows instead of child orders, and (N, 2) positions, frames and fills."""
    place = first
    while place < last:
        env = which[place]
        status = _advance_one(
            traders_at(markets[env, 0]), state_at(markets[env, 1]), row, env_states[env], decisions[place], until_ns[place], limit_ns,
            latency_ns, events, frames[env], fills[env], positions[env], kept, kept_count,
        )  # fmt: skip
        if status != FINISHED:
            return place, status
        place += step
    return last, FINISHED
