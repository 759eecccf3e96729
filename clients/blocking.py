"""The blocking client: no threads, no event loop."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any

import zmq

from serl.clients import queries
from serl.clients.book import L2Book, L3Book, Level
from serl.clients.client import Client
from serl.clients.core import ClientCore, Result, Steps
from serl.clients.errors import ConcurrentCall, SessionEnded
from serl.clients.feed_topics import check_book_channel
from serl.clients.inbox import InboxItem
from serl.clients.lockstep import take_turn
from serl.clients.session import Grant, Order, Session
from serl.clients.values import AssetBalance, Balance, Price, SymbolStatus, Trade
from serl.exchange.news import News
from serl.exchange.records import CommandKind, Side, TimeInForce
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.terms import NO_TERMS, Terms


def connect(
    endpoint: str = "tcp://127.0.0.1:5570", name: str = "client", token: str = "", *, curve: Path | None = None,
    cancel_on_disconnect: bool = False, replace: bool = False, rows: bool = False,
) -> "Exchange":  # fmt: skip
    """Logs in to an exchange as a participant.

    Args:
        endpoint: the exchange's orders endpoint.
        name: the participant; orders and positions belong to it across sessions.
        token: its login token, if the exchange has tokens.
        curve: key folder of `serl keys new`, to encrypt the connection.
        cancel_on_disconnect: the exchange cancels our orders when this session ends.
        replace: ends another live session of this participant; by default this login is refused instead.
        rows: `wait` returns reports as EVENT rows (numpy), for high rates; the client then keeps no fills, positions or orders sent as rows.

    Raises:
        ExchangeUnreachable: no exchange answers at the endpoint.
        LoginRefused: the exchange refused the login: wrong token, or the participant is logged in already.
    """
    session = Session(name, token, cancel_on_disconnect=cancel_on_disconnect, replace=replace, rows=rows)
    return resume(endpoint, session, curve=curve)


def resume(endpoint: str, session: Session, *, curve: Path | None = None) -> "Exchange":
    """Logs in with a session that the caller has created; see `serl.clients.asynchronous.resume`."""
    client = Exchange(ClientCore(endpoint, session, curve))
    try:
        client._run(client.core.login())
    except BaseException:
        client.core.close()
        raise
    return client


class Exchange(Client):
    """A logged-in blocking client. Prices are in ticks, quantities in lots: `instrument(symbol).ticks("223.45")` converts.

    It belongs to the process that connected it: in a fork, calls raise `ForkedClient`. It works only during calls: the exchange disconnects a client that makes none for `silence_s` (see `session.limits`).
    Call `wait(0)` now and then. Threads may take turns; a call during a call of another thread raises `ConcurrentCall`.
    """

    def __init__(self, core: ClientCore) -> None:
        super().__init__(core)
        self._in_call = RLock()
        """Held during a call: libzmq's sockets, and the session, are lost if two threads use them at once."""

    def _run(self, steps: Steps[Result]) -> Result:
        if self.core.orders.closed:
            raise SessionEnded("bye", "the client was closed")
        self.core.require_own_process()
        if not self._in_call.acquire(blocking=False):
            raise ConcurrentCall(
                "expected one call at a time, got one during a call of another thread; connect in each thread, or use the asyncio client"
            )
        try:
            return self._run_alone(steps)
        finally:
            self._in_call.release()

    def _run_alone(self, steps: Steps[Result]) -> Result:
        poller = zmq.Poller()
        for socket in self.core.sockets:
            poller.register(socket, zmq.POLLIN)
        try:
            while True:
                wait_s = next(steps)
                poller.poll(math.ceil(1000 * wait_s))
                self.core.receive()
        except StopIteration as returned:
            result: Result = returned.value
            return result

    def buy(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *,
        price: Price | None = None, time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """Sends a buy order and returns it with its first report: `state`, `filled_lots` and `open_lots` are known.

        Later reports update the returned order. In lockstep it returns at once, with `state` "sent".

        Args:
            symbol: name of the symbol.
            qty_lots: quantity in lots.
            price_ticks: limit price in ticks; None for a market order, or if `price` is given.
            price: limit price in money instead of ticks, e.g. "99.50".
            time_in_force: e.g. GTC (until cancelled), IOC (trade now or cancel), FOK (all now or nothing), DAY.
            post_only: reject the order if it would trade at once.
            terms: stop, iceberg, hidden, peg and so on; see docs/orders.md.

        Raises:
            Rejected: the exchange rejected the order; `reason` names the rule.
            UnknownSymbol: the exchange does not list the symbol.
            PriceOffTick: the price is between two ticks.
            RequestRejected: the exchange did not accept the order (`throttled`, `disk_full`); it is not sent again.
            ExchangeUnreachable: the exchange does not reply.
        """
        return self._run(
            self.core.order(symbol, Side.BUY, qty_lots, price_ticks, time_in_force, post_only, terms, price)
        )

    def sell(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *,
        price: Price | None = None, time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """Sends a sell order; see `buy`."""
        return self._run(
            self.core.order(symbol, Side.SELL, qty_lots, price_ticks, time_in_force, post_only, terms, price)
        )

    def cancel(self, order: Order) -> Order:
        """Cancels an order. Raises `Rejected` if it is no longer open."""
        return self._run(self.core.amend(order, CommandKind.CANCEL))

    def reduce(self, order: Order, qty_lots: int) -> Order:
        """Reduces the open quantity by qty_lots; the order keeps its time priority. Raises `Rejected`."""
        return self._run(self.core.amend(order, CommandKind.REDUCE, qty_lots))

    def replace(
        self, order: Order, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None, terms: Terms = NO_TERMS
    ) -> Order:  # fmt: skip
        """Gives an order a new total quantity (fills included) and price, in ticks or in money; by default it keeps its price. `terms`: the
        new expiry, minimum, stop, trail or touch price, only those that change. Raises `Rejected`.

        It keeps its time priority only if the price stays and the quantity does not grow; see docs/orders.md.
        """
        return self._run(self.core.replace(order, qty_lots, price_ticks, price, terms))

    def mass_cancel(self, symbol: str | None = None) -> None:
        """Cancels all our orders, in one symbol or in all."""
        self._run(self.core.mass_cancel(symbol))

    def book(self, symbol: str, depth: int = 10) -> tuple[list[Level], list[Level]]:
        """(bids, asks), best first, at most `depth` levels each (0: all).

        Queries the exchange, unless the book is kept up to date by `follow`.
        """
        return self._run(self.core.book(symbol, depth))

    def follow(self, symbol: str, channel: str = "l2") -> L2Book | L3Book:
        """Keeps a book up to date from the feed; `book` then needs no query.

        channel: "l2" for price levels, "l3" for single orders; UnknownChannel for others.
        """
        check_book_channel(channel)
        return self._run(self.core.follow(symbol, channel))

    def trades(self, symbol: str, count: int = 100) -> list[Trade]:
        """The last trades of the market, newest last."""
        return self._run(queries.trades(self.core, symbol, count))

    def news(self, count: int = 100) -> list[News]:
        """The last news messages of the exchange, newest last."""
        return self._run(queries.news(self.core, count))

    def status(self, symbol: str) -> SymbolStatus:
        """Whether the symbol is halted and why, and its phase."""
        return self._run(queries.status(self.core, symbol))

    def rules(self, symbol: str) -> SymbolRules:
        """What quantities and prices of the symbol must fit: `lot_multiple`, `tick_table` and the price band, as they are now. An order that does not fit is
        rejected (BAD_QTY, BAD_PRICE, OUTSIDE_BAND). Raises `RequestRejected` if the exchange is of a version without this query."""
        return self.rules_of([symbol])[0]

    def rules_of(self, symbols: Iterable[str]) -> list[SymbolRules]:
        """The `rules` of several symbols, with one wait for all replies."""
        return self._run(queries.rules_of(self.core, symbols))

    def account(self) -> dict[str, Balance]:
        """Position, cash, profit and fees in money over all sessions, by symbol name; symbols in which all of them are zero are left out.

        Raises `RequestRejected` if the exchange has operators or tokens and ours is missing.
        """
        return self._run(queries.account(self.core))

    def balances(self) -> dict[str, AssetBalance]:
        """Our balance of each asset, by name: the total, and the part that open orders reserve (docs/orders.md, Assets and balance checks).

        Empty for an account that has neither deposits nor balance checks. Raises `RequestRejected` as `account` does.
        """
        return self._run(queries.balances(self.core))

    def ask(self, kind: int, *values: Any) -> list[Any]:
        """Sends any query of docs/protocol.md and returns the whole reply. Raises `RequestRejected`."""
        return self._run(self.core.ask(kind, *values))

    def ask_all(self, queries: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        """Pipelines queries (kind, values ..), without waiting for each reply in turn; returns the whole replies. Raises `RequestRejected`."""
        return self._run(self.core.ask_all(queries))

    def wait(self, timeout_s: float = 1.0) -> InboxItem | None:
        """The next report, grant or message of a subscribed channel; None if nothing arrives within timeout_s.

        Also processes everything that has arrived: orders, positions and followed books are up to date afterwards.
        """
        return self._run(self.core.next_item(timeout_s))

    def wait_all(self, timeout_s: float = 1.0) -> list[InboxItem]:
        """Everything that `wait` would return one by one; empty if nothing arrives within timeout_s. For high rates."""
        return self._run(self.core.next_items(timeout_s))

    def turn(self, time_ns: int) -> Grant:
        """Lockstep clock: promises that nothing from us arrives before time_ns; returns at our turn, with the feed complete.

        Raises `ExchangeUnreachable` if the exchange is silent for `silence_s` (see `session.limits`): it sends heartbeats even while another
        participant takes a long turn. Raises `SessionEnded` if it was restarted.
        """
        return self._run(take_turn(self.core, time_ns))

    def close(self) -> None:
        """Logs out. Orders stay in the book unless the session has `cancel_on_disconnect`. In a fork does nothing."""
        if not self.core.is_forked:
            self.core.close()

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
