"""Applies CoinAPI's updates of orders (Level 3). Sizes are kept exactly, and rounded to lots per order."""

from serl.history.coinapi_rows import ADD, DELETE, MATCH, SET, Row, Steps
from serl.history.order_writer import InvalidOrder, OrderWriter
from serl.history.source import Sink

COUNT_NAMES = ("adds_repeated", "sizes_beyond_open")


class CoinApiOrders:
    """The orders of a file. Updates raise `InvalidOrder`."""

    def __init__(self, sink: Sink, steps: Steps) -> None:
        self.steps = steps
        self._counts = dict.fromkeys(COUNT_NAMES, 0)
        self._writer = OrderWriter(sink, 1, removes_crossed=False)
        self._open_units: dict[str, int] = {}
        """[order_id] exact open size."""

    def stamp(self, number: int, time_ns: int) -> None:
        """Sets the number and the time after midnight of the next row."""
        self._writer.stamp(number, time_ns)

    def update(self, row: Row) -> None:
        """Applies a row."""
        open_units = self._open_units.get(row.order_id)
        if row.kind == ADD or (row.kind == SET and row.size_units):
            self._counts["adds_repeated"] += row.kind == ADD and open_units is not None
            self.enter(row)
        elif open_units is None:
            _require_order(row)
            self._writer.counts["orders_unknown"] += 1
        elif row.kind == DELETE or row.kind == SET:
            self._leave(row.order_id, 0, traded=False)
        else:
            self._counts["sizes_beyond_open"] += row.size_units > open_units
            self._leave(row.order_id, max(0, open_units - row.size_units), traded=row.kind == MATCH)

    def enter(self, row: Row) -> None:
        """Enters an order, or changes its size or price."""
        _require_order(row)
        ticks, lots = self.steps.ticks(row), self.steps.lots(row.size_units)
        order = self._writer.orders.get(row.order_id)
        if order is None:
            self._writer.add(row.order_id, 0, row.side, ticks, lots)
        elif order.side != row.side:
            raise InvalidOrder("the side that the order has")
        else:
            self._writer.modify(row.order_id, ticks, lots, keeps_priority=True)
        self._open_units[row.order_id] = row.size_units

    def remove_others(self, snapshot: list[Row]) -> None:
        """Removes the orders that are not in a snapshot."""
        kept = {row.order_id for row in snapshot}
        for order_id in [order_id for order_id in self._open_units if order_id not in kept]:
            self._leave(order_id, 0, traded=False)

    def finish(self) -> None:
        """Writes the last commands."""
        self._writer.flush()

    @property
    def times_ns(self) -> tuple[int, int]:
        """Times of the first command and of the last row."""
        return self._writer.first_time_ns, self._writer.last_time_ns

    def counts(self) -> dict[str, int]:
        """How often each rule applied."""
        return self._writer.all_counts() | self._counts

    def _leave(self, order_id: str, units: int, *, traded: bool) -> None:
        """Reduces an order to this size, by a trade or a cancellation; 0 removes it."""
        lots = self._writer.orders[order_id].lots - self.steps.lots(units)
        if lots and traded:
            self._writer.execute(order_id, lots)
        elif lots:
            self._writer.reduce(order_id, lots)
        if units:
            self._open_units[order_id] = units
        else:
            del self._open_units[order_id]


def _require_order(row: Row) -> None:
    if not row.order_id:
        raise InvalidOrder("an order_id, as in the rows above")
