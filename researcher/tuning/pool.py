"""All scored modules that an update may learn from, and the minibatches drawn from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.rewards import Measurement, Rewards, rewards
from serl.researcher.tuning.surrogate import distances, matrix


@dataclass(frozen=True)
class Scored:
    """A module with the score of its candidate."""

    module: Experience
    kind: str
    candidate: str
    """Key of the module's candidate; all modules of a candidate share its score."""
    group: str
    """Run and training: scores are compared only within a group."""
    score: Measurement | None
    """None if the module or its candidate failed, which counts as the worst possible score."""
    fresh: bool = True
    """Whether the module is from the latest iteration."""


@dataclass(frozen=True)
class Minibatch:
    """What one update learns from."""

    rows: tuple[Experience, ...] = ()
    """Modules for the policy gradient."""
    advantage: tuple[float, ...] = ()
    """One for each of `rows`."""
    winners: tuple[Experience, ...] = ()
    """Modules for supervised tuning."""
    pairs: tuple[tuple[Experience, Experience], ...] = ()
    """(better, worse) for preference tuning, under the same prompt."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.winners or self.pairs)

    @property
    def strength(self) -> float:
        """Scale of the step: 1 with winners or pairs, which differ by more than the noise; else the root mean square advantage, at most 1."""
        if self.winners or self.pairs or not self.advantage:
            return float(bool(self.winners or self.pairs))
        return min(1.0, float(np.sqrt(np.mean(np.square(self.advantage)))))


def minibatch_of(rows: Sequence[Experience], config: TuningConfig) -> Minibatch:
    """All rows as a minibatch with exact scores: the performance is the reward."""
    exact = [Scored(row, "", str(index), "", Measurement(row.performance_bps, 0.0)) for index, row in enumerate(rows)]
    return Pool(exact, config.model_copy(update={"denoise": False})).minibatch(len(rows), np.random.default_rng(0))


class Pool:
    """Scored modules with their rewards, in the given order: oldest first. Of the modules of earlier iterations, the newest `replay_kept` are kept."""

    def __init__(self, scored: Sequence[Scored], config: TuningConfig) -> None:
        earlier = [row for row in scored if not row.fresh]
        fresh = [row for row in scored if row.fresh]
        self.rows = [*earlier[max(0, len(earlier) - config.replay_kept) :], *fresh]
        self.config = config
        self.groups: dict[str, Rewards] = {}
        self._value, self._advantage = np.zeros(len(self.rows)), np.full(len(self.rows), -1.0)
        for group in dict.fromkeys(row.group for row in self.rows):
            self._reward(group)
        self._pairs = self._usable_pairs() if "preference" in config.methods else []
        self._winners = self._best() if "supervised" in config.methods else []

    def _reward(self, group: str) -> None:
        """Set the rewards of a group. A candidate is one measurement, however many modules it has. Failures get the lowest advantage, at most -1."""
        members = [index for index, row in enumerate(self.rows) if row.group == group]
        measured = {self.rows[i].candidate: one for i in members if (one := self.rows[i].score) is not None}
        if not measured:
            return
        found = rewards(list(measured.values()), self.config.denoise, self.config.advantage_max)
        self.groups[group] = found
        place = {key: index for index, key in enumerate(measured)}
        lowest = min(-1.0, float(found.advantage.min()))
        for index in members:
            row = self.rows[index]
            if row.score is None:
                self._advantage[index], self._value[index] = lowest, float(found.value_bps.min())
            else:
                self._advantage[index] = found.advantage[place[row.candidate]]
                self._value[index] = found.value_bps[place[row.candidate]]

    @property
    def noise_bps(self) -> float:
        """Mean noise of a measured score over the groups."""
        return float(np.mean([found.noise_bps for found in self.groups.values()])) if self.groups else 0.0

    def minibatch(self, n: int, rng: np.random.Generator) -> Minibatch:
        """At most `n` modules for each method. Those for the policy gradient include a share of earlier modules; winners and pairs are drawn from all
        modules."""
        methods = self.config.methods
        rows = self._draw(n, rng) if "policy_gradient" in methods else []
        winners = _choice(self._winners, n, rng)
        pairs = [self._pair(*self._pairs[i]) for i in _choice(range(len(self._pairs)), max(1, n // 2), rng)]
        return Minibatch(
            tuple(self.rows[i].module for i in rows), tuple(float(self._advantage[i]) for i in rows),
            tuple(self.rows[i].module for i in winners), tuple(pairs),
        )  # fmt: skip

    def _draw(self, n: int, rng: np.random.Generator) -> list[int]:
        fresh = [i for i, row in enumerate(self.rows) if row.fresh]
        earlier = [i for i, row in enumerate(self.rows) if not row.fresh]
        replayed = min(len(earlier), max(round(n * self.config.replay_share), n - len(fresh)))
        return [*_choice(fresh, n - replayed, rng), *_choice(earlier, replayed, rng)]

    def _best(self) -> list[int]:
        """The best share of each group, if it is better than the group's mean by more than the noise."""
        found = []
        for group, reward in self.groups.items():
            least = max(
                float(np.quantile(reward.value_bps, 1 - self.config.winners)),
                reward.value_bps.mean() + reward.noise_bps,
            )
            members = [i for i, row in enumerate(self.rows) if row.group == group and row.score is not None]
            found += [i for i in members if self._value[i] >= least and self._advantage[i] > 0]
        return found

    def _usable_pairs(self) -> list[tuple[int, int]]:
        """(better, worse) pairs within a kind and a group whose difference exceeds the noise; only the most diverse half of them. Of two pairs alike in
        rank, the pair whose specifications differ more teaches more (arXiv 2507.10614)."""
        found: list[tuple[float, int, int]] = []
        for group, kind in dict.fromkeys((row.group, row.kind) for row in self.rows):
            if (reward := self.groups.get(group)) is None:
                continue
            members = [i for i, row in enumerate(self.rows) if (row.group, row.kind) == (group, kind)]
            features = [one.features if (one := self.rows[i].score) and one.features else {} for i in members]
            apart = distances(matrix(features))
            gap = self.config.pair_gap * reward.noise_bps
            found += [
                (float(apart[a, b]), i, j)
                for a, i in enumerate(members)
                for b, j in enumerate(members)
                if self._value[i] - self._value[j] > gap
                and self.rows[i].module.token_ids != self.rows[j].module.token_ids
            ]
        found.sort(reverse=True)
        return [(i, j) for _, i, j in found[: max(1, (len(found) + 1) // 2)]]

    def _pair(self, better: int, worse: int) -> tuple[Experience, Experience]:
        """Both modules under the prompt of the better one, as preferences need."""
        first, second = self.rows[better].module, self.rows[worse].module
        return first, replace(second, prompt_ids=first.prompt_ids)


def _choice(items: Sequence[int], n: int, rng: np.random.Generator) -> list[int]:
    """Up to `n` items without replacement."""
    return [items[i] for i in rng.permutation(len(items))[:n]]
