"""The replay market with several agents in each book, which compete with each other and with history."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment import windows
from serl.agents.execution.environment.own_orders import (
    ARRIVING,
    CANCELLING,
    COMMAND_ID,
    CURSOR,
    FILLED,
    IDLE,
    MAKER,
    NOW,
    PHASE,
    STOP,
    WAITING,
    command_executed,
    end_step,
    next_command,
)
from serl.agents.execution.environment.records import CHILD
from serl.agents.execution.environment.replay import TRADED, ReplayMarket
from serl.exchange.compiling import compiled, inlined
from serl.exchange.errors import ConfigError
from serl.exchange.kernel.commands import EVENTS_FULL, GROW, execute
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.records import Rows
from serl.history.day import Day

# Rows of `markets` have the columns of `env_states`, except that while PHASE is SENDING_ORDERS, AGENT is the agent whose turn it is.
AGENT, SENDING_ORDERS = COMMAND_ID, CANCELLING


@inlined
def _record_fills(events: Any, count: int, first_own: int, frame: Any, fills: Any) -> None:
    """Adds the fills among the first `count` events: those of each agent to `fills`, trades without any agent to `frame`."""
    for index in range(count):
        event = events[index]
        if event.kind != FILLED:
            continue
        if event.participant >= first_own:
            fill = fills[event.participant - first_own]
            fill.lots += event.qty_lots
            fill.notional += event.qty_lots * event.price_ticks
        if event.flags & MAKER and event.participant < first_own and events[index + 1].participant < first_own:
            frame.traded_lots += event.qty_lots
            frame.traded_notional += event.qty_lots * event.price_ticks
            frame.signed_lots += event.qty_lots if event.side == ASK else -event.qty_lots
            frame.trades += 1


@inlined
def _next_command(
    history: Any, row: Any, market: Any, agents: Any, signs: Any, children: Any, env: int, first_own: int, arrival_ns: int,
    until_ns: int,
) -> bool:  # fmt: skip
    """Writes the next command of one market to the first COMMAND row. False if the step is finished."""
    while True:
        if market[PHASE] != SENDING_ORDERS:
            limit_ns = arrival_ns if market[PHASE] == ARRIVING else until_ns
            if market[CURSOR] < market[STOP] and history[market[CURSOR]].time_ns < limit_ns:
                row[0] = history[market[CURSOR]]
                row[0].symbol = env
                row[0].participant = env
                return True
            if market[PHASE] == WAITING:
                return False
            market[PHASE], market[AGENT] = SENDING_ORDERS, 0
        while market[AGENT] < agents.shape[0]:
            number = market[AGENT]
            side = ASK if signs[number] > 0 else BID
            if next_command(agents[number], row, env, first_own + number, side, children[number], arrival_ns):
                return True
            market[AGENT] += 1
        market[PHASE] = WAITING


@inlined
def _command_executed(market: Any, agents: Any, children: Any, fills: Any) -> None:
    """Moves on after the command of `_next_command` was executed."""
    if market[PHASE] != SENDING_ORDERS:
        market[CURSOR] += 1
        return
    number = market[AGENT]
    command_executed(agents[number], children[number], fills[number])


@compiled
def _advance(
    state: Any, history: Any, row: Any, markets: Any, env_states: Any, signs: Any, which: Any, children: Any, until_ns: Any,
    latency_ns: int, events: Any, frames: Any, fills: Any, first: int,
) -> int:  # fmt: skip
    """Steps markets which[first], which[first + 1] ...; returns the index in `which` that needs a larger market, or its size when finished."""
    count = env_states.shape[0]
    each = count // markets.shape[0]
    for index in range(first, which.size):
        env = which[index]
        market, start, stop = markets[env], env * each, (env + 1) * each
        agents, frame = env_states[start:stop], frames[start]
        if market[PHASE] == IDLE:
            frame.traded_lots = frame.traded_notional = frame.signed_lots = frame.trades = 0
            for agent in range(start, stop):
                fills[agent].lots = fills[agent].notional = 0
                env_states[agent, PHASE] = CANCELLING
            market[PHASE] = ARRIVING
        arrival_ns = min(market[NOW] + latency_ns, until_ns[index])
        agent_children = children[index * each : (index + 1) * each]
        while _next_command(
            history,
            row,
            market,
            agents,
            signs[start:stop],
            agent_children,
            env,
            count + start,
            arrival_ns,
            until_ns[index],
        ):
            status = EVENTS_FULL
            while status == EVENTS_FULL:
                event_count, status = execute(state, row, 0, events, 0)
                _record_fills(events, event_count, count, frame, fills)
            if status == GROW:
                return index
            _command_executed(market, agents, agent_children, fills[start:stop])
        market[PHASE] = IDLE
        market[NOW] = until_ns[index]
        for agent in range(start, stop):
            frames[agent] = frames[start]
            end_step(state, env, env_states[agent], count + agent, until_ns[index], frames[agent], fills[agent])
    return which.size


class SharedReplayMarket(ReplayMarket):
    """`markets` books with `agents` parent orders in each: row m * agents + a is agent a of market m. See `ExecutionMarket`.

    The orders of one decision arrive in the order of the agents. The trades of others (FRAME) exclude every agent of the market.
    """

    def __init__(self, days: Sequence[Day], agents: int, markets: int = 1, *, latency_ns: int = 1_000_000) -> None:
        if agents < 1 or markets < 1:
            raise ConfigError(f"shared replay: expected at least one agent and one market, got {agents} and {markets}")
        super().__init__(days, agents * markets, latency_ns=latency_ns)
        self.agents = agents
        self._markets = np.zeros((markets, self._env_states.shape[1]), np.int64)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket. ConfigError unless all agents of each market start, with the same day and window."""
        markets = self._markets_of(which)
        windows.check(episodes, self._spans, self._most_lots)
        shared = episodes[["day", "start_ns", "interval_ns", "steps"]].reshape(-1, self.agents)
        if np.any(shared != shared[:, :1]):
            raise ConfigError(
                "shared replay: expected the same day and window for all parent orders of a market, got different ones"
            )
        for market, episode in zip(markets.tolist(), episodes[:: self.agents], strict=True):
            self._markets[market] = self._open(market, episode)
        self._market.state.last_command_id[self.count + which] = 0
        self._env_states[which] = 0
        self._signs[which] = episodes["sign"]
        self._run_markets(markets, np.zeros(len(which), CHILD), episodes["start_ns"][:: self.agents].copy())
        for name in TRADED:
            self.frames[name][which] = 0

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run_markets(np.arange(len(self._markets)), children, until_ns[:: self.agents].copy())

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket; `which` has all agents of each market."""
        markets = self._markets_of(which)
        self._run_markets(markets, children, self.frames["time_ns"][which[:: self.agents]] + self.latency_ns)

    def _markets_of(self, which: Any) -> Any:
        """The markets of these rows. ConfigError unless they are all the rows of some markets, in order."""
        markets = which[:: self.agents] // self.agents
        if not np.array_equal(which, (markets[:, None] * self.agents + np.arange(self.agents)).ravel()):
            raise ConfigError(f"shared replay: expected all {self.agents} agents of each market, got rows {which}")
        return markets

    def _run_markets(self, which: Any, children: Rows, until_ns: Any) -> None:
        finished = 0
        while True:
            finished = _advance(
                self._market.state, self._history, self._row, self._markets, self._env_states, self._signs, which, children,
                until_ns, self.latency_ns, self._events, self.frames, self.fills, finished,
            )  # fmt: skip
            if finished == len(which):
                return
            self._market.grow()
