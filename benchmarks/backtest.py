"""Backtests in process on one core, among the 211 traders of population `liquid`, market and strategy together.

Decisions a second of processor time, medians of five runs over ten minutes of market time:

- compiled: a compiled strategy that decides every millisecond of market time, with two quotes that follow the touch.
- python: strategies that decide every 10 ms: one that looks at the touch, a maker with two quotes that follow the touch, and one that sends four
  commands at every decision.
"""

import time
from typing import Any

import numpy as np

from serl.agents.backtest.run import backtest
from serl.agents.backtest.strategy import Strategy
from serl.agents.traders.population import load_population
from serl.agents.traders.registry import Kind, Profile, load_kind, trader
from serl.agents.traders.trader_api import BUY, SELL, cancel, own_price, own_side, post, sleep, two_sided

ROUNDS, MINUTES, LOTS, POSITION_MAX_LOTS = 5, 10, 10, 100
MINUTE_NS = 60_000_000_000


class QuoterProfile(Profile):
    """Parameters of the compiled maker."""

    interval_s: float = 0.001


@trader("benchmark_quoter", QuoterProfile)
def quoter(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Quotes both touches and cancels what is elsewhere."""
    if two_sided(market):
        bids, asks = 0, 0
        for index in range(market.orders_open):
            side, price = own_side(market, index), own_price(market, index)
            if price != (market.bid_ticks if side == BUY else market.ask_ticks):
                cancel(requests, market, index)
            elif side == BUY:
                bids += 1
            else:
                asks += 1
        if bids == 0 and agent.position_lots < POSITION_MAX_LOTS:
            post(requests, BUY, market.bid_ticks, LOTS)
        if asks == 0 and agent.position_lots > -POSITION_MAX_LOTS:
            post(requests, SELL, market.ask_ticks, LOTS)
    sleep(requests, market, profile.interval_s * 1e9)


class Looker(Strategy):
    """Looks at the touch."""

    interval_s = 0.01

    def on_wake(self, market: Any) -> None:
        """Sends nothing."""
        market.best("DEMO")


class Maker(Strategy):
    """Quotes both touches."""

    interval_s = 0.01

    def __init__(self) -> None:
        self.orders: dict[str, Any] = {}

    def on_wake(self, market: Any) -> None:
        """Replaces quotes that are not at the touch."""
        bid, ask = market.best("DEMO")
        if bid is None or ask is None:
            return
        position = market.position("DEMO")
        self._quote(market, "buy", market.buy, bid, position < POSITION_MAX_LOTS)
        self._quote(market, "sell", market.sell, ask, position > -POSITION_MAX_LOTS)

    def _quote(self, market: Any, side: str, send: Any, price_ticks: int, wanted: bool) -> None:
        order = self.orders.get(side)
        if order is not None and order.state in ("sent", "open"):
            if wanted and order.price_ticks == price_ticks:
                return
            market.cancel(order)
        self.orders[side] = send("DEMO", LOTS, price_ticks, post_only=True) if wanted else None


class Sender(Strategy):
    """Sends two orders and two cancels at every decision."""

    interval_s = 0.01

    def on_wake(self, market: Any) -> None:
        """Cancels its orders and sends new ones far from the touch."""
        for order in market.open_orders():
            market.cancel(order)
        market.buy("DEMO", LOTS, 9_000)
        market.sell("DEMO", LOTS, 11_000)


def _rate(strategy: type[Strategy] | Kind) -> float:
    """Decisions a second, the median."""
    population = load_population("liquid")
    window_ns = (population.open_ns, population.open_ns + MINUTES * MINUTE_NS)
    rates = []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        result = backtest(strategy, population=population, window_ns=window_ns)
        rates.append(result.decisions / (time.process_time() - began_s))
    return float(np.median(rates))


def run() -> dict[str, Any]:
    """All figures."""
    backtest(Sender, population=load_population("small"), window_ns=(34_200 * 10**9, 34_201 * 10**9))  # compiles
    return {
        "compiled_decisions_per_s": _rate(load_kind("benchmark_quoter")),
        "python_looking_decisions_per_s": _rate(Looker),
        "python_maker_decisions_per_s": _rate(Maker),
        "python_four_commands_decisions_per_s": _rate(Sender),
    }
