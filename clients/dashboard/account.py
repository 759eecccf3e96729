"""The dashboard's own participant: its positions and profit, and the orders that the page's operator enters."""

import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from serl.clients.core import REPLY_TIMEOUT_S, ClientCore
from serl.clients.dashboard.errors import ActionFailed
from serl.clients.errors import ExchangeUnreachable, LoginRefused, ReportGap, RequestRejected, SessionEnded
from serl.clients.session import Report, Session
from serl.exchange.errors import SerlError
from serl.exchange.records import EventKind, Reason, TimeInForce

RETRY_S = 2.0
FILLS_KEPT = 30


class Account:
    """Logs in once it is `active` and requests all stored reports, so that positions include earlier sessions."""

    def __init__(self, endpoint: str, name: str, token: str, curve: Path | None, *, active: bool) -> None:
        self.name, self.active = name, active
        self._endpoint, self._token, self._curve = endpoint, token, curve
        self._core: ClientCore | None = None
        self._login_s = 0.0
        self._queued: list[tuple[Future[str], float, tuple[str, int, int, int | None]]] = []
        self._orders: dict[int, tuple[Future[str], float]] = {}
        self._reset(from_start=True)

    def _reset(self, *, from_start: bool) -> None:
        self.problem = (
            "" if from_start else "the exchange no longer stores older reports: positions count from the login"
        )
        self._session = Session(self.name, self._token)
        self._session.last_report = 0 if from_start else -1
        #: proceeds of sales less cost of purchases in ticks x lots, by symbol number
        self._cash: dict[int, int] = {}
        self._fills: list[Report] = []
        for future, _ in self._orders.values():
            future.set_exception(ActionFailed("the exchange stopped before it replied"))
        self._orders.clear()
        self._retry_s = 0.0

    def update(self) -> None:
        """Logs in where needed, processes what has arrived and sends queued orders; never waits."""
        now_s = time.monotonic()
        self._fail_expired(now_s)
        if not self.active or now_s < self._retry_s:
            return
        try:
            if self._core is None:
                self._core = ClientCore(self._endpoint, self._session, self._curve)
                self._log_in()
            self._core.receive()
            if not self._session.live and now_s - self._login_s > REPLY_TIMEOUT_S:
                raise ExchangeUnreachable("the exchange does not reply")
            while self._core.inbox:
                self._process(self._core.inbox.popleft())
            if self._session.live:
                self._send_queued(self._core)
        except ReportGap:
            self._disconnect("")
            self._reset(from_start=False)
        except RequestRejected as error:
            self.problem = str(error)
        except (ExchangeUnreachable, LoginRefused, SessionEnded) as error:
            self._disconnect(str(error))

    def _log_in(self) -> None:
        assert self._core is not None
        self._login_s = time.monotonic()
        self._core.send(self._session.hello())

    def _disconnect(self, problem: str) -> None:
        self.problem, self._retry_s = problem, time.monotonic() + RETRY_S
        if self._core is not None:
            self._core.context.destroy(0)
            self._core = None
        self._session.live = False

    def reset(self) -> None:
        """Starts again with a new process of the exchange: without a journal its reports are numbered from 1 again, so all are read again."""
        self._disconnect("")
        self._reset(from_start=True)

    def _process(self, item: Any) -> None:
        if not isinstance(item, Report):
            return
        if item.kind == EventKind.FILL:
            self._fills = [*self._fills[1 - FILLS_KEPT :], item]
            signed = item.qty_lots if item.side == 1 else -item.qty_lots
            self._cash[item.symbol] = self._cash.get(item.symbol, 0) + signed * item.price_ticks
        if item.kind in (EventKind.ACCEPTED, EventKind.REJECTED) and item.command_id in self._orders:
            future, _ = self._orders.pop(item.command_id)
            if item.kind == EventKind.ACCEPTED:
                future.set_result(f"order {item.order_id} accepted")
            else:
                future.set_exception(ActionFailed(f"rejected: {Reason(item.reason).name}"))

    def _fail_expired(self, now_s: float) -> None:
        expired = [future for future, queued_s, _ in self._queued if now_s - queued_s > REPLY_TIMEOUT_S]
        self._queued = [order for order in self._queued if order[0] not in expired]
        for command_id in [
            number for number, (_, queued_s) in self._orders.items() if now_s - queued_s > REPLY_TIMEOUT_S
        ]:
            expired.append(self._orders.pop(command_id)[0])
        for future in expired:
            future.set_exception(ActionFailed(self.problem or "no reply from the exchange"))

    def order(self, future: "Future[str]", symbol: str, side: int, qty_lots: int, price_ticks: int | None) -> None:
        """Queues an order (without a price: a market order), after a login where needed; the future holds the exchange's reply."""
        self.active = True
        self._queued.append((future, time.monotonic(), (symbol, side, qty_lots, price_ticks)))

    def _send_queued(self, core: ClientCore) -> None:
        while self._queued:
            future, queued_s, fields = self._queued.pop(0)
            order, (message,) = self._session.new_order(*fields, TimeInForce.GTC, False)
            self._orders[order.order_id] = (future, queued_s)
            core.send(message)

    def as_json(self, mids: dict[int, float | None]) -> dict[str, Any]:
        """For the page. mids: mid prices in ticks by symbol number; profit = cash + position x mid, in ticks x lots."""
        rows = []
        for symbol, instrument in (
            (instrument.number, instrument) for instrument in self._session.instruments.values()
        ):
            position, cash, mid = self._session.positions.get(symbol, 0), self._cash.get(symbol, 0), mids.get(symbol)
            if not position and not cash:
                continue
            profit = float(cash) if not position else None if mid is None else cash + position * mid
            rows.append({"symbol": instrument.name, "position": position, "cash": cash, "profit": profit})
        names = {instrument.number: instrument.name for instrument in self._session.instruments.values()}
        fills = [
            [names[fill.symbol], fill.match_id, fill.side, fill.qty_lots, fill.price_ticks] for fill in self._fills
        ]
        return {"name": self.name, "live": self._session.live, "problem": self.problem, "rows": rows, "fills": fills}

    def close(self) -> None:
        """Logs out."""
        if self._core is None:
            return
        try:
            self._core.close()
        except (SerlError, OSError):
            self._core.context.destroy(0)
