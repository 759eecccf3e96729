"""The compiled step of one simulated market: its traders, the commands of our decision, and the exchange's scheduled commands.

Scheduled commands have their own calls (`execute_scheduled`); between them, `advance` runs everybody else up to a time.
"""

from typing import Any

from serl.agents.execution.environment.own_orders import (
    ARRIVING,
    CANCELLING,
    FILLED,
    NOW,
    PHASE,
    STOP,
    align,
    begin_step,
    charge_fees,
    command_executed,
    end_step,
    next_command,
    record_fill,
)
from serl.agents.traders.engine import has_capacity, next_arrival_ns, next_wake_ns, remove_arrived, wake_next
from serl.agents.traders.handle import traders_at
from serl.agents.traders.inprocess import (
    FINISHED,
    KEPT_FULL,
    MARKET_FULL,
    PHASE_CHANGED,
    TRADERS_FULL,
    observe_events,
)
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled, inlined, inner
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute
from serl.exchange.kernel.handle import state_at
from serl.exchange.kernel.state import ASK, BID, State
from serl.exchange.records import Rows

OUR_PARTICIPANT = 1
"""All simulated traders together are participant 0."""
# A reused column of `env_states`, which a replay uses for history: time of the last command
LAST_NS = STOP


@inlined
def submit(traders: Any, state: Any, rows: Any, row_index: int, env_state: Any, events: Any, frames: Any, fills: Any, kept: Any, kept_count: Any) -> int:  # fmt: skip
    """Executes a command and shows its events to the traders. Returns FINISHED; PHASE_CHANGED if it changed the symbol's phase; or MARKET_FULL or
    KEPT_FULL: then call it again. frames, fills: (S,) rows of the symbols. kept, kept_count: as in `run_market`."""
    rows[row_index].sequence = state.counters.command_sequence + 1
    status, phase_changed = EVENTS_FULL, False
    while status == EVENTS_FULL:
        if kept.size and kept_count[0] + events.size > kept.size:
            return KEPT_FULL
        event_count, status = execute(state, rows, row_index, events, 0)
        phase_changed |= observe_events(traders, events, event_count, kept, kept_count)
        for index in range(event_count):
            if events[index].kind == FILLED:
                symbol = events[index].symbol
                record_fill(events, index, OUR_PARTICIPANT, frames[symbol], fills[symbol : symbol + 1], 0)
    if status != DONE:
        return MARKET_FULL
    env_state[LAST_NS] = rows[row_index].time_ns
    return PHASE_CHANGED if phase_changed else FINISHED


@inlined
def run_traders(traders: Any, state: Any, until_ns: int, env_state: Any, events: Any, frames: Any, fills: Any, kept: Any, kept_count: Any) -> int:  # fmt: skip
    """Runs the traders until `until_ns`; returns why it stopped."""
    while True:
        arrival_ns, wake_ns = next_arrival_ns(traders), next_wake_ns(traders)
        if min(arrival_ns, wake_ns) >= until_ns:
            return FINISHED
        if wake_ns < arrival_ns:
            if not has_capacity(traders):
                return TRADERS_FULL
            wake_next(traders, state)
            continue
        status = submit(
            traders, state, traders.in_flight, traders.in_flight_item[1], env_state, events, frames, fills, kept, kept_count
        )  # fmt: skip
        if status == MARKET_FULL or status == KEPT_FULL:
            return status
        remove_arrived(traders)
        if status == PHASE_CHANGED:
            return status


@inner
def _advance_one(
    traders: Traders, state: State, row: Rows, env_state: Any, sign: int, child: Any, until_ns: int, limit_ns: int,
    latency_ns: int, events: Rows, frames: Rows, fills: Rows, kept: Rows, kept_count: Any,
) -> int:  # fmt: skip
    frame, fill = frames[0], fills[0]
    begin_step(env_state, frame, fill)
    arrival_ns = min(env_state[NOW] + latency_ns, until_ns)
    if env_state[PHASE] == ARRIVING:
        early_ns = min(arrival_ns, limit_ns)
        status = run_traders(traders, state, early_ns, env_state, events, frames, fills, kept, kept_count)
        if status != FINISHED or limit_ns <= arrival_ns:
            return status
        env_state[PHASE] = CANCELLING
    side = ASK if sign > 0 else BID
    while True:
        align(state, 0, sign, child)
        if not next_command(env_state, row, 0, OUR_PARTICIPANT, side, child, arrival_ns):
            break
        status = submit(traders, state, row, 0, env_state, events, frames, fills, kept, kept_count)
        if status == MARKET_FULL or status == KEPT_FULL:
            return status
        command_executed(env_state, child, fill)
        if status == PHASE_CHANGED:
            return status
    last_ns = min(until_ns, limit_ns)
    status = run_traders(traders, state, last_ns, env_state, events, frames, fills, kept, kept_count)
    if status == FINISHED and limit_ns > until_ns:
        end_step(state, 0, env_state, OUR_PARTICIPANT, until_ns, frame, fill)
        charge_fees(state, env_state, 0, OUR_PARTICIPANT, fill)
    return status


@compiled(nogil=True)
def advance(
    markets: Any, which: Any, first: int, last: int, step: int, row: Rows, env_states: Any, signs: Any, children: Rows, until_ns: Any,
    limit_ns: int, latency_ns: int, events: Rows, frames: Rows, fills: Rows, kept: Rows, kept_count: Any,
) -> tuple[int, int]:  # fmt: skip
    """Steps environments `which[first:last:step]`, with the children and times at the same positions, to `until_ns`; or executes only what comes
    before `limit_ns`, if that is not later.

    Returns (position, status): (last, FINISHED), or where it stopped and why: PHASE_CHANGED after a command that changed the symbol's phase, or
    what must grow. Then call it again from there. markets: (N, 2) addresses of the handles of traders and state.
    """
    place = first
    while place < last:
        env = which[place]
        status = _advance_one(
            traders_at(markets[env, 0]), state_at(markets[env, 1]), row, env_states[env], signs[env], children[place], until_ns[place],
            limit_ns, latency_ns, events, frames[env : env + 1], fills[env : env + 1], kept, kept_count,
        )  # fmt: skip
        if status != FINISHED:
            return place, status
        place += step
    return last, FINISHED


@compiled
def execute_scheduled(
    traders: Traders, state: State, command: Rows, env_states: Any, env: int, events: Rows, frames: Rows, fills: Rows, kept: Rows, kept_count: Any
) -> int:  # fmt: skip
    """Executes one of the exchange's own commands, a (1,) COMMAND row, in one environment; returns the status of `submit`."""
    symbols = frames.size // len(env_states)
    rows = slice(env * symbols, (env + 1) * symbols)
    return submit(traders, state, command, 0, env_states[env], events, frames[rows], fills[rows], kept, kept_count)
