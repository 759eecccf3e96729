"""The dynamic market: our orders among those of simulated traders, who see them and react.

Every environment is an independent market; an episode's `day` is the seed of its traders. A day is simulated from its open to the
episode's start. States on the way are cached, so that later episodes of the same seed start from them. The compiled loops of the
environments run in parallel threads; each environment depends only on its seed and its own orders.

The rules of the population's market hold for our orders as for everybody's. A window must end while trading is continuous by the schedule.
"""

import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from serl.agents.execution.environment import windows
from serl.agents.execution.environment.market_state import (
    LIMITS,
    NEVER,
    NONE_KEPT,
    Buffers,
    Environments,
    MarketState,
)
from serl.agents.execution.environment.own_orders import NOW, RESTING
from serl.agents.execution.environment.records import CHILD
from serl.agents.execution.environment.simulated_step import advance
from serl.agents.traders.inprocess import FINISHED
from serl.agents.traders.phases import Phases
from serl.agents.traders.population import PopulationConfig, require_one_symbol
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

CACHE_INTERVAL_NS = 1_800_000_000_000
"""States are cached at multiples of this time."""
Span = tuple[int, int, int]
"""Places: first, last (exclusive), step."""
TRADED_FIELDS = "traded_lots", "traded_notional", "signed_lots", "trades"
"""Fields of FRAME with the trades of others in a step."""


class DynamicMarket:
    """N markets of the same population; our orders trade its symbol. See the module and `ExecutionMarket`.

    states_kept: size of the cache, in states (about 1 MB each with a thousand traders). threads: 0 means one per core.
    """

    order_dtype = CHILD
    """Of what `step` sends."""
    compiled_step = staticmethod(advance)
    """Steps some environments, by the orders that `step` sends; see simulated_step.py."""

    def __init__(
        self, population: PopulationConfig, count: int, *, latency_ns: int = 1_000_000, states_kept: int = 256, threads: int = 0
    ) -> None:  # fmt: skip
        if latency_ns < 0 or states_kept < 0 or threads < 0:
            raise ConfigError(
                f"dynamic market: expected numbers from 0 on, got latency_ns {latency_ns}, states_kept {states_kept}, threads {threads}"
            )
        require_one_symbol(population, "an environment")
        self._phases = Phases(population)
        self._phases.require_continuous()
        self.count, self.population, self.latency_ns = count, population, latency_ns
        self._envs = Environments.new(count)
        self._env_states, self.frames, self.fills = self._envs
        self._states_kept = states_kept
        self._cache: OrderedDict[tuple[int, int], MarketState] = OrderedDict()
        self._states: dict[int, MarketState] = {}
        self._markets = np.zeros((count, 2), np.int64)
        """Addresses of the handles of traders and book."""
        self._signs = np.ones(count, np.int64)
        self._own: Any = self._signs
        """What the compiled step needs of each environment besides its orders."""
        self._threads = min(count, threads or os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads)
        self._buffers = [Buffers.new() for _ in range(self._threads)]

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket. `day` is any seed from 0 on; quantities are not checked against the day's volume, which is not known in advance.

        ConfigError, too, unless what is left at the end of a window can be traded: in continuous trading, and in whole multiples of lots.
        """
        if np.any(episodes["day"] < 0):
            raise ConfigError(f"day: expected a seed from 0 on, got {episodes['day'].min()}")
        checked = np.zeros(len(episodes), episodes.dtype)
        checked[:] = episodes
        checked["day"] = 0
        population = self.population
        windows.check(checked, [(population.open_ns, population.close_ns)], [LIMITS.qty_lots_max])
        windows.check_multiples(episodes, population.market.lot_multiple)
        self._phases.check_ends(windows.ends_ns(episodes) + self.latency_ns)
        self._signs[which] = episodes["sign"]
        seeds, start_ns = episodes["day"].tolist(), episodes["start_ns"]
        cached_ns = np.maximum(start_ns - start_ns % CACHE_INTERVAL_NS, population.open_ns)
        for env, seed, time_ns in zip(which.tolist(), seeds, cached_ns.tolist(), strict=True):
            self._env_states[env] = 0
            self._env_states[env, NOW], self._states[env] = self._restore_nearest(seed, time_ns, self._states.get(env))
            self._point(env)
        no_children = np.zeros(len(which), self.order_dtype)
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
            market_state = MarketState.at_open(self.population, seed)
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
        tasks = [
            self._pool.submit(self._run_some, (first, len(which), threads), which, children, until_ns, buffers)
            for first, buffers in zip(range(1, threads), self._buffers[1:], strict=False)
        ]
        self._run_some((0, len(which), threads), which, children, until_ns, self._buffers[0])
        for task in tasks:
            task.result()

    def _run_some(self, span: Span, which: Any, children: Rows, until_ns: Any, buffers: Buffers) -> None:
        """Steps environments `which[first:last:step]`: in one call, or one after another where the market's rules act between."""
        first, last, step = span
        if self.population.has_rules:
            for place in range(*span):
                self._step_by_schedule(place, which, children, until_ns, buffers)
            return
        while first < last:
            first, status = self._advance((first, last, step), which, children, until_ns, NEVER, buffers, NONE_KEPT)
            if status != FINISHED:
                self._states[int(which[first])].make_room(status)
                self._point(int(which[first]))

    def _step_by_schedule(self, place: int, which: Any, children: Rows, until_ns: Any, buffers: Buffers) -> None:
        env, time_ns = int(which[place]), int(until_ns[place])

        def run(market: MarketState, limit_ns: int) -> int:
            self._point(env)  # what is scheduled may have grown
            return int(
                self._advance((place, place + 1, 1), which, children, until_ns, limit_ns, buffers, market.kept)[1]
            )

        sends_last = self._sends(env, children[place]) and self._env_states[env, NOW] + self.latency_ns >= time_ns
        self._states[env].step(buffers.events, self._envs, env, time_ns, run, bool(sends_last))

    def _advance(
        self, span: Span, which: Any, children: Rows, until_ns: Any, limit_ns: int, buffers: Buffers, kept: Any
    ) -> Any:
        """The compiled step of environments `which[first:last:step]` up to a time: (place, status) where it stopped."""
        return self.compiled_step(
            self._markets, which, *span, buffers.row, self._env_states, self._own, children, until_ns, limit_ns, self.latency_ns,
            buffers.events, self.frames, self.fills, *kept,
        )  # fmt: skip

    def _sends(self, env: int, child: Any) -> bool:
        """Whether we have commands in a step."""
        return bool(self._env_states[env, RESTING] != 0 or child["market_lots"] > 0 or child["limit_lots"] > 0)

    def _point(self, env: int) -> None:
        """Takes the addresses of an environment's arrays, which may have been replaced."""
        state = self._states[env]
        self._markets[env] = state.crowd.traders.handle.ctypes.data, state.market.state.handle.ctypes.data
