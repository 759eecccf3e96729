"""The square-root law on runs that obey it."""

import numpy as np
import pytest

from serl.agents.impact.simulated_report import law_lines
from serl.agents.realism.errors import RealismError
from serl.agents.realism.square_root_law import ImpactLaw, fit_impact_law, plot_impact_law

SIZES = np.array([0.001, 0.003, 0.01, 0.03, 0.1])


def test_an_exact_law_is_recovered() -> None:
    law = fit_impact_law(SIZES, 0.8 * SIZES**0.5, bootstraps=0)
    assert law.delta.value == pytest.approx(0.5) and law.prefactor.value == pytest.approx(0.8)
    with_runs = fit_impact_law(np.tile(SIZES, 5), np.tile(1.5 * SIZES**0.6, 5), run=np.repeat(np.arange(5), 5))
    assert with_runs.delta.interval == pytest.approx((0.6, 0.6))
    assert with_runs.prefactor.value == pytest.approx(1.5) and with_runs.runs == 5


def test_noise_widens_the_interval_and_runs_are_resampled_as_a_whole() -> None:
    """A factor common to a run changes Y, not delta: with common random numbers it does not widen delta's interval."""
    random = np.random.default_rng(1)
    factor = random.lognormal(0, 0.5, size=200)
    fractions, run = np.tile(SIZES, 200), np.repeat(np.arange(200), 5)
    impacts = np.repeat(factor, 5) * fractions**0.5
    paired = fit_impact_law(fractions, impacts, run=run)
    alone = fit_impact_law(fractions, impacts)
    assert np.diff(paired.delta.interval) < 1e-9 < 1e-3 < np.diff(alone.delta.interval)
    assert paired.prefactor.interval[0] < paired.prefactor.value < paired.prefactor.interval[1]
    noisy = fit_impact_law(fractions, impacts + random.normal(0, 0.05, size=1000), run=run)
    low, high = noisy.delta.interval
    assert low < 0.5 < high and high - low < 0.2, "single impacts may be negative"
    assert plot_impact_law(noisy)[:4] == b"\x89PNG"


def law_of(runs: int, seed: int) -> ImpactLaw:
    """Of runs that each have an exponent of their own, one half on average, and noise."""
    random, centred = np.random.default_rng(seed), np.log(SIZES) - np.log(SIZES).mean()
    impacts = SIZES**0.5 * np.exp(0.1 * random.standard_normal((runs, 1)) * centred)
    impacts *= 1 + 0.1 * random.standard_normal(impacts.shape)
    run = np.repeat(np.arange(runs), len(SIZES))
    return fit_impact_law(np.tile(SIZES, runs), impacts.ravel(), run=run, bootstraps=500, seed=seed)


def test_intervals_of_few_runs_contain_the_truth() -> None:
    """The central draws of five runs contain it in 80 % of cases."""
    laws = [law_of(5, seed) for seed in range(200)]
    held = [law.delta.interval[0] <= 0.5 <= law.delta.interval[1] for law in laws]
    assert np.mean(held) >= 0.9
    middle = [law.low[2] <= SIZES[2] ** 0.5 <= law.high[2] for law in laws]
    assert np.mean(middle) >= 0.9


def test_a_plot_leaves_the_figures_and_the_backend_of_a_program_as_they_are() -> None:
    """In a notebook, where plots appeared no more after the first picture of serl."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("svg")
    try:
        pyplot.figure()
        plot_impact_law(law_of(5, 1))
        assert (pyplot.get_backend(), pyplot.get_fignums()) == ("svg", [1])
    finally:
        pyplot.close("all")
        pyplot.switch_backend("agg")


@pytest.mark.parametrize("runs", [1, 4])
def test_too_few_runs_give_no_interval(runs: int) -> None:
    law = law_of(runs, 1)
    assert np.isnan([*law.delta.interval, *law.prefactor.interval, *law.low, *law.high]).all()
    assert plot_impact_law(law)[:4] == b"\x89PNG"
    first, _, why = law_lines(law)
    assert first.endswith("(no interval)")
    assert why == f"expected 5 or more markets for intervals, got {runs}; give more --seeds"
    assert len(law_lines(law_of(5, 1))) == 2


@pytest.mark.parametrize(
    ("fractions", "impacts", "message"),
    [
        ([0.1, 0.1], [1, 1], "expected at least two sizes Q / V, got 1"),
        ([0.1, 0.2], [1, -1], "expected a positive mean impact at every size, got -1 at Q / V = 0.2"),
        ([0.1, 0], [1, 1], "expected Q / V above 0"),
        ([0.1, 0.2, 0.3], [1, 1], "expected arrays of one length"),
    ],
)
def test_runs_that_cannot_be_fitted_are_refused(fractions: list[float], impacts: list[float], message: str) -> None:
    with pytest.raises(RealismError, match=message):
        fit_impact_law(np.array(fractions), np.array(impacts, np.float64))
