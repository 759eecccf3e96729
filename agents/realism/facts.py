"""Stylised facts of returns (Cont 2001): each is a number with an interval, and a rule for when a simulation shares it.

Returns r are changes of the log mid over whole minutes of a window. K is the excess kurtosis, rho_k(x) the autocorrelation
of x at a lag of k minutes. The twelfth fact is about trade signs; its lags count trades.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from serl.agents.realism.distances import Estimate
from serl.agents.realism.impact_response import log_lags
from serl.agents.realism.resample import circular_blocks
from serl.agents.realism.scores import last_before
from serl.agents.realism.tape import MINUTE_NS, Floats, Tape

RETURNS_MIN, TRADES_MIN = 30, 200
"""The fewest returns and trades with which a fact is measured; NaN below."""
BLOCK_MINUTES, BLOCK_TRADES = 30, 250
COARSE_MINUTES = 5
SIGN_LAG_MAX = 100


@dataclass(frozen=True)
class MinuteSeries:
    """Returns and volumes by minute."""

    returns: Floats
    """[minute] change of the log mid."""
    volume_lots: Floats
    """[minute] executed lots."""


def minute_series(tape: Tape, start_ns: int, end_ns: int) -> MinuteSeries:
    """Returns and volumes of the whole minutes of a window, from its start."""
    keep = tape.two_sided[1:]
    grid = np.arange(start_ns, end_ns + 1, MINUTE_NS, dtype=np.int64)
    path = last_before(tape.time_ns[keep], np.log(tape.mid[1:][keep]), grid)
    minute = (tape.time_ns[tape.trades] - start_ns) // MINUTE_NS
    inside = minute < len(grid) - 1
    lots = np.bincount(minute[inside], weights=tape.qty_lots[tape.trades][inside], minlength=len(grid) - 1)
    return MinuteSeries(np.diff(path), lots.astype(np.float64))


def correlation(x: Floats, y: Floats) -> float:
    """Correlation of two series; NaN if one is constant."""
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum() / scale) if scale > 0 else float("nan")


def autocorrelation(x: Floats, lag: int) -> float:
    """Autocorrelation at one lag."""
    return correlation(x[:-lag], x[lag:])


def excess_kurtosis(x: Floats) -> float:
    """Fourth central moment over the squared variance, minus 3; NaN for a constant."""
    deviation = x - x.mean()
    variance = float((deviation**2).mean())
    return float((deviation**4).mean() / variance**2 - 3) if variance > 0 else float("nan")


def skewness(x: Floats) -> float:
    """Third central moment over the variance to the power 3/2; NaN for a constant."""
    deviation = x - x.mean()
    variance = float((deviation**2).mean())
    return float((deviation**3).mean() / variance**1.5) if variance > 0 else float("nan")


def running_sum(x: Floats, size: int) -> Floats:
    """Sums of `size` consecutive values."""
    return np.convolve(x, np.ones(size), mode="valid")


def aggregational_gaussianity(minutes: MinuteSeries) -> float:
    """K of 1-minute returns minus K of (overlapping) 5-minute returns."""
    return excess_kurtosis(minutes.returns) - excess_kurtosis(running_sum(minutes.returns, COARSE_MINUTES))


def intermittency(minutes: MinuteSeries) -> float:
    """ln of the Fano factor (variance over mean) of the number of |r| above their 90 % quantile in ten minutes."""
    size = np.abs(minutes.returns)
    large = size > np.quantile(size, 0.9)
    counts = large[: len(large) // 10 * 10].reshape(-1, 10).sum(axis=1)
    mean, variance = float(counts.mean()), float(counts.var())
    return float(np.log(variance / mean)) if mean > 0 and variance > 0 else float("nan")


def conditional_tails(minutes: MinuteSeries) -> float:
    """K of r over its past volatility (exponential moving average of r^2, factor 0.94 per minute)."""
    squares = minutes.returns**2
    variance = float(squares.mean())
    scaled = np.zeros(len(squares))
    for index, square in enumerate(squares):
        scaled[index] = minutes.returns[index] / np.sqrt(variance) if variance > 0 else np.nan
        variance = 0.94 * variance + 0.06 * float(square)
    return excess_kurtosis(scaled)


def slow_decay(minutes: MinuteSeries) -> float:
    """Mean of rho_k(|r|), k = 2..10."""
    return float(np.mean([autocorrelation(np.abs(minutes.returns), lag) for lag in range(2, 11)]))


def leverage(minutes: MinuteSeries) -> float:
    """Mean correlation of r_t with r_{t+k}^2, k = 1..5."""
    r = minutes.returns
    return float(np.mean([correlation(r[:-lag], r[lag:] ** 2) for lag in range(1, 6)]))


def coarse_fine(minutes: MinuteSeries) -> float:
    """corr(coarse_t, fine_{t+5}) - corr(fine_t, coarse_{t+5}); over 5 minutes, coarse = |sum of r|, fine = sum of |r|."""
    coarse = np.abs(running_sum(minutes.returns, COARSE_MINUTES))
    fine = running_sum(np.abs(minutes.returns), COARSE_MINUTES)
    step = COARSE_MINUTES
    return correlation(coarse[:-step], fine[step:]) - correlation(fine[:-step], coarse[step:])


def sign_decay(signs: Floats) -> float:
    """gamma of C(l) ~ l^-gamma, C the autocorrelation of trade signs at lags up to 100, by least squares on logarithms.

    NaN if C is positive at fewer than two thirds of the lags: then there is no power law to fit.
    """
    lags = log_lags(min(SIGN_LAG_MAX, len(signs) // 4), 15)
    values = np.array([autocorrelation(signs, int(lag)) for lag in lags])
    positive = values > 0
    if positive.sum() < 2 / 3 * len(lags):
        return float("nan")
    return float(-np.polyfit(np.log(lags[positive]), np.log(values[positive]), 1)[0])


def same_sign(real: float, simulated: float, count: int) -> bool:
    """Whether both are positive, or neither is."""
    return (real > 0) == (simulated > 0)


def same_absence(real: float, simulated: float, count: int) -> bool:
    """Whether both are within the 95 % band of white noise, 1.96 / sqrt(returns), or neither is."""
    band = 1.96 / np.sqrt(count)
    return bool((abs(real) < band) == (abs(simulated) < band))


def same_memory(real: float, simulated: float, count: int) -> bool:
    """Whether both decay as power laws with exponents within a factor of two, or neither does (both NaN)."""
    if np.isnan(real) or np.isnan(simulated):
        return bool(np.isnan(real) and np.isnan(simulated))
    return real * simulated > 0 and 0.5 <= simulated / real <= 2.0


@dataclass(frozen=True)
class Fact:
    """A stylised fact: its measure, what real markets show, and the rule by which a simulation agrees with the real window."""

    name: str
    measure: str
    expected: str
    compute: Callable[[MinuteSeries], float] | None
    """Computes the number from minutes; None: computed from trade signs by sign_decay."""
    agrees: Callable[[float, float, int], bool] = same_sign


FACTS = (
    Fact("no linear autocorrelation", "rho_1(r)", "near 0", lambda m: autocorrelation(m.returns, 1), same_absence),
    Fact("heavy tails", "K(r)", "> 0", lambda m: excess_kurtosis(m.returns)),
    Fact("gain/loss asymmetry", "skewness of r", "< 0 for indices", lambda m: skewness(m.returns)),
    Fact("aggregational Gaussianity", "K(1 min) - K(5 min)", "> 0", aggregational_gaussianity),
    Fact("intermittency", "ln Fano factor of large |r|", "> 0", intermittency),
    Fact("volatility clustering", "rho_1(|r|)", "> 0", lambda m: autocorrelation(np.abs(m.returns), 1)),
    Fact("conditional heavy tails", "K(r / EWMA volatility)", "> 0, below K(r)", conditional_tails),
    Fact("slow decay of |r|", "mean rho_2..10(|r|)", "> 0", slow_decay),
    Fact("leverage", "mean corr(r_t, r_t+k^2), k 1..5", "< 0", leverage),
    Fact("volume and volatility", "corr(volume, |r|)", "> 0", lambda m: correlation(m.volume_lots, np.abs(m.returns))),
    Fact("coarse-fine asymmetry", "coarse leads fine less fine leads coarse", "> 0", coarse_fine),
    Fact("long memory of trade signs", "gamma of C(l) ~ l^-gamma", "about 0.7", None, same_memory),
)


@dataclass(frozen=True)
class Facts:
    """The facts of one window, in the order of FACTS."""

    estimates: tuple[Estimate, ...]
    returns: int
    trades: int


def measure_facts(tape: Tape, start_ns: int, end_ns: int, bootstraps: int, random: np.random.Generator) -> Facts:
    """Measures every fact in a window of a tape; intervals resample circular blocks of 30 minutes, or 250 trades."""
    minutes = minute_series(tape, start_ns, end_ns)
    signs = tape.sign[tape.trades].astype(np.float64)
    count = len(minutes.returns)
    block = max(1, min(BLOCK_MINUTES, count // 4))
    resampled = [
        MinuteSeries(minutes.returns[indices], minutes.volume_lots[indices])
        for indices in (circular_blocks(count, block, bootstraps, random) if count else [])
    ]
    sign_indices = circular_blocks(len(signs), BLOCK_TRADES, bootstraps, random)
    estimates = []
    for fact in FACTS:
        compute = fact.compute
        if compute is None:
            enough = len(signs) >= TRADES_MIN
            value = sign_decay(signs) if enough else float("nan")
            bootstrapped = [sign_decay(signs[indices]) for indices in sign_indices] if enough else []
            blocks = len(signs) // BLOCK_TRADES
        else:
            enough = count >= RETURNS_MIN
            value = compute(minutes) if enough else float("nan")
            bootstrapped = [compute(part) for part in resampled] if enough else []
            blocks = count // block
        estimates.append(Estimate(value, np.array(bootstrapped, np.float64), blocks))
    return Facts(tuple(estimates), count, len(signs))


def shared_text(found: Sequence[bool | None]) -> str:
    """How many facts are shared among those that both windows are long enough to determine: "9 of 11"; "–" if there are none."""
    told = [shared for shared in found if shared is not None]
    return f"{told.count(True)} of {len(told)}" if told else "–"


def agreements(real: Facts, simulated: Facts) -> list[bool | None]:
    """Whether the simulation shares each fact; None if one of the windows is too short to determine it."""
    result: list[bool | None] = []
    for fact, one, other in zip(FACTS, real.estimates, simulated.estimates, strict=True):
        if fact.compute is None:
            enough = min(real.trades, simulated.trades) >= TRADES_MIN
        else:
            enough = bool(np.isfinite(one.value) and np.isfinite(other.value))
        result.append(fact.agrees(one.value, other.value, min(real.returns, simulated.returns)) if enough else None)
    return result
