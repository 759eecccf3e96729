"""TWAP on a served exchange: equal slices by market order, then whatever is left at the end of the window."""

import dataclasses
from typing import Any

from serl.agents.execution.order import ParentOrder, twap_targets
from serl.clients.blocking import Exchange
from serl.clients.session import Order, Report
from serl.exchange.errors import SerlError
from serl.exchange.wire import Kind

SECOND_NS = 1_000_000_000


class TooLate(SerlError, ValueError):
    """The window began before the executor was there."""


@dataclasses.dataclass
class Execution:
    """What happened in the window. Prices in ticks, times as the exchange's."""

    order: ParentOrder
    midnight_ns: int = 0
    arrival_mid_ticks: float | None = None
    fills: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)  # time, price, qty, match id
    children: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # time, qty
    mids: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    trades: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)  # match id, time, price, qty
    unfilled_lots: int = 0  # at the end of the window, before forced completion

    @property
    def filled_lots(self) -> int:
        """Everything that was traded for the parent order."""
        return sum(qty for _, _, qty, _ in self.fills)


class TwapExecutor:
    """Runs one parent order; `run` returns when its window is over and everything is answered."""

    def __init__(self, client: Exchange, order: ParentOrder) -> None:
        self.client = client
        self.order = order
        client.instrument(order.symbol)
        kind, self._speed, now_ns, midnight_ns = client.session.clock
        self._lockstep = kind == "lockstep"
        self.result = Execution(order, midnight_ns)
        if now_ns > midnight_ns + order.start_ns:
            raise TooLate(
                f"the window began at {order.start_ns // SECOND_NS} s after midnight, the exchange is at "
                f"{(now_ns - midnight_ns) // SECOND_NS} s: choose a later window, or start the executor before the replay"
            )
        client.subscribe("l1", order.symbol)
        client.subscribe("trade", order.symbol)

    def run(self) -> Execution:
        """The whole window: slices, forced completion, all reports."""
        order = self.order
        times = order.slice_times_ns
        targets = dict(zip(times, twap_targets(order.qty_lots, len(times)), strict=True))
        wakes = sorted({*times, order.end_ns, *range(order.start_ns, order.end_ns, SECOND_NS)})
        for wake_ns in wakes:
            self._wait_until(wake_ns)
            if wake_ns == order.start_ns:
                self._take_arrival()
            if wake_ns in targets:
                self._send(wake_ns, targets[wake_ns])
        self.result.unfilled_lots = order.qty_lots - self.result.filled_lots
        self._send(order.end_ns, order.qty_lots)
        self._wait_until(order.end_ns + (1 if self._lockstep else SECOND_NS))
        self._trim()
        return self.result

    def _send(self, wake_ns: int, target_lots: int) -> None:
        qty_lots = target_lots - self.result.filled_lots
        if qty_lots > 0:
            child: Order = (self.client.buy if self.order.sign < 0 else self.client.sell)(self.order.symbol, qty_lots)
            self.result.children.append((wake_ns, child.qty_lots))
            self._take_inbox()

    def _wait_until(self, wake_ns: int) -> None:
        due_ns = self.result.midnight_ns + wake_ns
        if self._lockstep:
            self.client.turn(due_ns)
        else:
            while (now_ns := self.client.ask(Kind.INFO)[4]) < due_ns:
                wait_s = (due_ns - now_ns) / SECOND_NS / self._speed
                self._take(self.client.wait(min(max(wait_s, 0.0005), 0.05)))
        self._take_inbox()

    def _take_arrival(self) -> None:
        bids, asks = self.client.book(self.order.symbol, 1)
        if bids and asks:
            self.result.arrival_mid_ticks = (bids[0][0] + asks[0][0]) / 2
            self.result.mids.append((self.order.start_ns, self.result.arrival_mid_ticks))

    def _take_inbox(self) -> None:
        inbox = self.client.words.inbox
        while inbox:
            self._take(inbox.popleft())

    def _take(self, item: Any) -> None:
        if isinstance(item, Report):
            if item.kind == 3:
                time_ns = item.time_ns - self.result.midnight_ns
                self.result.fills.append((time_ns, item.price_ticks, item.qty_lots, item.match_id))
        elif isinstance(item, tuple) and item and isinstance(item[0], str):
            self._take_feed(item[0], item[1])

    def _take_feed(self, topic: str, message: list[Any]) -> None:
        _, _, _, _, time_ns, items = message
        if topic.startswith("l1/"):
            if items[0] and items[2]:
                self.result.mids.append((time_ns - self.result.midnight_ns, (items[0] + items[2]) / 2))
            return
        for match_id, traded_ns, price, qty, _, _ in items:
            self.result.trades.append((match_id, traded_ns - self.result.midnight_ns, price, qty))

    def _trim(self) -> None:
        start, end = self.order.start_ns, self.order.end_ns
        self.result.mids = sorted(mid for mid in self.result.mids if start <= mid[0] <= end)
        self.result.trades = [trade for trade in self.result.trades if start <= trade[1] <= end]
