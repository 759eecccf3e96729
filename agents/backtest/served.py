"""Runs a strategy on a served exchange as one participant, on any clock: live, scaled or lockstep."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from serl.agents.backtest.errors import BacktestError
from serl.agents.backtest.run import strategy_population
from serl.agents.backtest.strategy import Strategy, check_callbacks, first_wake_ns, interval_ns
from serl.agents.signals.errors import SignalError
from serl.agents.signals.message import Forecast
from serl.agents.traders.host import Host
from serl.agents.traders.records import WAKEUPS
from serl.agents.traders.registry import Kind
from serl.clients.blocking import Exchange
from serl.clients.book import Level
from serl.clients.clock import RemoteClock
from serl.clients.errors import Rejected, RequestRejected, refused_command
from serl.clients.inbox import InboxItem
from serl.clients.session import Instrument, Order, Report
from serl.clients.values import Balance, Price, SymbolStatus, Trade
from serl.exchange.config import time_of_day_text
from serl.exchange.news import News, NewsKind
from serl.exchange.reasons import REASONS_SIZE, by_name, count_rejections
from serl.exchange.records import EventKind, Reason, Rows, TimeInForce
from serl.exchange.request import request_socket
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.terms import NO_TERMS, Terms
from serl.exchange.wire import Kind as MessageKind

SECOND_NS, NEVER = 1_000_000_000, 1 << 62
FROM_NOW_ON = -1
"""Start of a news subscription: only new messages."""
POLL_S = 0.05
A_DAY_NS = (0, 86_399 * SECOND_NS)
Progress = Callable[[int, int], None]
"""Called with the exchange's time of day and the number of decisions so far."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run on an exchange.

    Attributes:
        rejections: numbers of rejected commands by the name of the Reason, in lower case.
        refusals: numbers of commands that the exchange did not accept, as beyond a rate, by the code of its error.
        positions: lots by traded symbol.
        profits: money by traded symbol, at the mid; None without a price.
    """

    decisions: int
    fills: int
    rejections: dict[str, int]
    refusals: dict[str, int]
    positions: dict[str, int]
    profits: dict[str, Decimal | None]


class ServedStrategyMarket:
    """Implements `StrategyMarket` on an exchange. A book follows the feed from its first use on."""

    def __init__(self, client: Exchange, end_ns: int) -> None:
        self.client = client
        self.time_ns, self.end_ns = int(client.session.clock[2]), end_ns
        self.decisions = 0
        self._rejections: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._forecasts: dict[str, Forecast] | None = None
        """The newest forecast by symbol, or None before the first request."""

    @property
    def symbols(self) -> Sequence[str]:
        """See StrategyMarket."""
        return list(self.client.session.instruments)

    def buy(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None,
        time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """See StrategyMarket."""
        return self._order(
            self.client.buy, symbol, qty_lots, price_ticks, price=price, time_in_force=time_in_force, post_only=post_only, terms=terms
        )  # fmt: skip

    def sell(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None,
        time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """See StrategyMarket."""
        return self._order(
            self.client.sell, symbol, qty_lots, price_ticks, price=price, time_in_force=time_in_force, post_only=post_only, terms=terms
        )  # fmt: skip

    def _order(self, send: Callable[..., Order], *arguments: Any, **options: Any) -> Order:
        """Sends an order; if it is rejected or refused, its state and reason say so."""
        with self._continued():
            return send(*arguments, **options)
        session = self.client.session
        return session.orders[session.next_command_id - 1]

    @contextmanager
    def _continued(self) -> Iterator[None]:
        """Continues after a command that was rejected or refused, and counts the refusal; a report tells of the rejection. Raises errors that concern
        no command."""
        try:
            yield
        except Rejected:
            pass
        except RequestRejected as refusal:
            self._count(refusal)

    def refuse(self, refusal: RequestRejected) -> None:
        """In lockstep, where no call waits for the answer to its command: tells the order that it is refused, and counts the refusal. Raises errors that
        concern no command."""
        self._count(refusal)
        self.client.session.withdraw(refused_command(refusal), refusal.code)

    def _count(self, refusal: RequestRejected) -> None:
        if not refused_command(refusal):
            raise refusal
        self._refusals[refusal.code] += 1

    def cancel(self, order: Order) -> Order:
        """See StrategyMarket."""
        with self._continued():
            self.client.cancel(order)
        return order

    def reduce(self, order: Order, qty_lots: int) -> Order:
        """See StrategyMarket."""
        with self._continued():
            self.client.reduce(order, qty_lots)
        return order

    def replace(
        self, order: Order, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None, terms: Terms = NO_TERMS
    ) -> Order:  # fmt: skip
        """See StrategyMarket."""
        with self._continued():
            self.client.replace(order, qty_lots, price_ticks, price=price, terms=terms)
        return order

    def mass_cancel(self, symbol: str | None = None) -> None:
        """See StrategyMarket."""
        with self._continued():
            self.client.mass_cancel(symbol)

    def best(self, symbol: str) -> tuple[int | None, int | None]:
        """See StrategyMarket."""
        bids, asks = self.book(symbol, 1)
        return (bids[0].price_ticks if bids else None), (asks[0].price_ticks if asks else None)

    def book(self, symbol: str, depth: int = 10) -> tuple[list[Level], list[Level]]:
        """See StrategyMarket."""
        if f"l2/{symbol}/" not in self.client.core.books:
            self.client.follow(symbol)
        return self.client.book(symbol, depth)

    def trades(self, symbol: str, count: int = 100) -> list[Trade]:
        """See StrategyMarket."""
        return self.client.trades(symbol, count)

    def forecast(self, symbol: str) -> Forecast | None:
        """See StrategyMarket: the newest that has arrived since the first call."""
        self.client.instrument(symbol)
        if self._forecasts is None:
            self._forecasts = {}
            self.client.core.subscribe_news(FROM_NOW_ON)
        return self._forecasts.get(symbol)

    def note(self, item: InboxItem) -> None:
        """Stores a forecast, and counts a rejection; ignores any other item."""
        if isinstance(item, Report) and item.kind == EventKind.REJECTED:
            self._rejections[Reason(item.reason).name.lower()] += 1
        elif isinstance(item, News):
            self._note_news(item)

    def _note_news(self, message: News) -> None:
        if self._forecasts is not None and message.kind == NewsKind.SIGNAL:
            with suppress(SignalError):  # news can contain anything: any publisher may write it
                self._forecasts[message.symbol] = Forecast.from_news(message)

    def status(self, symbol: str) -> SymbolStatus:
        """See StrategyMarket."""
        return self.client.status(symbol)

    def rules(self, symbol: str) -> SymbolRules:
        """See StrategyMarket."""
        return self.client.rules(symbol)

    def position(self, symbol: str) -> int:
        """See StrategyMarket."""
        return self.client.position(symbol)

    def account(self) -> dict[str, Balance]:
        """See StrategyMarket."""
        return self.client.account()

    def fills(self) -> list[Report]:
        """See StrategyMarket."""
        return self.client.fills()

    def open_orders(self) -> list[Order]:
        """See StrategyMarket."""
        return self.client.session.open_orders()

    def instrument(self, symbol: str) -> Instrument:
        """See StrategyMarket."""
        return self.client.instrument(symbol)

    def outcome(self) -> Outcome:
        """The current positions and profit; takes all items out of the inbox."""
        while self.client.core.inbox:
            self.note(self.client.core.inbox.popleft())
        names = {one.number: name for name, one in self.client.session.instruments.items()}
        cash = dict.fromkeys((fill.symbol for fill in self.fills()), 0)
        for fill in self.fills():
            cash[fill.symbol] += (-1 if fill.side == 0 else 1) * fill.qty_lots * fill.price_ticks
        positions = {names[number]: self.position(names[number]) for number in cash}
        profits: dict[str, Decimal | None] = {}
        for number, ticks in cash.items():
            one, position = self.instrument(names[number]), positions[names[number]]
            profits[one.name] = profit(ticks, position, self.best(one.name) if position else (1, 1), one)
        return Outcome(
            self.decisions, len(self.fills()), dict(self._rejections), dict(self._refusals), positions, profits
        )


def profit(cash_ticks: int, position_lots: int, best: tuple[int | None, int | None], one: Instrument) -> Decimal | None:
    """Cash plus position at the mid, in money; None if there is a position but no mid."""
    bid, ask = best
    if not bid or not ask:
        return None if position_lots else cash_ticks * one.tick_size * one.lot_size
    return (2 * cash_ticks + position_lots * (bid + ask)) * one.tick_size * one.lot_size / 2


def run_served(
    strategy: Strategy, client: Exchange, window_ns: tuple[int, int] | None = None, on_progress: Progress = lambda time_ns, decisions: None
) -> Outcome:  # fmt: skip
    """Runs a strategy in a session of a served exchange until the end of the window (ns after midnight) or Ctrl-C.

    In lockstep, commands arrive at the times of their decisions, and at equal times before those of participants that logged in later.
    Raises BacktestError if the window has ended or, in lockstep, if it has begun or there is none.
    """
    kind, _, now_ns, midnight_ns = client.session.clock
    start_ns, end_ns = (0, NEVER) if window_ns is None else (midnight_ns + one for one in window_ns)
    lockstep = kind == "lockstep"
    if lockstep and window_ns is None:
        raise BacktestError("expected --window FROM-TO on a lockstep clock, got none; without it the run would not end")
    if now_ns >= end_ns or (lockstep and now_ns > start_ns):
        now, *window = (time_of_day_text(time_ns - midnight_ns) for time_ns in (now_ns, start_ns, end_ns))
        state = "begun" if lockstep else "ended"
        raise BacktestError(
            f"expected a window that has not {state}, got {'-'.join(window)} at {now}; choose a later one, or start a fresh exchange"
        )
    market = ServedStrategyMarket(client, end_ns)
    check_callbacks(strategy)
    step_ns = interval_ns(strategy)
    start_ns = max(start_ns, now_ns)
    with suppress(KeyboardInterrupt):
        if lockstep:
            client.session.on_refusal = market.refuse
            _run_lockstep(strategy, market, start_ns, step_ns, on_progress)
        else:
            _run_clock(strategy, market, start_ns, step_ns, on_progress)
    return market.outcome()


def _run_lockstep(
    strategy: Strategy, market: ServedStrategyMarket, start_ns: int, step_ns: int, on_progress: Progress
) -> None:  # fmt: skip
    client, inbox = market.client, market.client.core.inbox
    for wake_ns in range(first_wake_ns(start_ns, step_ns), market.end_ns, step_ns):
        market.time_ns = client.turn(wake_ns).time_ns
        if not market.decisions:
            strategy.on_start(market)
        while inbox:
            _tell(strategy, market, inbox.popleft(), is_started=True)
        strategy.on_wake(market)
        market.decisions += 1
        on_progress(wake_ns, market.decisions)
    client.turn(market.end_ns)


def _run_clock(
    strategy: Strategy, market: ServedStrategyMarket, start_ns: int, step_ns: int, on_progress: Progress
) -> None:  # fmt: skip
    """Wakes the strategy at its times by the exchange's clock; skips a wake-up that is late."""
    client, inbox, clock = market.client, market.client.core.inbox, RemoteClock()
    _, speed, _, midnight_ns = client.session.clock
    wake_ns = midnight_ns + first_wake_ns(start_ns - midnight_ns, step_ns)
    now_ns = clock.now_ns(int(client.session.clock[2]))
    while now_ns < market.end_ns:
        item = client.wait(min(POLL_S, max(0.0, (wake_ns - now_ns) / SECOND_NS / max(speed, 1e-9))))
        client.core.raise_if_dead()
        if clock.ping_due():
            client.core.send(msgpack.packb([MessageKind.PING, 0]))
        market.time_ns = now_ns = clock.now_ns(int(client.session.clock[2]))
        while item is not None:
            _tell(strategy, market, item, is_started=market.decisions > 0)
            item = inbox.popleft() if inbox else None
        if now_ns < wake_ns:
            continue
        if not market.decisions:
            strategy.on_start(market)
        strategy.on_wake(market)
        market.decisions += 1
        wake_ns = midnight_ns + first_wake_ns(now_ns + 1 - midnight_ns, step_ns)
        on_progress(now_ns - midnight_ns, market.decisions)


def _tell(strategy: Strategy, market: ServedStrategyMarket, item: InboxItem, *, is_started: bool) -> None:
    if isinstance(item, Report) and item.kind == EventKind.FILL and is_started:
        strategy.on_fill(market, item)
    else:
        market.note(item)


class CountingHost(Host):
    """A host that counts the events of its traders.

    Attributes:
        fills: number of FILL events.
        rejections: (256,) numbers of REJECTED events by reason.
    """

    fills = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.rejections = np.zeros(REASONS_SIZE, np.int64)
        super().__init__(*arguments, **options)

    def _buffer_reports(self, rows: Rows) -> None:
        self.fills += int((rows["kind"] == EventKind.FILL).sum())
        self.rejections += count_rejections(rows)
        super()._buffer_reports(rows)


def run_compiled(
    kind: Kind, endpoint: str, window_ns: tuple[int, int] = A_DAY_NS, *, seed: int = 1, latency_us: float = 1.0, token: str = "", curve: Path | None = None,
    on_progress: Progress = lambda time_ns, decisions: None,
) -> Outcome:  # fmt: skip
    """Runs a compiled strategy in a session of its own, `traders-NAME-0`, over a window (ns after midnight) of its day.

    On a live clock, its day starts when it has logged in.
    """
    with request_socket(endpoint, "queries", curve, token) as ask:
        listed = ask(MessageKind.INFO)[5][1]
    names, tick = [name for _, name, _, _ in listed], str(listed[0][2])
    start_ns, end_ns = window_ns
    population = strategy_population(kind, names, tick, start_ns, end_ns, latency_us)
    host = CountingHost(
        population, seed, endpoint, token=token, until_ns=end_ns, curve=curve, cancel_on_disconnect=True
    )
    try:
        with suppress(KeyboardInterrupt):
            host.run(lambda running: on_progress(running.time_ns, int(running.crowd.traders.counter[WAKEUPS])))
        agent = host.crowd.traders.agents[0]
        position, cash = int(agent["position_lots"]), int(agent["cash_ticks"])
        one = host.client.instrument(names[0])
        traded = cash != 0 or position != 0
        return Outcome(
            int(host.crowd.traders.counter[WAKEUPS]), host.fills, by_name(host.rejections), {}, {one.name: position} if traded else {},
            {one.name: profit(cash, position, host.book.best(0), one)} if traded else {},
        )  # fmt: skip
    finally:
        host.close()
