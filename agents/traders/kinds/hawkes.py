"""Mutually exciting order flow: every order, trade and cancellation makes others more likely for a while.

A Hawkes process of six types (limit, market, cancel; each buy and sell) with exponential kernels: the rate of type i is
base_i + Σ_j branching_ij Σ_{t_j < t} β exp(-β (t - t_j)) (Hawkes 1971; Abergel and Jedidi, Long-time behavior of a Hawkes
process-based limit order book, 2015). Events are drawn exactly by thinning (Ogata 1981): rates only fall between events, so the
current rate bounds the rates until the next event. One trader makes the whole flow; mean rates are (1 - branching)^-1 base.
"""

import math
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeFloat, field_validator

from serl.agents.traders.random import below, geometric, uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.sizes import lots_around
from serl.agents.traders.trader_api import (
    BUY,
    SELL,
    cancel,
    limit,
    market_order,
    own_price,
    own_side,
    recall,
    remember,
    sleep,
    two_sided,
    value_at,
)
from serl.exchange.compiling import inlined

TYPES = 6
"""Limit buy, limit sell, market buy, market sell, cancel buy, cancel sell."""


class HawkesProfile(Profile):
    """Parameters of a Hawkes flow; tuples in the order of TYPES."""

    base_per_s: tuple[NonNegativeFloat, ...] = Field(
        (1.0, 1.0, 0.15, 0.15, 0.3, 0.3), min_length=TYPES, max_length=TYPES, description="rates without excitement"
    )
    branching: tuple[NonNegativeFloat, ...] = Field(
        (
            0.25, 0.05, 0.20, 0.10, 0.20, 0.05,
            0.05, 0.25, 0.10, 0.20, 0.05, 0.20,
            0.05, 0.02, 0.30, 0.02, 0.02, 0.05,
            0.02, 0.05, 0.02, 0.30, 0.05, 0.02,
            0.15, 0.05, 0.05, 0.15, 0.20, 0.05,
            0.05, 0.15, 0.15, 0.05, 0.05, 0.20,
        ), min_length=TYPES * TYPES, max_length=TYPES * TYPES,
        description="row by row: mean number of events of the row's type that one event of the column's type triggers",
    )  # fmt: skip
    decay_per_s: float = Field(2.0, gt=0, description="β: excitement decays within about 1 / β")
    limit_lots: float = Field(100.0, gt=0, description="median size of a limit order")
    market_lots: float = Field(100.0, gt=0, description="median size of a market order")
    lots_spread: float = Field(0.5, ge=0, description="standard deviation of the logarithm of sizes")
    depth_ticks: float = Field(8.0, ge=1, description="mean distance of limit orders from the other side's touch")
    orders_side_max: int = Field(200, ge=10, description="above, each limit order cancels the side's furthest one")
    opening_levels: int = Field(20, ge=1, le=60, description="levels that refill an empty side, one order each")

    @field_validator("branching")
    @classmethod
    def _stationary(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        radius = float(np.abs(np.linalg.eigvals(np.reshape(values, (TYPES, TYPES)))).max())
        if radius >= 1:
            raise ValueError(
                f"expected a spectral radius below 1 (otherwise the flow explodes), got {radius:.3f}; lower the ratios"
            )
        return values

    def mean_per_s(self) -> Any:
        """Stationary rates of the six types, shape (6,)."""
        return np.linalg.solve(np.eye(TYPES) - np.reshape(self.branching, (TYPES, TYPES)), self.base_per_s)


@inlined
def _rate(profile: Any, market: Any, kind: int, decay: float) -> float:
    """Rate of a type, with the excitement at the last event times `decay`."""
    rate = profile.base_per_s[kind]
    for cause in range(TYPES):
        rate += profile.branching[kind * TYPES + cause] * recall(market, cause) * decay
    return rate


@inlined
def _draw_next_event(agent: Any, profile: Any, market: Any) -> tuple[float, int]:
    """(seconds to the next event, its type); type TYPES means none. Depends only on the flow's own history."""
    wait_s = 0.0
    while True:
        decay, bound = math.exp(-profile.decay_per_s * wait_s), 0.0
        for kind in range(TYPES):
            bound += _rate(profile, market, kind, decay)
        if bound <= 0.0:
            return wait_s, TYPES
        wait_s -= math.log(uniform(agent)) / bound
        decay = math.exp(-profile.decay_per_s * wait_s)
        draw = uniform(agent) * bound
        for kind in range(TYPES):
            draw -= _rate(profile, market, kind, decay)
            if draw < 0.0:
                return wait_s, kind


@inlined
def _open_book(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Fills an empty side, unless orders of its own are in flight there."""
    mid = int(value_at(market, market.time_ns)) if market.last_ticks == 0 else market.last_ticks
    buys, sells = 0, 0
    for index in range(market.orders_open):
        buys += own_side(market, index) == BUY
        sells += own_side(market, index) == SELL
    for level in range(int(profile.opening_levels)):
        if market.bid_ticks == 0 and buys == 0:
            price = (mid if market.ask_ticks == 0 else min(mid, market.ask_ticks)) - 1 - level
            limit(requests, BUY, price, lots_around(agent, profile.limit_lots, profile.lots_spread))
        if market.ask_ticks == 0 and sells == 0:
            price = max(mid, market.bid_ticks) + 1 + level
            limit(requests, SELL, price, lots_around(agent, profile.limit_lots, profile.lots_spread))


@trader("hawkes", HawkesProfile, memory=TYPES + 3)
def hawkes(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Makes one event per wake-up; in a one-sided market, refills the empty side instead. O(own orders).

    Memory: for each type Σ β exp(-β (t - t_j)) at the last event; time and type of the current event; whether there is one.
    """
    event_ns, kind, has_event = recall(market, TYPES), int(recall(market, TYPES + 1)), recall(market, TYPES + 2) > 0.0
    if has_event:
        remember(market, kind, recall(market, kind) + profile.decay_per_s)
    else:
        event_ns = 1.0 * market.time_ns
    wait_s, next_kind = _draw_next_event(agent, profile, market)
    if next_kind < TYPES:
        for cause in range(TYPES):
            remember(market, cause, recall(market, cause) * math.exp(-profile.decay_per_s * wait_s))
        remember(market, TYPES, event_ns + wait_s * 1e9)
        remember(market, TYPES + 1, 1.0 * next_kind)
        remember(market, TYPES + 2, 1.0)
        # events can be closer together than two wake-ups of a trader
        sleep(requests, market, max(1.0, recall(market, TYPES) - market.time_ns))
    if not two_sided(market):
        _open_book(agent, profile, market, requests)
        return
    side = BUY if kind % 2 == 0 else SELL
    if has_event and kind in (2, 3):
        market_order(requests, side, lots_around(agent, profile.market_lots, profile.lots_spread))
        return
    count, chosen, furthest, distance = 0, -1, -1, -1
    for index in range(market.orders_open):
        if own_side(market, index) == side:
            count += 1
            if below(agent, count) == 0:  # reservoir sampling: every order of the side is equally likely
                chosen = index
            price = own_price(market, index)
            away_ticks = market.ask_ticks - price if side == BUY else price - market.bid_ticks
            if away_ticks > distance:
                furthest, distance = index, away_ticks
    if has_event and kind in (4, 5) and chosen >= 0:
        cancel(requests, market, chosen)
    elif has_event and kind in (0, 1):
        away_ticks = 1 + geometric(agent, 1.0 / profile.depth_ticks)
        price = market.ask_ticks - away_ticks if side == BUY else market.bid_ticks + away_ticks
        limit(requests, side, price, lots_around(agent, profile.limit_lots, profile.lots_spread))
        if count >= int(profile.orders_side_max):
            cancel(requests, market, furthest)
