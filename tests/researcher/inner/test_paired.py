"""Paired scores: coverage of the interval, clustering, and the control variate."""

import numpy as np
import pytest

from serl.agents.students_t import student
from serl.researcher.candidates import Paired, Score
from serl.researcher.inner.paired import freedom, paired, standard_error

DAYS, PER_DAY = 24, 10


def score(advantages: np.ndarray, days: np.ndarray, controls: np.ndarray) -> Score:
    rows = (tuple(map(float, advantages)), tuple(map(int, days)), tuple(map(float, controls)))
    return Score(float(advantages.mean()), 0.0, 0.0, 0.0, len(advantages), 1.0, 0.0, 0.0, *rows)


def drawn(
    random: np.random.Generator, effect: float, day_std: float, seed_std: float, seeds: int, slope: float = 0.0
) -> tuple[list[Score], list[Score]]:
    """Scores of a candidate and an incumbent: a true effect, noise common to a day, to a training, and to both algorithms."""
    days = np.repeat(np.arange(DAYS), PER_DAY)
    day_noise = random.normal(0, day_std, DAYS)
    own, theirs = [], []
    for _ in range(seeds):
        controls = random.normal(0, 1, len(days))
        common = random.normal(0, 10, len(days))
        difference = effect + day_noise[days] + random.normal(0, seed_std) + random.normal(0, 0.5, len(days))
        own.append(score(common + difference + slope * controls, days, controls))
        theirs.append(score(common, days, controls))
    return own, theirs


def compared(scores: tuple[list[Score], list[Score]]) -> Paired:
    return paired(scores[0], scores[1], 1.0)


@pytest.mark.parametrize(
    ("day_std", "seed_std", "seeds"), [(0.5, 0.0, 1), pytest.param(0.3, 0.5, 8, marks=pytest.mark.long), (0.0, 0.5, 3)]
)
def test_the_interval_holds_the_truth_as_often_as_it_says(day_std: float, seed_std: float, seeds: int) -> None:
    random = np.random.default_rng(1)
    found = [compared(drawn(random, 0.2, day_std, seed_std, seeds)) for _ in range(300)]
    held = np.mean([one.low_bps <= 0.2 <= one.high_bps for one in found])
    assert 0.91 <= held <= 1.0, held


def test_an_estimated_slope_makes_no_interval_too_narrow() -> None:
    """With eight days, one order each, the interval held the truth in 91 % of cases."""
    random, held, controlled = np.random.default_rng(9), [], []
    for _ in range(1500):
        controls, days = random.normal(0, 1, 8), np.arange(8)
        own = score(0.2 + random.normal(0, 0.5, 8) + 2 * controls, days, controls)
        found = paired([own], [score(np.zeros(8), days, controls)], 1.0, trained=False)
        held.append(found.low_bps <= 0.2 <= found.high_bps)
        controlled.append(found.controlled)
        half = found.se_bps * student(7 - found.controlled)
        assert found.high_bps - found.difference_bps == pytest.approx(half), "the slope costs a degree of freedom"
    assert 0.935 <= np.mean(held) <= 0.965, np.mean(held)
    assert np.mean(controlled) > 0.9


def test_pairing_takes_out_what_both_have() -> None:
    own, theirs = drawn(np.random.default_rng(2), 0.2, 0.1, 0.0, 1)
    found = paired(own, theirs, 0.5)
    alone = np.std(own[0].advantages_bps) / np.sqrt(DAYS * PER_DAY)
    assert found.se_bps < alone / 5
    assert (found.seeds, found.share, found.orders) == (1, 0.5, DAYS * PER_DAY)


def test_orders_of_a_day_are_not_independent() -> None:
    own, theirs = drawn(np.random.default_rng(3), 0.0, 1.0, 0.0, 1)
    single = [
        score(np.array(one.advantages_bps), np.arange(DAYS * PER_DAY), np.array(one.controls_bps))
        for one in (own[0], theirs[0])
    ]
    assert paired(own, theirs, 1.0).se_bps > 2 * paired(single[:1], single[1:], 1.0).se_bps


def test_the_spread_between_trainings_is_in_the_error() -> None:
    own, theirs = drawn(np.random.default_rng(4), 0.0, 0.0, 1.0, 4)
    assert paired(own, theirs, 1.0).se_bps > 3 * paired(own, theirs, 1.0, trained=False).se_bps


def test_the_error_is_never_below_that_of_one_clustering() -> None:
    """Two days with two trainings each: what the trainings add cancels within each day, and the other way round."""
    days, seeds = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    values = np.array([1.0, -1.0, 1.0, -1.0])
    assert standard_error(values, days, seeds) == standard_error(values, seeds, days) == 1.0


def test_orders_of_a_single_day_are_its_clusters() -> None:
    values, one = np.array([1.0, 2.0, 4.0, 9.0]), np.zeros(4, np.int64)
    assert standard_error(values, one, one) == pytest.approx(values.std(ddof=1) / 2)
    assert freedom(one, one) == 3


def test_an_interval_has_one_degree_of_freedom_less_than_the_rarer_clusters() -> None:
    days, seeds, one = np.arange(24), np.arange(24) % 3, np.zeros(24, np.int64)
    assert freedom(days, seeds) == freedom(one, seeds) == 2
    assert (freedom(days, one), freedom(days, one, controls=1)) == (23, 22)


def test_the_control_variate_is_used_where_it_helps() -> None:
    random = np.random.default_rng(5)
    helped = [compared(drawn(random, 0.2, 0.0, 0.0, 1, slope=2.0)) for _ in range(200)]
    plain = [compared(drawn(random, 0.2, 0.0, 0.0, 1, slope=0.0)) for _ in range(20)]
    assert all(one.controlled for one in helped)
    assert abs(np.mean([one.difference_bps for one in helped]) - 0.2) < 0.01, "it adds no bias"
    assert np.std([one.difference_bps for one in helped]) < 0.05 < 2.0 / np.sqrt(DAYS * PER_DAY), "without it .13"
    assert np.mean([one.se_bps for one in helped]) == pytest.approx(np.mean([one.se_bps for one in plain]), rel=0.2)


def test_the_same_policy_differs_by_nothing() -> None:
    own, _ = drawn(np.random.default_rng(6), 0.0, 1.0, 1.0, 2)
    found = paired(own, own, 1.0)
    assert (found.difference_bps, found.se_bps, found.low_bps, found.high_bps) == (0.0, 0.0, 0.0, 0.0)


def test_other_orders_cannot_be_compared() -> None:
    own, _ = drawn(np.random.default_rng(7), 0.0, 1.0, 1.0, 1)
    theirs, _ = drawn(np.random.default_rng(8), 0.0, 1.0, 1.0, 1)
    with pytest.raises(ValueError, match="expected scores on the same orders"):
        paired(own, theirs, 1.0)
    controls = np.array(own[0].controls_bps)
    other_days = score(np.array(own[0].advantages_bps), np.repeat(np.arange(DAYS), PER_DAY) + 1, controls)
    with pytest.raises(ValueError, match="expected scores on the same orders"):
        paired(own, [other_days], 1.0)


@pytest.mark.parametrize(
    ("degrees", "value"), [(1, 12.706), (2, 4.303), (11, 2.201), (24, 2.064), (50, 2.009), (10**6, 1.960)]
)
def test_students_quantiles(degrees: int, value: float) -> None:
    assert student(degrees) == pytest.approx(value, abs=2e-3)
