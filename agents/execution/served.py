"""A served exchange as an `ExecutionMarket` of one: what the feed and our reports say becomes FRAME and FILL rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from serl.agents.execution.environment.records import FILL, FRAME, LEVELS
from serl.clients.blocking import Exchange
from serl.clients.session import Order, Report
from serl.exchange.config import time_of_day_text
from serl.exchange.errors import SerlError
from serl.exchange.records import EventKind, Rows
from serl.exchange.wire import Kind

SECOND_NS = 1_000_000_000
BUY, SELL = 0, 1


class TooLate(SerlError, ValueError):
    """The window began before the executor was there."""


class ServedMarket:
    """One symbol of an exchange. See `ExecutionMarket`; beyond it, everything that happened is kept for a report.

    Times are after midnight of the exchange's day. In lockstep what is sent arrives at the time of the decision, before
    history's messages of that time if this client logged in before history.
    """

    count = 1
    channels: tuple[str, ...] = ("l1", "trade")
    """Of the feed: quotes are only for reports."""

    def __init__(self, client: Exchange, symbol: str) -> None:
        self.client, self.symbol = client, symbol
        self._number = client.instrument(symbol).number
        kind, self._speed, _, self.midnight_ns = client.session.clock
        self._lockstep = kind == "lockstep"
        self.frames, self.fills = np.zeros(1, FRAME), np.zeros(1, FILL)
        self._side, self._now_ns = SELL, 0
        self._resting: Order | None = None
        self._order_number = 0  # of what rests, as the book names it
        self.own: list[tuple[int, int, int, int]] = []  # time, price, qty, match id
        self.trades: list[tuple[int, int, int, int, int, int]] = []  # match id, time, price, qty, aggressor, off book
        self.children: list[tuple[int, int]] = []  # time, qty
        self.mids: list[tuple[int, float]] = []
        self._own_seen = self._trades_seen = 0
        #: told of each fill of ours as it is reported: time, price, qty
        self.on_fill: Callable[[int, int, int], None] = lambda time_ns, price_ticks, qty_lots: None
        #: told of what is sent: time, limit orders, market orders, cancels, lots ordered
        self.on_sent: Callable[[int, int, int, int, int], None] = lambda *_: None
        for channel in self.channels:
            client.subscribe(channel, symbol)

    def check_in_time(self, start_ns: int) -> None:
        """TooLate if the exchange's time is beyond start_ns."""
        now_ns = self.client.session.clock[2] - self.midnight_ns
        if now_ns > start_ns:
            raise TooLate(
                f"the window began at {time_of_day_text(start_ns)}, the exchange is at {time_of_day_text(now_ns)}: choose a later window, or start the executor before the replay"
            )

    def reset(self, which: Any, episodes: Rows) -> None:
        """Waits for the start of the window; TooLate if it is over."""
        start_ns = int(episodes[0]["start_ns"])
        self.check_in_time(start_ns)
        self._wait_until(start_ns)
        self.begin(episodes[0])

    def begin(self, episode: Any) -> None:
        """A parent order, an EPISODE row, whose window begins now."""
        self._side = SELL if episode["sign"] > 0 else BUY
        self._begin_step()
        self.look(int(episode["start_ns"]))

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self.send(children[0])
        for wake_ns in (*range(self._now_ns + SECOND_NS, int(until_ns[0]), SECOND_NS), int(until_ns[0])):
            self._wait_until(wake_ns)
        self.look(int(until_ns[0]))

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket; beyond a lockstep clock it is given a second of the exchange's time."""
        now_ns = self._now_ns
        self.send(children[0])
        self._wait_until(now_ns + (1 if self._lockstep else SECOND_NS))
        self.look(now_ns)

    def _begin_step(self) -> None:
        self._own_seen, self._trades_seen = len(self.own), len(self.trades)

    def send(self, child: Any) -> None:
        """Begins a step: what rests is cancelled and a CHILD row sent."""
        self._begin_step()
        cancels = int(self._resting is not None)
        if self._resting is not None:
            self._cancel_resting(self._resting)
            self._resting = None
            self._take_inbox()
        send = self.client.sell if self._side == SELL else self.client.buy
        market_lots, limit_lots, limit_ticks = (
            int(child[name]) for name in ("market_lots", "limit_lots", "limit_ticks")
        )
        on_the_way = sum(qty for _, _, qty, _ in self.own[self._own_seen :])  # nothing in lockstep
        late = min(on_the_way, limit_lots)
        limit_lots, market_lots = limit_lots - late, max(0, market_lots - (on_the_way - late))
        if market_lots:
            self._noted(send(self.symbol, market_lots))
            self.children.append((self._now_ns, market_lots))
        if limit_lots and limit_ticks:
            self._resting = self._noted(send(self.symbol, limit_lots, limit_ticks))
            self.children.append((self._now_ns, limit_lots))
        lots = market_lots + (limit_lots if limit_ticks else 0)
        self.on_sent(self._now_ns, int(lots > market_lots), int(market_lots > 0), cancels, lots)
        self._take_inbox()

    def _cancel_resting(self, order: Order) -> None:
        self.client.mass_cancel(self.symbol)

    def _noted(self, order: Order) -> Order:
        """An order that was sent."""
        return order

    def _own_matches(self) -> set[int]:
        """Ids of trades of ours in this step."""
        return {match_id for _, _, _, match_id in self.own[self._own_seen :]}

    def _wait_until(self, wake_ns: int) -> None:
        due_ns = self.midnight_ns + wake_ns
        if self._lockstep:
            self.client.turn(due_ns)
        else:
            while (now_ns := self.client.ask(Kind.INFO)[4]) < due_ns:
                wait_s = (due_ns - now_ns) / SECOND_NS / self._speed
                self.take(self.client.wait(min(max(wait_s, 0.0005), 0.05)))
        self._take_inbox()

    def _take_inbox(self) -> None:
        inbox = self.client.core.inbox
        while inbox:
            self.take(inbox.popleft())

    def take(self, item: Any) -> None:
        """A report or a feed message."""
        if isinstance(item, Report):
            if item.kind == EventKind.FILL:
                self.own.append((item.time_ns - self.midnight_ns, item.price_ticks, item.qty_lots, item.match_id))
                self.on_fill(item.time_ns - self.midnight_ns, item.price_ticks, item.qty_lots)
            elif item.kind in (EventKind.ACCEPTED, EventKind.RESTED) and item.order_number:
                self._order_number = item.order_number
        elif isinstance(item, tuple) and item and isinstance(item[0], str):
            self._take_feed(item[0], item[1])

    def _take_feed(self, topic: str, message: list[Any]) -> None:
        _, _, _, _, time_ns, items = message
        if topic.startswith("l1/"):
            if items[0] and items[2]:
                self.mids.append((time_ns - self.midnight_ns, (items[0] + items[2]) / 2))
            return
        for match_id, traded_ns, price, qty, aggressor, off_book in items:
            self.trades.append((match_id, traded_ns - self.midnight_ns, price, qty, aggressor, off_book))

    def look(self, now_ns: int) -> None:
        """Fills the rows: the book as it is now, what was traded and filled since the step began."""
        self._now_ns = now_ns
        frame, fill = self.frames[0], self.fills[0]
        for name, levels in zip(("bid", "ask"), self.client.book(self.symbol, LEVELS), strict=True):
            table = np.zeros((LEVELS, 2), np.int64)
            table[: len(levels)] = [level[:2] for level in levels] or table[:0]
            frame[f"{name}_ticks"], frame[f"{name}_lots"] = table.T
        own = self.own[self._own_seen :]
        matches = self._own_matches()
        others = [trade for trade in self.trades[self._trades_seen :] if trade[0] not in matches and not trade[5]]
        frame["time_ns"], frame["trades"] = now_ns, len(others)
        frame["traded_lots"] = sum(qty for _, _, _, qty, _, _ in others)
        frame["traded_notional"] = sum(price * qty for _, _, price, qty, _, _ in others)
        frame["signed_lots"] = sum(qty if aggressor == BUY else -qty for _, _, _, qty, aggressor, _ in others)
        fill["lots"] = sum(qty for _, _, qty, _ in own)
        fill["notional"] = sum(price * qty for _, price, qty, _ in own)
        fill["resting_lots"], fill["ahead_lots"] = self._queue()
        if frame["bid_ticks"][0] and frame["ask_ticks"][0]:
            self.mids.append((now_ns, float(frame["bid_ticks"][0] + frame["ask_ticks"][0]) / 2))

    def _queue(self) -> tuple[int, int]:
        """(what our limit order still has open, what stands before it at its price)."""
        order = self._resting
        if order is None or order.state != "open":
            return 0, 0
        ahead = 0
        for number, side, price, qty in self.client.ask(Kind.L3, self._number)[5]:
            if number == self._order_number:
                return order.open_lots, ahead
            if (side, price) == (order.side, order.price_ticks):
                ahead += qty
        return 0, 0  # beyond lockstep: it was filled while we asked
