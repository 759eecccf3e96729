"""The dynamic market: our orders among those of simulated traders, who see them and answer.

Every environment is a market of its own; an episode's `day` is the seed of its traders. A day is simulated from its open to the
episode's start; states on the way are kept, so that the next episode of the same seed begins from there. The compiled loops of
different environments run side by side in threads; what happens in one depends on its seed and its orders alone.
"""

import copy
import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from serl.agents.execution.environment import windows
from serl.agents.execution.environment.own import (
    ARRIVING,
    CANCELLING,
    EVENT_ROWS,
    NOW,
    PHASE,
    begin_step,
    end_step,
    next_command,
    note,
    sent,
)
from serl.agents.execution.environment.records import CHILD, FILL, FRAME
from serl.agents.traders.build import Crowd, copied_all
from serl.agents.traders.engine import has_room, hear, land, next_arrival, next_wake, observe, wake
from serl.agents.traders.inprocess import FINISHED, MARKET_FULL, TRADERS_FULL
from serl.agents.traders.population import PopulationConfig
from serl.exchange.compiling import compiled, inlined
from serl.exchange.errors import ConfigError
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.pointed import OWN_WORDS, bound
from serl.exchange.records import COMMAND, EVENT, Rows

OWN = 1
"""Our participant number; all traders together are 0."""
LIMITS = MarketLimits(participants_max=2)
KEEP_NS = 1_800_000_000_000
"""States are kept at multiples of this."""
TRADED_FIELDS = "traded_lots", "traded_notional", "signed_lots", "trades"
"""Of FRAME: what others traded in a step."""


@inlined
def _submit(traders: Any, state: Any, rows: Any, place: int, events: Any, frame: Any, fill: Any) -> int:
    """Executes a command, theirs or ours, and lets the traders see what came of it: DONE or GROW."""
    rows[place].sequence = state.counters.command_sequence + 1
    status = EVENTS_FULL
    while status == EVENTS_FULL:
        done, status = execute(state, rows, place, events, 0)
        for index in range(done):
            observe(traders, events[index])
            hear(traders, events[index])
        note(events, done, OWN, frame, fill)
    return status


@inlined
def _run(traders: Any, state: Any, until_ns: int, events: Any, frame: Any, fill: Any) -> int:
    """What the traders do before `until_ns`; why it came back."""
    while True:
        arrival_ns, wake_ns = next_arrival(traders), next_wake(traders)
        if min(arrival_ns, wake_ns) >= until_ns:
            return FINISHED
        if wake_ns < arrival_ns:
            if not has_room(traders):
                return TRADERS_FULL
            wake(traders, state)
            continue
        if _submit(traders, state, traders.flight, traders.flight_item[1], events, frame, fill) != DONE:
            return MARKET_FULL
        land(traders)


@compiled(nogil=True)
def _advance(
    traders: Any, state: Any, row: Any, places: Any, env: int, sign: int, children: Any, index: int, until_ns: int,
    latency_ns: int, events: Any, frames: Any, fills: Any,
) -> int:  # fmt: skip
    """Steps one environment: FINISHED, or what must be made larger before it is called again."""
    place, frame, fill, child = places[env], frames[env], fills[env], children[index]
    begin_step(place, fill, frame)
    arrival_ns = min(place[NOW] + latency_ns, until_ns)
    if place[PHASE] == ARRIVING:
        status = _run(traders, state, arrival_ns, events, frame, fill)
        if status != FINISHED:
            return status
        place[PHASE] = CANCELLING
    while next_command(place, row, 0, OWN, ASK if sign > 0 else BID, child, arrival_ns):
        if _submit(traders, state, row, 0, events, frame, fill) != DONE:
            return MARKET_FULL
        sent(place, child, fill)
    status = _run(traders, state, until_ns, events, frame, fill)
    if status == FINISHED:
        end_step(state, 0, place, OWN, until_ns, frame, fill)
    return status


class Scene(NamedTuple):
    """Traders and their market at some time."""

    crowd: Crowd
    market: Market

    def copy(self, spare: "Scene | None" = None) -> "Scene":
        """A second one that goes its own way, in the memory of `spare`."""
        market = copy.copy(self.market)
        state = copied_all(market.state, spare and spare.market.state)
        market.state = bound(state, state.handle[:OWN_WORDS])
        return Scene(self.crowd.copy(spare and spare.crowd), market)


class DynamicMarket:
    """N environments of one population each; orders are in its first symbol. See the module and `ExecutionMarket`.

    states_kept: how many states (about 1 MB each with a thousand traders) are remembered; threads: 0 = one a core.
    """

    def __init__(
        self, population: PopulationConfig, count: int, *, latency_ns: int = 1_000_000, states_kept: int = 256, threads: int = 0
    ) -> None:  # fmt: skip
        if latency_ns < 0 or states_kept < 0 or threads < 0:
            raise ConfigError(
                f"dynamic market: numbers from 0 on are due, got latency_ns {latency_ns}, states_kept {states_kept}, threads {threads}"
            )
        self.count, self.population, self.latency_ns = count, population, latency_ns
        self.frames, self.fills = np.zeros(count, FRAME), np.zeros(count, FILL)
        self._states_kept = states_kept
        self._kept: OrderedDict[tuple[int, int], Scene] = OrderedDict()
        self._scenes: dict[int, Scene] = {}
        self._places, self._signs = np.zeros((count, 6), np.int64), np.ones(count, np.int64)
        self._threads = min(count, threads or os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads)
        self._buffers = [(np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT)) for _ in range(self._threads)]

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket; `day` is any seed from 0 on, and no day's volume is known before it is over."""
        if np.any(episodes["day"] < 0):
            raise ConfigError(f"day: a seed from 0 on is due, got {episodes['day'].min()}")
        same = np.zeros(len(episodes), episodes.dtype)
        same[:] = episodes
        same["day"] = 0
        population = self.population
        windows.check(same, [(population.open_ns, population.close_ns)], [LIMITS.qty_lots_max])
        self._signs[which] = episodes["sign"]
        seeds, start_ns = episodes["day"].tolist(), episodes["start_ns"]
        kept_ns = np.maximum(start_ns - start_ns % KEEP_NS, population.open_ns)
        for env, seed, time_ns in zip(which.tolist(), seeds, kept_ns.tolist(), strict=True):
            self._places[env] = 0
            self._places[env, NOW], self._scenes[env] = self._nearest(seed, time_ns, self._scenes.get(env))
        nothing = np.zeros(len(which), CHILD)
        self._run(which, nothing, kept_ns)
        for env, seed, time_ns in zip(which.tolist(), seeds, kept_ns.tolist(), strict=True):
            self._keep(seed, time_ns, self._scenes[env])
        self._run(which, nothing, start_ns)
        for name in TRADED_FIELDS:  # the way to the start is no part of the episode
            self.frames[name][which] = 0

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(np.arange(self.count), children, until_ns)

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        self._run(which, children, self.frames["time_ns"][which] + self.latency_ns)

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()

    def _nearest(self, seed: int, start_ns: int, spare: Scene | None) -> tuple[int, Scene]:
        """A copy of the last state kept of a seed before a time, and its time."""
        times = [time_ns for kept, time_ns in self._kept if kept == seed and time_ns <= start_ns]
        if not times:
            scene = Scene(Crowd(self.population, seed), Market(self.population.symbols, limits=LIMITS))
            self._keep(seed, self.population.open_ns, scene)
            return self.population.open_ns, scene
        key = seed, max(times)
        self._kept.move_to_end(key)
        return key[1], self._kept[key].copy(spare)

    def _keep(self, seed: int, time_ns: int, scene: Scene) -> None:
        if (seed, time_ns) not in self._kept and self._states_kept:
            self._kept[seed, time_ns] = scene.copy()
            if len(self._kept) > self._states_kept:
                self._kept.popitem(last=False)

    def _run(self, which: Any, children: Rows, until_ns: Any) -> None:
        """Steps environments `which`, an equal share of them in each thread."""
        threads = min(self._threads, len(which))
        shares = [range(first, len(which), threads) for first in range(threads)]
        tasks = [
            self._pool.submit(self._run_some, share, which, children, until_ns, buffers)
            for share, buffers in zip(shares[1:], self._buffers[1:], strict=False)
        ]
        self._run_some(shares[0], which, children, until_ns, self._buffers[0])
        for task in tasks:
            task.result()

    def _run_some(self, share: range, which: Any, children: Rows, until_ns: Any, buffers: tuple[Rows, Rows]) -> None:
        row, events = buffers
        for index in share:
            env = int(which[index])
            crowd, market = self._scenes[env]
            status = -1
            while status != FINISHED:
                status = _advance(
                    crowd.traders, market.state, row, self._places, env, int(self._signs[env]), children, index,
                    int(until_ns[index]), self.latency_ns, events, self.frames, self.fills,
                )  # fmt: skip
                if status == TRADERS_FULL:
                    crowd.grow()
                elif status == MARKET_FULL:
                    market.grow()
