"""The asyncio client: the same API as the blocking client, as coroutines."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from serl.clients import queries
from serl.clients.arrivals import Arrivals
from serl.clients.book import L2Book, L3Book, Level
from serl.clients.client import Client
from serl.clients.core import ClientCore, Result, Steps
from serl.clients.feed_topics import check_book_channel
from serl.clients.inbox import InboxItem
from serl.clients.lockstep import take_turn
from serl.clients.session import Grant, Order, Session
from serl.clients.values import AssetBalance, Balance, Price, SymbolStatus, Trade
from serl.exchange.news import News
from serl.exchange.records import CommandKind, Side, TimeInForce
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.terms import NO_TERMS, Terms
from serl.exchange.wire import Kind


async def connect(
    endpoint: str = "tcp://127.0.0.1:5570", name: str = "client", token: str = "", *, curve: Path | None = None,
    cancel_on_disconnect: bool = False, replace: bool = False, rows: bool = False,
) -> "AsyncExchange":  # fmt: skip
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
    return await resume(endpoint, session, curve=curve)


async def watch(
    endpoint: str = "tcp://127.0.0.1:5570", token: str = "", *, curve: Path | None = None
) -> "AsyncExchange":
    """Connects to an exchange without logging in, for read-only access: queries and the feed.

    Args:
        endpoint, curve: see `connect`.
        token: a token that may read data, if the exchange has tokens.

    Raises:
        ExchangeUnreachable: no exchange answers at the endpoint.
        RequestRejected: the token is wrong.
    """
    client = AsyncExchange(ClientCore(endpoint, Session("", token), curve))
    try:
        _, symbols, clock, limits = (await client.ask(Kind.INFO))[5]
        client.session.set_reference_data(symbols, clock, limits)
    except BaseException:
        await client.close()
        raise
    return client


async def resume(endpoint: str, session: Session, *, curve: Path | None = None) -> "AsyncExchange":
    """Logs in with a session that the caller has created or taken from another client. Reports that it has not seen come first, and commands
    without a reply are sent again. A new session with `last_report` 0 gets every report of its participant that the exchange stores.

    Raises as `connect`.
    """
    client = AsyncExchange(ClientCore(endpoint, session, curve))
    try:
        await client._run(client.core.login())
    except BaseException:
        client.core.session.live = False
        await client.close()
        raise
    return client


class AsyncExchange(Client):
    """A logged-in asyncio client. Prices are in ticks, quantities in lots: `instrument(symbol).ticks("223.45")` converts.

    Any number of tasks of one event loop may call it at once; `wait` gives each report to one of them. A refusal that names no command
    (`RequestRejected` of an order) is raised by every call in progress.
    """

    def __init__(self, core: ClientCore) -> None:
        super().__init__(core)
        self._arrivals = Arrivals(core)

    async def _run(self, steps: Steps[Result]) -> Result:
        self.core.require_own_process()
        try:
            while True:
                self._arrivals.raise_if_failed()
                await self._arrivals.wait(next(steps))
        except StopIteration as returned:
            result: Result = returned.value
            return result
        except Exception as error:
            if error is self.core.failure:  # raised while this task received, so the others do not know of it yet
                self._arrivals.fail_others(error)
            raise
        finally:
            steps.close()
            self._arrivals.tell_others()

    async def buy(
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
        return await self._run(
            self.core.order(symbol, Side.BUY, qty_lots, price_ticks, time_in_force, post_only, terms, price)
        )

    async def sell(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *,
        price: Price | None = None, time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """Sends a sell order; see `buy`."""
        return await self._run(
            self.core.order(symbol, Side.SELL, qty_lots, price_ticks, time_in_force, post_only, terms, price)
        )

    async def cancel(self, order: Order) -> Order:
        """Cancels an order. Raises `Rejected` if it is no longer open."""
        return await self._run(self.core.amend(order, CommandKind.CANCEL))

    async def reduce(self, order: Order, qty_lots: int) -> Order:
        """Reduces the open quantity by qty_lots; the order keeps its time priority. Raises `Rejected`."""
        return await self._run(self.core.amend(order, CommandKind.REDUCE, qty_lots))

    async def replace(
        self, order: Order, qty_lots: int, price_ticks: int | None = None, *, price: Price | None = None, terms: Terms = NO_TERMS
    ) -> Order:  # fmt: skip
        """Gives an order a new total quantity (fills included) and price, in ticks or in money; by default it keeps its price. `terms`: the
        new expiry, minimum, stop, trail or touch price, only those that change. Raises `Rejected`.

        It keeps its time priority only if the price stays and the quantity does not grow; see docs/orders.md.
        """
        return await self._run(self.core.replace(order, qty_lots, price_ticks, price, terms))

    async def mass_cancel(self, symbol: str | None = None) -> None:
        """Cancels all our orders, in one symbol or in all."""
        await self._run(self.core.mass_cancel(symbol))

    async def book(self, symbol: str, depth: int = 10) -> tuple[list[Level], list[Level]]:
        """(bids, asks), best first, at most `depth` levels each (0: all).

        Queries the exchange, unless the book is kept up to date by `follow`.
        """
        return await self._run(self.core.book(symbol, depth))

    async def follow(self, symbol: str, channel: str = "l2") -> L2Book | L3Book:
        """Keeps a book up to date from the feed; `book` then needs no query.

        channel: "l2" for price levels, "l3" for single orders; UnknownChannel for others.
        """
        check_book_channel(channel)
        return await self._run(self.core.follow(symbol, channel))

    async def trades(self, symbol: str, count: int = 100) -> list[Trade]:
        """The last trades of the market, newest last."""
        return await self._run(queries.trades(self.core, symbol, count))

    async def news(self, count: int = 100) -> list[News]:
        """The last news messages of the exchange, newest last."""
        return await self._run(queries.news(self.core, count))

    async def status(self, symbol: str) -> SymbolStatus:
        """Whether the symbol is halted and why, and its phase."""
        return await self._run(queries.status(self.core, symbol))

    async def rules(self, symbol: str) -> SymbolRules:
        """What quantities and prices of the symbol must fit: `lot_multiple`, `tick_table` and the price band, as they are now. An order that does not fit is
        rejected (BAD_QTY, BAD_PRICE, OUTSIDE_BAND). Raises `RequestRejected` if the exchange is of a version without this query."""
        return (await self.rules_of([symbol]))[0]

    async def rules_of(self, symbols: Iterable[str]) -> list[SymbolRules]:
        """The `rules` of several symbols, with one wait for all replies."""
        return await self._run(queries.rules_of(self.core, symbols))

    async def account(self) -> dict[str, Balance]:
        """Position, cash, profit and fees in money over all sessions, by symbol name; symbols in which all of them are zero are left out.

        Raises `RequestRejected` if the exchange has operators or tokens and ours is missing.
        """
        return await self._run(queries.account(self.core))

    async def balances(self) -> dict[str, AssetBalance]:
        """Our balance of each asset, by name: the total, and the part that open orders reserve (docs/orders.md, Assets and balance checks).

        Empty for an account that has neither deposits nor balance checks. Raises `RequestRejected` as `account` does.
        """
        return await self._run(queries.balances(self.core))

    async def ask(self, kind: int, *values: Any) -> list[Any]:
        """Sends any query of docs/protocol.md and returns the whole reply. Raises `RequestRejected`."""
        return await self._run(self.core.ask(kind, *values))

    async def ask_all(self, queries: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        """Pipelines queries (kind, values ..), without waiting for each reply in turn; returns the whole replies. Raises `RequestRejected`."""
        return await self._run(self.core.ask_all(queries))

    async def wait(self, timeout_s: float = 1.0) -> InboxItem | None:
        """The next report, grant or message of a subscribed channel; None if nothing arrives within timeout_s.

        Also processes everything that has arrived: orders, positions and followed books are up to date afterwards.
        """
        return await self._run(self.core.next_item(timeout_s))

    async def wait_all(self, timeout_s: float = 1.0) -> list[InboxItem]:
        """Everything that `wait` would return one by one; empty if nothing arrives within timeout_s. For high rates."""
        return await self._run(self.core.next_items(timeout_s))

    async def turn(self, time_ns: int) -> Grant:
        """Lockstep clock: promises that nothing from us arrives before time_ns; returns at our turn, with the feed complete.

        Raises `ExchangeUnreachable` if the exchange is silent for `silence_s` (see `session.limits`): it sends heartbeats even while another
        participant takes a long turn. Raises `SessionEnded` if it was restarted.
        """
        return await self._run(take_turn(self.core, time_ns))

    async def close(self) -> None:
        """Logs out. Orders stay in the book unless the session has `cancel_on_disconnect`. In a fork does nothing."""
        if self.core.is_forked:
            return
        self._arrivals.close()
        await asyncio.to_thread(self.core.close)  # sending what is still queued may take half a second

    async def __aenter__(self) -> "AsyncExchange":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
