"""A served exchange as an `ExecutionMarket` with one environment: the feed and our reports become FRAME and FILL rows."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from serl.agents.execution.environment.records import FILL, FRAME, LEVELS
from serl.agents.execution.environment.windows import check_multiples
from serl.agents.execution.errors import OrderRulesError
from serl.agents.signals.grid import STEP_NS
from serl.agents.signals.live import Observation, level_arrays
from serl.clients.blocking import Exchange
from serl.clients.session import Order, Report
from serl.exchange.config import time_of_day_text
from serl.exchange.errors import Rejected, RequestRejected, SerlError
from serl.exchange.records import EventKind, Reason, Rows
from serl.exchange.symbol_rules import NO_RULES
from serl.exchange.wire import Kind

SECOND_NS = 1_000_000_000
THROTTLED_TRIES, THROTTLED_WAIT_S = 10, 1.0
"""How often, and how long after each try, a command is sent that is beyond the account's rate, which others of the account use up too."""
LOOKS_BEFORE_NS = 62 * SECOND_NS
"""How long before the window the market is observed, because forecasts need a minute."""
BUY, SELL = 0, 1
PRINT, CROSSED = 1, 2
"""`off_book` of a print, a hidden or reported trade in which no schedule can take part (the in-process markets leave it out too), and of a trade of an
auction, which has no aggressor."""


class WindowStartedError(SerlError, ValueError):
    """The window started before the executor was connected."""


class ServedMarket:
    """One symbol of an exchange as an `ExecutionMarket`; it also records everything that happened, for a report.

    Times are ns after midnight of the exchange's day. In lockstep our orders arrive at the time of the decision; if this client logged in
    before history, they precede history's messages of the same time.
    """

    count = 1
    channels: tuple[str, ...] = ("l1", "trade")
    """Channels of the feed; reports alone need l1."""

    def __init__(self, client: Exchange, symbol: str) -> None:
        self.client, self.symbol = client, symbol
        #: the symbol's at the start of the window, to which orders are rounded as in the markets in process
        self.rules = NO_RULES
        self.number = client.instrument(symbol).number
        kind, self._speed, _, self.midnight_ns = client.session.clock
        self._lockstep = kind == "lockstep"
        self.frames, self.fills = np.zeros(1, FRAME), np.zeros(1, FILL)
        self._side, self._now_ns = SELL, 0
        self._resting: Order | None = None
        self._order_number = 0  # of our resting order, in the L3 book
        self.own_fills: list[tuple[int, int, int, int]] = []  # time, price, qty, match id
        self.trades: list[tuple[int, int, int, int, int, int]] = []  # match id, time, price, qty, aggressor, off book
        self.children: list[tuple[int, int]] = []  # time, qty
        self.rejected: Counter[str] = Counter()  # our orders, by reason
        self.throttled = 0  # commands that were sent again
        self.mids: list[tuple[int, float]] = []
        self._own_before = self._trades_before = 0
        #: called with each of our fills when it is reported: time, price, qty
        self.on_fill: Callable[[int, int, int], None] = lambda time_ns, price_ticks, qty_lots: None
        #: called with what we send at each decision: time, limit orders, market orders, cancels, lots ordered
        self.on_order_flow: Callable[[int, int, int, int, int], None] = lambda *_: None
        self._look: Callable[[Observation], None] | None = None
        self._next_look_ns = self._trades_seen = 0
        self._is_followed = False
        for channel in self.channels:
            client.subscribe(channel, symbol)

    def follow(self, look: Callable[[Observation], None]) -> None:
        """Calls `look` with the market at each multiple of 100 ms, from a minute before the window on."""
        self._look = look

    def require_not_started(self, start_ns: int) -> None:
        """Raises WindowStartedError if the exchange's time is after start_ns."""
        now_ns = self.client.session.clock[2] - self.midnight_ns
        if now_ns > start_ns:
            raise WindowStartedError(
                f"expected a window that starts after the exchange's time {time_of_day_text(now_ns)}, got {time_of_day_text(start_ns)}; choose a later window, or "
                "start the executor before the replay"
            )

    def reset(self, which: Any, episodes: Rows) -> None:
        """Waits for the start of the window. Raises WindowStartedError if it has passed, and ConfigError for a quantity that does not fit the symbol's
        rules."""
        start_ns = int(episodes[0]["start_ns"])
        self.require_not_started(start_ns)
        now_ns = int(self.client.session.clock[2]) - self.midnight_ns
        self._next_look_ns = (max(now_ns, start_ns - LOOKS_BEFORE_NS) // STEP_NS + 1) * STEP_NS
        self._wait_until(start_ns)
        self.rules = self.client.rules(self.symbol)
        check_multiples(episodes, self.rules.lot_multiple)
        self.start(episodes[0])
        self.snapshot(start_ns)

    def start(self, episode: Any) -> None:
        """Starts a parent order, an EPISODE row, whose window starts now. The caller takes a snapshot next."""
        self._side = SELL if episode["sign"] > 0 else BUY
        self._begin_step()

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self.send(children[0])
        for wake_ns in (*range(self._now_ns + SECOND_NS, int(until_ns[0]), SECOND_NS), int(until_ns[0])):
            self._wait_until(wake_ns)
        self.snapshot(int(until_ns[0]))

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket. On clocks other than lockstep, waits for a second of exchange time."""
        now_ns = self._now_ns
        self.send(children[0])
        self._wait_until(now_ns + (1 if self._lockstep else SECOND_NS))
        self.snapshot(now_ns)

    def _begin_step(self) -> None:
        self._own_before, self._trades_before = len(self.own_fills), len(self.trades)

    def send(self, child: Any) -> None:
        """Starts a step: cancels the resting order and sends a CHILD row."""
        self._begin_step()
        cancels = int(self._resting is not None)
        if self._resting is not None:
            self._cancel_resting(self._resting)
            self._resting = None
            self._drain_inbox()
        market_lots, limit_lots, limit_ticks = (
            int(child[name]) for name in ("market_lots", "limit_lots", "limit_ticks")
        )
        late_lots = sum(qty for _, _, qty, _ in self.own_fills[self._own_before :])  # 0 in lockstep
        from_limit = min(late_lots, limit_lots)
        limit_lots = self.rules.whole_lots(limit_lots - from_limit)
        market_lots = self.rules.whole_lots(max(0, market_lots - (late_lots - from_limit)))
        limit_ticks = self.rules.on_tick(limit_ticks, self._side)
        if market_lots:
            self._send_order(market_lots, None)
        if limit_lots and limit_ticks:
            self._resting = self._send_order(limit_lots, limit_ticks)
        lots = market_lots + (limit_lots if limit_ticks else 0)
        self.on_order_flow(self._now_ns, int(lots > market_lots), int(market_lots > 0), cancels, lots)
        self._drain_inbox()

    def _send_order(self, qty_lots: int, price_ticks: int | None) -> Order | None:
        """Returns the order; None if it is rejected, which `receive` counts: its quantity is due again at the next decision."""
        self.children.append((self._now_ns, qty_lots))
        send = self.client.sell if self._side == SELL else self.client.buy
        try:
            return self._track(self._send_later(lambda: send(self.symbol, qty_lots, price_ticks)))
        except Rejected:
            return None

    def _send_later(self, send: Callable[[], Any]) -> Any:
        """Sends a command, again and again while it is beyond a rate. Raises RequestRejected for any other refusal, or after too many tries."""
        for _ in range(THROTTLED_TRIES - 1):
            try:
                return send()
            except RequestRejected as refusal:
                if refusal.code != "throttled":
                    raise
            self.throttled += 1
            time.sleep(THROTTLED_WAIT_S)
        return send()

    def _cancel_resting(self, order: Order) -> None:
        self._send_later(lambda: self.client.mass_cancel(self.symbol))

    def _track(self, order: Order) -> Order:
        """A hook, called with each order that was sent."""
        return order

    def _own_matches(self) -> set[int]:
        """Match ids of our trades in this step."""
        return {match_id for _, _, _, match_id in self.own_fills[self._own_before :]}

    def _wait_until(self, wake_ns: int) -> None:
        """Waits, and observes the market on the way if `follow` was called."""
        while self._look is not None and self._next_look_ns + 1 < wake_ns:
            time_ns, self._next_look_ns = self._next_look_ns, self._next_look_ns + STEP_NS
            self._wait(time_ns + 1)  # includes what happens at that time
            self._look(self._observation(time_ns))
        self._wait(wake_ns)  # later than the last observation, because lockstep grants each time once

    def _observation(self, time_ns: int) -> Observation:
        """The market now, with the lots taken since the last observation, up to a time."""
        taken = [0, 0]
        while self._trades_seen < len(self.trades) and self.trades[self._trades_seen][1] <= time_ns:
            _, _, _, qty, aggressor, off_book = self.trades[self._trades_seen]
            taken[aggressor] += 0 if off_book else qty
            self._trades_seen += 1
        levels = level_arrays(*self.client.book(self.symbol, LEVELS))
        is_continued, self._is_followed = self._is_followed, True
        return Observation(time_ns, *levels, taken[BUY], taken[SELL], is_continued)

    def _wait(self, wake_ns: int) -> None:
        target_ns = self.midnight_ns + wake_ns
        if self._lockstep:
            self.client.turn(target_ns)
        else:
            while (now_ns := self.client.ask(Kind.INFO)[4]) < target_ns:
                wait_s = (target_ns - now_ns) / SECOND_NS / self._speed
                self.receive(self.client.wait(min(max(wait_s, 0.0005), 0.05)))
        self._drain_inbox()

    def _drain_inbox(self) -> None:
        inbox = self.client.core.inbox
        while inbox:
            self.receive(inbox.popleft())

    def receive(self, item: Any) -> None:
        """Processes a report or a feed message."""
        if isinstance(item, Report):
            if item.kind == EventKind.FILL:
                self.own_fills.append((item.time_ns - self.midnight_ns, item.price_ticks, item.qty_lots, item.match_id))
                self.on_fill(item.time_ns - self.midnight_ns, item.price_ticks, item.qty_lots)
            elif item.kind in (EventKind.ACCEPTED, EventKind.RESTED) and item.order_number:
                self._order_number = item.order_number
            elif item.kind == EventKind.REJECTED and item.command_id == item.order_id:
                self._count_rejected(item)
        elif isinstance(item, tuple) and item and isinstance(item[0], str):
            self._receive_feed(item[0], item[1])

    def _count_rejected(self, item: Report) -> None:
        """Raises OrderRulesError for an order that will never fit: the whole parent order would be sent at once, at the end of the window."""
        reason = Reason(item.reason)
        self.rejected[reason.name] += 1
        if reason in (Reason.BAD_QTY, Reason.BAD_PRICE):
            raise OrderRulesError(
                f"{self.symbol}: expected orders that fit its rules at the start of the window, got {reason.name} for one of {self.children[-1][1]:,} lots: "
                "they have changed; start another execution"
            )

    def _receive_feed(self, topic: str, message: list[Any]) -> None:
        _, _, _, _, time_ns, items = message
        if topic.startswith("l1/"):
            if items[0] and items[2]:
                self.mids.append((time_ns - self.midnight_ns, (items[0] + items[2]) / 2))
            return
        for match_id, traded_ns, price, qty, aggressor, off_book in items:
            self.trades.append((match_id, traded_ns - self.midnight_ns, price, qty, aggressor, off_book))

    def snapshot(self, now_ns: int) -> None:
        """Writes the FRAME and FILL rows: the current book, and the trades and fills since the step started."""
        self._now_ns = now_ns
        frame, fill = self.frames[0], self.fills[0]
        for name, levels in zip(("bid", "ask"), self._levels(), strict=True):
            table = np.zeros((LEVELS, 2), np.int64)
            table[: len(levels)] = [level[:2] for level in levels] or table[:0]
            frame[f"{name}_ticks"], frame[f"{name}_lots"] = table.T
        own = self.own_fills[self._own_before :]
        matches = self._own_matches()
        since = self.trades[self._trades_before :]
        others = [trade for trade in since if trade[0] not in matches and trade[5] != PRINT]
        frame["time_ns"], frame["trades"] = now_ns, len(others)
        frame["traded_lots"] = sum(qty for _, _, _, qty, _, _ in others)
        frame["traded_notional"] = sum(price * qty for _, _, price, qty, _, _ in others)
        taken = [(qty, aggressor) for _, _, _, qty, aggressor, off_book in others if off_book != CROSSED]
        frame["signed_lots"] = sum(qty if aggressor == BUY else -qty for qty, aggressor in taken)
        fill["lots"] = sum(qty for _, _, qty, _ in own)
        fill["notional"] = sum(price * qty for _, price, qty, _ in own)
        fill["resting_lots"], fill["ahead_lots"] = self._queue()
        if frame["bid_ticks"][0] and frame["ask_ticks"][0]:
            self.mids.append((now_ns, float(frame["bid_ticks"][0] + frame["ask_ticks"][0]) / 2))

    def _levels(self) -> Any:
        return self.client.book(self.symbol, LEVELS)

    def _orders_in_book(self) -> Any:
        return self.client.ask(Kind.L3, self.number)[5]

    @property
    def open_order(self) -> Order | None:
        """Our limit order, while it is in the book."""
        return self._resting if self._resting is not None and self._resting.state == "open" else None

    def _queue(self) -> tuple[int, int]:
        """(open quantity of our limit order, quantity ahead of it at its price)."""
        order = self.open_order
        if order is None:
            return 0, 0
        ahead = 0
        for number, side, price, qty in self._orders_in_book():
            if number == self._order_number:
                return order.open_lots, ahead
            if (side, price) == (order.side, order.price_ticks):
                ahead += qty
        return 0, 0  # only outside lockstep: the order was filled while we queried
