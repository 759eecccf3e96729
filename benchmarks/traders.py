"""Simulated traders, in process: the reference population of ABIDES, crowds of many sizes, many markets at once.

One core except for the last figure; compiled code is warm. ABIDES's figure is that of an hour of the same population, RMSC04,
on one core (ABIDES-JPMC, measured on a machine of the same kind); the events of ours are commands that reached the exchange.
"""

import os
import time
from typing import Any

import numpy as np

from serl.agents.traders.population import PopulationConfig, load_population
from serl.agents.traders.records import WAKEUPS
from serl.agents.traders.simulate import Simulation, simulate_many
from serl.agents.traders.value import SECOND_NS

ROUNDS, SEED = 5, 1
ABIDES_HOUR_S = 6.6
CROWDS = (1_000, 10_000, 100_000)
HOUR_NS, MARKETS_NS, MARKETS = 3600 * SECOND_NS, 600 * SECOND_NS, 64


def crowd_of(traders: int) -> PopulationConfig:
    """RMSC04 scaled to about this many traders, makers included."""
    config = load_population("rmsc04")
    factor = traders / config.traders
    groups = [group.model_copy(update={"count": max(1, round(group.count * factor))}) for group in config.groups]
    return config.model_copy(update={"groups": groups})


def _hour(config: PopulationConfig, seed: int = SEED) -> tuple[float, Simulation]:
    """(seconds to build the crowd and run an hour, the simulation after it)."""
    began = time.perf_counter()
    simulation = Simulation(config, seed)
    simulation.advance(config.open_ns + HOUR_NS)
    return time.perf_counter() - began, simulation


def _events(simulation: Simulation) -> int:
    return len(simulation.commands) + int(simulation.crowd.traders.counter[WAKEUPS])


def _ns_an_event(config: PopulationConfig) -> float:
    """Of the hour after the opening half hour: wake-ups and commands, without building."""
    simulation = Simulation(config, SEED)
    simulation.advance(config.open_ns + HOUR_NS // 2)
    before = _events(simulation)
    began = time.perf_counter()
    simulation.advance(config.open_ns + HOUR_NS // 2 + HOUR_NS)
    return (time.perf_counter() - began) / (_events(simulation) - before) * 1e9


def run() -> dict[str, Any]:
    """All figures; medians over the rounds."""
    config = load_population("rmsc04")
    _hour(config)
    hours = [_hour(config) for _ in range(ROUNDS)]
    hour_s = float(np.median([seconds for seconds, _ in hours]))
    large_s, large = min((_hour(crowd_of(CROWDS[-1])) for _ in range(3)), key=lambda pair: pair[0])
    costs = {str(size): float(np.median([_ns_an_event(crowd_of(size)) for _ in range(3)])) for size in CROWDS}
    small = load_population("small")
    list(simulate_many(small, range(4), small.open_ns + MARKETS_NS))
    began = time.perf_counter()
    count = sum(len(day) > 0 for day in simulate_many(small, range(MARKETS), small.open_ns + MARKETS_NS))
    return {
        "rmsc04_hour_ms": hour_s * 1e3,
        "rmsc04_events": len(hours[0][1].commands),
        "vs_abides": ABIDES_HOUR_S / hour_s,
        "agents_100k_hour_s": large_s,
        "agents_100k_commands": len(large.commands),
        "bytes_per_agent": large.crowd.bytes_used / large.population.traders,
        "ns_by_agents": costs,
        "markets_per_s_all_cores": count / (time.perf_counter() - began),
        "market_minutes": MARKETS_NS // SECOND_NS // 60,
        "cores": os.cpu_count(),
    }
