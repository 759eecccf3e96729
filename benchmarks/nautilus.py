"""The same scripted orders in NautilusTrader's backtest of an exported day and in serl's of the day itself.

The day: fifteen minutes of the population `liquid`, seed 1. Each script sends orders at fixed times, whose sides, sizes and prices come from
the day's quotes, so that both backtests get the same ones. `same`: orders with the same fills in both. `cost`: what was paid above the mid
at the time of the order, in ticks, by lots. Needs the extra `nautilus`, in an environment of its own (`make interop` makes one).
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.backtest.run import backtest
from serl.agents.backtest.strategy import Strategy
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import simulate
from serl.exchange.latency import Constant, Delays
from serl.exchange.records import TimeInForce
from serl.history import tables
from serl.history.day import Day, write_day

SECOND_NS = 1_000_000_000
START_NS, END_NS = (9 * 3600 + 31 * 60) * SECOND_NS, (9 * 3600 + 45 * 60) * SECOND_NS
MIDNIGHT_NS = 946_857_600 * SECOND_NS
"""2000-01-03 UTC, which exported days without a date have."""
LATENCY_US = 500_000
DELAYED = "small market orders, 500 ms late"
Fills = list[list[tuple[int, int]]]
"""Of each order: (price_ticks, lots)."""


@dataclass(frozen=True)
class Planned:
    """An order of a script; without a price at the market, with one cancelled after `life_ns`."""

    time_ns: int
    side: int
    lots: int
    price_ticks: int | None = None
    life_ns: int = 0


class Quotes:
    """The day's best bid and ask before a time."""

    def __init__(self, day: Day) -> None:
        table = tables.quotes(day)
        self._times, self._sides = table["time_ns"], (table["bid_ticks"], table["ask_ticks"])

    def before(self, time_ns: int) -> tuple[int, int]:
        """(bid, ask) in ticks."""
        place = int(np.searchsorted(self._times, time_ns)) - 1
        return int(self._sides[0][place]), int(self._sides[1][place])


def every(seconds: int, make: Callable[[int, int, int, int], list[Planned]], quotes: Quotes) -> list[Planned]:
    """A script that decides at regular times, with alternating sides. make(time_ns, side, bid, ask)."""
    times = range(START_NS, END_NS - 60 * SECOND_NS, seconds * SECOND_NS)
    return [order for place, time_ns in enumerate(times) for order in make(time_ns, place % 2, *quotes.before(time_ns))]


def scripts(quotes: Quotes) -> dict[str, list[Planned]]:
    """The scripts by name."""

    def touch(side: int, bid: int, ask: int, better: int = 0) -> int:
        return bid + better if side == 0 else ask - better

    life_ns = 9 * SECOND_NS
    return {
        "small market orders": every(10, lambda at, side, *_: [Planned(at, side, 10)], quotes),
        DELAYED: every(10, lambda at, side, *_: [Planned(at, side, 10)], quotes),
        "large market orders": every(20, lambda at, side, *_: [Planned(at, side, 3000)], quotes),
        "five market orders at once": every(20, lambda at, side, *_: [Planned(at, side, 300)] * 5, quotes),
        "joining the touch": every(
            10, lambda at, side, bid, ask: [Planned(at, side, 100, touch(side, bid, ask), life_ns)], quotes
        ),
        "improving a wide touch": every(
            10,
            lambda at, side, bid, ask: [Planned(at, side, 100, touch(side, bid, ask, 1), life_ns)] if ask - bid > 1 else [],
            quotes,
        ),
    }  # fmt: skip


class Scripted(Strategy):
    """Sends a script in serl's backtest."""

    interval_s = 1.0

    def __init__(self, plan: list[Planned]) -> None:
        self.orders: list[Any] = []
        self._plan, self._ends = plan, dict[int, list[Any]]()

    def on_wake(self, market: Any) -> None:
        """Cancels what has lived long enough, then sends what is planned."""
        for order in self._ends.pop(market.time_ns, []):
            market.cancel(order)
        for planned in self._plan[len(self.orders) :]:
            if planned.time_ns > market.time_ns:
                return
            send = market.buy if planned.side == 0 else market.sell
            tif = TimeInForce.IOC if planned.price_ticks is None else TimeInForce.GTC
            order = send("DEMO", planned.lots, planned.price_ticks, time_in_force=tif)
            self.orders.append(order)
            if planned.life_ns:
                self._ends.setdefault(planned.time_ns + planned.life_ns, []).append(order)


def fills_of_serl(day: Day, plan: list[Planned], latency_us: int = 0) -> Fills:
    """Fills by order in serl's backtest, in which the day's commands meet the script's orders."""
    bot = Scripted(plan)
    delays = Delays(Constant(kind="constant", delay_us=latency_us), 0, "orders", "strategy") if latency_us else None
    backtest(bot, day=day, window_ns=(START_NS, END_NS), delays=delays)
    return [merged([(fill.price_ticks, fill.qty_lots) for fill in order.fills]) for order in bot.orders]


def fills_of_nautilus(catalog: Path, plan: list[Planned], latency_us: int = 0) -> Fills:
    """Fills by order in NautilusTrader's backtest of the exported day, with its default settings."""
    from tests.gateways.nautilus.backtests import backtest as run_nautilus
    from tests.gateways.nautilus.planned import planned_strategy

    strategy = planned_strategy(
        [(order.time_ns + MIDNIGHT_NS, order.side, order.lots, order.price_ticks, order.life_ns) for order in plan]
    )
    engine = run_nautilus(catalog, strategy, latency_ns=latency_us * 1000)
    fills = [
        merged([(int(Decimal(str(fill.last_px)) * 100), int(fill.last_qty)) for fill in strategy.fills_of(order)])
        for order in strategy.orders
    ]
    engine.dispose()
    return fills


def merged(fills: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Lots by price, from the lowest."""
    return [
        (price, sum(lots for other, lots in fills if other == price)) for price in sorted({price for price, _ in fills})
    ]


def figures(plan: list[Planned], quotes: Quotes, fills: Fills) -> dict[str, Any]:
    """Filled lots and the cost above the mid, in ticks."""
    lots = cost = 0.0
    for order, traded in zip(plan, fills, strict=True):
        mid = sum(quotes.before(order.time_ns)) / 2
        sign = 1 if order.side == 0 else -1
        lots += sum(count for _, count in traded)
        cost += sum(sign * (price - mid) * count for price, count in traded)
    return {"orders filled": sum(map(bool, fills)), "lots": int(lots), "cost": round(cost / lots, 2) if lots else 0.0}


def run() -> dict[str, Any]:
    """Figures by script."""
    from serl.gateways.nautilus import export_day

    day = simulate(load_population("liquid"), 1, END_NS)
    quotes = Quotes(day)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_day(day, Path(folder) / "liquid.day")
        export_day(Path(folder) / "liquid.day", Path(folder) / "catalog")
        for name, plan in scripts(quotes).items():
            latency_us = LATENCY_US if name == DELAYED else 0
            ours = fills_of_serl(day, plan, latency_us)
            theirs = fills_of_nautilus(Path(folder) / "catalog", plan, latency_us)
            results[name] = {
                "orders": len(plan),
                "same": sum(one == other for one, other in zip(ours, theirs, strict=True)),
                "nautilus": figures(plan, quotes, theirs),
                "serl": figures(plan, quotes, ours),
            }
    return results
