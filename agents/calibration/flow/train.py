"""A complete training of a flow: sample, train several networks, keep the one that simulates the training hours best, score it.

A network that predicts the next message well does not necessarily generate a market that stays close to real days, because it meets the states to
which its own errors lead. So networks are chosen by simulated training hours, not by likelihood.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from serl.agents.calibration.calibrate import SCORE_SEED, SEARCH_SEEDS
from serl.agents.calibration.days import CalibrationDay, NamedDay, cut_days
from serl.agents.calibration.fit import poisson_population
from serl.agents.calibration.flow.population import flow_population, tables_of
from serl.agents.calibration.flow.samples import samples_of
from serl.agents.calibration.flow.training import Trained, train
from serl.agents.calibration.measure import measure_flow
from serl.agents.calibration.objective import Window
from serl.agents.calibration.poisson import measure_poisson
from serl.agents.calibration.score import HeldOutScores, mean_scores, score, score_ceiling, score_floor
from serl.agents.realism.errors import RealismError
from serl.agents.traders.flow_features import HOUR_INPUTS, SLOW_INPUTS
from serl.agents.traders.kinds.zero_intelligence import LEVELS
from serl.agents.traders.population import PopulationConfig

VARIANTS: dict[str, tuple[int, ...]] = {"all inputs": (), "without slow inputs": (*SLOW_INPUTS, *HOUR_INPUTS)}
"""Inputs withheld from the networks of each variant."""
ATTEMPTS = 2
"""Number of networks per variant."""
TRIAL_SEEDS = 2
UNUSABLE = 2.0
"""The distance of an unusable network; larger than any distance."""


@dataclass(frozen=True)
class FlowPlan:
    """Settings of a training."""

    name: str
    train: tuple[int, int]
    """(start, end) in ns after midnight."""
    held_out: tuple[int, int]
    seed: int = 1
    score_seeds: int = 5


@dataclass(frozen=True)
class Attempt:
    """A trained network."""

    variant: str
    trained: Trained
    simulated_l1: float
    """Mean L1 between simulated and real training hours."""


@dataclass(frozen=True)
class TrainedFlow:
    """A trained flow and its scores in held-out hours."""

    plan: FlowPlan
    days: list[CalibrationDay]
    """The training days, then the test days."""
    messages: int
    """Number of messages in the training hours."""
    tried: list[Attempt]
    best: Attempt
    population: PopulationConfig
    scored_days: list[dict[str, HeldOutScores]]
    """[day] keys: "floor" (two halves of the held-out hours), "ceiling" (training hours against them), "flow", "baseline" (zero intelligence at
    measured rates)."""

    def scored(self, *, tests: bool = False) -> dict[str, HeldOutScores]:
        """The mean over the training days, or over the test days; empty without test days."""
        chosen = [one for day, one in zip(self.days, self.scored_days, strict=True) if (day.train is None) == tests]
        return {name: mean_scores([one[name] for one in chosen]) for name in chosen[0]} if chosen else {}

    def to_json(self) -> dict[str, Any]:
        """All numbers, except those of the network."""
        return {
            "seed": self.plan.seed, "messages": self.messages,
            "tried": [
                {"variant": one.variant, "simulated_l1": one.simulated_l1, "nats_per_message": one.trained.nats, "best": one is self.best}
                for one in self.tried
            ],
            "days": [
                {
                    "name": day.name, "origin": day.origin, "symbol": day.symbol.name, "test": day.train is None,
                    "scores": {name: one.to_json() for name, one in scored.items()},
                }
                for day, scored in zip(self.days, self.scored_days, strict=True)
            ],
        }  # fmt: skip


def train_flow(
    days: Sequence[NamedDay], plan: FlowPlan, *, tests: Sequence[NamedDay] = (), symbol: str | None = None, levels: int = 0,
    on_epoch: Callable[[], object] = lambda: None, on_score: Callable[[str], object] = lambda name: None,
) -> TrainedFlow:  # fmt: skip
    """Trains on the training hours of days, and scores in their held-out hours and those of the test days. Raises the errors of cut_days and
    samples_of."""
    cut = cut_days(days, tests, plan.train, plan.held_out, symbol=symbol, levels=levels, touch_only=None)
    training = [one.train for one in cut if one.train is not None]
    tapes, tick_size = [one.tape for one in training], cut[0].symbol.tick_size
    samples = [samples_of(tape) for tape in tapes]
    tables, measured = tables_of(tapes, *plan.train), measure_flow(tapes, *plan.train)

    def populated(trained: Trained) -> PopulationConfig:
        return flow_population(trained.text(), plan.name, tick_size, measured.first_mid_ticks)

    tried = list[Attempt]()
    for name, without in VARIANTS.items():
        for number in range(ATTEMPTS):
            trained = train(samples, tables, plan.seed * ATTEMPTS + number, without, on_epoch)
            on_score(f"{name} {number + 1}")
            tried.append(Attempt(name, trained, _simulated_l1(populated(trained), plan, training)))
    best = min(tried, key=lambda one: one.simulated_l1)
    population = populated(best.trained)
    level_ticks = max(1, round((measured.spread_ticks + measured.visible_ticks) / LEVELS))
    baseline = poisson_population(
        measure_poisson(tapes, *plan.train, LEVELS, level_ticks),
        measured.first_mid_ticks,
        f"{plan.name}-poisson",
        tick_size,
    )
    windows = [one.held_out for one in cut]
    scored = {
        "floor": [score_floor(one) for one in windows],
        "ceiling": [score_ceiling(training, one) for one in windows],
    }
    seeds = [SCORE_SEED + 100 * plan.seed + number for number in range(plan.score_seeds)]
    for name, one in (("flow", population), ("baseline", baseline)):
        on_score(name)
        scored[name] = score(one, seeds, windows)
    by_day = [{name: values[number] for name, values in scored.items()} for number in range(len(cut))]
    return TrainedFlow(plan, cut, sum(len(one.token) for one in samples), tried, best, population, by_day)


def _simulated_l1(population: PopulationConfig, plan: FlowPlan, training: Sequence[Window]) -> float:
    """Mean L1 between simulated and real training hours; UNUSABLE if there is nothing to compare."""
    seeds = [SEARCH_SEEDS * plan.seed + number for number in range(TRIAL_SEEDS)]
    try:
        return mean_scores(score(population, seeds, training)).mean_l1.mean
    except RealismError:
        return UNUSABLE
