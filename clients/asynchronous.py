"""The asyncio client: the same words as the blocking one, awaited."""

from pathlib import Path
from types import TracebackType
from typing import Any

import zmq
import zmq.asyncio

from serl.clients.book import L2Book, L3Book, Level
from serl.clients.core import Steps, Words
from serl.clients.session import Grant, Instrument, Order, Report, Session
from serl.exchange.records import CommandKind, Side, TimeInForce
from serl.exchange.terms import NO_TERMS, Terms


async def connect(
    endpoint: str = "tcp://127.0.0.1:5570", name: str = "client", token: str = "", *, curve: Path | None = None,
    cancel_on_disconnect: bool = False, replace: bool = False, rows: bool = False,
) -> "AsyncExchange":  # fmt: skip
    """Logs in as participant `name`. curve: a key folder of `serl keys new`; replace: ends a session of ours that lives.

    ExchangeAway if nobody answers, LoginRefused if the exchange does not want us.
    """
    session = Session(name, token, cancel_on_disconnect=cancel_on_disconnect, replace=replace, rows=rows)
    client = AsyncExchange(Words(endpoint, session, curve))
    try:
        await client._run(client.words.login())
    except BaseException:
        client.words.close()
        raise
    return client


class AsyncExchange:
    """A logged-in client. Prices in ticks, quantities in lots: `instrument(symbol).ticks(223.45)` converts.

    One task at a time may use it: replies are told apart, waiting is not.
    """

    def __init__(self, words: Words) -> None:
        self.words = words
        self.session = words.session

    async def _run(self, steps: Steps) -> Any:
        poller = zmq.asyncio.Poller()
        for socket in self.words.sockets:
            poller.register(socket, zmq.POLLIN)
        try:
            while True:
                next(steps)
                await poller.poll(50)
                self.words.receive()
        except StopIteration as done:
            return done.value

    async def buy(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *,
        time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """Buys; without a price at the market. `terms` as docs/orders.md explains them. The order after its first report; Rejected if it was not taken."""
        return await self._run(
            self.words.order(symbol, Side.BUY, qty_lots, price_ticks, time_in_force, post_only, terms)
        )

    async def sell(
        self, symbol: str, qty_lots: int, price_ticks: int | None = None, *,
        time_in_force: TimeInForce = TimeInForce.GTC, post_only: bool = False, terms: Terms = NO_TERMS,
    ) -> Order:  # fmt: skip
        """Sells; see `buy`."""
        return await self._run(
            self.words.order(symbol, Side.SELL, qty_lots, price_ticks, time_in_force, post_only, terms)
        )

    async def cancel(self, order: Order) -> Order:
        """Takes an order out of the book."""
        return await self._run(self.words.change(order, CommandKind.CANCEL))

    async def reduce(self, order: Order, qty_lots: int) -> Order:
        """Takes qty_lots off what is open; the order keeps its place."""
        return await self._run(self.words.change(order, CommandKind.REDUCE, qty_lots))

    async def replace(self, order: Order, qty_lots: int, price_ticks: int) -> Order:
        """New total quantity and price; docs/orders.md says when the order keeps its place."""
        return await self._run(self.words.change(order, CommandKind.REPLACE, qty_lots, price_ticks))

    async def mass_cancel(self, symbol: str | None = None) -> None:
        """Cancels all orders of ours, of one symbol or of all."""
        await self._run(self.words.mass_cancel(symbol))

    async def book(self, symbol: str, depth: int = 10) -> tuple[list[Level], list[Level]]:
        """(bids, asks) as (price_ticks, qty_lots, orders), best first."""
        return await self._run(self.words.book(symbol, depth))

    async def follow(self, symbol: str, channel: str = "l2") -> L2Book | L3Book:
        """A book that the feed keeps up to date; `book` then needs no query."""
        return await self._run(self.words.follow(symbol, channel))

    async def trades(self, symbol: str, count: int = 100) -> list[list[int]]:
        """The last trades: [match_id, time_ns, price_ticks, qty_lots, aggressor_side, off_book], newest last."""
        return await self._run(self.words.trades(symbol, count))

    async def ask(self, kind: int, *values: Any) -> list[Any]:
        """Any query of docs/protocol.md: the whole reply."""
        return await self._run(self.words.ask(kind, *values))

    async def wait(self, timeout_s: float = 1.0) -> Report | Grant | tuple[str, list[Any]] | None:
        """The next report, grant or (topic, feed message); None if none came in time."""
        return await self._run(self.words.next_item(timeout_s))

    async def turn(self, time_ns: int) -> Grant:
        """Lockstep: nothing of ours arrives before time_ns; returns when it is our turn, with the feed complete."""
        return await self._run(self.words.turn(time_ns))

    def subscribe(self, channel: str, symbol: str) -> None:
        """Asks for a feed channel: l1, l2, l3, trade, status, rows or auction; its messages come with `wait`."""
        self.words.subscribe(channel, symbol)

    def instrument(self, symbol: str) -> Instrument:
        """Reference data of a symbol, and its conversion between prices and ticks."""
        return self.session.instrument(symbol)

    def fills(self) -> list[Report]:
        """Every fill of this session."""
        return self.session.fills

    def position(self, symbol: str) -> int:
        """Lots bought minus lots sold in this session."""
        return self.session.positions.get(self.instrument(symbol).number, 0)

    async def close(self) -> None:
        """Says BYE; orders stay in the book unless the session asked for cancel_on_disconnect."""
        self.words.close()

    async def __aenter__(self) -> "AsyncExchange":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
