"""The market of a backtest: the real order book in this process, with a population or a recorded day and one strategy in it."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from serl.agents.backtest import loop
from serl.agents.backtest.forecasts import ForecastFollower, Forecasting
from serl.agents.backtest.orders import InProcessSession
from serl.agents.signals.message import Forecast
from serl.agents.traders.build import Crowd
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.venue import SimulatedVenue
from serl.clients.book import Level
from serl.clients.session import Instrument, Order, Report
from serl.clients.values import Balance, Price, SymbolStatus, Trade, balances_in_money, to_ticks
from serl.exchange.account import account_rows
from serl.exchange.feed import symbol_status
from serl.exchange.integers import integer
from serl.exchange.latency import Delays
from serl.exchange.market import Market
from serl.exchange.reasons import REASONS_SIZE, count_rejections
from serl.exchange.records import (
    COMMAND,
    EVENT,
    LEVEL,
    CommandKind,
    EventFlag,
    EventKind,
    Rows,
    Side,
    TimeInForce,
)
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.terms import NO_TERMS, Terms
from serl.exchange.wire import EVENT_FIELDS
from serl.history.day import SymbolReference
from serl.history.limits import limits_for

REPORT_ROWS, TAPE_ROWS = 4 * loop.EVENT_ROWS, 64 * loop.EVENT_ROWS
TRADES_MAX = 1000
"""The most trades that an exchange returns."""
FIELDS = list(EVENT_FIELDS)


class BacktestMarket:
    """Implements `StrategyMarket` for a Python strategy. `run_until` advances the market.

    crowd: a population, whose market may have rules. history: COMMAND rows of a day. bots: a compiled strategy as a population of one.
    events_kept: whether `events()` returns every event of the run. The strategy has the participant number after all others.
    """

    session_type = InProcessSession

    def __init__(
        self, references: Sequence[SymbolReference], *, crowd: Crowd | None = None, history: Rows | None = None,
        bots: Crowd | None = None, delays: Delays | None = None, events_kept: bool = False,
    ) -> None:  # fmt: skip
        self.symbols = [reference.name for reference in references]
        self.crowd, self.bots = crowd, bots
        self._history = np.zeros(0, COMMAND) if history is None else np.ascontiguousarray(history)
        self.participant = 1 + int(self._history["participant"].max(initial=0))
        self.market = Market(self.symbols, limits=limits_for([self._history], participants_max=self.participant + 1))
        self.market.grant_operator(0)
        self.time_ns = self.end_ns = 0
        self._numbers = {name: number for number, name in enumerate(self.symbols)}
        self._words = words = np.zeros(loop.WORDS, np.int64)
        self._word = words.data  # faster to read and write than an array
        self._address = int(words.ctypes.data)
        self._buffers: dict[int, Any] = {
            loop.EVENTS: np.zeros(loop.EVENT_ROWS, EVENT), loop.ROW: np.zeros(1, COMMAND), loop.REPORTS: np.zeros(REPORT_ROWS, EVENT),
            loop.TAPE: np.zeros(TAPE_ROWS if events_kept else 0, EVENT), loop.HISTORY: self._history,
            loop.TRADES: np.zeros(len(self.symbols) * loop.TRADES_KEPT, EVENT), loop.LEVELS: np.zeros(0, LEVEL),
            loop.TRADE_COUNTS: np.zeros(len(self.symbols), np.int64),
        }  # fmt: skip
        for place, array in self._buffers.items():
            words[place] = array.ctypes.data
        words[loop.HISTORY_STOP], words[loop.REPORTS_SIZE] = len(self._history), REPORT_ROWS
        words[loop.TAPE_SIZE] = len(self._buffers[loop.TAPE])
        words[loop.SYMBOLS], words[loop.PARTICIPANT] = len(self.symbols), self.participant
        self._advance: Callable[[int], int] = loop.advance
        self.session = self.session_type(self.participant, delays)
        self.session.set_instruments([
            Instrument(number, reference.name, Decimal(reference.tick_size), Decimal(reference.lot_size))
            for number, reference in enumerate(references)
        ])  # fmt: skip
        self._read_count = 0
        """Number of REPORTS rows already turned into reports."""
        self._waiting: list[Report] = []
        self._fills: list[Rows] = []
        self._tape: list[Rows] = []
        self.counts = np.zeros(len(EventKind) + 1, np.int64)
        """Own events by kind, only those already taken out of REPORTS."""
        self.rejections = np.zeros(REASONS_SIZE, np.int64)
        """The rejections among them, by reason."""
        self._grow_levels(32)
        self._point()
        self._follower: ForecastFollower | None = None
        self._venue: SimulatedVenue | None = None
        if crowd is not None and crowd.population.has_rules:
            self._open_venue(crowd.population)

    def _open_venue(self, population: PopulationConfig) -> None:
        """Puts the rules and the schedule of a population's market into force."""
        self._venue = venue = SimulatedVenue(
            population, self.market, loop.EVENT_ROWS, self._execute, lambda: int(loop.next_arrival(self._address))
        )
        self._word[loop.KEPT], self._word[loop.KEPT_SIZE] = venue.kept.ctypes.data, len(venue.kept)
        self._word[loop.KEPT_COUNT] = venue.kept_count.ctypes.data
        venue.start()

    def _point(self) -> None:
        """Updates the addresses of arrays that may have been replaced."""
        self._word[loop.STATE] = self.market.state.handle.ctypes.data
        self._best = self.market.state.best.data
        for place, crowd in ((loop.CROWD, self.crowd), (loop.BOTS, self.bots)):
            self._word[place] = 0 if crowd is None else crowd.traders.handle.ctypes.data

    def _grow_levels(self, depth: int) -> None:
        self._levels = self._buffers[loop.LEVELS] = np.zeros(2 * depth, LEVEL)
        self._word[loop.LEVELS], self._word[loop.LEVELS_SIZE] = self._levels.ctypes.data, depth

    def follow(self, forecasting: Forecasting, start_ns: int) -> None:
        """Makes forecasts for a strategy that starts at `start_ns`. Raises BacktestError if the market does not have the forecaster's symbol."""
        self._follower = ForecastFollower(self, forecasting, start_ns)

    def run_until(self, time_ns: int) -> None:
        """Executes everything that happens before `time_ns`, the time of the next decision."""
        if self._follower is not None:
            self._follower.advance(time_ns, self._run_until)
        self._run_until(time_ns)

    def _run_until(self, time_ns: int) -> None:
        word, session = self._word, self.session
        if session.count:
            word[loop.OWN], word[loop.OWN_STOP], word[loop.OWN_AT] = session.address, session.count, 0
        if self._venue is None:
            word[loop.UNTIL] = time_ns
            while status := self._advance(self._address):
                self._make_room(status)
        else:
            self._venue.advance(time_ns, time_ns - 1, self._run)
        if session.count:
            session.remove(word[loop.OWN_AT])
            word[loop.OWN_STOP] = word[loop.OWN_AT] = 0
        self.time_ns = session.time_ns = time_ns

    def _run(self, until_ns: int) -> bool:
        """Executes everybody's commands before a time; returns False after a command that changed a symbol's phase."""
        assert self._venue is not None
        self._word[loop.UNTIL] = until_ns
        while True:
            count, status = self._word[loop.SEQUENCE], loop.advance(self._address)
            if self._word[loop.SEQUENCE] > count:
                self._venue.note(self._word[loop.LAST_NS])
            if status in (loop.FINISHED, loop.PHASE_CHANGED):
                return bool(status == loop.FINISHED)
            self._make_room(status)

    def _execute(self, command: Rows) -> None:
        """Executes a command of the exchange itself: a (1,) COMMAND row."""
        self._buffers[loop.ROW][:] = command
        while status := loop.execute_row(self._address):
            self._make_room(status)

    def check_traders(self) -> None:
        """Raises SimulationError if a trader or a compiled strategy slept for no time, or used memory that it does not have."""
        for crowd in (self.crowd, self.bots):
            if crowd is not None:
                crowd.check_traders()

    def _make_room(self, status: int) -> None:
        if status == loop.MARKET_FULL:
            self.market.grow()
        elif status == loop.CROWD_FULL and self.crowd is not None:
            self.crowd.grow()
        elif status == loop.BOTS_FULL and self.bots is not None:
            self.bots.grow()
        elif status == loop.ROWS_FULL:
            self._empty_reports()
            if self._venue is not None:
                self._venue.empty_kept()
        self._point()

    def _empty_reports(self) -> None:
        """Moves fills and counts out of REPORTS, and keeps reports that the strategy has not seen."""
        count, tape = self._word[loop.REPORTS_COUNT], self._word[loop.TAPE_COUNT]
        rows = self._buffers[loop.REPORTS][:count]
        if self.bots is None:
            self._waiting += _reports(rows[self._read_count :])
        self._fills.append(rows[rows["kind"] == EventKind.FILL])
        self.counts += np.bincount(rows["kind"], minlength=len(self.counts))
        self.rejections += count_rejections(rows)
        if tape:
            self._tape.append(self._buffers[loop.TAPE][:tape].copy())
        self._word[loop.REPORTS_COUNT] = self._word[loop.TAPE_COUNT] = self._read_count = 0

    def new_reports(self) -> list[Report]:
        """The reports since the last call, oldest first; orders, positions and fills are up to date afterwards."""
        count = self._word[loop.REPORTS_COUNT]
        if count == self._read_count and not self._waiting:
            return []
        found = self._waiting + _reports(self._buffers[loop.REPORTS][self._read_count : count])
        self._waiting, self._read_count = [], count
        for report in found:
            self.session.apply(report)
        self.session.forget_closed(found)
        if count > REPORT_ROWS // 2:
            self._empty_reports()
        return found

    def own_fills(self) -> Rows:
        """(n,) EVENT rows of all own fills so far, oldest first."""
        self._empty_reports()
        return np.concatenate(self._fills) if self._fills else np.zeros(0, EVENT)

    def events(self) -> Rows:
        """(n,) EVENT rows of all participants so far; empty without events_kept."""
        self._empty_reports()
        return np.concatenate(self._tape) if self._tape else np.zeros(0, EVENT)

    def bests(self) -> Any:
        """(S, 2) int64, best bid and ask of each symbol, 0 where a side is empty; the market's own array, not a copy."""
        return self.market.state.best[: len(self.symbols)]

    def buy(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None,
        time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """See StrategyMarket."""
        ticks = price_ticks if price is None else to_ticks(self.instrument(symbol), price_ticks, price)
        return self.session.new_order(symbol, Side.BUY, qty_lots, ticks, time_in_force, post_only, terms)[0]

    def sell(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None,
        time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """See StrategyMarket."""
        ticks = price_ticks if price is None else to_ticks(self.instrument(symbol), price_ticks, price)
        return self.session.new_order(symbol, Side.SELL, qty_lots, ticks, time_in_force, post_only, terms)[0]

    def cancel(self, order: Order) -> Order:
        """See StrategyMarket."""
        self.session.amend(order, CommandKind.CANCEL)
        return order

    def reduce(self, order: Order, qty_lots: int) -> Order:
        """See StrategyMarket."""
        self.session.amend(order, CommandKind.REDUCE, qty_lots)
        return order

    def replace(
        self, order: Order, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None, terms: Terms = NO_TERMS
    ) -> Order:  # fmt: skip
        """See StrategyMarket."""
        ticks = to_ticks(self.session.instrument_numbered(order.symbol), price_ticks, price)
        self.session.amend(
            order, CommandKind.REPLACE, qty_lots, order.price_ticks if ticks is None else ticks, terms=terms
        )
        return order

    def mass_cancel(self, symbol: str | None = None) -> None:
        """See StrategyMarket."""
        self.session.mass_cancel(symbol)

    def _number(self, symbol: str) -> int:
        number = self._numbers.get(symbol)
        return self.session.instrument(symbol).number if number is None else number

    def best(self, symbol: str) -> tuple[int | None, int | None]:
        """See StrategyMarket."""
        number = self._number(symbol)
        return self._best[number, 0] or None, self._best[number, 1] or None

    def book(self, symbol: str, depth: int = 10) -> tuple[list[Level], list[Level]]:
        """See StrategyMarket."""
        number = self._number(symbol)
        size = self._word[loop.LEVELS_SIZE]
        every = int(self.market.state.level_count[number])
        wanted = min(integer("depth", depth, least=0), every) or every
        if wanted > size:
            self._grow_levels(wanted)
            size = wanted
        counts = loop.read_book(self._address, number, wanted)
        bids, asks = self._levels[: counts >> 32], self._levels[size : size + (counts & 0xFFFFFFFF)]
        return [Level(*row) for row in bids.tolist()], [Level(*row) for row in asks.tolist()]

    def trades(self, symbol: str, count: int = 100) -> list[Trade]:
        """See StrategyMarket."""
        number, total = self._number(symbol), self.trade_count(symbol)
        count = min(integer("count", count, least=0), TRADES_MAX)
        places = np.arange(max(0, total - count), total) % loop.TRADES_KEPT
        rows = self._buffers[loop.TRADES][number * loop.TRADES_KEPT + places]
        return [
            Trade(match, time_ns, price, qty, 1 - side, 1 if kind == EventKind.PRINT else 2 if flags & EventFlag.AUCTION else 0)
            for match, time_ns, price, qty, side, kind, flags in rows[
                ["match_id", "time_ns", "price_ticks", "qty_lots", "side", "kind", "flags"]
            ].tolist()
        ]  # fmt: skip

    def trade_count(self, symbol: str) -> int:
        """Number of trades in a symbol so far, prints included."""
        return int(self._buffers[loop.TRADE_COUNTS][self._number(symbol)])

    def forecast(self, symbol: str) -> Forecast | None:
        """See StrategyMarket."""
        self._number(symbol)
        return self._follower.forecast() if self._follower is not None and self._follower.symbol == symbol else None

    def status(self, symbol: str) -> SymbolStatus:
        """See StrategyMarket."""
        return SymbolStatus.of(*symbol_status(self.market.state, self._number(symbol)))

    def rules(self, symbol: str) -> SymbolRules:
        """See StrategyMarket."""
        return SymbolRules.of_row(self.market.state.symbols[self._number(symbol)])

    def position(self, symbol: str) -> int:
        """See StrategyMarket."""
        return self.session.positions.get(self._number(symbol), 0)

    def account(self) -> dict[str, Balance]:
        """See StrategyMarket."""
        return balances_in_money(
            account_rows(self.market.balances()[self.participant], self.market.state.symbols),
            self.session.instrument_numbered,
        )

    def fills(self) -> list[Report]:
        """See StrategyMarket."""
        return self.session.fills

    def open_orders(self) -> list[Order]:
        """See StrategyMarket."""
        return self.session.open_orders()

    def instrument(self, symbol: str) -> Instrument:
        """See StrategyMarket."""
        return self.session.instrument(symbol)


def _reports(rows: Rows) -> list[Report]:
    return [Report(*values) for values in rows[FIELDS].tolist()]
