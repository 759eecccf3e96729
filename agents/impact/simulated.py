"""The impact of an extra metaorder in a simulated market, with common random numbers: the market runs with the same seed with and without it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from serl.agents.execution.environment.windows import nearest_multiples
from serl.agents.impact.errors import ImpactError
from serl.agents.realism.scores import last_before
from serl.agents.realism.square_root_law import ImpactLaw, fit_impact_law
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Floats, Ints, Tape, build_tape
from serl.agents.traders.population import PopulationConfig, check_population
from serl.agents.traders.simulate import Simulation

LEVELS = 1
START_S = 300.0
"""The metaorder starts this long after the open."""
SETTLE_NS = SECOND_NS
"""Impact is read this long after the last child order."""
FILLED_SHARE_MIN = 0.98
"""A metaorder that fills less than this share of its size by the close is an error."""


@dataclass(frozen=True)
class ImpactRun:
    """One metaorder in one market."""

    seed: int
    qty_share: float
    lots: int
    filled_lots: int
    duration_s: float
    impact_ticks: float
    """Mid with the metaorder minus mid without it, times its side, just after its last child order."""
    later_ticks: float
    """The impact after the metaorder's duration has passed once more; NaN after the close."""


@dataclass(frozen=True)
class SimulatedImpact:
    """The fitted square-root law and the runs behind it."""

    law: ImpactLaw
    runs: tuple[ImpactRun, ...]
    day_lots: float
    """V: mean volume of the days without a metaorder."""
    day_sigma_ticks: float
    """sigma: root mean square one-minute move of the mid on those days, times the root of the minutes in a day."""
    schedule: str


def with_metaorder(
    population: PopulationConfig, side: int, lots: int, participation: float, duration_s: float, child_lots: int = 100
) -> PopulationConfig:  # fmt: skip
    """The population plus one trader that works the metaorder, or does nothing for 0 lots. `lots` are a multiple of the population's lot."""
    multiple = population.market.lot_multiple
    group = {
        "trader": "metaorder",
        "latency_us": 1.0,
        "start_spread_s": 0.0,
        "profile": {
            "side": side, "order_lots": lots, "start_s": START_S, "participation": participation,
            "duration_s": duration_s, "child_lots": -(-child_lots // multiple) * multiple, "lot_multiple": multiple,
        },
    }  # fmt: skip
    values = population.model_dump()
    values["groups"] = [*values["groups"], group]
    return check_population(values, population.name)


def _simulate_day(population: PopulationConfig, seed: int) -> tuple[Tape, int, Ints]:
    """Returns (tape, lots filled for the last trader, times of its commands)."""
    simulation = Simulation(population, seed)
    simulation.advance(population.close_ns)
    last = population.traders - 1
    position = int(simulation.crowd.traders.agents["position_lots"][last])
    times = simulation.commands["time_ns"]
    # A command's time modulo the spacing identifies its trader.
    return build_tape(simulation.day(), LEVELS), abs(position), times[times % population.spacing_ns == last]


def _mids_before(tape: Tape, grid_ns: Ints) -> Floats:
    keep = tape.two_sided[1:]
    return last_before(tape.time_ns[keep], tape.mid[1:][keep], grid_ns)


def measure_simulated_impact(
    population: PopulationConfig, shares: list[float], seeds: list[int], *, participation: float = 0.15,
    duration_s: float = 0.0, on_market: Callable[[], None] = lambda: None,
) -> SimulatedImpact:  # fmt: skip
    """Runs a metaorder of each share of the day's volume in a market of each seed; odd seeds buy, even seeds sell.

    By default a metaorder is a share of the volume (POV, `participation`) until it is filled; with `duration_s` it is worked
    evenly over that time (TWAP). Raises ImpactError if one is not filled by the close, and RealismError as fit_impact_law.
    """
    if len(population.symbols) != 1:
        raise ImpactError(
            f"population {population.name}: expected one symbol, got {len(population.symbols)}; give a population with one"
        )
    if not seeds:
        raise ImpactError("seeds: expected at least one, got none; give more")
    pov = 0.0 if duration_s > 0 else participation
    volumes, variances, without = [], [], {}
    minutes = np.arange(population.open_ns + MINUTE_NS, population.close_ns + 1, MINUTE_NS)
    for seed in seeds:
        without[seed], _, _ = _simulate_day(with_metaorder(population, 1, 0, pov, max(1.0, duration_s)), seed)
        volumes.append(float(without[seed].qty_lots[without[seed].trades].sum()))
        variances.append(float((np.diff(_mids_before(without[seed], minutes)) ** 2).mean()) * len(minutes))
        on_market()
    day_lots, sigma = float(np.mean(volumes)), float(np.sqrt(np.mean(variances)))
    runs = []
    for seed in seeds:
        for share in shares:
            lots = int(nearest_multiples(share * day_lots, population.market.lot_multiple))
            runs.append(_run(population, without[seed], seed, share, lots, pov, duration_s))
            on_market()
    law = fit_impact_law(
        np.array([run.qty_share for run in runs]), np.array([run.impact_ticks for run in runs]) / sigma,
        run=np.array([run.seed for run in runs]),
    )  # fmt: skip
    schedule = f"TWAP over {duration_s:g} s" if duration_s > 0 else f"POV {participation:g}"
    return SimulatedImpact(law, tuple(runs), day_lots, sigma, schedule)


def _run(
    population: PopulationConfig, without: Tape, seed: int, share: float, lots: int, pov: float, duration_s: float
) -> ImpactRun:  # fmt: skip
    side = 1 if seed % 2 else -1
    tape, filled, times = _simulate_day(with_metaorder(population, side, lots, pov, max(1.0, duration_s)), seed)
    if filled < FILLED_SHARE_MIN * lots or not len(times):
        raise ImpactError(
            f"expected a metaorder of {lots:,} lots to be filled by the close, got {filled:,} lots (seed {seed}); "
            "give smaller sizes or more participation"
        )
    start_ns, end_ns = population.open_ns + round(START_S * SECOND_NS), int(times[-1])
    later_ns = 2 * end_ns - start_ns
    times_ns = np.array([end_ns + SETTLE_NS, min(later_ns, population.close_ns)])
    moved = side * (_mids_before(tape, times_ns) - _mids_before(without, times_ns))
    later = float(moved[1]) if later_ns < population.close_ns else float("nan")
    return ImpactRun(seed, share, lots, filled, (end_ns - start_ns) / SECOND_NS, float(moved[0]), later)
