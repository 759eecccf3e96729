"""The difference of two candidates on the same orders."""

import math
from typing import NamedTuple

import numpy as np

from serl.researcher.candidates import Result, Score
from serl.researcher.inner.paired import standard_error


class Difference(NamedTuple):
    """A mean over orders and its standard error, clustered by day and, between trained candidates, by training; the error is NaN if the scores have
    no common orders."""

    mean_bps: float
    error_bps: float

    @property
    def better(self) -> float:
        """Probability that the difference is above 0, assuming a normal error; 0, 1/2 or 1 without an error."""
        if not self.error_bps > 0:
            return 0.5 * (1 + float(np.sign(self.mean_bps)))
        return 0.5 * (1 + math.erf(self.mean_bps / self.error_bps / math.sqrt(2)))

    def __str__(self) -> str:
        error = f" (standard error {self.error_bps:.2f})" if self.error_bps > 0 else ""
        return f"{self.mean_bps:+.2f} bps{error}"


def paired_difference(one: Result, other: Result) -> Difference | None:
    """`one` minus `other`, order by order; None unless both have a score. Between trained candidates it is the difference of their paired differences
    to an equally trained incumbent, whose errors hold the spread between trainings; also, longer training alone raises a score.

    Trainings with the same seeds are scored on the same orders, starting with those of the first seed. If one candidate has more trainings, its
    additional ones are left out. Without common orders, the result is the difference of the means.
    """
    if one.score is None or other.score is None:
        return None
    trained = any(each.facts.get("steps") for each in (one, other))  # a rule takes no steps of training
    if one.paired and other.paired and (trained or one.paired.share != other.paired.share):
        gap_bps = one.paired.difference_bps - other.paired.difference_bps
        return Difference(gap_bps, math.hypot(one.paired.se_bps, other.paired.se_bps))
    count = min(len(one.score.advantages_bps), len(other.score.advantages_bps))
    if count < 2:
        return Difference(one.score.pa_bps - other.score.pa_bps, math.nan)
    gaps = np.subtract(one.score.advantages_bps[:count], other.score.advantages_bps[:count])
    return Difference(float(gaps.mean()), standard_error(gaps, _days(one.score, count), np.zeros(count, np.int64)))


def _days(score: Score, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The days of the first `count` orders. Scores of earlier versions have no days stored: each order then counts as a day of its own."""
    known = len(score.clusters) == len(score.advantages_bps)
    return np.asarray(score.clusters[:count] if known else range(count), np.int64)
