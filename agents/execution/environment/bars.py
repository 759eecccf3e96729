"""The market of bars: no book and no impact, only the volume and price range of each bar.

A market child fills bar by bar from the first bar on, at most `participation` of each bar's volume, at the bar's VWAP (or its typical price
(high + low + close) / 3), worsened by half the spread and by `impact_bps` times the order's share of the bar's volume. A limit child that
crosses when it arrives trades at the first bar's open with the same costs; otherwise it rests and fills at its price from a bar whose range
goes through it. Bars do not show how much was traded at which price, so FILLS has two models of what a resting order fills:

- `strict`: at most `participation` x B, where B is the volume traded beyond its price if the bar's volume V was spread evenly over its range:
  B = V min(1, (high - price) / (high - low)) for a sale, V min(1, (price - low) / (high - low)) for a purchase. All other orders at the
  price come first: volume at the price itself fills nothing.
- `touch`: as much as a market order fills, once the range goes through the price by any amount. This is optimistic: a bar that passes the price
  by a tick fills the whole order.

The market and the limit child share the cap `participation` x V; the quantity above it stays unfilled. Forced completion has no cap and trades at
the last close with the same costs. The notional of each fill is rounded to a whole tick x lot.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment import windows
from serl.agents.execution.environment.records import CHILD, FILL, FRAME
from serl.exchange.compiling import compiled, inlined
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

OPEN, HIGH, LOW, CLOSE, PRICE, VOLUME = range(6)
FILLS = ("strict", "touch")
"""Models of what a resting order fills; see the module."""
NOTIONAL_MAX = 2.0**62
"""Largest sum of price x volume of a window, in ticks x lots; what costs add fits into the rest of 64 bits."""
# Columns of `env_states`, one row per environment
DAY, SIGN, NOW = range(3)


@dataclasses.dataclass(frozen=True)
class BarDays:
    """Days of bars, all at the same times of day; a day is one stock on one date."""

    starts_ns: NDArray[np.int64]
    """(B,) start of each bar, ns after midnight."""
    bar_ns: int
    values: NDArray[np.float64]
    """(D, B, 6): open, high, low, close, VWAP or typical price, all in ticks, and volume in lots; volume 0 = nothing traded."""

    def __post_init__(self) -> None:
        shape = (len(self.values), len(self.starts_ns), 6)
        if self.values.shape != shape or 0 in shape:
            raise ConfigError(f"bars: expected values of shape (days, {shape[1]}, 6), got {self.values.shape}")
        if self.bar_ns <= 0 or np.any(np.diff(self.starts_ns) < self.bar_ns):
            raise ConfigError(
                f"bars: expected increasing starts at least one positive bar_ns apart, got bar_ns {self.bar_ns} and smallest distance "
                f"{np.diff(self.starts_ns).min(initial=np.iinfo(np.int64).max)} ns"
            )
        prices = self.values[..., :VOLUME]
        if not (np.isfinite(self.values).all() and (prices > 0).all() and (self.values[..., VOLUME] >= 0).all()):
            raise ConfigError(
                f"bars: expected positive prices and volumes from 0 on, got prices from {prices.min()}; drop suspended days first"
            )


@inlined
def _cost_bps(volume: float, lots: int, half_spread_bps: float, impact_bps: float) -> float:
    """Cost of taking liquidity, bps."""
    return half_spread_bps + impact_bps * min(1.0, lots / max(1.0, volume))


@inlined
def _add_fill(price: float, lots: int, fill: Any) -> None:
    fill.lots += lots
    fill.notional += np.int64(np.rint(price * lots))


@inlined
def _fill_limit(
    bar: Any, sign: int, lots: int, limit_ticks: int, arriving: bool, cost_bps: float, strict: bool,
    participation: float, fill: Any,
) -> int:  # fmt: skip
    """Fills a limit order in one bar and returns the lots filled; an order that crosses when it arrives takes liquidity and pays for it."""
    if lots <= 0:
        return 0
    taking = bar[OPEN] * (1 - sign * cost_bps * 1e-4)
    if arriving and sign * (taking - limit_ticks) >= 0:
        _add_fill(taking, lots, fill)
        return lots
    beyond = bar[HIGH] - limit_ticks if sign > 0 else limit_ticks - bar[LOW]
    if beyond <= 0:
        return 0
    span = bar[HIGH] - bar[LOW]
    if strict and beyond < span:
        lots = min(lots, int(participation * bar[VOLUME] * beyond / span))
    _add_fill(np.float64(limit_ticks), lots, fill)
    return lots


@inlined
def _add_trades(bar: Any, frame: Any) -> None:
    """Adds a bar's volume to the market's trades; signed volume is estimated as volume x (close - open) / (high - low)."""
    lots = np.int64(bar[VOLUME])
    frame.traded_lots += lots
    frame.traded_notional += np.int64(np.rint(bar[PRICE] * lots))
    if bar[HIGH] > bar[LOW]:
        frame.signed_lots += np.int64(np.rint(lots * (bar[CLOSE] - bar[OPEN]) / (bar[HIGH] - bar[LOW])))


@inlined
def _write_book(values: Any, index: int, half_spread_bps: float, participation: float, frame: Any) -> None:
    """Writes one level per side around the last close; before the first bar, around its open with depth 0 (unknown)."""
    price, lots = values[0, OPEN], np.int64(0)
    if index > 0:
        price, lots = values[index - 1, CLOSE], np.int64(participation * values[index - 1, VOLUME])
    half = max(0.5, price * half_spread_bps * 1e-4)
    frame.bid_ticks[0] = max(np.int64(1), np.int64(np.floor(price - half)))
    frame.ask_ticks[0] = max(frame.bid_ticks[0] + 1, np.int64(np.ceil(price + half)))
    frame.bid_lots[0] = frame.ask_lots[0] = lots


@compiled
def _advance(
    values: Any, starts_ns: Any, env_states: Any, which: Any, children: Any, until_ns: Any, half_spreads_bps: Any,
    impact_bps: float, participation: float, strict: bool, forced: bool, frames: Any, fills: Any,
) -> None:  # fmt: skip
    """Steps environments `which`; `forced` trades at the last known price without advancing time."""
    for index in range(which.size):
        env = which[index]
        env_state, frame, fill, child = env_states[env], frames[env], fills[env], children[index]
        bars, sign = values[env_state[DAY]], env_state[SIGN]
        half_spread_bps = half_spreads_bps[env_state[DAY]]
        fill.lots = fill.notional = fill.resting_lots = fill.ahead_lots = 0
        frame.traded_lots = frame.traded_notional = frame.signed_lots = 0
        market_left, limit_left = child.market_lots, child.limit_lots if child.limit_ticks > 0 else 0
        bar_index = np.searchsorted(starts_ns, env_state[NOW])
        if forced:
            bar = bars[max(bar_index - 1, 0)]
            cost_bps = _cost_bps(bar[VOLUME], market_left, half_spread_bps, impact_bps)
            _add_fill(bar[CLOSE] * (1 - sign * cost_bps * 1e-4), market_left, fill)
            continue
        arriving = True
        while bar_index < starts_ns.size and starts_ns[bar_index] < until_ns[index]:
            bar = bars[bar_index]
            capacity_lots = np.int64(participation * bar[VOLUME])
            lots = min(market_left, capacity_lots)
            cost_bps = _cost_bps(bar[VOLUME], lots, half_spread_bps, impact_bps)
            _add_fill(bar[PRICE] * (1 - sign * cost_bps * 1e-4), lots, fill)
            market_left -= lots
            resting = min(limit_left, capacity_lots - lots)
            cost_bps = _cost_bps(bar[VOLUME], resting, half_spread_bps, impact_bps)
            limit_left -= _fill_limit(
                bar, sign, resting, child.limit_ticks, arriving, cost_bps, strict, participation, fill
            )
            arriving = False
            _add_trades(bar, frame)
            bar_index += 1
        fill.resting_lots = limit_left
        env_state[NOW] = frame.time_ns = until_ns[index]
        _write_book(bars, bar_index, half_spread_bps, participation, frame)


class StaticBars:
    """N environments on days of bars; see the module and `ExecutionMarket`. `trades` of a FRAME is 0, because bars do not contain it."""

    def __init__(
        self, bars: BarDays, count: int, *, half_spread_bps: float | NDArray[np.float64] = 1.0, impact_bps: float = 0.0,
        participation: float = 0.2, fills: str = "strict",
    ) -> None:  # fmt: skip
        """half_spread_bps: one number, or (D,) one per day. fills: one of FILLS."""
        half_spreads_bps = np.broadcast_to(np.asarray(half_spread_bps, np.float64), len(bars.values)).copy()
        if not 0 < participation <= 1 or not (half_spreads_bps >= 0).all() or impact_bps < 0:
            raise ConfigError(
                "bars: expected participation in (0, 1] and costs from 0 on, got "
                f"participation {participation}, half_spread_bps {half_spread_bps}, impact_bps {impact_bps}"
            )
        if fills not in FILLS:
            raise ConfigError(f"bars: expected fills {' or '.join(FILLS)}, got {fills!r}")
        self.count, self.bars = count, bars
        self.frames, self.fills = np.zeros(count, FRAME), np.zeros(count, FILL)
        self._most_lots = bars.values[..., VOLUME].sum(axis=1)
        notional = np.maximum(1.0, bars.values[..., HIGH]) * bars.values[..., VOLUME]
        self._notional_before = np.pad(np.cumsum(notional, axis=1), ((0, 0), (1, 0)))
        self._spans = [(int(bars.starts_ns[0]), int(bars.starts_ns[-1]) + bars.bar_ns)] * len(bars.values)
        self._rules = (half_spreads_bps, impact_bps, participation, fills == "strict")
        self._env_states = np.zeros((count, 3), np.int64)
        self._all_envs = np.arange(count)

    def reset(self, which: Any, episodes: Rows) -> None:
        """See ExecutionMarket. Raises ConfigError for a start within a bar, or an interval that ends within one: its close is not known then; and for
        more volume than can be counted."""
        windows.check(episodes, self._spans, self._most_lots)
        odd = episodes["interval_ns"] % self.bars.bar_ns != 0
        if np.any(odd):
            raise ConfigError(
                f"interval_ns: expected a multiple of the bars' {self.bars.bar_ns} ns, got {episodes['interval_ns'][odd][0]}; decide less often"
            )
        start_ns = episodes["start_ns"]
        bar_ns = self.bars.starts_ns[np.searchsorted(self.bars.starts_ns, start_ns, side="right") - 1]
        within = (start_ns > bar_ns) & (start_ns < bar_ns + self.bars.bar_ns)
        if np.any(within):
            raise ConfigError(
                f"start_ns: expected the start of a bar, such as {bar_ns[within][0]}, got {start_ns[within][0]}; start with one"
            )
        first, last = (np.searchsorted(self.bars.starts_ns, times) for times in (start_ns, windows.ends_ns(episodes)))
        most = (self._notional_before[episodes["day"], last] - self._notional_before[episodes["day"], first]).max()
        if most > NOTIONAL_MAX:
            raise ConfigError(
                f"window: expected at most {NOTIONAL_MAX:.3g} ticks x lots of price x volume, which 64 bits hold, got {most:.3g}; choose shorter orders, "
                "or multiply the volumes of the file by less"
            )
        self._env_states[which] = np.stack([episodes["day"], episodes["sign"], start_ns], axis=1)
        self._run(which, np.zeros(len(which), CHILD), start_ns)

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._run(self._all_envs, children, until_ns)

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        self._run(which, children, self.frames["time_ns"][which], forced=True)

    def _run(self, which: Any, children: Rows, until_ns: Any, forced: bool = False) -> None:
        _advance(
            self.bars.values, self.bars.starts_ns, self._env_states, which, children, np.ascontiguousarray(until_ns),
            *self._rules, forced, self.frames, self.fills,
        )  # fmt: skip
