"""A strategy that tests act through."""

from decimal import Decimal
from typing import Any

from nautilus_trader.config import StrategyConfig
from nautilus_trader.core.uuid import UUID4
from nautilus_trader.model.enums import BookType, ContingencyType, TimeInForce
from nautilus_trader.model.identifiers import InstrumentId
from nautilus_trader.model.objects import Price, Quantity
from nautilus_trader.model.orders import LimitOrder
from nautilus_trader.trading.strategy import Strategy

DEMO = InstrumentId.from_str("DEMO.SERL")


class Script(Strategy):
    """Subscribes to everything if it is given a type of book, and keeps what it hears."""

    def __init__(
        self, book_type: BookType | None = None, tag: str = "001", *, external: bool = False, name: InstrumentId = DEMO
    ) -> None:
        claims = [name] if external else None
        super().__init__(StrategyConfig(order_id_tag=tag, external_order_claims=claims))
        self.book_type, self.name = book_type, name
        self.data: list[Any] = []
        self.statuses: list[Any] = []
        self.events: list[Any] = []
        self.instrument: Any = None

    def on_start(self) -> None:
        self.instrument = self.cache.instrument(self.name)
        if self.book_type is not None:
            self.subscribe_order_book_deltas(self.name, self.book_type)
            self.subscribe_quote_ticks(self.name)
            self.subscribe_trade_ticks(self.name)
            if self.name == DEMO:  # Binance has no such stream
                self.subscribe_instrument_status(self.name)

    def on_stop(self) -> None:
        """Leaves everything as it is."""

    def on_order_book_deltas(self, deltas: Any) -> None:
        self.data.append(deltas)

    def on_quote_tick(self, tick: Any) -> None:
        self.data.append(tick)

    def on_trade_tick(self, tick: Any) -> None:
        self.data.append(tick)

    def on_instrument_status(self, data: Any) -> None:
        self.statuses.append(data)

    def on_order_event(self, event: Any) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [item for item in self.data if isinstance(item, kind)]

    def events_of(self, order: Any) -> list[Any]:
        return [event for event in self.events if event.client_order_id == order.client_order_id]

    def said(self, order: Any) -> list[str]:
        """Names of an order's events, without those that the node makes itself."""
        named = [type(event).__name__ for event in self.events_of(order)]
        return [name for name in named if "Pending" not in name and name != "OrderInitialized"]

    def send(self, order: Any) -> Any:
        self.submit_order(order)
        return order

    def money(self) -> Decimal:
        (balance,) = self.cache.account_for_venue(DEMO.venue).balances().values()
        return Decimal(balance.total.as_decimal())

    def limit_order(self, own: Any, other: Any, side: Any, price: str) -> Any:
        """One of an OCO pair."""
        return LimitOrder(
            self.trader_id, self.id, DEMO, own, side, Quantity.from_int(5), Price.from_str(price), UUID4(), self.clock.timestamp_ns(),
            time_in_force=TimeInForce.GTC, contingency_type=ContingencyType.OCO, linked_order_ids=[other],
        )  # fmt: skip


def levels_of(levels: Any) -> list[tuple[int, int]]:
    """(price in ticks of a cent, lots) of the levels of a book."""
    return [(round(float(level.price) * 100), int(level.size())) for level in levels]
