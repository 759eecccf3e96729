"""The costs of the market of bars, estimated from days with a book and from the bars themselves.

The market of bars charges half_spread_bps + impact_bps x lots / (lots traded in the bar). `fit_costs` finds impact_bps in the books of a day:
slices of the size of a TWAP's (a uniform share of the mean volume of a bar, at most `participation` of the bar's) take the displayed book at
uniformly distributed times, and

    impact_bps = sum(lots x excess) / sum(lots x lots / V),

where excess is the cost above half the spread in bps and V the volume of the slice's bar: with it, bars charge these slices as much in total as
the book did. Cost grows less than in proportion to lots / V, so a line through the mean of busy bars would charge quiet ones too much. Only the
displayed book counts: hidden orders make takers' costs lower, the time that a book needs to refill makes those of a whole order higher.

`half_spreads_bps` estimates half the spread of stocks from their bars (Abdi and Ranaldo, A simple estimation of bid-ask spreads from daily
close, high, and low prices, Review of Financial Studies 30 (2017), equation 7), and half a tick at least: spread² = 4 E[(c_t - m_t)(c_t - m_{t+1})]
with the log close c and the mean m of log high and log low of a bar.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.bar_files import BarTable
from serl.agents.execution.environment.bars import CLOSE, HIGH, LOW, VOLUME
from serl.agents.execution.environment.hours import WARM_UP_S
from serl.agents.execution.environment.records import LEVELS
from serl.agents.execution.environment.static import recorded_books, recorded_trades
from serl.agents.execution.errors import DataError
from serl.exchange.records import Rows
from serl.history.day import Day

Floats = NDArray[np.float64]
SECOND_NS = 1_000_000_000
SLICES_PER_BAR, BOOTSTRAPS = 20, 2000


@dataclasses.dataclass(frozen=True)
class Slices:
    """The costs of the slices of one day; (n,) each."""

    bar: NDArray[np.int64]
    lots: Floats
    volume_lots: Floats
    """Volume of the slice's bar."""
    half_spread_bps: Floats
    excess_bps: Floats
    """Mean cost above half the spread."""


def take_slices(
    day: Day, bar_s: float = 60.0, *, share_min: float = 0.005, share_max: float = 0.05, participation: float = 0.2, seed: int = 0,
) -> Slices:  # fmt: skip
    """Takes SLICES_PER_BAR slices in every bar with trades, from WARM_UP_S after the first message on. Slices that need more than the book
    displays are left out. Raises DataError if no slice remains."""
    random, bar_ns = np.random.Generator(np.random.PCG64(seed)), round(bar_s * SECOND_NS)
    books, trades = recorded_books(day, LEVELS)[1:], recorded_trades(day)[:-1]
    books = books[(books["ticks"][:, :, 0] > 0).all(axis=1)]
    first_ns, last_ns = day.reference.first_time_ns + WARM_UP_S * SECOND_NS, day.reference.last_time_ns
    starts = np.arange(first_ns, last_ns - bar_ns + 1, bar_ns)
    ends = np.searchsorted(trades["time_ns"], np.append(starts, starts[-1:] + bar_ns))
    traded = np.diff(np.append(0, np.cumsum(trades["lots"]))[ends]).astype(float)
    bar = np.repeat(np.flatnonzero(traded > 0), SLICES_PER_BAR)
    lots = np.rint(random.uniform(share_min, share_max, len(bar)) * traded[traded > 0].mean())
    lots = np.minimum(lots, np.floor(participation * traded[bar]))
    at = np.searchsorted(books["time_ns"], starts[bar] + random.integers(bar_ns, size=len(bar)), "right") - 1
    side = random.integers(2, size=len(bar))
    usable = (lots >= 1) & (at >= 0)
    bar, lots, rows, side = bar[usable], lots[usable], books[at[usable]], side[usable]
    half_bps, excess_bps = _walk(rows, side, lots)
    filled = np.isfinite(excess_bps)
    if not filled.any():
        raise DataError(
            f"{day.reference.symbols[0].name}: expected slices that the book can fill, got none; use a day with trades"
        )
    return Slices(bar[filled], lots[filled], traded[bar[filled]], half_bps[filled], excess_bps[filled])


def _walk(books: Rows, side: Any, lots: Floats) -> tuple[Floats, Floats]:
    """(half spread, cost above it) in bps of the mid, for taking (n,) lots from one side of each book; NaN where it shows too little."""
    row = np.arange(len(books))
    ticks, depth = (
        books["ticks"][row, side].astype(float),
        np.where(books["ticks"][row, side] > 0, books["lots"][row, side], 0),
    )
    mid = books["ticks"][:, :, 0].mean(axis=1)
    before = np.cumsum(depth, axis=1) - depth
    taken = np.clip(lots[:, None] - before, 0, depth)
    beyond = np.abs(ticks - ticks[:, :1])
    excess = (taken * beyond).sum(axis=1) / lots / mid * 1e4
    return np.abs(ticks[:, 0] - mid) / mid * 1e4, np.where(taken.sum(axis=1) >= lots, excess, np.nan)


@dataclasses.dataclass(frozen=True)
class Costs:
    """Settings of the market of bars from one day, with the central 95 % of a bootstrap over bars."""

    symbol: str
    impact_bps: float
    impact_low_bps: float
    impact_high_bps: float
    impact_of_mean_volume_bps: float
    """impact_bps per share of the mean volume of a bar instead of each bar's own volume: what is known before the trade."""
    half_spread_bps: float
    """Mean over time of half the displayed spread."""
    half_spread_from_bars_bps: float
    """The estimate of `half_spreads_bps` from the bars of this day; its distance from the displayed half spread shows its error."""
    excess_bps: float
    """Mean cost of a lot above half the spread."""
    slices: int
    bars: int


def fit_costs(day: Day, bar_s: float = 60.0, *, seed: int = 0, **slicing: float) -> Costs:
    """Estimates the costs as described in the module. slicing: settings of take_slices."""
    slices = take_slices(day, bar_s, seed=seed, **slicing)
    bars = np.unique(slices.bar)
    paid = np.bincount(np.searchsorted(bars, slices.bar), slices.lots * slices.excess_bps)
    charged = np.bincount(np.searchsorted(bars, slices.bar), slices.lots**2 / slices.volume_lots)
    draws = np.random.Generator(np.random.PCG64(seed)).integers(len(bars), size=(BOOTSTRAPS, len(bars)))
    low, high = np.quantile(paid[draws].sum(axis=1) / charged[draws].sum(axis=1), (0.025, 0.975))
    excess = float(paid.sum() / slices.lots.sum())
    mean_volume = slices.volume_lots[np.searchsorted(slices.bar, bars)].mean()
    of_mean = float(paid.sum() / (slices.lots**2 / mean_volume).sum())
    return Costs(
        day.reference.symbols[0].name, float(paid.sum() / charged.sum()), float(low), float(high), of_mean,
        float(slices.half_spread_bps.mean()), _half_spread_of_day_bps(day, round(bar_s * SECOND_NS)), excess, len(slices.lots), len(bars),
    )  # fmt: skip


def half_spreads_bps(table: BarTable, training: Any) -> Floats:
    """(symbols,) half spreads from the days where `training` (D,) is True; NaN for a stock without such days. A negative estimate counts as 0,
    so the result is at least half a tick."""
    values, found = table.bars.values, np.full(len(table.symbols), np.nan)
    for symbol in range(len(table.symbols)):
        days = values[training & (table.symbol == symbol)]
        if not len(days):
            continue
        found[symbol] = _half_spread_bps(*(days[..., column] for column in (HIGH, LOW, CLOSE, VOLUME)))
    return found


def _half_spread_bps(high: Floats, low: Floats, close: Floats, volume: Floats) -> float:
    """The half spread from days of bars (D, B) in ticks; see the module."""
    middle, last = 0.5 * (np.log(high) + np.log(low)), np.log(close)
    traded = (volume[:, :-1] > 0) & (volume[:, 1:] > 0)
    products = (last[:, :-1] - middle[:, :-1]) * (last[:, :-1] - middle[:, 1:])
    squared = 4 * products[traded].mean() if traded.any() else 0.0
    return float(max(0.5 / close.mean(), 0.5 * np.sqrt(max(0.0, squared))) * 1e4)


def _half_spread_of_day_bps(day: Day, bar_ns: int) -> float:
    """The estimate of `half_spreads_bps` from bars made of a day's trades."""
    trades = recorded_trades(day)[:-1]
    bars, first = np.unique(trades["time_ns"] // bar_ns, return_index=True)
    prices = trades["price_ticks"].astype(float)
    high, low = np.maximum.reduceat(prices, first), np.minimum.reduceat(prices, first)
    close, ones = prices[np.append(first[1:], len(prices)) - 1], np.ones((1, len(bars)))
    return _half_spread_bps(high[None], low[None], close[None], ones)
