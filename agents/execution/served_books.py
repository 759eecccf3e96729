"""Parent orders side by side on one exchange in lockstep: each in a book of its own, all in the same window of the exchange's time.

History is one participant that replays a stretch of a day in every book, moved in time so that all orders begin at once. So a score of many
orders takes as long as one window takes to replay.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment.records import FILL, FRAME
from serl.agents.execution.served import ServedMarket
from serl.clients.blocking import Exchange
from serl.clients.session import Order, Report
from serl.exchange.errors import ConfigError
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce
from serl.history.day import Day, Reference, SymbolReference

BEGIN_NS = 36_000_000_000_000
"""10:00, when all windows begin."""
BEFORE_NS, AFTER_NS = 1_000_000_000, 1_000_000_000
"""When the books are set up before, and how long history goes on after the windows."""


class _Book(ServedMarket):
    """An agent in one of the books; what comes from the exchange is given to it by ServedBooks."""

    channels = ("trade",)

    def __init__(self, client: Exchange, symbol: str, matches: set[int], orders: "dict[int, _Book]") -> None:
        """matches: of all agents in the book, which are no trades of others; orders: whose each order is."""
        super().__init__(client, symbol)
        self._matches, self._orders = matches, orders

    def _take_inbox(self) -> None:
        pass

    def _cancel_resting(self, order: Order) -> None:
        self.client.cancel(order)

    def _noted(self, order: Order) -> Order:
        self._orders[order.order_id] = self
        return order

    def take(self, item: Any) -> None:
        """See ServedMarket."""
        super().take(item)
        if isinstance(item, Report) and item.match_id:
            self._matches.add(item.match_id)

    def _own_matches(self) -> set[int]:
        return self._matches


class ServedBooks:
    """N symbols of an exchange in lockstep with `agents` parent orders in each: row s * agents + a is agent a in symbol s. See
    `ExecutionMarket`; all windows are the same. Of one decision the agents' orders arrive in the agents' order."""

    def __init__(self, client: Exchange, symbols: Sequence[str], agents: int = 1) -> None:
        self.client, self.count = client, len(symbols) * agents
        self.frames, self.fills = np.zeros(self.count, FRAME), np.zeros(self.count, FILL)
        self._by_order: dict[int, _Book] = {}
        self.books: list[_Book] = []
        for symbol in symbols:
            matches: set[int] = set()
            self.books += [_Book(client, symbol, matches, self._by_order) for _ in range(agents)]
        self._by_topic: dict[str, list[_Book]] = {}
        for place, book in enumerate(self.books):
            book.frames, book.fills = self.frames[place : place + 1], self.fills[place : place + 1]
            self._by_topic.setdefault(f"trade/{book.symbol}/", []).append(book)

    def reset(self, which: Any, episodes: Rows) -> None:
        """Waits for the start of the window; ConfigError unless all begin, together."""
        start_ns = int(episodes["start_ns"][0])
        if len(which) != self.count or np.any(episodes["start_ns"] != start_ns):
            raise ConfigError("served books: all orders begin at the same time, and each market once")
        self.books[0].check_in_time(start_ns)
        self._turn(start_ns)
        for book, episode in zip(self.books, episodes, strict=True):
            book.begin(episode)

    def step(self, children: Rows, until_ns: Any) -> None:
        """See ExecutionMarket."""
        self._send(range(self.count), children)
        self._turn(int(until_ns[0]))
        self._look(int(until_ns[0]))

    def force(self, which: Any, children: Rows) -> None:
        """See ExecutionMarket."""
        now_ns = int(self.frames["time_ns"][0])
        self._send(which, children)
        self._turn(now_ns + 1)
        self._look(now_ns)

    def _send(self, which: Any, children: Rows) -> None:
        for place, child in zip(which, children, strict=True):
            self.books[place].send(child)

    def _turn(self, time_ns: int) -> None:
        self.client.turn(self.books[0].midnight_ns + time_ns)
        inbox = self.client.core.inbox
        while inbox:
            item = inbox.popleft()
            if isinstance(item, Report):
                if item.order_id in self._by_order:
                    self._by_order[item.order_id].take(item)
            elif isinstance(item, tuple) and item and item[0] in self._by_topic:
                for book in self._by_topic[item[0]]:
                    book.take(item)

    def _look(self, now_ns: int) -> None:
        for book in self.books:
            book.look(now_ns)


def side_by_side(days: Sequence[Day], episodes: Rows) -> Day:
    """A day of len(episodes) symbols O0, O1 ..: in each the book at the start of an EPISODE row's window, then what history did in it, all
    windows moved to BEGIN_NS. Halts are left out."""
    pieces = [_piece(days[int(row["day"])], row, place) for place, row in enumerate(episodes)]
    rows = np.concatenate(pieces)
    rows = rows[np.argsort(rows["time_ns"], kind="stable")]
    numbers = np.arange(1, len(rows) + 1)
    for place in range(len(pieces)):
        own = np.flatnonzero(rows["symbol"] == place)
        old = rows["command_id"][own]
        order = np.argsort(old)
        refers = own[rows["order_id"][own] > 0]
        wanted = rows["order_id"][refers]
        found = np.minimum(np.searchsorted(old, wanted, sorter=order), len(old) - 1)
        known = old[order[found]] == wanted
        rows["order_id"][refers] = np.where(known, numbers[own[order[found]]], 0)
    rows["command_id"] = numbers
    lost = np.isin(rows["kind"], (CommandKind.CANCEL, CommandKind.REDUCE, CommandKind.REPLACE)) & (
        rows["order_id"] == 0
    )
    rows = rows[~lost]  # of orders that were gone before: the exchange would refuse them
    tick = days[0].reference.symbols[0].tick_size
    symbols = tuple(SymbolReference(f"O{place}", tick) for place in range(len(pieces)))
    reference = Reference(
        symbols, "", "side by side", (), int(rows["time_ns"][0]), int(rows["time_ns"][-1]), source_rows=len(rows)
    )
    return Day(rows, np.arange(len(rows)), reference)


def _piece(day: Day, episode: Any, symbol: int) -> Rows:
    """COMMAND rows of one window."""
    start_ns = int(episode["start_ns"])
    end_ns = start_ns + int(episode["interval_ns"] * episode["steps"]) + AFTER_NS
    first, last = np.searchsorted(day.commands["time_ns"], [start_ns, end_ns]).tolist()
    market = Market(1, limits=MarketLimits(participants_max=2))
    market.grant_operator(0)
    market.submit(day.commands[:first])
    open_orders = market.orders()
    opening = np.zeros(len(open_orders), COMMAND)
    opening["kind"], opening["time_in_force"] = CommandKind.NEW, TimeInForce.GTC
    # one after the other: a replay waits for answers, and in lockstep there are none before time goes on
    opening["time_ns"] = start_ns - BEFORE_NS + np.arange(len(opening))
    opening["command_id"], opening["qty_lots"] = open_orders["order_id"], open_orders["open_lots"]
    opening["side"], opening["price_ticks"] = open_orders["side"], open_orders["price_ticks"]
    rows = day.commands[first:last].copy()
    _less_what_was_filled(rows, open_orders)
    rows = np.concatenate(
        (opening, rows[~np.isin(rows["kind"], (CommandKind.HALT, CommandKind.RESUME, CommandKind.END_DAY))])
    )
    rows["time_ns"] += BEGIN_NS - start_ns
    rows["symbol"], rows["participant"] = symbol, 0
    return rows


def _less_what_was_filled(rows: Rows, open_orders: Rows) -> None:
    """A REPLACE says the total quantity; what was filled before the window is no part of the order that opens it."""
    filled = {int(order["order_id"]): int(order["total_lots"] - order["open_lots"]) for order in open_orders}
    for place in np.flatnonzero(rows["kind"] == CommandKind.REPLACE).tolist():
        rows["qty_lots"][place] -= filled.get(int(rows["order_id"][place]), 0)


def moved(episodes: Rows) -> Rows:
    """The EPISODE rows as they are in the day of `side_by_side`."""
    rows = episodes.copy()
    rows["start_ns"] = BEGIN_NS
    return rows
