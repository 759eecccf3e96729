"""The replay market: our orders in the real book, among the orders of history.

The N environments are N symbols of one market, so that one compiled call steps them all. Of each day the book is kept at
times a few minutes apart; an episode begins at the last one before its start.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment import windows
from serl.agents.execution.environment.own import (
    ARRIVING,
    BEGINNING,
    CANCELLING,
    CURSOR,
    EVENT_ROWS,
    FILLED,
    GOING_ON,
    MAKER,
    NOW,
    PHASE,
    STOP,
    begin_step,
    end_step,
    has_orders,
    next_command,
    note,
    sent,
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
    """Executes the first COMMAND row: DONE or GROW."""
    status = EVENTS_FULL
    while status == EVENTS_FULL:
        count, status = execute(state, row, 0, events, 0)
        note(events, count, own, frame, fill)
    return status


@inlined
def _replay(state: Any, history: Any, row: Any, place: Any, env: int, own: int, until_ns: int, events: Any, frame: Any, fill: Any) -> int:  # fmt: skip
    """History's commands before `until_ns`: DONE, or GROW with the cursor at the command that had no room."""
    while place[CURSOR] < place[STOP] and history[place[CURSOR]].time_ns < until_ns:
        row[0] = history[place[CURSOR]]
        row[0].symbol = env
        row[0].participant = env
        if _submit(state, row, events, own, frame, fill) == GROW:
            return GROW
        place[CURSOR] += 1
    return DONE


@inlined
def _clear(state: Any, env: int) -> None:
    """Takes every order of one symbol out of the book."""
    for side in range(2):
        while state.best[env, side] != 0:
            slot = state.levels[find_level(state, env, side, state.best[env, side])].first
            remove_order(state, int64(slot))


@compiled
def _advance(
    state: Any, history: Any, row: Any, places: Any, signs: Any, which: Any, children: Any, until_ns: Any,
    latency_ns: int, events: Any, frames: Any, fills: Any, first: int,
) -> int:  # fmt: skip
    """Steps environments which[first], which[first + 1] ...; the place in `which` that needs a larger market, else its size."""
    count = places.shape[0]
    for index in range(first, which.size):
        env = which[index]
        place, own, frame, fill, child = places[env], count + env, frames[env], fills[env], children[index]
        begin_step(place, fill, frame)
        arrival_ns = min(place[NOW] + latency_ns, until_ns[index])
        if place[PHASE] == ARRIVING:
            place[PHASE] = GOING_ON
            if has_orders(place, child):
                place[PHASE] = ARRIVING
                if _replay(state, history, row, place, env, own, arrival_ns, events, frame, fill) == GROW:
                    return index
                place[PHASE] = CANCELLING
        while next_command(place, row, env, own, ASK if signs[env] > 0 else BID, child, arrival_ns):
            if _submit(state, row, events, own, frame, fill) == GROW:
                return index
            sent(place, child, fill)
        if _replay(state, history, row, place, env, own, until_ns[index], events, frame, fill) == GROW:
            return index
        end_step(state, env, place, own, until_ns[index], frame, fill)
    return which.size


@compiled
def _begin(state: Any, rows: Any, env: int) -> int:
    """Empties a symbol's book and puts ORDER rows (of this symbol and its history's participant) into it; rows placed."""
    _clear(state, env)
    state.last_command_id[env] = 0
    state.last_command_id[state.last_command_id.size // 2 + env] = 0
    state.halted[env] = 0
    return restore_orders(state, rows, 0)


class ReplayMarket:
    """N environments over days of history (each of one symbol). See `ExecutionMarket`."""

    def __init__(self, days: Sequence[Day], count: int, *, latency_ns: int = 1_000_000) -> None:
        if not days or any(len(day.reference.symbols) != 1 for day in days):
            raise ConfigError("replay: at least one day is due, each of one symbol")
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
        self._places = np.zeros((count, 6), np.int64)
        self._signs = np.ones(count, np.int64)
        self._row, self._events = np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket."""
        windows.check(episodes, self._spans, self._most_lots)
        for env, episode in zip(which.tolist(), episodes, strict=True):
            self._places[env] = self._open(env, episode)
            self._signs[env] = int(episode["sign"])
        self._run(which, np.zeros(len(which), CHILD), episodes["start_ns"].copy())
        for name in TRADED:  # since the last checkpoint, which is nobody's business
            self.frames[name][which] = 0

    def _open(self, env: int, episode: Any) -> tuple[int, ...]:
        """Puts the last book before an episode's start into symbol env; the row of `places` that goes with it."""
        day = int(episode["day"])
        times, cursors, books = self._checkpoints[day]
        at = int(np.searchsorted(times, int(episode["start_ns"]), side="right")) - 1
        rows = books[at].copy()
        rows["symbol"] = rows["participant"] = env
        while _begin(self._market.state, rows, env) < len(rows):
            self._market.grow()
        offset, stop = self._bounds[day]
        return int(times[at]), 0, 0, BEGINNING, offset + int(cursors[at]), stop

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(np.arange(self.count), children, until_ns)

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        self._run(which, children, self.frames["time_ns"][which] + self.latency_ns)

    def _run(self, which: Any, children: Rows, until_ns: Any) -> None:
        done = 0
        while True:
            done = _advance(
                self._market.state, self._history, self._row, self._places, self._signs, which, children, until_ns,
                self.latency_ns, self._events, self.frames, self.fills, done,
            )  # fmt: skip
            if done == len(which):
                return
            self._market.grow()


def checkpoints(commands: Rows) -> tuple[Any, Any, list[Rows], int]:
    """(times, cursors, ORDER rows, volume of the day): the book every CHECKPOINT_NS, from the first command on; rows before a
    cursor are in it."""
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
