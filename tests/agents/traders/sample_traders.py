"""Traders for tests."""

from typing import Any

from pydantic import ConfigDict, Field

from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import (
    BUY,
    SELL,
    cancel,
    cancel_all,
    limit,
    market_order,
    post,
    recall,
    remember,
    sleep,
    two_sided,
)


class FlooderProfile(Profile):
    orders: int = Field(100, ge=1)
    room_ticks: int = Field(5000, ge=1)


@trader("flooder", FlooderProfile)
def flooder(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Adds orders ever further from the mid, and never cancels."""
    for number in range(int(profile.orders)):
        distance = 1 + (market.orders_open + number) % int(profile.room_ticks)
        if number % 2 == 0:
            limit(requests, BUY, 10_000 - distance, 1)
        else:
            limit(requests, SELL, 10_000 + distance, 1)
    sleep(requests, market, 1e9)


class SweeperProfile(Profile):
    lots: int = Field(100_000, ge=1)


@trader("sweeper", SweeperProfile)
def sweeper(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Sends one market order."""
    market_order(requests, BUY, int(profile.lots))


class AbsurdProfile(Profile):
    price_ticks: float = Field(5e9, ge=0)
    lots: float = Field(5e6, ge=0)


@trader("absurd", AbsurdProfile, memory=1)
def absurd(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Sends what no market accepts: prices and quantities beyond all limits, and two cancels of one order."""
    limit(requests, BUY, int(profile.price_ticks), 1)
    limit(requests, SELL, 10_000, int(profile.lots))
    limit(requests, BUY, -5, 1)
    limit(requests, BUY, 10, 0)
    if recall(market, 0) == 0.0:
        limit(requests, BUY, 10, 1)
    for index in range(market.orders_open):
        cancel(requests, market, index)
        cancel(requests, market, index)
    remember(market, 0, 1.0)
    sleep(requests, market, 1e9)


class BidderProfile(Profile):
    lots: int = Field(20, ge=0)


@trader("bidder", BidderProfile)
def bidder(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Rests a bid in the middle of the spread, and renews it; it never takes."""
    cancel_all(requests, market)
    if two_sided(market) and market.ask_ticks - market.bid_ticks > 2:
        post(requests, BUY, (market.bid_ticks + market.ask_ticks) // 2, int(profile.lots))
    sleep(requests, market, 2e9)


class RestlessProfile(Profile):
    model_config = ConfigDict(allow_inf_nan=True)  # what a trader computes may be NaN

    sleep_ns: float = 1.0


@trader("restless", RestlessProfile)
def restless(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Does nothing, and sleeps for as long as it is told."""
    sleep(requests, market, profile.sleep_ns)


class SleeplessProfile(Profile):
    sleep_ns: float = -1.0


trader("sleepless", SleeplessProfile)(restless)


class ForgetfulProfile(Profile):
    slot: float = 1.0


@trader("forgetful", ForgetfulProfile, memory=1)
def forgetful(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Counts its wake-ups in a slot of its memory, which may be beyond the one that it has."""
    remember(market, int(profile.slot), recall(market, int(profile.slot)) + 1.0)
    sleep(requests, market, 1e9)
