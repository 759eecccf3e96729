"""The part of the client API that does not wait for the exchange, shared by the asyncio and the blocking client."""

from serl.clients.core import ClientCore
from serl.clients.feed_topics import check_channel
from serl.clients.session import Instrument, Order, Report


class Client:
    """A logged-in client; see `serl.clients.asynchronous` and `serl.clients.blocking`."""

    def __init__(self, core: ClientCore) -> None:
        self.core = core
        self.session = core.session

    def send(self, *messages: bytes) -> None:
        """Sends commands that `session` has encoded, without waiting for replies: `wait` returns their reports."""
        for message in messages:
            self.core.send_command(message)

    def subscribe(self, channel: str, symbol: str) -> None:
        """Subscribes to a feed channel: l1, l2, l3, trade, status, rows or auction. `wait` returns its messages. Raises UnknownChannel, UnknownSymbol."""
        check_channel(channel)
        self.core.subscribe(channel, symbol)

    def subscribe_news(self, after: int = -1) -> None:
        """Subscribes to news of all symbols: `wait` returns each message as a `News`, in sequence and without gaps.

        after: number of the last known message; 0 for all that the exchange stores; below 0 for messages from now on.
        """
        self.core.subscribe_news(after)

    def unsubscribe(self, channel: str, symbol: str) -> None:
        """Ends a subscription; a book that followed the channel is no longer kept up to date. Raises UnknownChannel."""
        check_channel(channel)
        self.core.unsubscribe(channel, symbol)

    def instrument(self, symbol: str) -> Instrument:
        """Reference data of a symbol; converts between prices and ticks. Raises `UnknownSymbol`."""
        return self.session.instrument(symbol)

    def open_orders(self) -> list[Order]:
        """Orders of this session that can still trade, except those sent as rows."""
        return self.session.open_orders()

    def fills(self) -> list[Report]:
        """Every fill of this session, oldest first."""
        return self.session.fills

    def position(self, symbol: str) -> int:
        """Lots bought minus lots sold in this session."""
        return self.session.positions.get(self.instrument(symbol).number, 0)
