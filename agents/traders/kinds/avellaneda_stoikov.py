"""Market makers after Avellaneda and Stoikov, High-frequency trading in a limit order book (2008).

Reservation price r = mid - q γ σ² (T - t), quotes at r -+ (γ σ² (T - t) + (2 / γ) ln(1 + γ / k)) / 2. Volatility is estimated
from the mids that it observes. T - t is the constant horizon_s, so that quotes stay defined all day.
"""

import math
from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, cancel_all, mid_ticks, post, recall, remember, sleep, two_sided


class AvellanedaStoikovProfile(Profile):
    """Parameters of an optimal market maker."""

    interval_s: float = Field(1.0, gt=0, description="mean wait between quotes")
    risk_aversion: float = Field(1e-4, gt=0, description="γ, per tick and order_lots")
    decay_per_tick: float = Field(0.3, gt=0, description="k: fill rates fall as exp(-k distance)")
    horizon_s: float = Field(600.0, gt=0, description="T - t")
    volatility_ticks_per_root_s: float = Field(1.0, gt=0, description="initial σ, before it is estimated")
    volatility_memory: float = Field(0.99, ge=0, lt=1, description="weight of the old σ² at each wake-up")
    order_lots: int = Field(100, ge=1)
    position_lots_max: int = Field(2000, ge=1)


@trader("avellaneda_stoikov", AvellanedaStoikovProfile, memory=3)
def avellaneda_stoikov(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: σ², the last mid, its time."""
    mid = mid_ticks(market)
    variance, last_mid, last_ns = recall(market, 0), recall(market, 1), recall(market, 2)
    if last_ns == 0.0:
        variance = profile.volatility_ticks_per_root_s**2
    elif two_sided(market):
        elapsed_s = max(1e-3, (market.time_ns - last_ns) * 1e-9)
        observed = (mid - last_mid) ** 2 / elapsed_s
        variance = profile.volatility_memory * variance + (1 - profile.volatility_memory) * observed
    remember(market, 0, variance)
    remember(market, 1, mid)
    remember(market, 2, 1.0 * market.time_ns)
    cancel_all(requests, market)
    risk = profile.risk_aversion * variance * profile.horizon_s
    reservation = mid - agent.position_lots * risk / profile.order_lots
    half_spread = 0.5 * risk + math.log(1.0 + profile.risk_aversion / profile.decay_per_tick) / profile.risk_aversion
    lots, limit_lots = int(profile.order_lots), int(profile.position_lots_max)
    bid, ask = int(math.floor(reservation - half_spread)), int(math.ceil(reservation + half_spread))
    if market.ask_ticks > 0:
        bid = min(bid, market.ask_ticks - 1)
    if market.bid_ticks > 0:
        ask = max(ask, market.bid_ticks + 1)
    post(requests, BUY, bid, min(lots, limit_lots - agent.position_lots))
    post(requests, SELL, ask, min(lots, limit_lots + agent.position_lots))
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
