"""Measures the order flow of tapes in closed form: quantile tables, shares, rates.

Only the training windows are used: the same hours of different days. Messages of different days never form a pair. Prices are in ticks, quantities in
lots, times in seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.calibration.bursts import Bursts, measure_bursts
from serl.agents.calibration.cancellations import cancel_edges, cancel_odds, touch_cancel_odds
from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.market_orders import MarketOrders, measure_market_orders
from serl.agents.calibration.tables import log_quantiles, quantiles, quantiles_or_pooled, share_by_state
from serl.agents.realism.facts import minute_series
from serl.agents.realism.messages import CANCEL, LIMIT, MARKET
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Floats, Ints, Tape
from serl.agents.traders.flow_tables import CURVE_STEPS, INSIDE_BAND, POINTS, SPREAD_STATES
from serl.exchange.records import Side

STATE_SHARES = (0.08, 0.25, 0.5, 0.75, 0.92)
"""Shares of messages whose spread is below the edges between spread states."""
SIZE_SHARES = (0.45, 0.9, 0.97, 0.995)
"""Shares of limit orders whose size is below the edges between size classes."""
MINUTES_MIN, KIND_MIN = 5, 50
"""Minimum length of the training window, and minimum number of messages of each kind in it."""
FITTING_STEPS = 100
TRADING_HOURS = int(9.5 * 3600) * SECOND_NS, 16 * 3600 * SECOND_NS
"""Open and close of populations, in ns after midnight."""


@dataclass(frozen=True)
class MeasuredFlow:
    """The measured flow of the training windows. Tables are [..., POINTS] quantiles; see flow_tables.PROBABILITIES."""

    counts: dict[str, int]
    """Number of messages by kind."""
    duration_s: float
    """Duration of all windows together; counts and volume are also totals."""
    next_share: Floats
    """[kind, next kind] shares; kinds are limit, market, cancel."""
    kind_odds: Floats
    """[spread state, kind] factors on these shares."""
    wait_log_s: Floats
    """[kind, next kind, point] ln seconds between two messages."""
    spread_edges_ticks: Floats
    """[5] quantiles STATE_SHARES of the spread before messages."""
    inside_share: Floats
    """[spread state] share of limit orders inside the spread."""
    inside_fraction: Floats
    """[point] how far into the spread these orders go, 0..1."""
    distance_ticks: Floats
    """[spread state, point] distance of the other limit orders behind their touch, before arrival."""
    touch_cancel_share: Floats
    """[spread state] share of cancellations at the touch."""
    touch_cancel_odds: Floats
    """[touch state] see cancellations.touch_cancel_odds."""
    pile_odds: Floats
    """[touch state] see cancellations.CancelOdds."""
    limit_lots: Floats
    """[inside, at the touch, behind it; point] sizes of limit orders."""
    market_orders: MarketOrders
    """See market_orders.py."""
    band_edges_ticks: Floats
    """[4] edges between the distance bands of cancelled orders."""
    cancel_edges_lots: Floats
    """[4] edges between the size classes of orders: the quantiles SIZE_SHARES of limit orders."""
    cancel_odds: Floats
    """[distance band, step of the age, size class] see cancellations.CancelOdds."""
    lots_per_tick: Floats
    """[side] lots on the visible levels per tick that they span, geometric mean over messages."""
    deep_gap_ticks: float
    """Mean distance between the last two visible levels."""
    deep_lots: Floats
    """[point] lots on the last visible level."""
    visible_ticks: float
    """Mean distance of the last visible level from its touch."""
    spread_ticks: float
    """Time-weighted mean spread."""
    mean_market_lots: float
    volume_lots: float
    volatility_ticks: float
    """Standard deviation of the mid's moves over one minute."""
    bursts: Bursts
    activity_deviation: float
    """Standard deviation of the logarithm of messages per minute, beyond that of a Poisson process with their mean."""
    activity_curve: Floats
    """[13 parts of 09:30-16:00] messages per second relative to the window's mean, averaged over the days; 1 outside the window."""
    first_mid_ticks: float
    """First mid of the window, averaged over the days."""


def check_window(window: Tape, start_ns: int, end_ns: int) -> None:
    """Raises CalibrationError if a window is too short or has too few messages."""
    minutes = (end_ns - start_ns) // MINUTE_NS
    if minutes < MINUTES_MIN:
        raise CalibrationError(
            f"training window: expected at least {MINUTES_MIN} minutes, got {minutes}; give a longer one"
        )
    for kind, name in ((LIMIT, "limit orders"), (MARKET, "market orders"), (CANCEL, "cancellations")):
        found = int((window.kind == kind).sum())
        if found < KIND_MIN:
            raise CalibrationError(
                f"training window: expected at least {KIND_MIN} {name}, got {found}; give a longer window or a busier day"
            )


def measure_flow(windows: Sequence[Tape], start_ns: int, end_ns: int) -> MeasuredFlow:
    """Measures a window [start_ns, end_ns) of one or more days. Raises CalibrationError if one has too little data."""
    for window in windows:
        check_window(window, start_ns, end_ns)
    kind = _pool(windows, lambda window: window.kind.astype(np.int64))
    states, edges = _spread_states(windows)
    band_edges_ticks = _cancel_edges(windows)
    inside, fraction, distances, limit_lots = _limit_orders(windows, states, band_edges_ticks)
    cancel_edges_lots = np.quantile(_pool(windows, lambda window: window.qty_lots[window.kind == LIMIT]), SIZE_SHARES)
    takes = measure_market_orders(windows)
    odds_if_cancelled = cancel_odds(windows, band_edges_ticks, cancel_edges_lots, takes.touch_edges_lots)
    shares, waits = _renewal(windows)
    odds = _kind_odds(windows, states)
    reach, density, gap, deep_lots = _depth(windows)
    spreads = _pool(windows, lambda window: (window.ask - window.bid)[1:][window.two_sided[1:]])
    steps = _pool(windows, lambda window: np.diff(window.time_ns, append=end_ns)[window.two_sided[1:]])
    moves = _pool(windows, lambda window: np.diff(_mid_by_minute(window, start_ns, end_ns)))
    volume = _pool(windows, lambda window: minute_series(window, start_ns, end_ns).volume_lots)
    deviation, curve = _activity(windows, start_ns, end_ns)
    return MeasuredFlow(
        counts={name: int((kind == code).sum()) for code, name in ((LIMIT, "limit"), (MARKET, "market"), (CANCEL, "cancel"))},
        duration_s=len(windows) * (end_ns - start_ns) / SECOND_NS,
        next_share=shares,
        kind_odds=odds,
        wait_log_s=waits,
        spread_edges_ticks=edges,
        inside_share=inside,
        inside_fraction=fraction,
        distance_ticks=distances,
        touch_cancel_share=_touch_cancels(windows, states),
        touch_cancel_odds=touch_cancel_odds(windows, takes.touch_edges_lots),
        limit_lots=limit_lots,
        market_orders=takes,
        band_edges_ticks=band_edges_ticks,
        cancel_edges_lots=cancel_edges_lots,
        cancel_odds=odds_if_cancelled.orders,
        pile_odds=odds_if_cancelled.piles,
        lots_per_tick=np.exp(np.log(density).mean(axis=0)),
        deep_gap_ticks=float(gap.mean()),
        deep_lots=quantiles(deep_lots),
        visible_ticks=float(reach.mean()),
        spread_ticks=float(np.average(spreads, weights=np.maximum(1, steps))),
        mean_market_lots=float(_pool(windows, lambda window: window.qty_lots[window.trades]).mean()),
        volume_lots=float(volume.sum()),
        volatility_ticks=float(moves.std()),
        bursts=measure_bursts(windows),
        activity_deviation=deviation,
        activity_curve=curve,
        first_mid_ticks=float(np.mean([window.mid[1:][window.two_sided[1:]][0] for window in windows])),
    )  # fmt: skip


def _pool(windows: Sequence[Tape], values: Callable[[Tape], Any]) -> Any:
    """The values of all days as one sample."""
    return np.concatenate([values(window) for window in windows])


def _depth(windows: Sequence[Tape]) -> tuple[Ints, Floats, Ints, Ints]:
    """(ticks from the touch to the last visible level, lots per tick, ticks between the last two visible levels, lots on the last visible level), over
    the messages and sides of full books."""
    reaches, densities, gaps, deep = [], [], [], []
    for window in windows:
        ticks, lots = window.book_ticks[1:], window.book_lots[1:]
        full = (ticks[:, :, -1] > 0).all(axis=1)
        reach = np.maximum(1, np.abs(ticks[:, :, -1] - ticks[:, :, 0])[full])
        reaches.append(reach)
        densities.append(lots.sum(axis=2)[full] / reach)
        gaps.append(np.abs(ticks[:, :, -1] - ticks[:, :, -2])[full] if ticks.shape[2] > 1 else reach)
        deep.append(lots[:, :, -1][full].ravel())
    found = np.concatenate(reaches)
    if not len(found):
        raise CalibrationError(
            f"levels: expected a book that shows {windows[0].levels} levels on both sides at some time, got none; give fewer --levels"
        )
    return found, np.concatenate(densities), np.concatenate(gaps), np.concatenate(deep)


def own_touch_distance(window: Tape, messages: Ints) -> Ints:
    """Ticks from the message's own touch, before it, back to its price; negative: inside the spread."""
    price, side = window.price_ticks[messages], window.side[messages]
    return np.where(side == Side.BUY, window.bid[messages] - price, price - window.ask[messages])


def _spread_states(windows: Sequence[Tape]) -> tuple[list[Ints], Floats]:
    """([day][message] spread state before the message, edges, the same for all days)."""
    spreads = [(window.ask - window.bid)[:-1] for window in windows]
    pooled = [spread[window.two_sided[:-1]] for window, spread in zip(windows, spreads, strict=True)]
    edges = np.quantile(np.concatenate(pooled), STATE_SHARES)
    return [np.searchsorted(edges, spread, side="left") for spread in spreads], edges


def _limit_orders(
    windows: Sequence[Tape], states: list[Ints], band_edges_ticks: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """(share inside by spread state, fractions of the spread, distances by spread state, sizes by band)."""
    rows = []
    for window, state in zip(windows, states, strict=True):
        orders = np.flatnonzero((window.kind == LIMIT) & window.two_sided[:-1])
        spread = (window.ask - window.bid)[orders]
        rows.append((own_touch_distance(window, orders), window.qty_lots[orders], state[orders], spread))
    distance, lots, at, spread = (np.concatenate(column) for column in zip(*rows, strict=True))
    inside = distance < 0
    fraction = quantiles_or_pooled(-distance[inside] / spread[inside], np.array([0.5, 0.5]))
    behind = distance[~inside]
    tables = [quantiles_or_pooled(distance[~inside & (at == number)], behind) for number in range(SPREAD_STATES)]
    band = np.where(inside, INSIDE_BAND, np.searchsorted(band_edges_ticks, distance, side="left"))
    bands = [quantiles_or_pooled(lots[band == number], lots) for number in range(INSIDE_BAND + 1)]
    return share_by_state(inside, at, SPREAD_STATES), fraction, np.stack(tables), np.stack(bands)


def _touch_cancels(windows: Sequence[Tape], states: list[Ints]) -> Floats:
    """[spread state] share of cancellations that are at the touch."""
    rows = []
    for window, state in zip(windows, states, strict=True):
        cancels = np.flatnonzero((window.kind == CANCEL) & window.two_sided[:-1])
        rows.append((own_touch_distance(window, cancels) <= 0, state[cancels]))
    at_touch, at = (np.concatenate(column) for column in zip(*rows, strict=True))
    return share_by_state(at_touch, at, SPREAD_STATES)


def _cancel_edges(windows: Sequence[Tape]) -> Floats:
    """See cancellations.py. Raises CalibrationError if too few of the cancelled orders arrived in the windows."""
    known, distances = 0, []
    for window in windows:
        cancels = np.flatnonzero((window.kind == CANCEL) & window.two_sided[:-1])
        known += int((window.entered_ns[cancels] >= window.time_ns[0]).sum())
        distances.append(own_touch_distance(window, cancels))
    if known < KIND_MIN:
        raise CalibrationError(
            f"training window: expected at least {KIND_MIN} cancellations of orders that arrived in it, got {known}; "
            "give a longer one"
        )
    distance = np.concatenate(distances)
    return cancel_edges(distance[distance > 0].astype(np.float64))


def _renewal(windows: Sequence[Tape]) -> tuple[Floats, Floats]:
    """(shares of the next kind after each kind, ln seconds between each pair)."""
    before = _pool(windows, lambda window: window.kind[:-1].astype(np.int64))
    after = _pool(windows, lambda window: window.kind[1:].astype(np.int64))
    wait = np.maximum(1, _pool(windows, lambda window: np.diff(window.time_ns))) / SECOND_NS
    counts = np.bincount(3 * before + after, minlength=9).reshape(3, 3) + 1.0
    parts = [wait[(before == one) & (after == two)] for one in range(3) for two in range(3)]
    tables = [log_quantiles(part if len(part) >= POINTS else wait) for part in parts]
    return counts / counts.sum(axis=1, keepdims=True), np.stack(tables).reshape(3, 3, POINTS)


def _kind_odds(windows: Sequence[Tape], states: list[Ints]) -> Floats:
    """[spread state, kind] factors that turn the shares after each kind into those at a spread.

    Found by iterative proportional fitting (Deming, Stephan 1940): with them, the expected number of each kind in each state equals the counted one.
    """
    counts = np.zeros((SPREAD_STATES, 3, 3))
    for window, state in zip(windows, states, strict=True):
        kind, seen = window.kind.astype(np.int64), window.two_sided[1:-1]
        np.add.at(counts, (state[1:][seen], kind[:-1][seen], kind[1:][seen]), 1.0)
    shares = counts.sum(axis=0) + 1.0
    shares /= shares.sum(axis=1, keepdims=True)
    odds, after, kinds = np.ones(counts.shape[:2]), counts.sum(axis=2), counts.sum(axis=1)
    for _ in range(FITTING_STEPS):
        expected = shares * odds[:, None, :]
        expected /= expected.sum(axis=2, keepdims=True)
        odds *= (kinds + 0.5) / ((after[:, :, None] * expected).sum(axis=1) + 0.5)
    return odds


def _mid_by_minute(window: Tape, start_ns: int, end_ns: int) -> Floats:
    keep = window.two_sided[1:]
    grid = np.arange(start_ns, end_ns + 1, MINUTE_NS)
    index = np.maximum(0, np.searchsorted(window.time_ns[keep], grid) - 1)
    return np.asarray(window.mid[1:][keep][index])


def _activity(windows: Sequence[Tape], start_ns: int, end_ns: int) -> tuple[float, Floats]:
    """(standard deviation of ln messages per minute beyond Poisson, curve over the day).

    Relative to each day's own mean, because differences between days are neither activity within a day nor part of its curve.
    """
    found = [_activity_of_day(window.time_ns, start_ns, end_ns) for window in windows]
    variance = float(np.mean([one[0] for one in found]))
    return float(np.sqrt(np.log1p(max(0.0, variance)))), np.asarray(np.mean([one[1] for one in found], axis=0))


def _activity_of_day(time_ns: Ints, start_ns: int, end_ns: int) -> tuple[float, Floats]:
    """(relative variance of messages per minute beyond Poisson, curve over the day)."""
    minutes = int((end_ns - start_ns) // MINUTE_NS)
    counts = np.bincount((time_ns - start_ns) // MINUTE_NS, minlength=minutes)[:minutes].astype(np.float64)
    variance = counts.var() / counts.mean() ** 2 - 1.0 / counts.mean()
    edges = np.linspace(*TRADING_HOURS, CURVE_STEPS + 1)
    curve = np.ones(CURVE_STEPS)
    for part in range(CURVE_STEPS):
        low, high = max(edges[part], start_ns), min(edges[part + 1], end_ns)
        if high - low > MINUTES_MIN * MINUTE_NS:
            rate = float(((time_ns >= low) & (time_ns < high)).sum()) / (high - low)
            curve[part] = rate / (len(time_ns) / (end_ns - start_ns))
    return float(variance), curve
