"""How far a simulated window is from the real one, as the search sees it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from serl.agents.realism.distances import l1
from serl.agents.realism.errors import RealismError
from serl.agents.realism.facts import FACTS, Facts, measure_facts
from serl.agents.realism.impact_response import response
from serl.agents.realism.scores import SCORES, last_before
from serl.agents.realism.tape import SECOND_NS, Floats, Tape, build_tape
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import simulate

VOLATILITY_STEPS_S = (10, 60, 300)
VOLATILITY_WEIGHT, RESPONSE_WEIGHT, FACT_WEIGHT = 0.05, 0.05, 0.01
"""What a volatility off by a factor of e, a response off by all of itself, and each fact of Cont's not shown cost beside the mean L1."""
RETURN_FACTS = len(FACTS) - 1
"""The facts about returns: all but the last, which is about trade signs."""
POSITIVE_FACTS = (
    "heavy tails", "aggregational Gaussianity", "intermittency", "volatility clustering", "conditional heavy tails",
    "slow decay of |r|", "volume and volatility", "coarse-fine asymmetry",
)  # fmt: skip
UNUSABLE_LOSS = 2.0
"""Of a simulated window that cannot be compared at all; more than any that can."""


@dataclass(frozen=True)
class Window:
    """A window of a real tape, and what is compared of it (computed once)."""

    tape: Tape
    start_ns: int
    end_ns: int

    @cached_property
    def samples(self) -> list[Floats]:
        """[score] values."""
        return [score.values(self.tape) for score in SCORES]

    @cached_property
    def volatilities(self) -> Floats:
        """[step] as realised_volatilities."""
        return realised_volatilities(self.tape, self.start_ns, self.end_ns)

    @cached_property
    def facts(self) -> Facts:
        """As measure_facts, without intervals."""
        return measure_facts(self.tape, self.start_ns, self.end_ns, 0, np.random.default_rng(0))

    @cached_property
    def responses(self) -> Floats:
        """[market touch unchanged and changed, lag] ticks."""
        return market_order_responses(self.tape)


def realised_volatilities(tape: Tape, start_ns: int, end_ns: int) -> Floats:
    """[step] standard deviation of the mid's moves over VOLATILITY_STEPS_S, ticks per root second."""
    keep = tape.two_sided[1:]
    found = []
    for step_s in VOLATILITY_STEPS_S:
        grid = np.arange(start_ns, end_ns + 1, step_s * SECOND_NS, dtype=np.int64)
        path = last_before(tape.time_ns[keep], tape.mid[1:][keep], grid)
        found.append(float(np.diff(path).std()) / step_s**0.5)
    return np.array(found)


def market_order_responses(tape: Tape) -> Floats:
    """[touch unchanged, changed; lag] response of the mid to market orders, 0 where there is none."""
    return np.nan_to_num(response(tape, 0, np.random.default_rng(0)).mean_ticks[:2])


def simulated_window(population: PopulationConfig, seed: int, window: Window) -> Tape:
    """The same hours of a simulated day, with as many levels; RealismError if there is nothing to compare."""
    tape = build_tape(simulate(population, seed, window.end_ns), window.tape.levels)
    return tape.window(window.start_ns, window.end_ns)


def facts_missing(facts: Facts) -> int:
    """How many of the facts that Cont (2001) finds in all markets it does not show: POSITIVE_FACTS above 0, no autocorrelation.

    Not the signs of the training hours: three hours are too short to tell most of them from chance.
    """
    values = {fact.name: estimate.value for fact, estimate in zip(FACTS, facts.estimates, strict=True)}
    absent = abs(values["no linear autocorrelation"]) < 1.96 / np.sqrt(facts.returns)
    return int(not absent) + sum(not values[name] > 0 for name in POSITIVE_FACTS)


def loss(population: PopulationConfig, seeds: list[int], window: Window) -> tuple[float, float]:
    """(what the search minimises, mean L1 over the 21 scores), means over the seeds."""
    with ThreadPoolExecutor() as pool:
        found = np.array(list(pool.map(lambda seed: _loss(population, seed, window), seeds))).mean(axis=0)
    return float(found[0]), float(found[1])


def _loss(population: PopulationConfig, seed: int, window: Window) -> tuple[float, float]:
    try:
        tape = simulated_window(population, seed, window)
    except RealismError:
        return UNUSABLE_LOSS, 1.0
    random = np.random.default_rng(0)
    distances = [
        l1(real, score.values(tape), score.discrete, 0, random).value
        for score, real in zip(SCORES, window.samples, strict=True)
    ]
    mean = float(np.mean(distances))
    volatility = np.abs(
        np.log(np.maximum(1e-9, realised_volatilities(tape, window.start_ns, window.end_ns)) / window.volatilities)
    )
    apart = np.abs(market_order_responses(tape) - window.responses).mean() / np.abs(window.responses).mean()
    missing = facts_missing(measure_facts(tape, window.start_ns, window.end_ns, 0, random))
    penalty = VOLATILITY_WEIGHT * volatility.mean() + RESPONSE_WEIGHT * min(2.0, apart) + FACT_WEIGHT * missing
    return mean + float(penalty), mean
