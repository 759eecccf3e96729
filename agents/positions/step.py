"""The compiled step of one simulated market in which an agent quotes, or takes positions.

A quote whose price does not change keeps its order, and so its place in the queue, until it is filled. Other quotes are cancelled, on both sides
before new ones are sent. New quotes are post-only: one that would trade when it arrives is rejected. A position is taken by a market order for the
difference when it arrives; quantity that the book does not have is not traded.
"""

from typing import Any

from serl.agents.execution.environment.own_orders import (
    ARRIVING,
    COMMAND_ID,
    CURSOR,
    GTC,
    IDLE,
    IOC,
    MARKET,
    NEW,
    NOW,
    PHASE,
    RESTING,
    begin_step,
    write_book,
)
from serl.agents.execution.environment.own_orders import CANCEL as CANCEL_KIND
from serl.agents.execution.environment.simulated_step import OUR_PARTICIPANT, run_traders, submit
from serl.agents.traders.handle import traders_at
from serl.agents.traders.inprocess import FINISHED, KEPT_FULL, MARKET_FULL, PHASE_CHANGED
from serl.agents.traders.records import Traders
from serl.exchange.compiling import compiled, inlined, inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.handle import state_at
from serl.exchange.kernel.rulebook.checks import is_on_tick
from serl.exchange.kernel.state import ASK, State
from serl.exchange.records import MICRO, CommandFlag, Rows

POST_ONLY = int(CommandFlag.POST_ONLY)
# Values of PHASE after ARRIVING: one command each
CANCEL_BID, CANCEL_ASK, TAKE, SEND_BID, SEND_ASK, DONE = range(ARRIVING + 1, ARRIVING + 7)


@inlined
def _column(side: int) -> int:
    """The column of `env_states` with our order on a side."""
    return CURSOR if side == ASK else RESTING


@inner
def _slot(state: Any, env_state: Any, side: int, own: int) -> int:
    """The slot of our order on a side; -1 if it is gone."""
    order_id = env_state[_column(side)]
    slot = order_index.find(state, own, order_id) if order_id != 0 else -1
    if slot < 0:
        env_state[_column(side)] = 0
    return int64(slot)


@inner
def align(state: Any, decision: Any) -> None:
    """Rounds quotes to what the symbol's rules allow: quantities to whole multiples of its lot, prices to its tick table, away from the market."""
    lot = state.symbols[0].lot_multiple
    for side in range(2):
        decision.lots[side] -= decision.lots[side] % lot
        step = 1 if side == ASK else -1
        while decision.price_ticks[side] > 0 and not is_on_tick(state, 0, decision.price_ticks[side]):
            decision.price_ticks[side] += step


@inner
def _lots_within_limit(state: Any, decision: Any, side: int, own: int) -> int:
    """The lots to quote on a side: fewer than decided if earlier quotes have been filled meanwhile, because the position must stay within its limit."""
    lots = int64(decision.lots[side])
    if decision.limit_lots > 0:
        held = int64(state.balances[own, 0].position_lots)
        room = decision.limit_lots + (held if side == ASK else -held)
        lots = min(lots, max(int64(0), room))
        lots -= lots % state.symbols[0].lot_multiple
    return lots


@inner
def next_quote_command(state: Any, env_state: Any, row: Any, decision: Any, time_ns: int, own: int) -> bool:
    """Writes the next command of an agent, participant `own`, to the first COMMAND row; returns False if there is none."""
    command = row[0]
    while env_state[PHASE] < DONE:
        phase = env_state[PHASE]
        side = 1 if phase == CANCEL_ASK or phase == SEND_ASK else 0
        command.symbol, command.participant, command.side, command.time_ns = 0, own, side, time_ns
        command.kind, command.time_in_force, command.flags, command.order_id = NEW, GTC, POST_ONLY, 0
        command.price_ticks, command.qty_lots = decision.price_ticks[side], decision.lots[side]
        if phase == CANCEL_BID or phase == CANCEL_ASK:
            slot = _slot(state, env_state, side, own)
            stays = (
                slot >= 0
                and decision.lots[side] > 0
                and decision.takes == 0
                and state.orders[slot].price_ticks == decision.price_ticks[side]
            )
            if slot >= 0 and not stays:
                command.kind, command.side, command.flags, command.time_in_force = CANCEL_KIND, 0, 0, 0
                command.order_id, command.price_ticks, command.qty_lots = env_state[_column(side)], 0, 0
                break
        elif phase == TAKE:
            missing = decision.target_lots - state.balances[own, 0].position_lots
            if decision.takes != 0 and missing != 0:
                command.side, command.qty_lots, command.price_ticks = (
                    (1, -missing, 0) if missing < 0 else (0, missing, 0)
                )
                command.time_in_force, command.flags = IOC, MARKET
                break
        elif (
            decision.takes == 0
            and decision.lots[side] > 0
            and decision.price_ticks[side] > 0
            and env_state[_column(side)] == 0
        ):
            command.qty_lots = _lots_within_limit(state, decision, side, own)
            if command.qty_lots > 0:
                break
        env_state[PHASE] += 1
    if env_state[PHASE] == DONE:
        return False
    env_state[COMMAND_ID] += 1
    command.command_id = env_state[COMMAND_ID]
    return True


@inlined
def quote_command_executed(env_state: Any) -> None:
    """Moves on to the next command."""
    phase = env_state[PHASE]
    if phase == CANCEL_BID or phase == CANCEL_ASK:
        env_state[_column(phase - CANCEL_BID)] = 0
    elif phase >= SEND_BID:
        env_state[_column(phase - SEND_BID)] = env_state[COMMAND_ID]
    env_state[PHASE] += 1


@inlined
def write_account(state: Any, symbol: int, own: int, position: Any) -> None:
    """Writes the account of an agent, participant `own`, in a symbol."""
    account = state.balances[own, symbol]
    position.lots, position.cash = account.position_lots, account.cash_ticks
    position.fee_microticks = account.fee_ticks * MICRO + account.fee_microticks


@inner
def end_quoting(state: Any, env_state: Any, time_ns: int, own: int, position: Any) -> None:
    """Writes the account of an agent, participant `own`, and the state of its quotes."""
    env_state[PHASE] = IDLE
    env_state[NOW] = time_ns
    write_account(state, 0, own, position)
    for side in range(2):
        position.price_ticks[side] = position.open_lots[side] = position.ahead_lots[side] = 0
        slot = _slot(state, env_state, side, own)
        if slot < 0:
            continue
        position.price_ticks[side] = state.orders[slot].price_ticks
        position.open_lots[side] = state.orders[slot].open_lots
        ahead = int64(state.orders[slot].previous)
        while ahead >= 0:
            position.ahead_lots[side] += state.orders[ahead].open_lots
            ahead = int64(state.orders[ahead].previous)


@inner
def _advance_one(
    traders: Traders, state: State, row: Rows, env_state: Any, decision: Any, until_ns: int, limit_ns: int, latency_ns: int,
    events: Rows, frames: Rows, fills: Rows, position: Any, kept: Rows, kept_count: Any,
) -> int:  # fmt: skip
    frame, fill = frames[0], fills[0]
    begin_step(env_state, frame, fill)
    arrival_ns = min(env_state[NOW] + latency_ns, until_ns)
    if env_state[PHASE] == ARRIVING:
        status = run_traders(
            traders, state, min(arrival_ns, limit_ns), env_state, events, frames, fills, kept, kept_count
        )
        if status != FINISHED or limit_ns <= arrival_ns:
            return status
        align(state, decision)
        env_state[PHASE] = CANCEL_BID
    while next_quote_command(state, env_state, row, decision, arrival_ns, OUR_PARTICIPANT):
        status = submit(traders, state, row, 0, env_state, events, frames, fills, kept, kept_count)
        if status == MARKET_FULL or status == KEPT_FULL:
            env_state[COMMAND_ID] -= 1
            return status
        quote_command_executed(env_state)
        if status == PHASE_CHANGED:
            return status
    status = run_traders(traders, state, min(until_ns, limit_ns), env_state, events, frames, fills, kept, kept_count)
    if status == FINISHED and limit_ns > until_ns:
        frame.time_ns = until_ns
        write_book(state, 0, frame)
        end_quoting(state, env_state, until_ns, OUR_PARTICIPANT, position)
    return status


@compiled(nogil=True)
def advance(
    markets: Any, which: Any, first: int, last: int, step: int, row: Rows, env_states: Any, positions: Rows, decisions: Rows, until_ns: Any,
    limit_ns: int, latency_ns: int, events: Rows, frames: Rows, fills: Rows, kept: Rows, kept_count: Any,
) -> tuple[int, int]:  # fmt: skip
    """Like `simulated_step.advance`, with DECISION rows instead of child orders."""
    place = first
    while place < last:
        env = which[place]
        status = _advance_one(
            traders_at(markets[env, 0]), state_at(markets[env, 1]), row, env_states[env], decisions[place], until_ns[place], limit_ns,
            latency_ns, events, frames[env : env + 1], fills[env : env + 1], positions[env], kept, kept_count,
        )  # fmt: skip
        if status != FINISHED:
            return place, status
        place += step
    return last, FINISHED
