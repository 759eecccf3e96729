"""Strategies, compiled and in Python, that use everything a strategy can do."""

from typing import Any

import serl
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, cancel_all, post, sleep, take, two_sided
from serl.exchange import Terms, TimeInForce
from serl.exchange.records import Peg


class Busy(serl.Strategy):
    """Quotes at the touch, replaces, cancels, reduces and takes, by what it sees and by what has filled."""

    interval_s = 0.25

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.filled: list[Any] = []
        self.started_ns: list[int] = []
        self.count = 0

    def on_start(self, market: Any) -> None:
        self.started_ns.append(market.time_ns)
        self.symbol = market.symbols[0]

    def on_fill(self, market: Any, fill: Any) -> None:
        self.filled.append((market.time_ns, fill.time_ns, fill.order_id, fill.price_ticks, fill.qty_lots))
        if fill.qty_lots > 5:
            market.sell(self.symbol, 1) if fill.side == 0 else market.buy(self.symbol, 1)

    def on_wake(self, market: Any) -> None:
        self.count += 1
        bids, asks = market.book(self.symbol, 3)
        orders = market.open_orders()
        states = [(order.order_id, order.state, order.filled_lots, order.open_lots) for order in orders]
        self.seen.append(
            (market.time_ns, bids, asks, market.best(self.symbol), market.position(self.symbol), states, market.trades(self.symbol, 3), market.status(self.symbol), market.rules(self.symbol), market.account())
        )  # fmt: skip
        if not bids or not asks:
            return
        bid, ask = bids[0].price_ticks, asks[0].price_ticks
        match self.count % 8:
            case 0:
                market.mass_cancel(self.symbol)
                market.buy(self.symbol, 20, bid, post_only=True)
                market.sell(self.symbol, 20, ask, time_in_force=TimeInForce.DAY)
            case 2:
                price = market.instrument(self.symbol).price(ask)
                market.buy(self.symbol, 3, price=price, time_in_force=TimeInForce.IOC)
                market.buy(self.symbol, 3, ask + 50, post_only=True)  # it is rejected
            case 3:
                for order in orders:
                    market.replace(
                        order, order.filled_lots + order.open_lots, order.price_ticks + (1 if order.side else -1)
                    )
            case 5:
                for order in orders:
                    market.reduce(order, 1)
                market.sell(self.symbol, 4)
            case 6:
                market.sell(self.symbol, 30, ask + 2, terms=Terms(display_lots=10))
                market.buy(self.symbol, 5, bid, terms=Terms(peg=Peg.PRIMARY))
                expiry = Terms(expire_ns=market.time_ns + 321_987_654)
                market.buy(self.symbol, 2, bid - 3, time_in_force=TimeInForce.GTT, terms=expiry)
            case 7:
                for order in orders[:2]:
                    market.cancel(order)


class PulseProfile(Profile):
    """Parameters of the compiled strategy."""

    interval_s: float = 0.05
    order_lots: int = 7


@trader("pulse", PulseProfile)
def pulse(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Takes against its position and quotes at both touches."""
    cancel_all(requests, market)
    if two_sided(market):
        if agent.position_lots > 20:
            take(requests, SELL, market.bid_ticks, agent.position_lots)
        elif agent.position_lots < -20:
            take(requests, BUY, market.ask_ticks, -agent.position_lots)
        post(requests, BUY, market.bid_ticks, int(profile.order_lots))
        post(requests, SELL, market.ask_ticks, int(profile.order_lots))
    sleep(requests, market, profile.interval_s * 1e9)
