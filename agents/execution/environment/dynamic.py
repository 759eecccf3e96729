"""The dynamic market: our orders among those of simulated traders, which see them and react.

Every environment is an independent market; an episode's `day` is the seed of its traders. A day is simulated from the open to the episode's
start. States on the way are cached, so that later episodes of the same seed start from them (state_cache.py). The compiled loops of the
environments run in parallel threads; each environment depends only on its seed and its own orders.

The rules of the population's market apply to our orders as to all others. A window must end in a phase that the schedule has as continuous
trading.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

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
from serl.agents.execution.environment.state_cache import COMMANDS_MIN, KeptState, StateCache
from serl.agents.traders.forecast_features import FEATURES, copy_features
from serl.agents.traders.inprocess import FINISHED
from serl.agents.traders.phases import Phases
from serl.agents.traders.population import PopulationConfig, require_one_symbol
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

Span = tuple[int, int, int]
"""Positions in `which`: first, last (exclusive), step."""
TRADED_FIELDS = "traded_lots", "traded_notional", "signed_lots", "trades"
"""Fields of FRAME that describe the trades of others in a step."""


class Start(NamedTuple):
    """The start of an episode; starts sort by seed and time."""

    seed: int
    start_ns: int
    env: int


class Chain(NamedTuple):
    """Starts of one seed, simulated one after the other from the same cached state."""

    first_ns: int
    kept: KeptState | None
    """The cached state; None: start from the open."""
    starts: list[Start]


class DynamicMarket:
    """N markets of the same population, in whose symbol we trade. See the module and `ExecutionMarket`.

    cache_mb: size of the state cache, in MB. threads: 0 means one per core.
    """

    order_dtype = CHILD
    """Type of the orders that `step` sends."""
    compiled_step = staticmethod(advance)
    """The compiled function that steps some environments with the orders of `step`; see simulated_step.py."""

    def __init__(
        self, population: PopulationConfig, count: int, *, latency_ns: int = 1_000_000, cache_mb: int = 256, threads: int = 0
    ) -> None:  # fmt: skip
        if count < 1:
            raise ConfigError(f"environments: expected at least one, got {count}")
        if latency_ns < 0 or cache_mb < 0 or threads < 0:
            raise ConfigError(
                f"dynamic market: expected numbers from 0 on, got latency_ns {latency_ns}, cache_mb {cache_mb}, threads {threads}"
            )
        self.check_symbols(population)
        self._phases = Phases(population)
        self._phases.require_continuous()
        self.count, self.population, self.latency_ns = count, population, latency_ns
        self._symbols = len(population.symbols)
        self._envs = Environments.new(count, self._symbols)
        self._env_states, self.frames, self.fills = self._envs
        self.cache = StateCache(population.open_ns, cache_mb)
        self._states: dict[int, MarketState] = {}
        self._markets = np.zeros((count, 2), np.int64)
        """(N, 2) addresses of the handles of traders and book."""
        self._signs = np.ones(count, np.int64)
        self._own: Any = self._signs
        """What the compiled step needs for each environment besides its orders."""
        self._threads = min(count, threads or os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads)
        self._buffers = [Buffers.new() for _ in range(self._threads)]

    def check_symbols(self, population: PopulationConfig) -> None:
        """Raises PopulationError unless agents can trade all symbols of a population."""
        require_one_symbol(population, "an environment")

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket. `day` is any seed from 0 on. Quantities are not checked against the day's volume, which is not known in advance.

        Also raises ConfigError unless the remainder at the end of a window can be traded: in continuous trading, and in whole multiples of lots.
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
        self._env_states[which] = 0
        self._simulate(map(Start, episodes["day"].tolist(), episodes["start_ns"].tolist(), which.tolist()))
        self._run(which, np.zeros(len(which), self.order_dtype), episodes["start_ns"])
        for name in TRADED_FIELDS:  # what traded before the start is not part of the episode
            self._envs.frames[name].reshape(self.count, self._symbols)[which] = 0

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(np.arange(self.count), children, until_ns)

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        self._run(which, children, self._env_states[which, NOW] + self.latency_ns)

    def forecast_features(self, which: Any) -> Any:
        """(n, features) of the forecaster, the last trader, of environments `which` at its last observation; NaN where it has no features."""
        found = np.empty((len(which), FEATURES))
        memories = [self._states[env].crowd.traders.agents["memory_address"][-1] for env in which.tolist()]
        copy_features(np.array(memories), found)
        return found

    def close(self) -> None:
        """Stops the threads."""
        self._pool.shutdown()

    def _simulate(self, starts: Iterator[Start]) -> None:
        """Gives each environment the market of its seed at its start. Starts between the same cached states share a simulation."""
        chains: list[Chain] = []
        for start in sorted(starts):
            first_ns, kept = self.cache.latest(start.seed, start.start_ns)
            if not chains or (chains[-1].starts[0].seed, chains[-1].first_ns) != (start.seed, first_ns):
                chains.append(Chain(first_ns, kept, []))
            chains[-1].starts.append(start)
        remaining = iter(chains)  # each thread takes the next one when it is ready

        def simulate(_thread: int, buffers: Buffers) -> None:
            for chain in remaining:
                self._simulate_chain(chain, buffers)

        self._in_threads(len(chains), simulate)

    def _simulate_chain(self, chain: Chain, buffers: Buffers) -> None:
        market_state: MarketState | None = None
        time_ns, no_child, commands_kept = chain.first_ns, np.zeros(1, self.order_dtype), 0
        for seed, start_ns, env in chain.starts:
            spare = self._states.get(env)
            if market_state is None:
                market_state = self._restored(seed, chain.kept, spare)
                commands_kept = market_state.commands
            else:
                market_state = market_state.copy(spare)
            self._states[env], self._env_states[env, NOW] = market_state, time_ns
            self._point(env)
            while time_ns < start_ns:
                time_ns = min(start_ns, self.cache.due_ns(time_ns))
                self._run_some((0, 1, 1), np.array([env]), no_child, np.array([time_ns]), buffers)
                if self.cache.is_due(time_ns) and market_state.commands >= commands_kept + COMMANDS_MIN:
                    self.cache.keep(seed, time_ns, market_state)
                    commands_kept = market_state.commands

    def _restored(self, seed: int, kept: KeptState | None, spare: MarketState | None) -> MarketState:
        """A copy of a cached state, or a new market at the open."""
        if kept is not None:
            return kept.restored(spare)
        market_state = MarketState.at_open(self.population, seed).copy(spare)
        self.cache.keep(seed, self.population.open_ns, market_state)
        return market_state

    def _in_threads(self, count: int, work: Callable[[int, Buffers], None]) -> None:
        """Calls `work` in as many threads as `count` tasks can use, with each thread's number and buffers."""
        threads = min(self._threads, count)
        tasks = [self._pool.submit(work, number, self._buffers[number]) for number in range(1, threads)]
        work(0, self._buffers[0])
        for task in tasks:
            task.result()

    def _run(self, which: Any, children: Rows, until_ns: Any) -> None:
        """Steps environments `which`, distributed evenly over the threads."""
        threads = min(self._threads, len(which))
        # A strided array has another type, for which everything would be compiled again.
        until_ns = np.ascontiguousarray(until_ns)

        def run(first: int, buffers: Buffers) -> None:
            self._run_some((first, len(which), threads), which, children, until_ns, buffers)

        self._in_threads(threads, run)

    def _run_some(self, span: Span, which: Any, children: Rows, until_ns: Any, buffers: Buffers) -> None:
        """Steps environments `which[first:last:step]`: in one call, or one after another if the market has rules."""
        if self.population.has_rules:
            for place in range(*span):
                self._step_by_schedule(place, which, children, until_ns, buffers)
        else:
            self._step_without_rules(span, which, children, until_ns, buffers)
        for place in range(*span):
            self._states[int(which[place])].crowd.check_traders()

    def _step_without_rules(self, span: Span, which: Any, children: Rows, until_ns: Any, buffers: Buffers) -> None:
        first, last, step = span
        while first < last:
            first, status = self._advance((first, last, step), which, children, until_ns, NEVER, buffers, NONE_KEPT)
            if status != FINISHED:
                self._states[int(which[first])].make_room(status)
                self._point(int(which[first]))

    def _step_by_schedule(self, place: int, which: Any, children: Rows, until_ns: Any, buffers: Buffers) -> None:
        env, time_ns = int(which[place]), int(until_ns[place])

        def run(market: MarketState, limit_ns: int) -> int:
            self._point(env)  # scheduled commands may have grown the arrays
            return int(
                self._advance((place, place + 1, 1), which, children, until_ns, limit_ns, buffers, market.kept)[1]
            )

        sends_last = self._sends(env, children[place]) and self._env_states[env, NOW] + self.latency_ns >= time_ns
        self._states[env].step(buffers.events, self._envs, env, time_ns, run, bool(sends_last))

    def _advance(
        self, span: Span, which: Any, children: Rows, until_ns: Any, limit_ns: int, buffers: Buffers, kept: Any
    ) -> Any:
        """Calls the compiled step of environments `which[first:last:step]` up to a time. Returns (position, status) where it stopped."""
        return self.compiled_step(
            self._markets, which, *span, buffers.row, self._env_states, self._own, children, until_ns, limit_ns, self.latency_ns,
            buffers.events, self.frames, self.fills, *kept,
        )  # fmt: skip

    def _sends(self, env: int, child: Any) -> bool:
        """Whether we send commands in a step."""
        return bool(self._env_states[env, RESTING] != 0 or child["market_lots"] > 0 or child["limit_lots"] > 0)

    def _point(self, env: int) -> None:
        """Updates the addresses of an environment's arrays, which may have been replaced."""
        state = self._states[env]
        self._markets[env] = state.crowd.traders.handle.ctypes.data, state.market.state.handle.ctypes.data
