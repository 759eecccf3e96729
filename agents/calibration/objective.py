"""The search's objective: the distance of a simulated window from the real one."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from serl.agents.calibration.costs import ExecutionCosts, ParentOrders, cost_distance
from serl.agents.realism.distances import l1
from serl.agents.realism.errors import RealismError
from serl.agents.realism.facts import FACTS, Facts, measure_facts
from serl.agents.realism.impact_response import impact_response
from serl.agents.realism.scores import SCORES, last_before
from serl.agents.realism.tape import SECOND_NS, Floats, Tape, build_tape
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import simulate
from serl.cluster import LOCAL, on_ray

VOLATILITY_STEPS_S = (10, 60, 300)
VOLATILITY_WEIGHT, TRADES_WEIGHT, MESSAGES_WEIGHT, RESPONSE_WEIGHT, FACT_WEIGHT = 0.05, 0.05, 0.05, 0.25, 0.01
"""Penalties added to the mean L1: for a volatility, a number of trades or a number of messages that is off by a factor of e, responses that are off
by 100 %, and each missing stylised fact."""
COST_WEIGHT = 0.02
"""Penalty for a mean distance of one bp from the day's execution costs. One bp decides which policy is better, so it weighs as much as a clear
difference in the mean L1, about five half-widths of the interval of a held-out score."""
COST_SEEDS = 2
"""Number of seeds of a trial whose days also have parent orders. Simulating up to the orders takes more time than the orders themselves."""
RETURN_FACTS = len(FACTS) - 1
"""Number of facts about returns: all but the last, which is about trade signs."""
POSITIVE_FACTS = (
    "heavy tails", "aggregational Gaussianity", "intermittency", "volatility clustering", "conditional heavy tails",
    "slow decay of |r|", "volume and volatility", "coarse-fine asymmetry",
)  # fmt: skip
"""Facts whose number Cont (2001) finds positive in all markets."""
UNUSABLE_LOSS = 2.0
"""Loss of a simulated window that cannot be compared; larger than any other loss."""


@dataclass(frozen=True)
class CostTarget:
    """The execution costs in the training hours, and the orders with which a trial is measured."""

    real: ExecutionCosts
    orders: ParentOrders

    def penalty(self, population: PopulationConfig, seeds: list[int]) -> float:
        """COST_WEIGHT times the distance; UNUSABLE_LOSS if it cannot be measured."""
        distance = cost_distance(population, seeds[:COST_SEEDS], self.orders, self.real)
        return COST_WEIGHT * distance if math.isfinite(distance) else UNUSABLE_LOSS


class Span(NamedTuple):
    """Hours of a day, in ns after midnight, and the number of visible price levels."""

    start_ns: int
    end_ns: int
    levels: int


@dataclass(frozen=True)
class Window:
    """A window of a real tape, with the quantities to compare (computed once)."""

    tape: Tape
    start_ns: int
    end_ns: int

    @property
    def span(self) -> Span:
        """The window's hours and levels."""
        return Span(self.start_ns, self.end_ns, self.tape.levels)

    @cached_property
    def facts(self) -> Facts:
        """Stylised facts, without intervals."""
        return measure_facts(self.tape, self.start_ns, self.end_ns, 0, np.random.default_rng(0))


class TrainingMoments(NamedTuple):
    """The moments by which a simulation is compared with the same hours of one or more real days."""

    span: Span
    samples: list[Floats]
    """[score] values of all days as one sample."""
    trades: float
    """Number of market orders; mean over the days."""
    messages: float
    """Number of messages; mean over the days."""
    volatilities: Floats
    """[step] see realised_volatilities."""
    responses: Floats
    """[type, lag] ticks, mean over the days; see responses."""

    @classmethod
    def measure(cls, windows: Sequence[Window]) -> "TrainingMoments":
        """Measures the windows of the days, which have the same hours and levels."""
        span, tapes = windows[0].span, [window.tape for window in windows]
        samples = [np.concatenate([score.values(tape) for tape in tapes]) for score in SCORES]
        trades = float(np.mean([tape.trades.sum() for tape in tapes]))
        messages = float(np.mean([len(tape) for tape in tapes]))
        volatilities = realised_volatilities(tapes, span.start_ns, span.end_ns)
        mean_responses = np.asarray(np.mean([responses(tape) for tape in tapes], axis=0))
        return cls(span, samples, trades, messages, volatilities, mean_responses)


def realised_volatilities(tapes: Sequence[Tape], start_ns: int, end_ns: int) -> Floats:
    """[step] standard deviation of the mid's moves over each of VOLATILITY_STEPS_S, within days, ticks per root second."""
    found = []
    for step_s in VOLATILITY_STEPS_S:
        grid = np.arange(start_ns, end_ns + 1, step_s * SECOND_NS, dtype=np.int64)
        moves = []
        for tape in tapes:
            keep = tape.two_sided[1:]
            moves.append(np.diff(last_before(tape.time_ns[keep], tape.mid[1:][keep], grid)))
        found.append(float(np.concatenate(moves).std()) / step_s**0.5)
    return np.array(found)


def responses(tape: Tape) -> Floats:
    """[type, lag] responses of the mid to events of each type at the touch (impact_response.py), ticks; 0 where there are no events."""
    return np.nan_to_num(impact_response(tape, 0, np.random.default_rng(0)).mean_ticks)


def simulated_window(population: PopulationConfig, seed: int, span: Span) -> Tape:
    """Simulates these hours of a day. Raises RealismError if there is nothing to compare."""
    return build_tape(simulate(population, seed, span.end_ns), span.levels).window(span.start_ns, span.end_ns)


def facts_missing(facts: Facts) -> int:
    """Number of missing facts: POSITIVE_FACTS that are not above 0, and the absence of linear autocorrelation.

    The facts of the training hours are not the target, because three hours are too short to distinguish most of them from chance.
    """
    values = {fact.name: estimate.value for fact, estimate in zip(FACTS, facts.estimates, strict=True)}
    absent = abs(values["no linear autocorrelation"]) < 1.96 / np.sqrt(facts.returns)
    return int(not absent) + sum(not values[name] > 0 for name in POSITIVE_FACTS)


def loss(
    population: PopulationConfig, seeds: list[int], real: TrainingMoments, target: CostTarget, on: str = LOCAL
) -> tuple[float, float]:
    """(loss, mean L1 over the 21 scores), averaged over the seeds. on: where they are simulated (`serl.cluster.check_place`)."""
    jobs: dict[int, Callable[[], tuple[float, float]]] = {
        seed: partial(_loss, population, seed, real) for seed in seeds
    }
    if on == LOCAL:
        with ThreadPoolExecutor() as pool:
            each = list(pool.map(lambda job: job(), jobs.values()))
    else:
        by_seed = dict(on_ray(jobs, on))
        each = [by_seed[seed] for seed in seeds]
    found = np.array(each).mean(axis=0)
    usable = found[0] < UNUSABLE_LOSS
    return float(found[0]) + (target.penalty(population, seeds) if usable else 0.0), float(found[1])


def _loss(population: PopulationConfig, seed: int, real: TrainingMoments) -> tuple[float, float]:
    try:
        tape = simulated_window(population, seed, real.span)
    except RealismError:
        return UNUSABLE_LOSS, 1.0
    random = np.random.default_rng(0)
    distances = [
        l1(sample, score.values(tape), score.discrete, 0, random).value
        for score, sample in zip(SCORES, real.samples, strict=True)
    ]
    mean = float(np.mean(distances))
    moving = real.volatilities > 0  # in short hours, the few moves over the longest step may all be equal
    volatilities = realised_volatilities([tape], real.span.start_ns, real.span.end_ns)[moving]
    volatility = np.abs(np.log(np.maximum(1e-9, volatilities) / real.volatilities[moving]))
    response_error = np.abs(responses(tape) - real.responses).mean() / np.abs(real.responses).mean()
    missing = facts_missing(measure_facts(tape, real.span.start_ns, real.span.end_ns, 0, random))
    penalty = RESPONSE_WEIGHT * min(2.0, response_error) + FACT_WEIGHT * missing
    penalty += VOLATILITY_WEIGHT * volatility.mean() if moving.any() else 0.0
    penalty += TRADES_WEIGHT * abs(math.log(max(1, tape.trades.sum()) / real.trades))
    penalty += MESSAGES_WEIGHT * abs(math.log(max(1, len(tape)) / real.messages))
    return mean + float(penalty), mean
