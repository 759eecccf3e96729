"""Simulated traders in process: the reference population of ABIDES, populations of many sizes, many markets in parallel.

All figures are for one core, except markets in parallel, with compiled code warm.

- rmsc04_hour_ms: the hour of RMSC04, including building the population. Its events are commands that reached the exchange.
- abides_rmsc04_hour_s_cited: ABIDES is not on PyPI, so its time for that hour is cited, not measured here: ABIDES-JPMC, 77,576 messages between agents
  and exchange, without logging, on one core of another shared machine.
- bytes_per_agent: all arrays of the traders.
- ns_by_agents: time per wake-up or command in a market with that many traders, with the tape's array reused. The sizes alternate; best of five rounds.
"""

import os
import time
from typing import Any

import numpy as np

from benchmarks import hosts
from serl.agents.traders.inprocess import FINISHED, MARKET_FULL, TRADERS_FULL, run_market
from serl.agents.traders.population import PopulationConfig, load_population
from serl.agents.traders.records import WAKEUPS
from serl.agents.traders.simulate import Simulation, simulate_many
from serl.agents.traders.value import SECOND_NS
from serl.exchange.records import COMMAND, EVENT, Rows

ROUNDS, SEED, TAPE_ROWS = 5, 1, 16_384
ABIDES_HOUR_S_CITED = 6.7
"""See the module: cited, not measured here."""
CROWDS = (1_000, 10_000, 100_000)
HOUR_NS, MARKETS_NS, MARKETS = 3600 * SECOND_NS, 600 * SECOND_NS, 64


def crowd_of(traders: int) -> PopulationConfig:
    """RMSC04 scaled to about this many traders, makers included."""
    config = load_population("rmsc04")
    factor = traders / config.traders
    groups = [group.model_copy(update={"count": max(1, round(group.count * factor))}) for group in config.groups]
    return config.model_copy(update={"groups": groups})


def _hour(config: PopulationConfig, seed: int = SEED) -> tuple[float, Simulation]:
    """(seconds to build the population and run an hour, the simulation after it)."""
    began = time.perf_counter()
    simulation = Simulation(config, seed)
    simulation.advance(config.open_ns + HOUR_NS)
    return time.perf_counter() - began, simulation


def _advance(simulation: Simulation, tape: Rows, until_ns: int) -> int:
    """Run the market up to a time, reusing the tape. Returns the number of wake-ups and commands."""
    crowd, market, events = simulation.crowd, simulation.market, np.zeros(4096, EVENT)
    wakes, commands, status = int(crowd.traders.counter[WAKEUPS]), 0, -1
    while status != FINISHED:
        first = int(market.state.counters["command_sequence"][0]) + 1
        status, count = run_market(
            crowd.traders, market.state, events, tape, 0, first, until_ns, events[:0], np.zeros(1, np.int64)
        )
        commands += count
        if status == TRADERS_FULL:
            crowd.grow()
        elif status == MARKET_FULL:
            market.grow()
    return commands + int(crowd.traders.counter[WAKEUPS]) - wakes


def _ns_per_event(config: PopulationConfig) -> float:
    """Of wake-ups and commands of the hour after the opening half hour, the median of parts with about 2000 each.

    Parts of the same length whatever the crowd: a long one is likelier to be interrupted by other work on the machine.
    """
    simulation, tape, costs = Simulation(config, SEED), np.zeros(TAPE_ROWS, COMMAND), []
    time_ns = config.open_ns + HOUR_NS // 2
    _advance(simulation, tape, time_ns)
    parts = 6 * config.traders // 1000
    for _ in range(parts):
        time_ns += HOUR_NS // parts
        began = time.perf_counter()
        events = _advance(simulation, tape, time_ns)
        costs.append((time.perf_counter() - began) / events * 1e9)
    return float(np.median(costs))


def run() -> dict[str, Any]:
    """All figures; medians over the rounds."""
    config = load_population("rmsc04")
    _hour(config)
    hours = [_hour(config) for _ in range(ROUNDS)]
    hour_s = float(np.median([seconds for seconds, _ in hours]))
    large_s, large = min((_hour(crowd_of(CROWDS[-1])) for _ in range(3)), key=lambda pair: pair[0])
    rounds = [[_ns_per_event(crowd_of(size)) for size in CROWDS] for _ in range(ROUNDS)]
    costs = {str(size): float(cost) for size, cost in zip(CROWDS, np.min(rounds, axis=0), strict=True)}
    small = load_population("small")
    list(simulate_many(small, range(4), small.open_ns + MARKETS_NS))
    began = time.perf_counter()
    count = sum(len(day) > 0 for day in simulate_many(small, range(MARKETS), small.open_ns + MARKETS_NS))
    return {
        "rmsc04_hour_ms": hour_s * 1e3,
        "rmsc04_events": hours[0][1].count,
        "abides_rmsc04_hour_s_cited": ABIDES_HOUR_S_CITED,
        "ratio_to_abides_cited": ABIDES_HOUR_S_CITED / hour_s,
        "agents_100k_hour_s": large_s,
        "agents_100k_commands": large.count,
        "bytes_per_agent": large.crowd.bytes_used / large.population.traders,
        "ns_by_agents": costs,
        "markets_per_s_all_cores": count / (time.perf_counter() - began),
        "market_minutes": MARKETS_NS // SECOND_NS // 60,
        "cores": os.cpu_count(),
        **hosts.run(),
    }
