"""The square-root law of market impact, I / sigma = Y (Q / V)^delta, fitted to runs of any market.

Independent of how the runs were made: the same seed with and without a metaorder of size Q in a period of volume V and
volatility sigma gives one impact I (the difference of the mids), the other randomness being the same in both.
"""

import io
from dataclasses import dataclass

import numpy as np

from serl.agents.realism.distances import Estimate, check_bootstraps
from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import Floats, Ints


@dataclass(frozen=True)
class ImpactLaw:
    """A fit of log(I / sigma) = log Y + delta log(Q / V) to the mean impact at each size."""

    delta: Estimate
    prefactor: Estimate
    """Y."""
    fractions: Floats
    """[size] Q / V, increasing."""
    impacts: Floats
    """[size] mean I / sigma."""
    low: Floats
    """[size] 95 % interval."""
    high: Floats
    runs: int


def fit_impact_law(
    fractions: Floats, impacts: Floats, *, run: Ints | None = None, bootstraps: int = 1000, seed: int = 1
) -> ImpactLaw:  # fmt: skip
    """Fits delta and Y by least squares on the logarithms of the mean impact at each size.

    fractions, impacts: [observation] Q / V > 0 (a few different values) and I / sigma, positive in the direction of the
    metaorder. run: [observation] which random seed it is of; runs are resampled whole, as observations that share their
    seed are not independent (None: every observation is its own). Means are taken before the logarithm, so single
    impacts may be negative. Resamples in which a mean is not positive are left out of the intervals.

    RealismError if there are fewer than two sizes, or a size whose mean impact is not positive.
    """
    check_bootstraps(bootstraps)
    fractions, impacts = np.asarray(fractions, np.float64), np.asarray(impacts, np.float64)
    runs = np.arange(len(impacts)) if run is None else np.asarray(run, np.int64)
    if not fractions.shape == impacts.shape == runs.shape or fractions.ndim != 1:
        raise RealismError(
            f"impact law: arrays of one length are due, got {fractions.shape}, {impacts.shape}, {runs.shape}"
        )
    if not bool((np.isfinite(impacts) & np.isfinite(fractions) & (fractions > 0)).all()):
        raise RealismError("impact law: Q / V above 0 and finite impacts are due; leave other runs out")
    sizes, place = np.unique(fractions, return_inverse=True)
    if len(sizes) < 2:
        raise RealismError(f"impact law: at least two sizes Q / V are due, got {len(sizes)}")
    names, of = np.unique(runs, return_inverse=True)
    sums, counts = np.zeros((len(names), len(sizes))), np.zeros((len(names), len(sizes)))
    np.add.at(sums, (of, place), impacts)
    np.add.at(counts, (of, place), 1.0)
    mean = sums.sum(axis=0) / counts.sum(axis=0)
    if not bool((mean > 0).all()):
        worst = int(np.argmin(mean))
        raise RealismError(
            f"impact law: a positive mean impact at every size is due, got {mean[worst]:.3g} at Q / V = "
            f"{sizes[worst]:.3g}; give more runs or larger sizes"
        )
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=bootstraps)
    total = draws @ counts
    drawn = np.divide(draws @ sums, total, out=np.full(total.shape, np.nan), where=total > 0)
    usable = (drawn > 0).all(axis=1)
    slope, intercept = _line(np.log(sizes), np.log(mean[np.newaxis]))
    slopes, intercepts = _line(np.log(sizes), np.log(drawn[usable]))
    low, high = np.nanquantile(drawn, [0.025, 0.975], axis=0) if bootstraps else (mean, mean)
    return ImpactLaw(
        Estimate(float(slope[0]), slopes), Estimate(float(np.exp(intercept[0])), np.exp(intercepts)),
        sizes, mean, low, high, len(names),
    )  # fmt: skip


def _line(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """(slope, intercept) of each row of y [line, point] on x, by least squares."""
    centred = x - x.mean()
    slope = (y * centred).sum(axis=1) / (centred**2).sum()
    return slope, y.mean(axis=1) - slope * x.mean()


def plot_impact_law(law: ImpactLaw) -> bytes:
    """Mean impacts with intervals, the fit, and a slope of one half through its middle, on logarithmic axes; PNG."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
    below, above = np.clip(law.impacts - law.low, 0, None), np.clip(law.high - law.impacts, 0, None)
    axes.errorbar(law.fractions, law.impacts, [below, above], fmt="o", color="#c0392b", capsize=3, label="measured")
    x = np.geomspace(law.fractions[0], law.fractions[-1], 50)
    low, high = law.delta.interval
    label = f"Y = {law.prefactor.value:.2f}, delta = {law.delta.value:.2f} [{low:.2f}, {high:.2f}]"
    axes.plot(x, law.prefactor.value * x**law.delta.value, color="#c0392b", lw=1, label=label)
    middle = np.exp(np.log(law.fractions).mean())
    axes.plot(
        x,
        law.prefactor.value * middle**law.delta.value * np.sqrt(x / middle),
        ls="--",
        color="#999999",
        label="slope 1/2",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("Q / V")
    axes.set_ylabel(r"$I / \sigma$")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2, which="both")
    axes.legend(frameon=False)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=130)
    plt.close(figure)
    return data.getvalue()
