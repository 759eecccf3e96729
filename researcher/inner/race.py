"""The race: which candidate gets the next training.

Candidates climb the stages of `race.stages`. A candidate may enter the next stage if it is among the best `kept` of all that finished the stage,
by the lower confidence bound of the paired difference. The rule ranks all candidates of the run, so a candidate of an earlier iteration can still
be promoted (asynchronous successive halving: Li et al. 2018, arXiv 1810.05934). Among those that may train, a bandit picks the one with the
highest upper confidence bound (UCB: Auer, Cesa-Bianchi and Fischer 2002, Machine Learning 47; a bandit over candidate rewards: ORSO, arXiv
2410.13837).
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from serl.researcher.candidates import Paired
from serl.researcher.inner.contender import Contender
from serl.researcher.inner.paired import paired
from serl.researcher.inner.race_config import Race, Stage

OPTIMISM = 2.0
"""Standard errors between the difference and the upper bound that the bandit uses."""


class Ticket(NamedTuple):
    """A training to do."""

    key: str
    share: float
    seed: int
    cost: float
    """In trainings of the full steps; a training that is continued costs only the added share."""


class Standings:
    """The state of a race. The contenders are compared with the incumbent, which is not one of them."""

    def __init__(self, config: Race, contenders: Sequence[Contender], incumbent: Contender) -> None:
        self._config, self.incumbent = config, incumbent
        self._contenders = sorted(contenders, key=lambda one: one.key)
        self._paired: dict[tuple[str, float, int], Paired] = {}
        """Cache by contender, share and number of trials: the ranking needs each entry many times, and trials never change."""
        self._spread: tuple[list[int], float] = ([], 0.0)
        """Cache: numbers of trials, and the spread between trainings at those numbers, which each measurement needs."""

    def stages_done(self, one: Contender) -> int:
        """How many stages a contender has finished, from the first on."""
        done = 0
        while done < len(self._config.stages) and one.has(_trials(one, self._config.stages[done])):
            done += 1
        return done

    def is_open(self, one: Contender) -> bool:
        """Whether a contender could get further trainings."""
        return one is not self.incumbent and self.stages_done(one) < len(self._config.stages)

    @property
    def unscreened(self) -> bool:
        """Whether any contender has neither a score nor a failure."""
        return any(not one.failure and not one.top() for one in self._contenders)

    def measure(self, one: Contender, stage: Stage | None = None) -> Paired:
        """The paired score of a contender with trials: at a stage it has finished, or from all trials at its largest share.

        A single training says nothing about the spread between trainings, so the spread of the other contenders is added to its error, if known.
        """
        trials = one.top() if stage is None else one.at(one.share_of(stage.share), stage.seeds)
        share, trained = trials[0].share, not (one.is_rule and self.incumbent.is_rule)
        place = one.key, share, len(trials)
        if place not in self._paired:
            theirs = self.incumbent.at(self.incumbent.share_of(share), len(trials))
            scores = [[trial.score for trial in each] for each in (trials, theirs)]
            self._paired[place] = paired(scores[0], scores[1], share, trained=trained)
        found = self._paired[place]
        if trained and found.seeds == 1 and one is not self.incumbent and (spread := self.spread_bps()):
            error = math.hypot(found.se_bps, spread)
            wider = error * (found.high_bps - found.difference_bps) / found.se_bps if found.se_bps else OPTIMISM * error
            low, high = found.difference_bps - wider, found.difference_bps + wider
            return dataclasses.replace(found, se_bps=error, low_bps=low, high_bps=high)
        return found

    def spread_bps(self) -> float:
        """Standard deviation of the paired difference between trainings of the same candidate: the root mean square over candidates that were
        trained three times or more; 0 if there are none."""
        trials = [-1 if one.failure else len(one.trials) for one in (*self._contenders, self.incumbent)]
        if trials != self._spread[0]:
            variances = [np.var(found, ddof=1) for one in self._contenders if len(found := self._differences(one)) > 2]
            self._spread = trials, float(np.sqrt(np.mean(variances))) if variances else 0.0
        return self._spread[1]

    def _differences(self, one: Contender) -> list[float]:
        if one.failure or not (own := one.top()):
            return []
        theirs = self.incumbent.at(self.incumbent.share_of(own[0].share), len(own))
        return [mine.score.pa_bps - other.score.pa_bps for mine, other in zip(own, theirs, strict=True)]

    def upper_bps(self, one: Contender) -> float:
        """The upper bound that the bandit uses; infinity without a score."""
        if not one.top():
            return math.inf
        found = self.measure(one)
        return found.difference_bps + OPTIMISM * found.se_bps

    def may_train(self) -> list[Contender]:
        """The contenders that may train now, highest upper bound first."""
        running = [(one, self.stages_done(one)) for one in self._contenders if not one.failure]
        allowed = [one for one, done in running if done == 0]
        for number, (before, stage) in enumerate(itertools.pairwise(self._config.stages), 1):
            arrived = [(one, done) for one, done in running if done >= number]
            ranked = sorted(arrived, key=lambda each: (-self.measure(each[0], before).low_bps, each[0].key))
            kept = ranked[: max(1, math.ceil(stage.kept * len(ranked) - 1e-9))]
            allowed += [one for one, done in kept if done == number]
        return sorted(allowed, key=lambda one: (-self.upper_bps(one), one.key))

    def tickets(self, one: Contender) -> list[Ticket]:
        """The trainings that a contender lacks to finish its next stage."""
        stages, done = self._config.stages, self.stages_done(one)
        missing = (
            [trial for trial in _trials(one, stages[done]) if trial not in one.trials] if done < len(stages) else []
        )
        return [_ticket(one, stages[done], seed) for _, seed in missing]

    def next_round(self, spent: float) -> list[Ticket]:
        """The trainings to do next, at most `at_once`; empty at the end of the race. The screening of all contenders comes first: neither
        `at_once` nor the budget limits it."""
        allowed = self.may_train()
        fresh = [one for one in allowed if self.stages_done(one) == 0]
        if fresh:
            return [made for one in fresh for made in self.tickets(one)]
        waiting = [self.tickets(one) for one in allowed]
        chosen: list[Ticket] = []
        for depth in range(max(map(len, waiting), default=0)):
            chosen += [tickets[depth] for tickets in waiting if len(tickets) > depth]
        limit = math.inf if self._config.trainings is None else self._config.trainings - spent + 1e-9
        made: list[Ticket] = []
        for each in chosen[: self._config.at_once]:
            if sum(one.cost for one in made) + each.cost <= limit:
                made.append(each)
        return made

    def of_incumbent(self, tickets: Sequence[Ticket], *, first: bool = False) -> list[Ticket]:
        """The trainings that the incumbent lacks for a comparison with `tickets`. With `first`, also those that it gets in any case: the first seed
        at all stages, and the second one too while there are no candidates. They cost nothing, because all candidates share them."""
        one, stages = self.incumbent, self._config.stages if first else ()
        seeds = 1 if self._contenders else 2
        wanted = {(one.share_of(each.share), each.seed) for each in tickets} | {
            (one.share_of(stage.share), seed) for stage in stages for seed in range(min(seeds, stage.seeds))
        }
        return [Ticket(one.key, *trial, 0.0) for trial in sorted(wanted) if trial not in one.trials]


def _trials(one: Contender, stage: Stage) -> list[tuple[float, int]]:
    return [(one.share_of(stage.share), seed) for seed in range(stage.seeds)]


def _ticket(one: Contender, stage: Stage, seed: int) -> Ticket:
    """The ticket of a seed at a stage. A rule costs as much as a training to the stage's share, although it needs none: screens must leave
    something of the budget."""
    before = max((known for known, each in one.trials if each == seed), default=0.0)
    return Ticket(one.key, one.share_of(stage.share), seed, stage.share - before)
