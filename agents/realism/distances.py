"""Distances between two samples, with bootstrap intervals.

The distances are L1 = 1/2 sum |p_real - p_sim| over shared bins (total variation), and the Wasserstein-1 distance after
standardising the pooled sample to mean 0 and standard deviation 1. As in LOB-Bench (arXiv 2502.09172), values are resampled as
if they were independent: intervals reflect the sample size, not the dependence in time.
"""

from dataclasses import dataclass

import numpy as np

from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import Bools, Floats, Ints
from serl.agents.students_t import expanded

CONFIDENCE = 0.95
CLUSTERS_MIN = 5
"""Fewer independent clusters than this give no interval: resampling them says too little about others."""
SUPPORT_MAX = 2048
"""Maximum number of points for bootstrapped Wasserstein distances."""


@dataclass(frozen=True)
class Estimate:
    """A number and its bootstrap distribution."""

    value: float
    resampled: Floats
    """[bootstraps]"""
    clusters: int | None = None
    """Number of independent clusters, such as markets with different seeds, that were resampled; None: too many to matter."""

    @property
    def interval(self) -> tuple[float, float]:
        """The central CONFIDENCE of the resampled values, or the `bounds` for this number of clusters, shifted so that their mean is the value; NaN if
        none is finite.

        The shift corrects a bias: resampling adds noise to a noisy sample, so distances are too large, and power laws
        fitted to blocks are too steep or too flat. Without bootstraps, both bounds are the value.
        """
        known = self.resampled[np.isfinite(self.resampled)]
        if not len(known):
            return (self.value, self.value) if not len(self.resampled) else (float("nan"), float("nan"))
        if self.clusters is None:
            low, high = np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        else:
            low, high = bounds(known, self.clusters)
        low, high = np.array([low, high]) - known.mean() + self.value
        return float(low), float(high)


def bounds(resampled: Floats, clusters: int) -> Floats:
    """[bound, ...] bounds of 95 % intervals of resampled values [bootstraps, ...], at the quantiles from `expanded`; NaN for fewer than CLUSTERS_MIN
    clusters. Ignores NaN."""
    if clusters < CLUSTERS_MIN:
        return np.full((2, *resampled.shape[1:]), np.nan)
    return np.asarray(np.nanquantile(resampled, expanded(clusters), axis=0))


@dataclass(frozen=True)
class Distance:
    """The distances of a simulated sample from a real one."""

    l1: Estimate
    wasserstein: Estimate | None
    """None if one of the samples is empty."""


def check_bootstraps(bootstraps: int) -> None:
    """Raises RealismError for a negative number of bootstraps."""
    if bootstraps < 0:
        raise RealismError(f"bootstraps: expected 0 or more, got {bootstraps}; 0 gives no intervals")


def bin_width(pool: Floats) -> float:
    """The bin width of Freedman and Diaconis, 2 IQR n^-1/3; Scott's 3.49 s n^-1/3 if the IQR is 0; 0 (one bin) for a constant.

    The width is a multiple of the values' grid (1 or one half), so that all bins cover equally many grid points.
    """
    low, high = np.quantile(pool, [0.25, 0.75])
    width = 2.0 * (high - low) / np.cbrt(len(pool))
    if width == 0:
        width = 3.49 * float(pool.std()) / np.cbrt(len(pool))
    step = grid_step(pool)
    return float(max(step, round(width / step) * step)) if width > 0 and step > 0 else float(width)


def grid_step(values: Floats) -> float:
    """1 if all values are integers, 0.5 if all are multiples of one half, else 0."""
    if bool((values == np.round(values)).all()):
        return 1.0
    return 0.5 if bool((2 * values == np.round(2 * values)).all()) else 0.0


def assign_bins(pool: Floats, discrete: bool) -> Ints:
    """[value] bin number 0, 1, ... of each pooled value, counting only occupied bins.

    Empty bins are not stored, so an outlier costs no memory however narrow the bins are.
    """
    width = 0.0 if discrete else bin_width(pool)
    keys = pool if width == 0 else np.floor((pool - pool.min()) / width)
    _, bins = np.unique(keys, return_inverse=True)
    return np.asarray(bins, np.int64)


def l1(real: Floats, simulated: Floats, discrete: bool, bootstraps: int, random: np.random.Generator) -> Estimate:
    """L1 on shared bins, 0..1; 1 if a sample is empty, as in LOB-Bench.

    Counts are drawn from the multinomial distribution that resampling the values implies.
    """
    if not len(real) or not len(simulated):
        return Estimate(1.0, np.ones(bootstraps))
    bins = assign_bins(np.concatenate([real, simulated]), discrete)
    size = int(bins.max()) + 1
    p, q = _shares(bins, len(real), size)
    drawn_p, drawn_q = _resample(p, len(real), bootstraps, random), _resample(q, len(simulated), bootstraps, random)
    return Estimate(float(np.abs(p - q).sum() / 2), np.abs(drawn_p - drawn_q).sum(axis=1) / 2)


def wasserstein(real: Floats, simulated: Floats, bootstraps: int, random: np.random.Generator) -> Estimate:
    """Wasserstein-1 in standard deviations of the pooled sample; both samples must be non-empty.

    The value is exact. For resampling, every value is moved to one of at most SUPPORT_MAX quantiles of the pooled sample, so
    that resampling is multinomial.
    """
    pool = np.concatenate([real, simulated])
    deviation = float(pool.std())
    if deviation == 0:
        return Estimate(0.0, np.zeros(bootstraps))
    points, bins = np.unique(pool, return_inverse=True)
    exact = _cdf_distance(*_shares(bins, len(real), len(points)), points)
    if len(points) > SUPPORT_MAX:
        points = np.unique(np.quantile(pool, np.linspace(0, 1, SUPPORT_MAX)))
        bins = np.searchsorted((points[1:] + points[:-1]) / 2, pool)
    p, q = _shares(bins, len(real), len(points))
    drawn_p, drawn_q = _resample(p, len(real), bootstraps, random), _resample(q, len(simulated), bootstraps, random)
    drawn = _cdf_distance(drawn_p, drawn_q, points)
    return Estimate(float(exact) / deviation, np.asarray(drawn, np.float64) / deviation)


def _shares(bins: Ints, real_count: int, size: int) -> tuple[Floats, Floats]:
    """([bin] shares of the first real_count values, [bin] shares of the others)."""
    real, simulated = bins[:real_count], bins[real_count:]
    return np.bincount(real, minlength=size) / len(real), np.bincount(simulated, minlength=size) / len(simulated)


def _resample(shares: Floats, draws: int, bootstraps: int, random: np.random.Generator) -> Floats:
    """[bootstraps, bin] shares of each bin among `draws` draws."""
    return random.multinomial(draws, shares / shares.sum(), size=bootstraps) / draws


def _cdf_distance(p: Floats, q: Floats, points: Floats) -> Floats:
    """Integral of |P - Q|, the absolute difference of the distribution functions, along the last axis."""
    difference = np.cumsum(p - q, axis=-1)[..., :-1]
    return np.asarray((np.abs(difference) * np.diff(points)).sum(axis=-1))


def distance(
    real: Floats, simulated: Floats, *, discrete: bool, bootstraps: int, random: np.random.Generator
) -> Distance:  # fmt: skip
    """Both distances of two samples."""
    both = len(real) > 0 and len(simulated) > 0
    return Distance(
        l1(real, simulated, discrete, bootstraps, random),
        wasserstein(real, simulated, bootstraps, random) if both else None,
    )


def conditional_distance(
    real: tuple[Floats, Floats],
    simulated: tuple[Floats, Floats],
    *,
    deciles: bool,
    discrete: bool,
    bootstraps: int,
    random: np.random.Generator,
) -> Distance:
    """Mean of the distances within bins of a condition; samples are (values, condition).

    A bin's weight is its mean probability in the two samples. L1 is 1 in a bin that only one sample reaches; the
    Wasserstein distance is the mean over shared bins, None if there are none.
    """
    pool = np.concatenate([real[1], simulated[1]])
    bins = _deciles(pool) if deciles else np.unique(pool, return_inverse=True)[1]
    real_bins, simulated_bins = bins[: len(real[1])], bins[len(real[1]) :]
    l1_value, l1_drawn, w_value, w_drawn, w_weight = 0.0, np.zeros(bootstraps), 0.0, np.zeros(bootstraps), 0.0
    for number in range(int(bins.max()) + 1):
        chosen: tuple[Bools, Bools] = (real_bins == number, simulated_bins == number)
        weight = (chosen[0].mean() + chosen[1].mean()) / 2
        part = distance(
            real[0][chosen[0]], simulated[0][chosen[1]], discrete=discrete, bootstraps=bootstraps, random=random
        )
        l1_value, l1_drawn = l1_value + weight * part.l1.value, l1_drawn + weight * part.l1.resampled
        if part.wasserstein is not None:
            w_value, w_drawn = w_value + weight * part.wasserstein.value, w_drawn + weight * part.wasserstein.resampled
            w_weight += weight
    shared = Estimate(float(w_value / w_weight), w_drawn / w_weight) if w_weight else None
    return Distance(Estimate(float(l1_value), l1_drawn), shared)


def _deciles(pool: Floats) -> Ints:
    edges = np.unique(np.quantile(pool, np.arange(0.1, 1.0, 0.1)))
    _, bins = np.unique(np.searchsorted(edges, pool, side="right"), return_inverse=True)
    return np.asarray(bins, np.int64)


def inter_quartile_mean(values: Floats) -> Floats:
    """Mean, along the last axis, of the values between the quartiles, inclusive."""
    low, high = np.quantile(values, [0.25, 0.75], axis=-1, keepdims=True)
    inside = (values >= low) & (values <= high)
    return np.asarray((values * inside).sum(axis=-1) / inside.sum(axis=-1))


def summary(estimates: list[Estimate]) -> dict[str, Estimate]:
    """Mean, median and inter-quartile mean over scores; scores are resampled independently."""
    values = np.array([estimate.value for estimate in estimates])
    drawn = np.stack([estimate.resampled for estimate in estimates], axis=-1)
    return {
        "mean": Estimate(float(values.mean()), drawn.mean(axis=-1)),
        "median": Estimate(float(np.median(values)), np.median(drawn, axis=-1)),
        "iqm": Estimate(float(inter_quartile_mean(values)), inter_quartile_mean(drawn)),
    }
