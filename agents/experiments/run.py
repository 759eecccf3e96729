"""Simulates and measures every arm with every seed, in threads, because the compiled market and replay release the GIL."""

import math
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial

from serl.agents.experiments.experiment import Arm, Experiment
from serl.agents.experiments.measures import MEASURES, group_pnl
from serl.agents.experiments.quotes import LOTS, SPREAD_LOTS, TRADES, VOLUME_LOTS, Quotes, replay_quotes
from serl.agents.experiments.store import Results, RunKey
from serl.agents.traders.simulate import Simulation
from serl.cluster import LOCAL, on_ray
from serl.exchange.market import Market

STEPS = 50
"""Number of parts of a run, between which it can be stopped."""


class RunStopped(Exception):
    """Raised inside a run to stop it."""


def measure_run(arm: Arm, seed: int, is_stopped: Callable[[], bool] = lambda: False) -> dict[str, float]:
    """Simulates an arm with a seed; returns all measures by name and, with one symbol, the profit and loss by group (`group_pnl`)."""
    population = arm.population
    simulation = Simulation(population, seed)
    market = Market.restore(simulation.market.snapshot(), population.symbol_names, limits=simulation.market.limits)
    market.grant_operator(0)
    step_ns = max(1, (arm.end_ns - population.open_ns) // STEPS)
    while simulation.time_ns < arm.end_ns:
        if is_stopped():
            raise RunStopped
        simulation.advance(min(arm.end_ns, simulation.time_ns + step_ns))
    rows, totals, costs = replay_quotes(market, simulation.commands, population.open_ns, arm.symbol)
    traders = simulation.crowd.traders
    quotes = Quotes(
        rows, arm.end_ns, int(totals[TRADES]), int(totals[VOLUME_LOTS]),
        float(costs[SPREAD_LOTS] / costs[LOTS]) if costs[LOTS] else math.nan,
        float(population.tick_sizes[arm.symbol]), traders.value[arm.symbol], int(traders.times[2]),
    )  # fmt: skip
    values = {name: measure.compute(quotes) for name, measure in MEASURES.items()}
    return values if len(population.symbols) > 1 else values | group_pnl(population, traders.agents, quotes)


def run_experiment(
    experiment: Experiment, done: Mapping[RunKey, Mapping[str, float]] | None = None, threads: int | None = None,
    on_run: Callable[[str, int, dict[str, float]], None] = lambda arm, seed, values: None, on: str = LOCAL,
) -> Results:  # fmt: skip
    """The measures of every arm and seed, the same whatever the number of threads.

    Args:
        done: finished runs, which are not repeated.
        threads: number of threads; by default one per core.
        on: where the runs are executed, see `serl.cluster`; a cluster has its own number of threads.
        on_run: called in this thread with each new run when it ends, including runs that end while an interruption is being handled.
    """
    found: Results = dict(done or {})
    wanted = [(arm, seed) for seed in experiment.seeds for arm in experiment.arms]
    if on != LOCAL:
        jobs = {
            (arm.name, seed): partial(measure_run, arm, seed) for arm, seed in wanted if (arm.name, seed) not in found
        }
        for key, values in on_ray(jobs, on):
            found[key] = values
            on_run(*key, values)
        return {(arm.name, seed): found[arm.name, seed] for arm, seed in wanted}
    stop = threading.Event()
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    waiting: dict[Future[dict[str, float]], RunKey] = {
        pool.submit(measure_run, arm, seed, stop.is_set): (arm.name, seed)
        for arm, seed in wanted
        if (arm.name, seed) not in found
    }

    def take(future: Future[dict[str, float]]) -> None:
        key = waiting.pop(future)
        found[key] = future.result()
        on_run(*key, future.result())

    try:
        for future in as_completed(list(waiting)):
            take(future)
    except BaseException:
        stop.set()
        pool.shutdown(cancel_futures=True)
        for future in list(waiting):
            if not future.cancelled() and future.exception() is None:
                take(future)
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return {(arm.name, seed): found[arm.name, seed] for arm, seed in wanted}
