"""Responses of a population to parent orders: each seed is simulated without an order, and with one order of each size and side."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import numpy as np

from serl.agents.execution.environment.windows import nearest_multiples
from serl.agents.impact.errors import ImpactError
from serl.agents.impact.responses import (
    CHILDREN,
    STEPS,
    TIME,
    Responses,
    Trial,
    check_settings,
    collect_responses,
    plan_trials,
    reading_times,
    sigma,
)
from serl.agents.impact.simulated import START_S, with_metaorder
from serl.agents.realism.tape import SECOND_NS, Floats, Ints
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.records import TRADED_LOTS
from serl.agents.traders.simulate import Simulation
from serl.exchange.kernel.state import ASK, BID

Job = TypeVar("Job")

LEAD_NS = np.arange(29, 0, -1) * 10 * SECOND_NS
"""How long before the first reading the mid is also looked at, because a thin book can have an empty side for a moment."""


def simulated_responses(
    population: PopulationConfig, shares: list[float], seeds: Sequence[int], duration_s: float,
    on_market: Callable[[], None] = lambda: None,
) -> Responses:  # fmt: skip
    """Runs every seed without an order, with one of each size and side, and with one over other durations.

    Sizes are shares of the mean volume in the time of the order. Markets run in parallel on all cores. on_market is called
    after each of them. Raises ImpactError for settings that cannot be measured, such as a day that ends before the last reading.
    """
    sizes = check_settings(shares, len(seeds), duration_s)
    times_ns = _times(population, duration_s)
    base = np.zeros((len(seeds), len(TIME)))
    traded = np.zeros(len(seeds))

    def run_base(run: int) -> tuple[Floats, float]:
        mids, lots, _ = _run(population, seeds[run], 1, 0, duration_s, times_ns)
        return mids, float(lots[STEPS] - lots[0])

    for run, (mids, lots) in _in_parallel(run_base, range(len(seeds)), on_market):
        base[run], traded[run] = mids, lots
    lots_of = nearest_multiples(sizes * traded.mean(), population.market.lot_multiple).tolist()

    def run_trial(trial: Trial) -> tuple[Floats, float]:
        lots, worked_s = lots_of[trial.size], trial.factor * duration_s
        until = trial.readings[-1] + 1
        mids, _, filled = _run(population, seeds[trial.run], trial.side, lots, worked_s, times_ns[:until])
        return mids[trial.readings], filled / lots

    done = _in_parallel(run_trial, plan_trials(len(seeds), len(sizes)), on_market)
    impact, by_duration, filled = collect_responses(((trial, *found) for trial, found in done), base, len(sizes))
    return Responses(
        f"population {population.name}", "seeds", sizes, duration_s, float(traded.mean()), sigma(base), impact, by_duration, filled
    )  # fmt: skip


def markets_needed(sizes: int, seeds: int) -> int:
    """How often on_market is called."""
    return seeds + len(plan_trials(seeds, sizes))


def _times(population: PopulationConfig, duration_s: float) -> Ints:
    """[time] times at which the mid is read. Raises ImpactError if the population has several symbols or closes before."""
    if len(population.symbols) != 1:
        raise ImpactError(
            f"population {population.name}: expected one symbol, got {len(population.symbols)}; give a population with one"
        )
    times_ns = reading_times(population.open_ns + round(START_S * SECOND_NS), duration_s)
    if times_ns[-1] > population.close_ns:
        raise ImpactError(
            f"duration: expected {START_S:g} s and {TIME[-1]:g} durations before the close of {population.name} "
            f"({population.close}), got a duration of {duration_s:g} s; give a shorter one"
        )
    return times_ns


def _run(
    population: PopulationConfig, seed: int, side: int, lots: int, duration_s: float, times_ns: Ints
) -> tuple[Floats, Ints, int]:
    """(last mid before each time in ticks, lots traded until then, filled lots) of a market with an order; 0 lots: without."""
    child_lots = max(1, lots // CHILDREN)
    simulation = Simulation(with_metaorder(population, side, lots, 0.0, duration_s, child_lots), seed)
    mids, traded, known = np.zeros(len(times_ns)), np.zeros(len(times_ns), np.int64), np.nan
    for number, time_ns in enumerate([*(times_ns[0] - LEAD_NS).tolist(), *times_ns.tolist()], -len(LEAD_NS)):
        simulation.advance(time_ns)
        best = simulation.market.state.best[0]
        known = best.sum() / 2.0 if 0 < best[BID] < best[ASK] else known
        if number >= 0:
            mids[number] = known
            traded[number] = simulation.crowd.traders.public_totals[0, TRADED_LOTS]
    if not np.isfinite(mids).all():
        raise ImpactError(
            f"population {population.name}, seed {seed}: expected a bid and an ask before the order, got an empty side; "
            "give another --seed"
        )
    filled = abs(int(simulation.crowd.traders.agents["position_lots"][population.traders]))
    return mids, traded, filled


def _in_parallel(
    work: Callable[[Job], tuple[Floats, float]], jobs: Sequence[Job], on_market: Callable[[], None]
) -> Iterator[tuple[Job, tuple[Floats, float]]]:  # fmt: skip
    """Results as they are ready. The compiled loop releases the GIL; after an error or Ctrl-C no further market starts."""
    pool = ThreadPoolExecutor()
    try:
        futures = {pool.submit(work, job): job for job in jobs}
        for future in as_completed(futures):
            on_market()
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)
