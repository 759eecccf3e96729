"""The market of a backtest on a day that gives way (docs/answering.md). The book is kept in history's prices; a strategy sees real ones."""

from typing import Any

import numpy as np

from serl.agents.backtest import answering_loop
from serl.agents.backtest.answering_orders import IDS
from serl.agents.backtest.errors import BacktestError
from serl.agents.backtest.market import TRADES_MAX, BacktestMarket
from serl.agents.backtest.orders import InProcessSession
from serl.agents.execution.answering.model import AnsweringDay, compiled_answers
from serl.agents.execution.answering.tape import EVENTS_MAX, Tape
from serl.clients.book import Level
from serl.clients.values import Balance
from serl.exchange.account import NOTHING
from serl.exchange.latency import Delays
from serl.exchange.records import CommandFlag, CommandKind, TimeInForce
from serl.history.day import Day

NEW, TERM = int(CommandKind.NEW), int(CommandKind.TERM)
KNOWN_FLAGS = int(CommandFlag.POST_ONLY | CommandFlag.MARKET)
FIRST_ORDERS = 64


class AnsweringSession(InProcessSession):
    """Accepts only orders that the rules can fill in pieces and move."""

    def command(self, kind: int, *values: int) -> tuple[int, bytes]:
        """See InProcessSession. Raises BacktestError for orders with terms, or with a time in force other than DAY, GTC and IOC."""
        if kind == TERM or (kind == NEW and (values[5] & ~KNOWN_FLAGS or values[4] > TimeInForce.IOC)):
            got = "one with terms" if kind == TERM or values[5] & ~KNOWN_FLAGS else TimeInForce(values[4]).name
            raise BacktestError(
                "answering: expected a market order, or a limit order that is DAY, GTC, IOC or post-only, got "
                f"{got}; send another order, or leave --answering out"
            )
        return super().command(kind, *values)


class AnsweringMarket(BacktestMarket):
    """See BacktestMarket. day: has one symbol and no accounts. answering: the same day, prepared by `answering_day`."""

    session_type = AnsweringSession

    def __init__(
        self, day: Day, answering: AnsweringDay, *, delays: Delays | None = None, events_kept: bool = False
    ) -> None:  # fmt: skip
        super().__init__(day.reference.symbols, history=day.commands, delays=delays, events_kept=events_kept)
        self._answers = compiled_answers([answering], 1)
        self._answers.books[0] = answering.new_state()[0]
        self._happened, self._published = Tape.new(), np.zeros(answering_loop.PUBLISHED_WORDS, np.int64)
        self._resting, self._progress = np.zeros((1, FIRST_ORDERS), np.int64), np.zeros(4, np.int64)
        self._advance = self._advance_answering
        self._account, self._counted = NOTHING, 0

    def account(self) -> dict[str, Balance]:
        """See StrategyMarket. The book's own balances are in history's prices, so fills since the last call are added to an account in real ones."""
        fills = self.session.fills
        for fill in fills[self._counted :]:
            self._account = self._account.after_fill(fill.side, fill.price_ticks, fill.qty_lots)
        self._counted = len(fills)
        if not fills:
            return {}
        (symbol,) = self.symbols
        traded = [one.price_ticks for one in self.trades(symbol, TRADES_MAX) if one.off_book != 1]
        mark_ticks = traded[-1] if traded else fills[-1].price_ticks
        return {symbol: Balance.in_money(self.instrument(symbol), self._account, mark_ticks)}

    @property
    def shift_ticks(self) -> int:
        """How many ticks history has given way."""
        return int(self._answers.books["shift_ticks"][0])

    def _advance_answering(self, address: int) -> int:
        """See answering_loop.advance."""
        needed = self._progress[IDS] + self.session.count
        if needed > self._resting.shape[1]:
            answering_loop.forget_closed(address, self._resting, self._progress)
            grown = np.zeros((1, 2 * int(needed)), np.int64)
            grown[:, : self._resting.shape[1]] = self._resting
            self._resting = grown
        return int(
            answering_loop.advance(
                address, self._answers, self._resting, self._progress, self._happened, self._published
            )
        )

    def _make_room(self, status: int) -> None:
        if status == answering_loop.EVENTS_LOST:
            raise BacktestError(
                f"answering: expected at most {EVENTS_MAX:,} events because of one command, got more; send smaller orders"
            )
        super()._make_room(status)

    def bests(self) -> Any:
        """See BacktestMarket."""
        found = super().bests()
        return np.where(found > 0, found + self.shift_ticks, 0)

    def best(self, symbol: str) -> tuple[int | None, int | None]:
        """See StrategyMarket."""
        shift = self.shift_ticks
        bid, ask = super().best(symbol)
        return None if bid is None else bid + shift, None if ask is None else ask + shift

    def book(self, symbol: str, depth: int = 10) -> tuple[list[Level], list[Level]]:
        """See StrategyMarket; levels below one tick are not shown."""
        shift = self.shift_ticks
        bids, asks = super().book(symbol, depth)
        if shift == 0:
            return bids, asks
        shifted = [[level._replace(price_ticks=level.price_ticks + shift) for level in side] for side in (bids, asks)]
        return [level for level in shifted[0] if level.price_ticks >= 1], shifted[1]
