"""The dynamic market: our orders among those of simulated traders, who see them and react.

Every environment is an independent market; an episode's `day` is the seed of its traders. A day is simulated from its open to the
episode's start. States on the way are cached, so that later episodes of the same seed start from them. The compiled loops of the
environments run in parallel threads; each environment depends only on its seed and its own orders.
"""

import copy
import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from serl.agents.execution.environment import windows
from serl.agents.execution.environment.own_orders import (
    ARRIVING,
    CANCELLING,
    EVENT_ROWS,
    IDLE,
    NOW,
    PHASE,
    clear_traded,
    command_executed,
    end_step,
    next_command,
    record_fills,
)
from serl.agents.execution.environment.records import CHILD, FILL, FRAME
from serl.agents.traders.build import Crowd, copy_arrays
from serl.agents.traders.engine import (
    apply_report,
    has_capacity,
    next_arrival_ns,
    next_wake_ns,
    observe_public,
    remove_arrived,
    wake_next,
)
from serl.agents.traders.inprocess import FINISHED, MARKET_FULL, TRADERS_FULL
from serl.agents.traders.population import PopulationConfig, require_no_rules, require_one_symbol
from serl.exchange.compiling import compiled, inlined
from serl.exchange.errors import ConfigError
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute
from serl.exchange.kernel.state import ASK, BID
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, Rows

OUR_PARTICIPANT = 1
"""All simulated traders together are participant 0."""
LIMITS = MarketLimits(participants_max=2)
CACHE_INTERVAL_NS = 1_800_000_000_000
"""States are cached at multiples of this time."""
TRADED_FIELDS = "traded_lots", "traded_notional", "signed_lots", "trades"
"""Fields of FRAME with the trades of others in a step."""


@inlined
def _submit(traders: Any, state: Any, rows: Any, row_index: int, events: Any, frame: Any, fills: Any) -> int:
    """Executes a command, the traders' or ours, and shows the traders its events. DONE or GROW."""
    rows[row_index].sequence = state.counters.command_sequence + 1
    status = EVENTS_FULL
    while status == EVENTS_FULL:
        event_count, status = execute(state, rows, row_index, events, 0)
        for index in range(event_count):
            observe_public(traders, events[index])
            apply_report(traders, events[index])
        record_fills(events, event_count, OUR_PARTICIPANT, frame, fills)
    return status


@inlined
def _run(traders: Any, state: Any, until_ns: int, events: Any, frame: Any, fills: Any) -> int:
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
        if _submit(traders, state, traders.in_flight, traders.in_flight_item[1], events, frame, fills) != DONE:
            return MARKET_FULL
        remove_arrived(traders)


@compiled(nogil=True)
def _advance(
    traders: Any, state: Any, row: Any, env_states: Any, env: int, sign: int, children: Any, index: int, until_ns: int,
    latency_ns: int, events: Any, frames: Any, fills: Any,
) -> int:  # fmt: skip
    """Steps one environment: FINISHED, or what must grow before the call is repeated."""
    env_state, frame, child = env_states[env], frames[env], children[index]
    own_fills, fill = fills[env : env + 1], fills[env]
    if env_state[PHASE] == IDLE:
        clear_traded(frame)
        fill.lots = fill.notional = 0
        env_state[PHASE] = ARRIVING
    arrival_ns = min(env_state[NOW] + latency_ns, until_ns)
    if env_state[PHASE] == ARRIVING:
        status = _run(traders, state, arrival_ns, events, frame, own_fills)
        if status != FINISHED:
            return status
        env_state[PHASE] = CANCELLING
    while next_command(env_state, row, 0, OUR_PARTICIPANT, ASK if sign > 0 else BID, child, arrival_ns):
        if _submit(traders, state, row, 0, events, frame, own_fills) != DONE:
            return MARKET_FULL
        command_executed(env_state, child, fill)
    status = _run(traders, state, until_ns, events, frame, own_fills)
    if status == FINISHED:
        end_step(state, 0, env_state, OUR_PARTICIPANT, until_ns, frame, fill)
    return status


class MarketState(NamedTuple):
    """Traders and their market at one time."""

    crowd: Crowd
    market: Market

    def copy(self, spare: "MarketState | None" = None) -> "MarketState":
        """An independent copy, in the memory of `spare` if given."""
        market = copy.copy(self.market)
        market.state = copy_arrays(market.state, spare and spare.market.state)
        return MarketState(self.crowd.copy(spare and spare.crowd), market)


class DynamicMarket:
    """N markets of the same population; our orders trade its symbol. See the module and `ExecutionMarket`.

    states_kept: size of the cache, in states (about 1 MB each with a thousand traders). threads: 0 means one per core.
    """

    def __init__(
        self, population: PopulationConfig, count: int, *, latency_ns: int = 1_000_000, states_kept: int = 256, threads: int = 0
    ) -> None:  # fmt: skip
        if latency_ns < 0 or states_kept < 0 or threads < 0:
            raise ConfigError(
                f"dynamic market: expected numbers from 0 on, got latency_ns {latency_ns}, states_kept {states_kept}, threads {threads}"
            )
        require_no_rules(population, "an environment")
        require_one_symbol(population, "an environment")
        self.count, self.population, self.latency_ns = count, population, latency_ns
        self.frames, self.fills = np.zeros(count, FRAME), np.zeros(count, FILL)
        self._states_kept = states_kept
        self._cache: OrderedDict[tuple[int, int], MarketState] = OrderedDict()
        self._states: dict[int, MarketState] = {}
        self._env_states, self._signs = np.zeros((count, 6), np.int64), np.ones(count, np.int64)
        self._threads = min(count, threads or os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads)
        self._buffers = [(np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT)) for _ in range(self._threads)]

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket. `day` is any seed from 0 on; quantities are not checked against the day's volume, which is not known in advance."""
        if np.any(episodes["day"] < 0):
            raise ConfigError(f"day: expected a seed from 0 on, got {episodes['day'].min()}")
        checked = np.zeros(len(episodes), episodes.dtype)
        checked[:] = episodes
        checked["day"] = 0
        population = self.population
        windows.check(checked, [(population.open_ns, population.close_ns)], [LIMITS.qty_lots_max])
        self._signs[which] = episodes["sign"]
        seeds, start_ns = episodes["day"].tolist(), episodes["start_ns"]
        cached_ns = np.maximum(start_ns - start_ns % CACHE_INTERVAL_NS, population.open_ns)
        for env, seed, time_ns in zip(which.tolist(), seeds, cached_ns.tolist(), strict=True):
            self._env_states[env] = 0
            self._env_states[env, NOW], self._states[env] = self._restore_nearest(seed, time_ns, self._states.get(env))
        no_children = np.zeros(len(which), CHILD)
        self._run(which, no_children, cached_ns)
        for env, seed, time_ns in zip(which.tolist(), seeds, cached_ns.tolist(), strict=True):
            self._cache_state(seed, time_ns, self._states[env])
        self._run(which, no_children, start_ns)
        for name in TRADED_FIELDS:  # what traded before the start is not part of the episode
            self.frames[name][which] = 0

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(np.arange(self.count), children, until_ns)

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        self._run(which, children, self.frames["time_ns"][which] + self.latency_ns)

    def close(self) -> None:
        """Stops the threads."""
        self._pool.shutdown()

    def _restore_nearest(self, seed: int, start_ns: int, spare: MarketState | None) -> tuple[int, MarketState]:
        """The time and a copy of a seed's last cached state up to a time; a new market if there is none."""
        times = [time_ns for cached_seed, time_ns in self._cache if cached_seed == seed and time_ns <= start_ns]
        if not times:
            market_state = MarketState(
                Crowd(self.population, seed), Market(self.population.symbol_names, limits=LIMITS)
            )
            self._cache_state(seed, self.population.open_ns, market_state)
            return self.population.open_ns, market_state
        key = seed, max(times)
        self._cache.move_to_end(key)
        return key[1], self._cache[key].copy(spare)

    def _cache_state(self, seed: int, time_ns: int, market_state: MarketState) -> None:
        if (seed, time_ns) not in self._cache and self._states_kept:
            self._cache[seed, time_ns] = market_state.copy()
            if len(self._cache) > self._states_kept:
                self._cache.popitem(last=False)

    def _run(self, which: Any, children: Rows, until_ns: Any) -> None:
        """Steps environments `which`, distributed evenly over the threads."""
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
            crowd, market = self._states[env]
            status = -1
            while status != FINISHED:
                status = _advance(
                    crowd.traders, market.state, row, self._env_states, env, int(self._signs[env]), children, index,
                    int(until_ns[index]), self.latency_ns, events, self.frames, self.fills,
                )  # fmt: skip
                if status == TRADERS_FULL:
                    crowd.grow()
                elif status == MARKET_FULL:
                    market.grow()
