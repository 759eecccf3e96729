"""Price impact of order-flow imbalance: Cont, Kukanov, Stoikov, *The price impact of order book events* (2014), and its forecasts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from serl.agents.impact.errors import ImpactError
from serl.agents.impact.regression import Line, fit_line
from serl.agents.realism.scores import ofi
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Bools, Floats, Ints, Tape
from serl.exchange.config import time_of_day_text

PERIOD_NS = 30 * MINUTE_NS
FITTED_MIN, TESTED_MIN, PERIOD_MIN = 30, 10, 10
"""Minimum numbers of intervals: fitted, tested, and in a half hour with its own regression."""
BEST, NORMALISED, INTEGRATED = "OFI", "OFI / depth", "all levels"


@dataclass(frozen=True)
class Intervals:
    """n intervals of a tape with N levels; NaN where a side of the book was empty for a moment."""

    symbol: str
    edges_ns: Ints
    """[n + 1] edges of the intervals."""
    ofi_lots: Floats
    """[n, N] sum over the interval's messages, by level."""
    depth_lots: Floats
    """[n, N] quantity of a side: mean over both sides and the books after each message of the interval; without messages, the book before it."""
    mid_ticks: Floats
    """[n + 1] mid at the edges."""
    later_ticks: Floats
    """[horizon, n] move of the mid from the interval's end until the horizon after it; NaN after the window."""
    horizons_s: tuple[float, ...]

    @property
    def interval_s(self) -> float:
        """Length of an interval."""
        return float(self.edges_ns[1] - self.edges_ns[0]) / SECOND_NS

    @property
    def moves_ticks(self) -> Floats:
        """[n] change of the mid in the interval."""
        return np.diff(self.mid_ticks)


@dataclass(frozen=True)
class Period:
    """The regression in one half hour, on OFI of the best level."""

    start_ns: int
    depth_lots: float
    """Mean quantity at a best price."""
    line: Line


@dataclass(frozen=True)
class OfiImpact:
    """How far order-flow imbalance explains the mid."""

    intervals: Intervals
    split_ns: int
    """Intervals until this time are fitted, intervals after it are tested."""
    lines: dict[str, tuple[Line, ...]]
    """By regressor: the fit of the move in the same interval, then of the move until each horizon after it."""
    periods: tuple[Period, ...]
    depth_exponent: Line | None
    """The regression of ln beta on ln depth over half hours; its slope is -1 in the stylised book of the paper. None with fewer than three half hours
    with positive beta."""
    weights: Floats
    """[N] weights of the levels in `all levels`."""
    dropped: int
    """Number of intervals with an empty side."""


def cut_intervals(
    tape: Tape, window: tuple[int, int], interval_ns: int, horizons_s: Sequence[float] = ()
) -> Intervals:  # fmt: skip
    """Cuts the whole intervals between the first and the last message of [start, end). Raises the errors of Tape.window."""
    part = tape.window(*window)
    first, last = part.span()
    skipped = -(-(first - window[0]) // interval_ns)
    edges = np.arange(window[0] + skipped * interval_ns, last + 1, interval_ns, dtype=np.int64)
    if len(edges) < 2:
        raise ImpactError(
            f"interval: expected several between {time_of_day_text(first)} and {time_of_day_text(last)}, "
            f"got {interval_ns / SECOND_NS:g} s; give a shorter one"
        )
    at = np.searchsorted(part.time_ns, edges)  # book `at` is the one just before the edge
    flow = _sums(np.stack([ofi(part, level) for level in range(part.levels)], axis=1), at)
    flow[np.isnan(part.mid[at[:-1]])] = np.nan  # an empty side, also if nothing happens
    books, before = np.diff(at)[:, np.newaxis], part.book_lots[at[:-1]].mean(axis=1)
    depth = np.where(books > 0, _sums(part.book_lots[1:].mean(axis=1), at) / np.maximum(1, books), before)
    later = [_later(part, edges[1:], horizon, last) for horizon in horizons_s]
    return Intervals(
        part.symbol, edges, flow, depth, part.mid[at], np.array(later).reshape(-1, len(edges) - 1), tuple(horizons_s)
    )


def _sums(values: Floats, at: Ints) -> Floats:
    """[interval, level] sums of rows from at[i] to at[i + 1] (exclusive); NaN where one of the rows is NaN."""
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(np.nan_to_num(values), axis=0)])
    unknown = np.concatenate([[0], np.cumsum(np.isnan(values).any(axis=1))])
    return np.where(np.diff(unknown[at])[:, np.newaxis] > 0, np.nan, np.diff(sums[at], axis=0))


def _later(tape: Tape, ends_ns: Ints, horizon_s: float, last_ns: int) -> Floats:
    until = ends_ns + round(horizon_s * SECOND_NS)
    move = tape.mid[np.searchsorted(tape.time_ns, until)] - tape.mid[np.searchsorted(tape.time_ns, ends_ns)]
    return np.where(until <= last_ns, move, np.nan)


def fit_ofi(intervals: Intervals, split_ns: int) -> OfiImpact:
    """Fits the intervals that end, with their horizon, by `split_ns`, and tests those that start there or later.

    Raises ImpactError if there are too few of either, or no order changes the best prices.
    """
    starts, ends = intervals.edges_ns[:-1], intervals.edges_ns[1:]
    fit, test = ends <= split_ns, starts >= split_ns
    _check(intervals, fit, test, split_ns)
    regressors, weights = _regressors(intervals, fit)
    spans = [(0.0, intervals.moves_ticks), *zip(intervals.horizons_s, intervals.later_ticks, strict=True)]
    lines = {
        name: tuple(
            fit_line(x, y, fit & (ends + round(s * SECOND_NS) <= split_ns), test, s / intervals.interval_s)
            for s, y in spans
        )
        for name, x in regressors.items()
    }
    periods = _periods(intervals)
    unknown = int(np.isnan(intervals.ofi_lots[:, 0]).sum())
    return OfiImpact(intervals, split_ns, lines, periods, _depth_exponent(periods), weights, unknown)


def _check(intervals: Intervals, fit: Bools, test: Bools, split_ns: int) -> None:
    known = np.isfinite(intervals.ofi_lots[:, 0])
    moved = known & np.isfinite(np.vstack([intervals.moves_ticks, intervals.later_ticks]))
    split, horizon = time_of_day_text(split_ns), max((0.0, *intervals.horizons_s))
    fit = fit & (intervals.edges_ns[1:] + round(horizon * SECOND_NS) <= split_ns)
    test = test & (intervals.edges_ns[1:] + round(horizon * SECOND_NS) <= intervals.edges_ns[-1])
    for chosen, least, where in ((fit, FITTED_MIN, "before"), (test, TESTED_MIN, "after")):
        if (count := int((chosen & moved).sum(axis=1).min())) < least:
            raise ImpactError(
                f"intervals {where} {split}: expected {least} or more with a bid, an ask and the longest horizon, got {count}; "
                "give a longer --window, a shorter --interval, shorter --horizons or another --split"
            )
    if any(np.ptp(intervals.ofi_lots[fit & each, 0]) == 0 for each in moved):
        raise ImpactError(
            f"{intervals.symbol}: expected orders that change the best prices before {split}, got none; give other hours"
        )


def _regressors(intervals: Intervals, fit: Bools) -> tuple[dict[str, Floats], Floats]:
    """The regressors, [n] each, and the weights of the levels, which are the first principal component of the fitted intervals.

    OFI is divided by the mean depth of all levels; this and the component ("integrated OFI") follow Cont, Cucuringu, Zhang (2021).
    """
    flow, depth = intervals.ofi_lots, intervals.depth_lots
    found = {BEST: flow[:, 0], NORMALISED: flow[:, 0] / depth[:, 0]}
    levels = flow / depth.mean(axis=1, keepdims=True)
    known = fit & np.isfinite(levels).all(axis=1)
    component = np.linalg.eigh(np.atleast_2d(np.cov(levels[known], rowvar=False)))[1][:, -1]
    weights = component * np.sign(component.sum()) / np.abs(component).sum()
    if flow.shape[1] > 1:
        found[INTEGRATED] = levels @ weights
    return found, weights


def _periods(intervals: Intervals) -> tuple[Period, ...]:
    x, y = intervals.ofi_lots[:, 0], intervals.moves_ticks
    number = intervals.edges_ns[:-1] // PERIOD_NS
    found = []
    for one in np.unique(number).tolist():
        chosen = (number == one) & np.isfinite(x)
        if chosen.sum() >= PERIOD_MIN and np.ptp(x[chosen]) > 0:
            depth = float(intervals.depth_lots[chosen, 0].mean())
            found.append(Period(one * PERIOD_NS, depth, fit_line(x, y, chosen, np.zeros_like(chosen))))
    return tuple(found)


def _depth_exponent(periods: tuple[Period, ...]) -> Line | None:
    usable = [(one.depth_lots, one.line.beta) for one in periods if one.line.beta > 0]
    if len({depth for depth, _ in usable}) < 3:
        return None
    x, y = np.log(np.array(usable)).T
    every = np.ones(len(x), np.bool_)
    return fit_line(x, y, every, ~every)
