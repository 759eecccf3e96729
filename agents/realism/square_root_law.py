"""Fits the square-root law of market impact, I / sigma = Y (Q / V)^delta, to runs of any market.

A run is a pair of simulations with the same seed, with and without a metaorder of size Q, in a period of volume V and
volatility sigma. The impact I is the difference of the mids.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.pages.picture import new_figure, picture
from serl.agents.realism.distances import Estimate, bounds, check_bootstraps
from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import Floats, Ints


@dataclass(frozen=True)
class ImpactLaw:
    """A fit of log(I / sigma) = log Y + delta log(Q / V) to the mean impact at each size."""

    delta: Estimate
    prefactor: Estimate
    """Y, the impact in sigma at Q = V."""
    fractions: Floats
    """[size] Q / V, increasing."""
    impacts: Floats
    """[size] mean I / sigma."""
    low: Floats
    """[size] lower bound of the mean's 95 % interval; NaN for fewer than CLUSTERS_MIN runs."""
    high: Floats
    runs: int


def fit_impact_law(
    fractions: Floats, impacts: Floats, *, run: Ints | None = None, bootstraps: int = 1000, seed: int = 1
) -> ImpactLaw:  # fmt: skip
    """Fits delta and Y by least squares on the logarithms of the mean impact at each size.

    fractions, impacts: [observation] Q / V > 0 (a few distinct values) and I / sigma, positive in the direction of the
    metaorder. run: [observation] random seed; runs are resampled as a whole, because observations with the same seed are
    not independent (None: each observation is a run). Means are taken before the logarithm, so single impacts may be
    negative. Intervals ignore resamples in which a mean is not positive; with fewer than CLUSTERS_MIN runs there are none.

    Raises RealismError if there are fewer than two sizes, or if a size's mean impact is not positive.
    """
    check_bootstraps(bootstraps)
    fractions, impacts = np.asarray(fractions, np.float64), np.asarray(impacts, np.float64)
    runs = np.arange(len(impacts)) if run is None else np.asarray(run, np.int64)
    if not fractions.shape == impacts.shape == runs.shape or fractions.ndim != 1:
        raise RealismError(
            f"impact law: expected arrays of one length, got {fractions.shape}, {impacts.shape} and {runs.shape}; "
            "give one fraction, impact and run per observation"
        )
    if not bool((np.isfinite(impacts) & np.isfinite(fractions) & (fractions > 0)).all()):
        raise RealismError("impact law: expected Q / V above 0 and finite impacts, got others; leave these runs out")
    sizes, size_index = np.unique(fractions, return_inverse=True)
    if len(sizes) < 2:
        raise RealismError(f"impact law: expected at least two sizes Q / V, got {len(sizes)}; give more sizes")
    names, run_index = np.unique(runs, return_inverse=True)
    sums, counts = np.zeros((len(names), len(sizes))), np.zeros((len(names), len(sizes)))
    np.add.at(sums, (run_index, size_index), impacts)
    np.add.at(counts, (run_index, size_index), 1.0)
    mean = sums.sum(axis=0) / counts.sum(axis=0)
    if not bool((mean > 0).all()):
        worst = int(np.argmin(mean))
        raise RealismError(
            f"impact law: expected a positive mean impact at every size, got {mean[worst]:.3g} at Q / V = "
            f"{sizes[worst]:.3g}; give more runs or larger sizes"
        )
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=bootstraps)
    total = draws @ counts
    resampled = np.divide(draws @ sums, total, out=np.full(total.shape, np.nan), where=total > 0)
    usable = (resampled > 0).all(axis=1)
    slope, intercept = _fit_lines(np.log(sizes), np.log(mean[np.newaxis]))
    slopes, intercepts = _fit_lines(np.log(sizes), np.log(resampled[usable]))
    low, high = bounds(resampled, len(names)) if bootstraps else (mean, mean)
    return ImpactLaw(
        Estimate(float(slope[0]), slopes, len(names)), Estimate(float(np.exp(intercept[0])), np.exp(intercepts), len(names)),
        sizes, mean, low, high, len(names),
    )  # fmt: skip


def _fit_lines(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """(slopes, intercepts) of least squares of each row of y [line, point] on x."""
    centred = x - x.mean()
    slope = (y * centred).sum(axis=1) / (centred**2).sum()
    return slope, y.mean(axis=1) - slope * x.mean()


def interval_text(low: float, high: float, digits: int) -> str:
    """Formats an interval as '[0.40, 0.60]', or says that there is none."""
    return f"[{low:.{digits}f}, {high:.{digits}f}]" if math.isfinite(high - low) else "(no interval)"


def plot_impact_law(law: ImpactLaw) -> bytes:
    """A PNG of the mean impacts with intervals, the fit, and a slope of one half for comparison, on logarithmic axes."""
    figure = new_figure(5.5, 4.2)
    draw_impact_law(figure.subplots(), law)
    return picture(figure)


def draw_impact_law(axes: Any, law: ImpactLaw) -> None:
    """Draws the plot of `plot_impact_law` on matplotlib axes."""
    below, above = np.clip(law.impacts - law.low, 0, None), np.clip(law.high - law.impacts, 0, None)
    axes.errorbar(law.fractions, law.impacts, [below, above], fmt="o", color="#c0392b", capsize=3, label="measured")
    x = np.geomspace(law.fractions[0], law.fractions[-1], 50)
    label = f"Y = {law.prefactor.value:.2f}, delta = {law.delta.value:.2f} {interval_text(*law.delta.interval, 2)}"
    axes.plot(x, law.prefactor.value * x**law.delta.value, color="#c0392b", lw=1, label=label)
    middle = np.exp(np.log(law.fractions).mean())
    half = law.prefactor.value * middle**law.delta.value * np.sqrt(x / middle)
    axes.plot(x, half, ls="--", color="#999999", label="slope 1/2")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("Q / V")
    axes.set_ylabel(r"$I / \sigma$")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2, which="both")
    axes.legend(frameon=False)
