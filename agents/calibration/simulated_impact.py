"""Impact of an extra metaorder in a simulated market, with common random numbers: the same seed with and without it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from serl.agents.calibration.errors import CalibrationError
from serl.agents.realism.scores import last_before
from serl.agents.realism.square_root_law import ImpactLaw, fit_impact_law
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Floats, Ints, Tape, tape_of
from serl.agents.traders.population import PopulationConfig, check_population
from serl.agents.traders.simulate import Simulation

LEVELS = 1
START_S = 300.0
"""After the open the metaorder begins."""
SETTLE_NS = SECOND_NS
"""After the last child, impact is read."""
SLACK = 0.98
"""A metaorder that got less than this share of its size by the close is an error."""


@dataclass(frozen=True)
class Run:
    """One metaorder in one market."""

    seed: int
    qty_share: float
    lots: int
    filled_lots: int
    duration_s: float
    impact_ticks: float
    """Mid with it less mid without it, times its side, just after its last child."""
    later_ticks: float
    """The same when as much time again has passed; NaN after the close."""


@dataclass(frozen=True)
class MeasuredLaw:
    """The law and all that went into it."""

    law: ImpactLaw
    runs: tuple[Run, ...]
    day_lots: float
    """V: mean volume of the days without a metaorder."""
    day_sigma_ticks: float
    """sigma: root mean square move of the mid over a minute in those days, times the root of the day's minutes."""
    schedule: str


def with_metaorder(
    population: PopulationConfig, side: int, lots: int, participation: float, duration_s: float
) -> PopulationConfig:  # fmt: skip
    """The population and one trader more, which works the metaorder; with 0 lots it does nothing."""
    group = {
        "trader": "metaorder",
        "latency_us": 1.0,
        "start_spread_s": 0.0,
        "profile": {
            "side": side, "order_lots": lots, "start_s": START_S, "participation": participation,
            "duration_s": duration_s,
        },
    }  # fmt: skip
    values = population.model_dump()
    values["groups"] = [*values["groups"], group]
    return check_population(values, population.name)


def _day(population: PopulationConfig, seed: int) -> tuple[Tape, int, Ints]:
    """(tape, lots that the last trader got, times of its commands)."""
    simulation = Simulation(population, seed)
    simulation.advance(population.close_ns)
    last = population.traders - 1
    position = int(simulation.crowd.traders.agents["position_lots"][last])
    times = simulation.commands["time_ns"]
    # Every trader acts at times of its own modulo the spacing.
    return tape_of(simulation.day(), LEVELS), abs(position), times[times % population.spacing_ns == last]


def _mids(tape: Tape, grid_ns: Ints) -> Floats:
    keep = tape.two_sided[1:]
    return last_before(tape.time_ns[keep], tape.mid[1:][keep], grid_ns)


def measure_law(
    population: PopulationConfig, shares: list[float], seeds: list[int], *, participation: float = 0.15,
    duration_s: float = 0.0, advance: Callable[[], None] = lambda: None,
) -> MeasuredLaw:  # fmt: skip
    """Metaorders of each share of the day's volume, in a market of each seed; odd seeds buy, even ones sell.

    By default a metaorder follows the volume (POV, `participation` of it) until it is done; with `duration_s` it is worked
    evenly over that time (TWAP). CalibrationError if one is not done by the close; RealismError as fit_impact_law.
    """
    if len(population.symbols) != 1:
        raise CalibrationError(f"one symbol is due, {population.name} has {len(population.symbols)}")
    if not seeds:
        raise CalibrationError("seeds: at least one is due")
    pov = 0.0 if duration_s > 0 else participation
    volumes, variances, without = [], [], {}
    minutes = np.arange(population.open_ns + MINUTE_NS, population.close_ns + 1, MINUTE_NS)
    for seed in seeds:
        without[seed], _, _ = _day(with_metaorder(population, 1, 0, pov, max(1.0, duration_s)), seed)
        volumes.append(float(without[seed].qty_lots[without[seed].trades].sum()))
        variances.append(float((np.diff(_mids(without[seed], minutes)) ** 2).mean()) * len(minutes))
        advance()
    day_lots, sigma = float(np.mean(volumes)), float(np.sqrt(np.mean(variances)))
    runs = []
    for seed in seeds:
        for share in shares:
            runs.append(_run(population, without[seed], seed, share, round(share * day_lots), pov, duration_s))
            advance()
    law = fit_impact_law(
        np.array([run.qty_share for run in runs]), np.array([run.impact_ticks for run in runs]) / sigma,
        run=np.array([run.seed for run in runs]),
    )  # fmt: skip
    schedule = f"TWAP over {duration_s:g} s" if duration_s > 0 else f"POV {participation:g}"
    return MeasuredLaw(law, tuple(runs), day_lots, sigma, schedule)


def _run(
    population: PopulationConfig, without: Tape, seed: int, share: float, lots: int, pov: float, duration_s: float
) -> Run:  # fmt: skip
    side = 1 if seed % 2 else -1
    tape, filled, times = _day(with_metaorder(population, side, max(1, lots), pov, max(1.0, duration_s)), seed)
    if filled < SLACK * lots or not len(times):
        raise CalibrationError(
            f"a metaorder of {lots:,} lots got {filled:,} by the close (seed {seed}); give smaller sizes or more participation"
        )
    start_ns, end_ns = population.open_ns + round(START_S * SECOND_NS), int(times[-1])
    later_ns = 2 * end_ns - start_ns
    at = np.array([end_ns + SETTLE_NS, min(later_ns, population.close_ns)])
    moved = side * (_mids(tape, at) - _mids(without, at))
    later = float(moved[1]) if later_ns < population.close_ns else float("nan")
    return Run(seed, share, lots, filled, (end_ns - start_ns) / SECOND_NS, float(moved[0]), later)
