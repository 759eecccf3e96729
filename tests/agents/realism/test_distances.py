"""Distances computed by hand, and their intervals."""

import numpy as np
import pytest

from serl.agents.realism.distances import (
    SUPPORT_MAX,
    Estimate,
    assign_bins,
    bin_width,
    conditional_distance,
    distance,
    inter_quartile_mean,
    l1,
    summary,
    wasserstein,
)
from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import Floats


def numbers(*values: float) -> Floats:
    return np.array(values, np.float64)


def random() -> np.random.Generator:
    return np.random.default_rng(1)


def test_by_hand() -> None:
    real, simulated = numbers(0, 0, 1, 1), numbers(0, 1, 1, 1)
    assert l1(real, simulated, True, 0, random()).value == 0.25
    assert wasserstein(real, simulated, 0, random()).value == pytest.approx(0.25 / np.sqrt(3 / 8 * 5 / 8))
    assert wasserstein(numbers(0, 1), numbers(3), 0, random()).value == pytest.approx(2.5 / numbers(0, 1, 3).std())


def test_bins_by_hand() -> None:
    pool = np.arange(8.0)  # quartiles 1.75 and 5.25, width 2 * 3.5 / 2 = 3.5, whole: 4
    assert bin_width(pool) == 4
    assert assign_bins(pool, False).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert assign_bins(pool, True).tolist() == list(range(8))
    assert bin_width(pool / 10) == pytest.approx(0.35)
    assert bin_width(pool / 2) == 2, "half ticks: a multiple of one half"
    assert bin_width(np.arange(1000.0) % 3) == 1, "never narrower than the values' own grid"
    assert bin_width(numbers(7, 7, 7)) == 0 and assign_bins(numbers(7, 7, 7), False).tolist() == [0, 0, 0]
    lump = np.concatenate([np.zeros(997), numbers(0.31, 0.62, 0.93)])
    assert bin_width(lump) == pytest.approx(3.49 * lump.std() / 10), "IQR 0: Scott's rule"
    assert assign_bins(np.concatenate([pool / 10, [1e15]]), False).max() == 2, "an outlier costs one bin"


def test_disjoint_empty_and_constant_samples() -> None:
    far = distance(np.arange(10.0), np.arange(100.0, 110.0), discrete=True, bootstraps=3, random=random())
    assert far.l1.value == pytest.approx(1) and far.l1.interval == pytest.approx((1, 1))
    empty = distance(np.arange(10.0), numbers(), discrete=True, bootstraps=3, random=random())
    assert empty.l1.value == 1 and empty.wasserstein is None
    constant = distance(numbers(5, 5), numbers(5), discrete=False, bootstraps=3, random=random())
    assert constant.l1.value == 0 and constant.wasserstein is not None and constant.wasserstein.value == 0


def test_conditional_by_hand() -> None:
    """Bins 0, 1, 2 with weights .5, .375, .125; L1 within them .5, 0 and 1 (only simulated)."""
    found = conditional_distance(
        (numbers(0, 0, 1, 1), numbers(0, 0, 1, 1)), (numbers(0, 1, 1, 1), numbers(0, 0, 1, 2)),
        deciles=False, discrete=True, bootstraps=5, random=random(),
    )  # fmt: skip
    assert found.l1.value == 0.375
    assert found.wasserstein is not None
    assert found.wasserstein.value == pytest.approx(0.5 * (0.5 / numbers(0, 0, 0, 1).std()) / 0.875)
    assert found.l1.resampled.shape == (5,)


def test_conditioning_on_deciles_shows_a_difference_that_the_values_alone_do_not() -> None:
    """The same values and the same conditions, paired in opposite order."""
    values, condition = np.repeat(numbers(0, 1), 500), np.arange(1000.0)
    for paired, expected in ((condition, 0), (condition[::-1], 1)):
        found = conditional_distance(
            (values, condition), (values, paired), deciles=True, discrete=True, bootstraps=0, random=random()
        )
        assert found.l1.value == pytest.approx(expected)


def test_intervals_shrink_with_the_sample() -> None:
    source = random()
    widths = {}
    for size in (400, 40_000):
        real, simulated = source.normal(size=size), source.normal(0.5, 1, size=size)
        for name, estimate in (
            ("l1", l1(real, simulated, False, 200, random())),
            ("w", wasserstein(real, simulated, 200, random())),
        ):
            low, high = estimate.interval
            widths[name, size] = high - low
            assert low < estimate.value < high
    assert widths["l1", 40_000] < widths["l1", 400] / 4
    assert widths["w", 40_000] < widths["w", 400] / 4


def test_resampled_wasserstein_is_near_the_exact_one() -> None:
    source = random()
    real, simulated = source.lognormal(size=5 * SUPPORT_MAX), source.lognormal(0.3, 1, size=3 * SUPPORT_MAX)
    found = wasserstein(real, simulated, 100, random())
    assert found.resampled.mean() == pytest.approx(found.value, rel=0.1)
    assert found.resampled.std() > 0


def test_summaries() -> None:
    assert inter_quartile_mean(numbers(1, 2, 3, 4, 100)) == 3
    found = summary([Estimate(value, np.full(4, value)) for value in (1.0, 2, 3, 4, 100)])
    assert {name: estimate.value for name, estimate in found.items()} == {"mean": 22, "median": 3, "iqm": 3}
    assert found["iqm"].interval == (3, 3)
    assert Estimate(2.5, numbers()).interval == (2.5, 2.5)


def test_intervals_are_around_the_value() -> None:
    """Resampled values from 11 to 13, shifted to a value of 10: from 9 to 11, minus 2.5 % at both ends."""
    assert Estimate(10, np.linspace(11, 13, 41)).interval == pytest.approx((9.05, 10.95))
    low, high = Estimate(10, numbers(float("nan"))).interval
    assert np.isnan(low) and np.isnan(high)


def test_negative_bootstraps_are_refused() -> None:
    from serl.agents.realism.distances import check_bootstraps

    check_bootstraps(0)
    with pytest.raises(RealismError, match="bootstraps: expected 0 or more, got -1"):
        check_bootstraps(-1)
