"""Measures the rates of Cont, Stoikov and Talreja's zero intelligence on tapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.calibration.measure import check_window
from serl.agents.realism.messages import CANCEL, LIMIT
from serl.agents.realism.tape import SECOND_NS, Floats, Tape
from serl.exchange.records import Side


@dataclass(frozen=True)
class PoissonRates:
    """Rates of one side with 95 % intervals; level k is at (k - 1, k] times level_ticks from the opposite touch."""

    level_ticks: int
    limit_per_s: Floats
    """[level] rate of limit orders."""
    cancel_per_s: Floats
    """[level] rate of cancellation of each order."""
    market_per_s: float
    limit_interval: Floats
    """[bound, level]"""
    cancel_interval: Floats
    market_interval: tuple[float, float]
    limit_lots: float
    """Median size."""
    market_lots: float
    lots_spread: float


def measure_poisson(windows: Sequence[Tape], start_ns: int, end_ns: int, levels: int, level_ticks: int) -> PoissonRates:
    """Counts messages of all days per second in which their level is visible, and cancellations per order and second.

    The number of open orders is the mean quantity over the mean limit order (Cont, Stoikov, Talreja 2010, section 3).
    Intervals are those of a Poisson count. Raises CalibrationError if the window has too little data.
    """
    seconds, lots_s, counts = np.zeros(levels), np.zeros(levels), np.zeros((3, levels))
    for window in windows:
        check_window(window, start_ns, end_ns)
        exposure = _exposure(window, end_ns, levels, level_ticks)
        seconds += exposure[0]
        lots_s += exposure[1]
        counts += _counts(window, levels, level_ticks)
    limit_lots = np.concatenate([window.qty_lots[window.kind == LIMIT] for window in windows])
    market_lots = np.concatenate([window.qty_lots[window.trades] for window in windows])
    orders_s = lots_s / float(limit_lots.mean())
    limit_rate, limit_interval = _rate(counts[LIMIT], seconds)
    cancel_rate, cancel_interval = _rate(counts[CANCEL], orders_s)
    side_seconds = 2.0 * len(windows) * (end_ns - start_ns) / SECOND_NS
    market_rate, market_interval = _rate(np.array([float(len(market_lots))]), np.array([side_seconds]))
    return PoissonRates(
        level_ticks, limit_rate, cancel_rate, float(market_rate[0]), limit_interval, cancel_interval,
        (float(market_interval[0, 0]), float(market_interval[1, 0])),
        float(np.median(limit_lots)), float(np.median(market_lots)), float(np.log(limit_lots).std()),
    )  # fmt: skip


def _exposure(window: Tape, end_ns: int, levels: int, level_ticks: int) -> tuple[Floats, Floats]:
    """([level] seconds in which it is visible, [level] lots x seconds), both sides together."""
    steps_s = np.diff(window.time_ns, append=end_ns) / SECOND_NS
    seconds, lots_s = np.zeros(levels), np.zeros(levels)
    for side in (0, 1):
        ticks, lots = window.book_ticks[1:, side], window.book_lots[1:, side]
        opposite = window.book_ticks[1:, 1 - side, :1]
        away_ticks = np.where((ticks > 0) & (opposite > 0), np.abs(opposite - ticks), 0)
        level = np.clip((away_ticks - 1) // level_ticks, 0, levels - 1)
        weights = np.where(away_ticks > 0, lots * steps_s[:, np.newaxis], 0.0)
        lots_s += np.bincount(level.ravel(), weights=weights.ravel(), minlength=levels)
        # Levels are visible up to the last price shown, or all levels if the book ends before.
        full = (ticks[:, -1] > 0) & (opposite[:, 0] > 0)
        reach = np.where(full, level.max(axis=1), levels - 1)
        seconds += np.bincount(reach, weights=steps_s, minlength=levels)[::-1].cumsum()[::-1]
    return seconds, lots_s


def _counts(window: Tape, levels: int, level_ticks: int) -> Floats:
    """[kind, level] limit orders and cancellations."""
    counts = np.zeros((3, levels))
    for kind in (LIMIT, CANCEL):
        indices = np.flatnonzero((window.kind == kind) & window.two_sided[:-1])
        opposite = np.where(window.side[indices] == Side.BUY, window.ask[indices], window.bid[indices])
        away_ticks = np.abs(opposite - window.price_ticks[indices])
        counts[kind] = np.bincount(np.clip((away_ticks - 1) // level_ticks, 0, levels - 1), minlength=levels)
    return counts


def _rate(counts: Floats, exposure_s: Floats) -> tuple[Floats, NDArray[Any]]:
    """(events per second, [2, ...] interval); 0 where there was no exposure."""
    safe = np.where(exposure_s > 0, exposure_s, np.inf)
    half = 1.96 * np.sqrt(np.maximum(counts, 1.0)) / safe
    rate = counts / safe
    return rate, np.stack([np.maximum(0.0, rate - half), rate + half])
