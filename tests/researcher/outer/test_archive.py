"""The archive by behaviour, the choice of parents, the bandit and paired differences."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest

from serl.researcher.candidates import Candidate, Module, Paired, Result, Score
from serl.researcher.inner.paired import paired
from serl.researcher.inner.results import mean_score
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer.archive import children, choose_parents, elites
from serl.researcher.outer.bandit import Arm, choose_arm
from serl.researcher.outer.features import features
from serl.researcher.outer.paired import Difference, paired_difference
from serl.researcher.outer.records import EvaluatedCandidate
from tests.researcher.outer.small import REWARD, score_of


def evaluated(slot: int, pa_bps: float, unfilled: float = 0.1, lateness: float = 0.0) -> EvaluatedCandidate:
    score = dataclasses.replace(score_of(pa_bps), unfilled=unfilled, behaviour={"lateness": lateness})
    return EvaluatedCandidate(1, slot, Candidate({}), Result("done", "", score, None, {}), pa_bps)


def test_each_behaviour_keeps_its_best() -> None:
    patient = [evaluated(slot, -2.0 - slot, unfilled=0.9, lateness=0.3) for slot in range(4)]
    quick = [evaluated(10 + slot, 1.0 + slot, unfilled=0.0, lateness=-0.3) for slot in range(4)]
    found = elites([*patient, *quick], 2)
    assert [(one.candidate.slot, one.candidate.performance_bps) for one in found] == [(13, 4.0), (0, -2.0)]
    assert found[0].cell != found[1].cell
    assert elites([], 2) == []


def test_parents_are_good_and_have_few_children() -> None:
    archive = elites([evaluated(slot, float(-slot), unfilled=slot / 10) for slot in range(8)], 8)
    rng = np.random.default_rng(0)
    often = Counter(choose_parents(archive, Counter(), 1, rng)[0].slot for _ in range(2000))
    assert often[0] > often[1] > often[7] > 0
    fertile = children([[(1, 0)]] * 30)
    after = Counter(choose_parents(archive, fertile, 1, rng)[0].slot for _ in range(2000))
    assert after[0] < often[0] / 4
    assert all(len({one.slot for one in choose_parents(archive, Counter(), 2, rng)}) == 2 for _ in range(50))
    assert len(choose_parents(archive[:1], Counter(), 2, rng)) == 1


def test_the_bandit_finds_the_arm_that_pays_and_still_tries_others() -> None:
    arms = [Arm("fresh", "m"), Arm("mutate"), Arm("uniform")]
    pays = {arms[0]: 0.2, arms[1]: 0.7, arms[2]: 0.1}
    rng, paid = np.random.default_rng(0), dict[Arm, list[float]]()
    for _ in range(300):
        arm = choose_arm(arms, paid, rng)
        paid.setdefault(arm, []).append(float(rng.random() < pays[arm]))
    counts = {arm: len(paid[arm]) for arm in arms}
    assert counts[arms[1]] > 200
    assert min(counts.values()) >= 3


def test_the_bandit_draws_from_the_posterior_of_the_rewards() -> None:
    """Beta(10, 1) behind nine full rewards: it is above a uniform draw as often as its mean, 10 / 11."""
    arms, rng = [Arm("paid"), Arm("new")], np.random.default_rng(0)
    chosen = [choose_arm(arms, {arms[0]: [1.0] * 9}, rng) == arms[0] for _ in range(1000)]
    assert np.mean(chosen) == pytest.approx(10 / 11, abs=0.03)


def test_differences_are_paired_by_order() -> None:
    base = np.random.default_rng(0).normal(size=50) * 10
    results = [
        Result("done", "", dataclasses.replace(score_of(0.0), advantages_bps=tuple(base + shift)), None, {})
        for shift in (0.0, 0.5)
    ]
    found = paired_difference(results[1], results[0])
    assert found is not None
    assert found.mean_bps == pytest.approx(0.5) and found.error_bps < 1e-9
    more = dataclasses.replace(score_of(0.0), advantages_bps=tuple(np.append(base + 0.5, base + 99)))
    for one, another, sign in (
        (more, results[0], 1),
        (results[0].score, dataclasses.replace(results[0], score=more), -1),
    ):
        first = paired_difference(dataclasses.replace(results[0], score=one), another)
        assert first is not None and first.mean_bps == pytest.approx(0.5 * sign), "additional trainings are left out"
    other = dataclasses.replace(results[0], score=dataclasses.replace(score_of(2.0), advantages_bps=(1.0,)))
    loose = paired_difference(other, results[0])
    assert loose is not None and loose.mean_bps == 2.0 and math.isnan(loose.error_bps)
    assert paired_difference(Result("training", "", None, None, {}), results[0]) is None
    assert Difference(1.0, 1.0).better == pytest.approx(0.8413, abs=1e-3)
    assert Difference(0.0, math.nan).better == 0.5


def test_what_was_trained_less_is_compared_by_the_incumbent() -> None:
    """A fifth of the steps, and all of them: the scores are 3 bps apart, the incumbent's as well."""

    def result(pa_bps: float, difference_bps: float, share: float) -> Result:
        paired = Paired(difference_bps, 0.3, difference_bps - 0.6, difference_bps + 0.6, 1, share, 8, False)
        return Result("halved", "", score_of(pa_bps), None, {}, paired)

    short, long = result(-4.0, 0.4, 0.2), result(-1.0, 0.0, 1.0)
    found = paired_difference(short, long)
    assert found is not None
    assert found.mean_bps == pytest.approx(0.4) and found.error_bps == pytest.approx(0.3 * math.sqrt(2))
    same = paired_difference(short, result(-5.0, 0.0, 0.2))
    assert same is not None and same.mean_bps == pytest.approx(1.0), "order by order"


def test_trained_candidates_that_are_equal_are_seldom_clearly_better() -> None:
    """The error knew the days and not the trainings: of equal candidates, 43 % were better by more than two standard errors."""
    random, days, clearly = np.random.default_rng(0), np.repeat(np.arange(24), 10), 0
    for _ in range(100):
        common = random.normal(0, 10, (3, 240))
        incumbent, *both = (
            [trial(each + random.normal(0, 0.5) + random.normal(0, 0.5, 240), days) for each in common]
            for _ in range(3)
        )
        one, other = (
            Result("done", "", mean_score(each), None, {"steps": 600}, paired(each, incumbent, 1.0)) for each in both
        )
        found = paired_difference(one, other)
        assert found is not None
        clearly += found.mean_bps > 2 * found.error_bps
        rules = [dataclasses.replace(each, facts={"steps": 0}) for each in (one, other)]
        by_order = paired_difference(rules[0], rules[1])
        assert by_order is not None and by_order.error_bps < 0.05 < found.error_bps, "rules have no such spread"
    assert clearly / 100 < 0.05


def trial(advantages: np.ndarray, days: np.ndarray) -> Score:
    return dataclasses.replace(
        score_of(float(advantages.mean())), advantages_bps=tuple(advantages), clusters=tuple(days), controls_bps=(0.0,) * len(days)
    )  # fmt: skip


def test_features_name_choices_and_defaults() -> None:
    found = features(Candidate({Kind.REWARD: Module("spec", REWARD)}), (Kind.REWARD, Kind.AGENT))
    assert {"reward base schedule", "agent default", "reward terms of length 2"} <= found
    assert "reward terms with unfilled linear one last_step" in found
