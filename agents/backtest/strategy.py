"""The base class of strategies: the same file runs in a backtest (`serl backtest`) and on a served exchange (`serl run`)."""

from collections.abc import Sequence
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Protocol

from serl.agents.backtest.errors import StrategyError
from serl.agents.signals.message import Forecast
from serl.clients.book import Level
from serl.clients.session import Instrument, Order, Report
from serl.clients.values import Balance, Price, SymbolStatus, Trade
from serl.exchange.records import TimeInForce
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.terms import NO_TERMS, Terms


class StrategyMarket(Protocol):
    """The market as a strategy sees it and trades in it; the names are those of serl's clients. Prices are in ticks unless they
    are given as `price`, quantities in lots, times in ns.

    A command arrives at the time of the decision plus the latency. Its reply is known at a later wake-up, both in process and in lockstep: `buy`
    returns an order in state "sent", and a rejection shows in the order's `state` and `reason`, not as an exception.
    """

    time_ns: int
    """Exchange time of this decision."""
    end_ns: int
    """Exchange time at which the run ends; far in the future if it has no end."""

    @property
    def symbols(self) -> Sequence[str]:
        """Names of the symbols; a strategy for one symbol trades the first."""
        ...

    def buy(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None,
        time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """Sends a buy order: a limit order at a price in ticks or, as `price`, in money; without either a market order. Raises UnknownSymbol,
        PriceOffTick, or ConfigError for a non-integer."""
        ...

    def sell(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None,
        time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """Sends a sell order; see `buy`."""
        ...

    def cancel(self, order: Order) -> Order:
        """Cancels an order; has no effect if it is no longer open when the command arrives."""
        ...

    def reduce(self, order: Order, qty_lots: int) -> Order:
        """Reduces the open quantity; the order keeps its time priority."""
        ...

    def replace(
        self, order: Order, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None, terms: Terms = NO_TERMS
    ) -> Order:  # fmt: skip
        """Gives an order a new total quantity (fills included), price, in ticks or in money (by default its old one), and terms. docs/orders.md says when it keeps its
        time priority."""
        ...

    def mass_cancel(self, symbol: str | None = None) -> None:
        """Cancels all own orders in one symbol, or in all symbols."""
        ...

    def best(self, symbol: str) -> tuple[int | None, int | None]:
        """(best bid, best ask) in ticks, None for an empty side. The cheapest way to look at a market."""
        ...

    def book(self, symbol: str, depth: int = 10) -> tuple[list[Level], list[Level]]:
        """(bids, asks), best first, at most `depth` levels each (0: all), own orders included."""
        ...

    def trades(self, symbol: str, count: int = 100) -> list[Trade]:
        """The last `count` trades of the market, newest last."""
        ...

    def forecast(self, symbol: str) -> Forecast | None:
        """The last forecast of a symbol before this decision (docs/signals.md); None if there is none yet. In a backtest, `--forecaster` makes one
        every 100 ms. On an exchange, a participant publishes them; the first call subscribes."""
        ...

    def status(self, symbol: str) -> SymbolStatus:
        """Whether the symbol is halted and why, and its phase."""
        ...

    def rules(self, symbol: str) -> SymbolRules:
        """What quantities and prices of the symbol must fit now: `lot_multiple`, `tick_table` and the price band."""
        ...

    def position(self, symbol: str) -> int:
        """Lots bought minus lots sold."""
        ...

    def account(self) -> dict[str, Balance]:
        """Position, cash, profit and fees in money by symbol; symbols that were never traded are left out. On an exchange, over all sessions of the
        participant."""
        ...

    def fills(self) -> list[Report]:
        """Every own fill so far, oldest first."""
        ...

    def open_orders(self) -> list[Order]:
        """Own orders that can still trade, oldest first."""
        ...

    def instrument(self, symbol: str) -> Instrument:
        """Reference data of a symbol, which converts between prices and ticks. Raises UnknownSymbol."""
        ...


class Strategy:
    """Base class of strategies: subclass it in a file of your own and override what you need.

    The strategy wakes up at every multiple of `interval_s` since midnight. At a wake-up, all replies and trades before that time are known;
    `on_fill` is called for each new fill, then `on_wake`. On live and scaled clocks, `on_fill` is called as soon as a fill is reported.
    """

    interval_s: float = 1.0
    """Seconds of exchange time between two decisions."""

    def on_start(self, market: StrategyMarket) -> None:
        """Called once, at the first wake-up, before anything else."""

    def on_fill(self, market: StrategyMarket, fill: Report) -> None:
        """Called for each own fill; `fill.order_id` is the id of the order."""

    def on_wake(self, market: StrategyMarket) -> None:
        """Called at each wake-up: look at the market and send orders."""


def check_callbacks(strategy: Any) -> None:
    """Raises StrategyError for a callback that is a coroutine or a generator: a call would not run its body."""
    for name in ("on_start", "on_fill", "on_wake"):
        callback = getattr(strategy, name)
        if iscoroutinefunction(callback) or isgeneratorfunction(callback) or isasyncgenfunction(callback):
            raise StrategyError(
                f"{type(strategy).__name__}.{name}: expected a function that returns when it has decided, got one with async or yield; "
                "leave these out"
            )


def interval_ns(strategy: Any) -> int:
    """The decision interval in ns, at least 1. Raises StrategyError unless it is a positive number."""
    value = strategy.interval_s
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-9 <= value <= 86_400:
        raise StrategyError(
            f"{type(strategy).__name__}.interval_s: expected seconds from 1e-9 to 86400, got {value!r}; correct the class"
        )
    return round(value * 1_000_000_000)


def first_wake_ns(start_ns: int, step_ns: int) -> int:
    """The first multiple of the interval from `start_ns` on, so that wake-ups are the same wherever the strategy runs."""
    return -(-start_ns // step_ns) * step_ns
