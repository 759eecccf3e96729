"""Measures a tape's order flow in closed form: quantile tables, shares, rates.

Only the training window is used. Prices in ticks, quantities in lots, times in seconds.
"""

from dataclasses import dataclass

import numpy as np

from serl.agents.calibration.errors import CalibrationError
from serl.agents.realism.facts import minute_series
from serl.agents.realism.messages import CANCEL, LIMIT, MARKET
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, Bools, Floats, Ints, Tape
from serl.agents.traders.flow_tables import CURVE_STEPS, POINTS
from serl.exchange.records import Side

STATE_SHARES = (0.08, 0.25, 0.5, 0.75, 0.92)
"""Shares of messages below the edges between spread states."""
MINUTES_MIN, KIND_MIN = 5, 50
"""Minimum length of the training window, and minimum number of messages of each kind in it."""


@dataclass(frozen=True)
class MeasuredFlow:
    """The flow of a training window. Tables: [..., POINTS] quantiles at equally spaced probabilities."""

    counts: dict[str, int]
    """Number of messages by kind."""
    duration_s: float
    next_share: Floats
    """[kind, next kind] of limit, market, cancel."""
    wait_log_s: Floats
    """[kind, next kind, point] ln seconds."""
    spread_edges_ticks: Floats
    """[5] quantiles STATE_SHARES of the spread before messages."""
    inside_share: Floats
    """[spread state] share of limit orders inside the spread."""
    inside_fraction: Floats
    """[point] how far into the spread these go, 0..1."""
    distance_ticks: Floats
    """[spread state, point] distance of the other limit orders behind their touch, before arrival."""
    touch_cancel_share: Floats
    """[spread state] share of cancellations at the touch."""
    limit_lots: Floats
    """[inside, at the touch, behind it; point] sizes of limit orders."""
    market_lots: Floats
    """[point] sizes of market orders that do not exhaust the touch."""
    sweep_share: float
    through_share: float
    repeat_share: float
    """Excess share of market orders on the side of the previous one, over coin flips."""
    patience_log_s: Floats
    """[at the touch, near, far; point] ln seconds from arrival to cancellation."""
    near_ticks: float
    lots_per_tick: float
    """Lots on the visible levels per tick that they span, geometric mean over messages and sides."""
    visible_ticks: float
    """Mean distance of the last visible level from its touch."""
    spread_ticks: float
    """Time-weighted mean."""
    mean_market_lots: float
    volume_lots: float
    volatility_ticks: float
    """Standard deviation of the mid's moves over one minute."""
    activity_deviation: float
    """Standard deviation of the logarithm of messages per minute, beyond that of a Poisson process with their mean."""
    activity_curve: Floats
    """[13 parts of 09:30-16:00] messages per second relative to the window's mean; 1 outside the window."""
    first_mid_ticks: float


def check_window(window: Tape, start_ns: int, end_ns: int) -> None:
    """CalibrationError if a window is too short or has too few messages."""
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


def quantiles(values: Floats | Ints) -> Floats:
    """[POINTS] quantiles of a sample; equal neighbours represent atoms such as round lots.

    The last point is not the maximum: it is chosen to preserve the mean of the largest 1/32, because tails are not linear.
    CalibrationError for a sample that is too small.
    """
    if len(values) < 2:
        raise CalibrationError(f"quantile table: expected at least two values, got {len(values)}; give a longer window")
    table = np.quantile(values, np.linspace(0.0, 1.0, POINTS))
    table[-1] = max(table[-2], 2.0 * _top(values).mean() - table[-2])
    return np.asarray(table)


def log_quantiles(seconds: Floats) -> Floats:
    """[POINTS] quantiles of ln seconds; the last point preserves the mean of the longest 1/32 in seconds, not in logarithms.

    A linear piece from a to b in logarithms has the mean (e^b - e^a) / (b - a).
    """
    table = quantiles(np.log(seconds))
    low, mean = float(table[-2]), float(_top(seconds).mean())
    bounds = [low, low + 20.0]
    for _ in range(60):
        width = 0.5 * (bounds[0] + bounds[1]) - low
        found = np.exp(low) * (np.expm1(width) / width if width > 0 else 1.0)
        bounds[1 if found > mean else 0] = low + width
    table[-1] = bounds[0]
    return table


def _top(values: Floats | Ints) -> Floats:
    """The largest 1/32 of the values, at least one."""
    count = max(1, len(values) // (POINTS - 1))
    return np.asarray(np.sort(values)[-count:], np.float64)


def measure_flow(window: Tape, start_ns: int, end_ns: int) -> MeasuredFlow:
    """Measures a window [start_ns, end_ns) of a tape. CalibrationError if it has too little data."""
    check_window(window, start_ns, end_ns)
    kind, books = window.kind.astype(np.int64), window.two_sided[:-1]
    state, edges = _spread_states(window)
    inside, fraction, distances, limit_lots = _limit_orders(window, books, state)
    near, patience = _patience(window, books)
    sweep, through, market_lots, repeat = _market_orders(window, books)
    shares, waits = _renewal(kind, window.time_ns)
    bid, ask = window.bid[1:], window.ask[1:]
    both = window.two_sided[1:]
    full = (window.book_ticks[1:, :, -1] > 0).all(axis=1)
    if not full.any():
        raise CalibrationError(
            f"levels: expected a book that shows {window.levels} levels on both sides at some time, got none; give fewer --levels"
        )
    reach = np.maximum(1, np.abs(window.book_ticks[1:, :, -1] - window.book_ticks[1:, :, 0])[full])
    density = window.book_lots[1:].sum(axis=2)[full] / reach
    steps = np.diff(window.time_ns, append=end_ns)[both]
    moves = np.diff(_mid_by_minute(window, start_ns, end_ns))
    volume = minute_series(window, start_ns, end_ns).volume_lots
    deviation, curve = _activity(window.time_ns, start_ns, end_ns)
    return MeasuredFlow(
        counts={name: int((kind == code).sum()) for code, name in ((LIMIT, "limit"), (MARKET, "market"), (CANCEL, "cancel"))},
        duration_s=(end_ns - start_ns) / SECOND_NS,
        next_share=shares,
        wait_log_s=waits,
        spread_edges_ticks=edges,
        inside_share=inside,
        inside_fraction=fraction,
        distance_ticks=distances,
        touch_cancel_share=_touch_cancels(window, books, state),
        limit_lots=limit_lots,
        market_lots=market_lots,
        sweep_share=sweep,
        through_share=through,
        repeat_share=repeat,
        patience_log_s=patience,
        near_ticks=near,
        lots_per_tick=float(np.exp(np.log(density).mean())),
        visible_ticks=float(reach.mean()),
        spread_ticks=float(np.average((ask - bid)[both], weights=np.maximum(1, steps))),
        mean_market_lots=float(window.qty_lots[window.trades].mean()),
        volume_lots=float(volume.sum()),
        volatility_ticks=float(moves.std()),
        activity_deviation=deviation,
        activity_curve=curve,
        first_mid_ticks=float(window.mid[1:][both][0]),
    )  # fmt: skip


def own_touch_distance(window: Tape, messages: Ints) -> Ints:
    """Ticks from the message's own touch, before it, back to its price; negative: inside the spread."""
    price, side = window.price_ticks[messages], window.side[messages]
    return np.where(side == Side.BUY, window.bid[messages] - price, price - window.ask[messages])


def _spread_states(window: Tape) -> tuple[Ints, Floats]:
    """([message] spread state before the message, edges)."""
    spread = (window.ask - window.bid)[:-1]
    edges = np.quantile(spread[window.two_sided[:-1]], STATE_SHARES)
    return np.searchsorted(edges, spread, side="left"), edges


def _limit_orders(window: Tape, books: Bools, state: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """(share inside by spread state, fractions of the spread, distances by spread state, sizes by band)."""
    orders = np.flatnonzero((window.kind == LIMIT) & books)
    distance, lots, states = own_touch_distance(window, orders), window.qty_lots[orders], state[orders]
    spread, inside = (window.ask - window.bid)[orders], distance < 0
    fraction = _quantiles_or_pooled(-distance[inside] / spread[inside], np.array([0.5, 0.5]))
    behind = distance[~inside]
    tables = [
        _quantiles_or_pooled(distance[~inside & (states == number)], behind) for number in range(len(STATE_SHARES) + 1)
    ]
    bands = [_quantiles_or_pooled(lots[chosen], lots) for chosen in (inside, distance == 0, distance > 0)]
    return _share_by_state(inside, states), fraction, np.stack(tables), np.stack(bands)


def _touch_cancels(window: Tape, books: Bools, state: Ints) -> Floats:
    """[spread state] share of cancellations that are at the touch."""
    cancels = np.flatnonzero((window.kind == CANCEL) & books)
    return _share_by_state(own_touch_distance(window, cancels) <= 0, state[cancels])


def _share_by_state(chosen: Bools, states: Ints) -> Floats:
    """[spread state] share of chosen events; half an event of either kind is added, so no probability is 0 or 1."""
    size = len(STATE_SHARES) + 1
    return np.asarray((np.bincount(states[chosen], minlength=size) + 0.5) / (np.bincount(states, minlength=size) + 1.0))


def _quantiles_or_pooled(part: Ints | Floats, pool: Ints | Floats) -> Floats:
    """Quantiles of a part, or of the pooled sample if the part is too small."""
    return quantiles(part if len(part) >= POINTS else pool)


def _patience(window: Tape, books: Bools) -> tuple[float, Floats]:
    """(near distance, ln seconds to cancellation at the touch, near and far)."""
    known = (window.entered_ns >= window.time_ns[0]) & window.first_cancel
    cancels = np.flatnonzero((window.kind == CANCEL) & known & books)
    if len(cancels) < KIND_MIN:
        raise CalibrationError(
            f"training window: expected at least {KIND_MIN} cancellations of orders that arrived in it, got {len(cancels)}; "
            "give a longer one"
        )
    distance = own_touch_distance(window, cancels)
    log_s = np.log(np.maximum(1, window.time_ns[cancels] - window.entered_ns[cancels]) / SECOND_NS)
    behind = distance[distance > 0]
    near = float(np.median(behind)) if len(behind) else 1.0
    bands = (distance <= 0, (distance > 0) & (distance <= near), distance > near)
    return near, np.stack([_quantiles_or_pooled(log_s[chosen], log_s) for chosen in bands])


def _market_orders(window: Tape, books: Bools) -> tuple[float, float, Floats, float]:
    """(share that takes the touch exactly, share that trades through it, sizes of the others, share of repeated sides)."""
    orders = np.flatnonzero(window.trades & books)
    opposite = 1 - window.side[orders].astype(np.int64)
    touch_ticks, touch_lots = window.book_ticks[orders, opposite, 0], window.book_lots[orders, opposite, 0]
    lots = window.qty_lots[orders]
    through = window.price_ticks[orders] != touch_ticks
    sweep = ~through & (lots == touch_lots)
    others = lots[~through & ~sweep]
    signs = window.sign[orders]
    repeat = max(0.0, 2.0 * float((signs[1:] == signs[:-1]).mean()) - 1.0)
    return float(sweep.mean()), float(through.mean()), _quantiles_or_pooled(others, lots), repeat


def _renewal(kind: Ints, time_ns: Ints) -> tuple[Floats, Floats]:
    """(shares of the next kind after each kind, ln seconds between each pair)."""
    before, after = kind[:-1], kind[1:]
    wait = np.maximum(1, np.diff(time_ns)) / SECOND_NS
    counts = np.bincount(3 * before + after, minlength=9).reshape(3, 3) + 1.0
    parts = [wait[(before == one) & (after == two)] for one in range(3) for two in range(3)]
    tables = [log_quantiles(part if len(part) >= POINTS else wait) for part in parts]
    return counts / counts.sum(axis=1, keepdims=True), np.stack(tables).reshape(3, 3, POINTS)


def _mid_by_minute(window: Tape, start_ns: int, end_ns: int) -> Floats:
    keep = window.two_sided[1:]
    grid = np.arange(start_ns, end_ns + 1, MINUTE_NS)
    index = np.maximum(0, np.searchsorted(window.time_ns[keep], grid) - 1)
    return np.asarray(window.mid[1:][keep][index])


def _activity(time_ns: Ints, start_ns: int, end_ns: int) -> tuple[float, Floats]:
    """(standard deviation of ln messages per minute beyond Poisson, curve over the day)."""
    minutes = int((end_ns - start_ns) // MINUTE_NS)
    counts = np.bincount((time_ns - start_ns) // MINUTE_NS, minlength=minutes)[:minutes].astype(np.float64)
    variance = counts.var() / counts.mean() ** 2 - 1.0 / counts.mean()
    deviation = float(np.sqrt(np.log1p(max(0.0, variance))))
    open_ns, close_ns = int(9.5 * 3600) * SECOND_NS, 16 * 3600 * SECOND_NS
    edges = np.linspace(open_ns, close_ns, CURVE_STEPS + 1)
    curve = np.ones(CURVE_STEPS)
    for part in range(CURVE_STEPS):
        low, high = max(edges[part], start_ns), min(edges[part + 1], end_ns)
        if high - low > MINUTES_MIN * MINUTE_NS:
            rate = float(((time_ns >= low) & (time_ns < high)).sum()) / (high - low)
            curve[part] = rate / (len(time_ns) / (end_ns - start_ns))
    return deviation, curve
