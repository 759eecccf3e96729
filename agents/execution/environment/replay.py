"""The replay market: our orders in the real order book, among the orders of history.

The N environments are N symbols of one market, so that one compiled call steps them all. Each day has checkpoints of its book every
CHECKPOINT_NS; an episode starts from the last checkpoint before its start.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment import windows
from serl.agents.execution.environment.own_orders import (
    ARRIVING,
    CANCELLING,
    CURSOR,
    EVENT_ROWS,
    FILLED,
    IDLE,
    MAKER,
    NOW,
    PHASE,
    STOP,
    WAITING,
    begin_step,
    command_executed,
    end_step,
    has_orders,
    next_command,
    record_fills,
)
from serl.agents.execution.environment.records import CHILD, FILL, FRAME
from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.errors import ConfigError
from serl.exchange.kernel.book import remove_order
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, GROW, execute
from serl.exchange.kernel.dump import restore_orders
from serl.exchange.kernel.levels import find_level
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, Rows
from serl.history.day import Day

CHECKPOINT_NS = 120_000_000_000
TRADED = ("traded_lots", "traded_notional", "signed_lots", "trades")


@inlined
def _submit(state: Any, row: Any, events: Any, own: int, frame: Any, fill: Any) -> int:
    """Executes the first COMMAND row. DONE or GROW."""
    status = EVENTS_FULL
    while status == EVENTS_FULL:
        count, status = execute(state, row, 0, events, 0)
        record_fills(events, count, own, frame, fill)
    return status


@inlined
def _replay(state: Any, history: Any, row: Any, env_state: Any, env: int, own: int, until_ns: int, events: Any, frame: Any, fill: Any) -> int:  # fmt: skip
    """Executes history's commands before `until_ns`. DONE, or GROW with the cursor at the command that did not fit."""
    while env_state[CURSOR] < env_state[STOP] and history[env_state[CURSOR]].time_ns < until_ns:
        row[0] = history[env_state[CURSOR]]
        row[0].symbol = env
        row[0].participant = env
        if _submit(state, row, events, own, frame, fill) == GROW:
            return GROW
        env_state[CURSOR] += 1
    return DONE


@inlined
def _clear(state: Any, env: int) -> None:
    """Removes every order of one symbol from the book."""
    for side in range(2):
        while state.best[env, side] != 0:
            slot = state.levels[find_level(state, env, side, state.best[env, side])].first
            remove_order(state, int64(slot))


@compiled
def _advance(
    state: Any, history: Any, row: Any, env_states: Any, signs: Any, which: Any, children: Any, until_ns: Any,
    latency_ns: int, events: Any, frames: Any, fills: Any, first: int,
) -> int:  # fmt: skip
    """Steps environments which[first], which[first + 1] ...; returns the index in `which` that needs a larger market, or its size when finished."""
    count = env_states.shape[0]
    for index in range(first, which.size):
        env = which[index]
        env_state, own, frame, fill, child = env_states[env], count + env, frames[env], fills[env], children[index]
        begin_step(env_state, fill, frame)
        arrival_ns = min(env_state[NOW] + latency_ns, until_ns[index])
        if env_state[PHASE] == ARRIVING:
            env_state[PHASE] = WAITING
            if has_orders(env_state, child):
                env_state[PHASE] = ARRIVING
                if _replay(state, history, row, env_state, env, own, arrival_ns, events, frame, fill) == GROW:
                    return index
                env_state[PHASE] = CANCELLING
        while next_command(env_state, row, env, own, ASK if signs[env] > 0 else BID, child, arrival_ns):
            if _submit(state, row, events, own, frame, fill) == GROW:
                return index
            command_executed(env_state, child, fill)
        if _replay(state, history, row, env_state, env, own, until_ns[index], events, frame, fill) == GROW:
            return index
        end_step(state, env, env_state, own, until_ns[index], frame, fill)
    return which.size


@compiled
def _begin(state: Any, rows: Any, env: int) -> int:
    """Replaces a symbol's book by ORDER rows (of this symbol and its history's participant); the number of rows that fitted."""
    _clear(state, env)
    state.last_command_id[env] = 0
    state.last_command_id[state.last_command_id.size // 2 + env] = 0
    state.halted[env] = 0
    return restore_orders(state, rows, 0)


class ReplayMarket:
    """N environments over historical days of one symbol each. See the module and `ExecutionMarket`."""

    def __init__(self, days: Sequence[Day], count: int, *, latency_ns: int = 1_000_000) -> None:
        if not days or any(len(day.reference.symbols) != 1 for day in days):
            raise ConfigError("replay: expected at least one day, each with one symbol")
        self.count = count
        self.latency_ns = latency_ns
        self.frames, self.fills = np.zeros(count, FRAME), np.zeros(count, FILL)
        self._market = Market(count, limits=MarketLimits(participants_max=2 * count))
        for env in range(count):
            self._market.grant_operator(env)
        self._spans = [(day.reference.first_time_ns, day.reference.last_time_ns) for day in days]
        self._history = np.concatenate([day.commands for day in days])
        ends = np.cumsum([len(day) for day in days])
        self._bounds = [(int(end) - len(day), int(end)) for day, end in zip(days, ends, strict=True)]
        self._checkpoints, self._most_lots = [], []
        for start, stop in self._bounds:
            *kept, volume = checkpoints(self._history[start:stop])
            self._checkpoints.append(kept)
            self._most_lots.append(min(volume, self._market.limits.qty_lots_max))
        self._env_states = np.zeros((count, 6), np.int64)
        self._signs = np.ones(count, np.int64)
        self._row, self._events = np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket."""
        windows.check(episodes, self._spans, self._most_lots)
        for env, episode in zip(which.tolist(), episodes, strict=True):
            self._env_states[env] = self._open(env, episode)
            self._signs[env] = int(episode["sign"])
        self._run(which, np.zeros(len(which), CHILD), episodes["start_ns"].copy())
        for name in TRADED:  # what traded since the checkpoint is not part of the episode
            self.frames[name][which] = 0

    def _open(self, env: int, episode: Any) -> tuple[int, ...]:
        """Restores the last checkpoint before an episode's start as the book of symbol env; its row of `env_states`."""
        day = int(episode["day"])
        times, cursors, books = self._checkpoints[day]
        index = int(np.searchsorted(times, int(episode["start_ns"]), side="right")) - 1
        rows = books[index].copy()
        rows["symbol"] = rows["participant"] = env
        while _begin(self._market.state, rows, env) < len(rows):
            self._market.grow()
        offset, stop = self._bounds[day]
        return int(times[index]), 0, 0, IDLE, offset + int(cursors[index]), stop

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(np.arange(self.count), children, until_ns)

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        self._run(which, children, self.frames["time_ns"][which] + self.latency_ns)

    def _run(self, which: Any, children: Rows, until_ns: Any) -> None:
        finished = 0
        while True:
            finished = _advance(
                self._market.state, self._history, self._row, self._env_states, self._signs, which, children, until_ns,
                self.latency_ns, self._events, self.frames, self.fills, finished,
            )  # fmt: skip
            if finished == len(which):
                return
            self._market.grow()


def checkpoints(commands: Rows) -> tuple[Any, Any, list[Rows], int]:
    """(times, cursors, ORDER rows, volume of the day): the book every CHECKPOINT_NS from the first command on. It contains the effect of all rows
    before its cursor."""
    market = Market(1, limits=MarketLimits(participants_max=2))
    market.grant_operator(0)
    times = np.arange(int(commands["time_ns"][0]), int(commands["time_ns"][-1]) + 1, CHECKPOINT_NS)
    cursors = np.searchsorted(commands["time_ns"], times, side="left")
    books, volume, before = [], 0, 0
    for cursor in [*cursors.tolist(), len(commands)]:
        events = market.submit(commands[before:cursor])
        volume += int(events["qty_lots"][(events["kind"] == FILLED) & (events["flags"] & MAKER > 0)].sum())
        before = cursor
        books.append(market.orders().copy())
    return times, cursors, books[:-1], volume
