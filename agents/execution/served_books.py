"""Many parent orders at once on one lockstep exchange, each in its own book, all in the same window of exchange time.

History is one participant that replays part of a day in every book, shifted in time so that all windows start together. So scoring many
orders takes only as long as replaying one window.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment.records import FILL, FRAME, LEVELS
from serl.agents.execution.served import ServedMarket
from serl.clients.blocking import Exchange
from serl.clients.session import Order, Report
from serl.exchange.errors import ConfigError
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce
from serl.exchange.wire import Kind
from serl.history.day import Day, Reference, SymbolReference
from serl.history.limits import limits_for

BEGIN_NS = 36_000_000_000_000
"""10:00, when all windows start."""
BEFORE_NS, AFTER_NS = 1_000_000_000, 1_000_000_000
"""The books are built this long before the windows, and history continues this long after them."""


class _Book(ServedMarket):
    """One agent in one book. ServedBooks passes the messages of the exchange to it."""

    channels = ("trade",)

    def __init__(self, client: Exchange, symbol: str, matches: set[int], orders: "dict[int, _Book]") -> None:
        """matches: match ids of all agents in the book, to exclude from the market's trades. orders: the agent of each order id."""
        super().__init__(client, symbol)
        self._matches, self._orders = matches, orders
        self._replies: dict[tuple[Any, ...], list[Any]] = {}

    def queries(self) -> list[tuple[Any, ...]]:
        """The queries whose replies `snapshot_from` needs."""
        return [(Kind.L2, self.number, LEVELS), *([(Kind.L3, self.number)] if self.open_order else [])]

    def snapshot_from(self, replies: dict[tuple[Any, ...], list[Any]], now_ns: int) -> None:
        """Like `snapshot`, but from the replies to the `queries` of all agents."""
        self._replies = replies
        self.snapshot(now_ns)

    def _levels(self) -> Any:
        return self._replies[Kind.L2, self.number, LEVELS][5]

    def _orders_in_book(self) -> Any:
        return self._replies[Kind.L3, self.number][5]

    def _drain_inbox(self) -> None:
        pass

    def _cancel_resting(self, order: Order) -> None:
        self.client.cancel(order)

    def _track(self, order: Order) -> Order:
        self._orders[order.order_id] = self
        return order

    def receive(self, item: Any) -> None:
        """See ServedMarket."""
        super().receive(item)
        if isinstance(item, Report) and item.match_id:
            self._matches.add(item.match_id)

    def _own_matches(self) -> set[int]:
        return self._matches


class ServedBooks:
    """N symbols of a lockstep exchange with `agents` parent orders in each: row s * agents + a is agent a in symbol s. See `ExecutionMarket`.

    All orders have the same window. The orders of one decision arrive in the order of the agents."""

    def __init__(self, client: Exchange, symbols: Sequence[str], agents: int = 1) -> None:
        self.client, self.count = client, len(symbols) * agents
        self.frames, self.fills = np.zeros(self.count, FRAME), np.zeros(self.count, FILL)
        self._by_order: dict[int, _Book] = {}
        self.books: list[_Book] = []
        for symbol in symbols:
            matches: set[int] = set()
            self.books += [_Book(client, symbol, matches, self._by_order) for _ in range(agents)]
        self._by_topic: dict[str, list[_Book]] = {}
        for index, book in enumerate(self.books):
            book.frames, book.fills = self.frames[index : index + 1], self.fills[index : index + 1]
            self._by_topic.setdefault(f"trade/{book.symbol}/", []).append(book)

    def reset(self, which: Any, episodes: Rows) -> None:
        """Waits for the start of the window. Raises ConfigError unless all rows start, at the same time."""
        start_ns = int(episodes["start_ns"][0])
        if len(which) != self.count or np.any(episodes["start_ns"] != start_ns):
            raise ConfigError(
                f"served books: expected {self.count} orders with the same start, got {len(which)} from {episodes['start_ns'].min()} to "
                f"{episodes['start_ns'].max()} ns"
            )
        self.books[0].require_not_started(start_ns)
        self._turn(start_ns)
        symbols = list(dict.fromkeys(book.symbol for book in self.books))
        rules = dict(zip(symbols, self.client.rules_of(symbols), strict=True))
        for book, episode in zip(self.books, episodes, strict=True):
            book.rules = rules[book.symbol]
            book.start(episode)
        self._snapshot(start_ns)

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._send(range(self.count), children)
        self._turn(int(until_ns[0]))
        self._snapshot(int(until_ns[0]))

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        now_ns = int(self.frames["time_ns"][0])
        self._send(which, children)
        self._turn(now_ns + 1)
        self._snapshot(now_ns)

    def _send(self, which: Any, children: Rows) -> None:
        for index, child in zip(which, children, strict=True):
            self.books[index].send(child)

    def _turn(self, time_ns: int) -> None:
        self.client.turn(self.books[0].midnight_ns + time_ns)
        inbox = self.client.core.inbox
        while inbox:
            item = inbox.popleft()
            if isinstance(item, Report):
                if item.order_id in self._by_order:
                    self._by_order[item.order_id].receive(item)
            elif isinstance(item, tuple) and item and item[0] in self._by_topic:
                for book in self._by_topic[item[0]]:
                    book.receive(item)

    def _snapshot(self, now_ns: int) -> None:
        queries = list(dict.fromkeys(query for book in self.books for query in book.queries()))
        replies = dict(zip(queries, self.client.ask_all(queries), strict=True))
        for book in self.books:
            book.snapshot_from(replies, now_ns)


def aligned_day(days: Sequence[Day], episodes: Rows) -> Day:
    """A day with one symbol per EPISODE row, named O0, O1 and so on: the book at the start of its window, then history's commands in the window, with
    all windows shifted to BEGIN_NS. Halts are left out."""
    limits = [limits_for([day.commands], participants_max=2) for day in days]
    places = enumerate(episodes["day"].tolist())
    pieces = [_window_commands(days[day], limits[day], episodes[symbol], symbol) for symbol, day in places]
    rows = np.concatenate(pieces)
    rows = rows[np.argsort(rows["time_ns"], kind="stable")]
    numbers = np.arange(1, len(rows) + 1)
    for symbol in range(len(pieces)):
        own = np.flatnonzero(rows["symbol"] == symbol)
        old_ids = rows["command_id"][own]
        order = np.argsort(old_ids)
        referring = own[rows["order_id"][own] > 0]
        referenced = rows["order_id"][referring]
        found = np.minimum(np.searchsorted(old_ids, referenced, sorter=order), len(old_ids) - 1)
        known = old_ids[order[found]] == referenced
        rows["order_id"][referring] = np.where(known, numbers[own[order[found]]], 0)
    rows["command_id"] = numbers
    orphaned = np.isin(rows["kind"], (CommandKind.CANCEL, CommandKind.REDUCE, CommandKind.REPLACE)) & (
        rows["order_id"] == 0
    )
    rows = rows[~orphaned]  # their orders ended before the window; the exchange would reject them
    tick = days[0].reference.symbols[0].tick_size
    symbols = tuple(SymbolReference(f"O{symbol}", tick) for symbol in range(len(pieces)))
    reference = Reference(
        symbols, "", "side by side", (), int(rows["time_ns"][0]), int(rows["time_ns"][-1]), source_rows=len(rows)
    )
    return Day(rows, np.arange(len(rows)), reference)


def _window_commands(day: Day, limits: MarketLimits, episode: Any, symbol: int) -> Rows:
    """COMMAND rows of one window, including those that build its opening book, within the limits of the day."""
    start_ns = int(episode["start_ns"])
    end_ns = start_ns + int(episode["interval_ns"] * episode["steps"]) + AFTER_NS
    first, last = np.searchsorted(day.commands["time_ns"], [start_ns, end_ns]).tolist()
    market = Market(1, limits=limits)
    market.grant_operator(0)
    market.submit(day.commands[:first])
    open_orders = market.orders()
    opening = np.zeros(len(open_orders), COMMAND)
    opening["kind"], opening["time_in_force"] = CommandKind.NEW, TimeInForce.GTC
    # one ns apart: a replay waits for replies, and in lockstep these come only when time advances
    opening["time_ns"] = start_ns - BEFORE_NS + np.arange(len(opening))
    opening["command_id"], opening["qty_lots"] = open_orders["order_id"], open_orders["open_lots"]
    opening["side"], opening["price_ticks"] = open_orders["side"], open_orders["price_ticks"]
    rows = day.commands[first:last].copy()
    _subtract_filled(rows, open_orders)
    rows = np.concatenate(
        (opening, rows[~np.isin(rows["kind"], (CommandKind.HALT, CommandKind.RESUME, CommandKind.END_DAY))])
    )
    rows["time_ns"] += BEGIN_NS - start_ns
    rows["symbol"], rows["participant"] = symbol, 0
    return rows


def _subtract_filled(rows: Rows, open_orders: Rows) -> None:
    """Adjusts REPLACE commands, which state the total quantity, because the opening book has only what was open at the start of the window."""
    filled = {int(order["order_id"]): int(order["total_lots"] - order["open_lots"]) for order in open_orders}
    for index in np.flatnonzero(rows["kind"] == CommandKind.REPLACE).tolist():
        rows["qty_lots"][index] -= filled.get(int(rows["order_id"][index]), 0)


def aligned_episodes(episodes: Rows) -> Rows:
    """The EPISODE rows for the day of `aligned_day`."""
    rows = episodes.copy()
    rows["start_ns"] = BEGIN_NS
    return rows
