"""A strategy that sends a list of orders at their times."""

from typing import Any

from nautilus_trader.config import StrategyConfig
from nautilus_trader.model.enums import OrderSide
from nautilus_trader.model.identifiers import InstrumentId
from nautilus_trader.model.objects import Price, Quantity
from nautilus_trader.trading.strategy import Strategy

DEMO = InstrumentId.from_str("DEMO.SERL")
SIDES = (OrderSide.BUY, OrderSide.SELL)
Plan = list[tuple[int, int, int, int | None, int]]
"""(UNIX time in ns, side, lots, price in ticks or None for the market, ns until it is cancelled or 0)."""


def planned_strategy(plan: Plan) -> "Planned":
    """A strategy that sends these orders, and keeps them and their fills."""
    return Planned(plan)


class Planned(Strategy):
    """See `planned_strategy`."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(StrategyConfig())
        self.orders: list[Any] = []
        self._plan = plan
        self._fills: dict[Any, list[Any]] = {}

    def on_start(self) -> None:
        for number, (time_ns, side, lots, ticks, life_ns) in enumerate(self._plan):
            order = self._order(side, lots, ticks)
            self.orders.append(order)
            self.clock.set_time_alert_ns(f"send {number}", time_ns, lambda _, order=order: self.submit_order(order))
            if life_ns:
                self.clock.set_time_alert_ns(
                    f"end {number}", time_ns + life_ns, lambda _, order=order: self._end(order)
                )

    def _order(self, side: int, lots: int, ticks: int | None) -> Any:
        if ticks is None:
            return self.order_factory.market(DEMO, SIDES[side], Quantity.from_int(lots))
        return self.order_factory.limit(DEMO, SIDES[side], Quantity.from_int(lots), Price(ticks / 100, 2))

    def _end(self, order: Any) -> None:
        if order.is_open:
            self.cancel_order(order)

    def on_stop(self) -> None:
        """Leaves everything as it is."""

    def on_order_filled(self, event: Any) -> None:
        self._fills.setdefault(event.client_order_id, []).append(event)

    def fills_of(self, order: Any) -> list[Any]:
        """Fills of an order, oldest first."""
        return self._fills.get(order.client_order_id, [])
