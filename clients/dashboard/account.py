"""The dashboard's own participant: its positions, profit, open orders and trades; the page's operator enters and cancels its orders."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any

from serl.clients.core import REPLY_TIMEOUT_S, ClientCore
from serl.clients.dashboard.errors import ActionFailed
from serl.clients.dashboard.open_orders import OpenOrders
from serl.clients.dashboard.symbol import time_of_day_s
from serl.clients.errors import (
    ExchangeUnreachable,
    LoginRefused,
    ReportGap,
    RequestRejected,
    SessionEnded,
    refused_command,
)
from serl.clients.session import Report, Session
from serl.exchange.account import Account as Balances
from serl.exchange.errors import SerlError
from serl.exchange.reasons import MEANINGS
from serl.exchange.records import CommandKind, EventFlag, EventKind, Reason, TimeInForce

RETRY_S = 2.0
FILLS_KEPT = 100
ORDERS_SHOWN = 200
"""Maximum number of open orders that a page shows; if there are more, it shows the oldest."""
DONE = {EventKind.ACCEPTED: "accepted", EventKind.CANCELLED: "cancelled"}


class Account:
    """Logs in once it is `active` and requests all stored reports, so that positions include earlier sessions."""

    def __init__(self, endpoint: str, name: str, token: str, curve: Path | None, *, active: bool) -> None:
        self.name, self.active = name, active
        self._endpoint, self._token, self._curve = endpoint, token, curve
        self._core: ClientCore | None = None
        self._login_s = 0.0
        self._queued: list[tuple[Future[str], float, Callable[[], tuple[int, bytes]]]] = []
        self._commands: dict[int, tuple[Future[str], float]] = {}
        self._reset(from_start=True)

    def _reset(self, *, from_start: bool) -> None:
        #: a problem that remains after a login
        self._lasting_problem = (
            ""
            if from_start
            else "the exchange no longer stores older reports: positions, orders and trades count from the login"
        )
        self.problem = self._lasting_problem
        self._session = Session(self.name, self._token)
        self._session.last_report = 0 if from_start else -1
        #: proceeds of sales minus cost of purchases in ticks x lots, by symbol number
        self._cash: dict[int, int] = {}
        #: fees by symbol number, in microticks x lots; below 0: rebates
        self._fees: dict[int, int] = {}
        self._fills: deque[Report] = deque(maxlen=FILLS_KEPT)
        self._open = OpenOrders()
        for future, _ in self._commands.values():
            future.set_exception(ActionFailed("the exchange stopped before it replied"))
        self._commands.clear()
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
            was_live = self._session.live
            self._core.receive()
            if self._session.live and not was_live:
                self.problem = self._lasting_problem
            if not self._session.live and now_s - self._login_s > REPLY_TIMEOUT_S:
                raise ExchangeUnreachable("the exchange does not reply")
            while self._core.inbox:
                self._process(self._core.inbox.popleft())
            self._session.fills.clear()  # grows for as long as the session lasts; `_fills` has the last ones
            if self._session.live:
                self._send_queued(self._core)
        except ReportGap:
            self._disconnect("")
            self._reset(from_start=False)
        except RequestRejected as error:
            self._note_refusal(error)
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
        """Starts again after the exchange was restarted: without a journal it numbers its reports from 1 again, so all of them are read again."""
        self._disconnect("")
        self._reset(from_start=True)

    def _process(self, item: Any) -> None:
        if not isinstance(item, Report):
            return
        self._open.apply(item)
        if item.kind == EventKind.FILL:
            self._fills.append(item)
            signed = item.qty_lots if item.side == 1 else -item.qty_lots
            self._cash[item.symbol] = self._cash.get(item.symbol, 0) + signed * item.price_ticks
        if item.command_id in self._commands and item.kind in (*DONE, EventKind.REJECTED):
            future, _ = self._commands.pop(item.command_id)
            if item.kind == EventKind.REJECTED:
                future.set_exception(
                    ActionFailed(f"rejected: {MEANINGS[Reason(item.reason)]} ({Reason(item.reason).name})")
                )
            else:
                future.set_result(f"order {item.order_id} {DONE[EventKind(item.kind)]}")

    def _note_refusal(self, error: RequestRejected) -> None:
        if (command := self._withdraw(refused_command(error))) is None:
            self.problem = str(error)
        else:
            command.set_exception(ActionFailed(str(error)))

    def _withdraw(self, command_id: int) -> "Future[str] | None":
        """Forgets a command whose action has failed: the next login must not send it again."""
        self._session.withdraw(command_id, "")
        return self._commands.pop(command_id, (None,))[0]

    def _fail_expired(self, now_s: float) -> None:
        expired = [future for future, queued_s, _ in self._queued if now_s - queued_s > REPLY_TIMEOUT_S]
        self._queued = [command for command in self._queued if command[0] not in expired]
        for future in expired:
            future.set_exception(ActionFailed(self.problem or "no reply from the exchange"))
        for command_id in [
            number for number, (_, queued_s) in self._commands.items() if now_s - queued_s > REPLY_TIMEOUT_S
        ]:
            if (sent := self._withdraw(command_id)) is not None:
                why = self.problem or "no reply from the exchange"
                sent.set_exception(ActionFailed(f"{why}; it may still carry this out later"))

    def order(self, future: "Future[str]", symbol: str, side: int, qty_lots: int, price_ticks: int | None) -> None:
        """Queues an order (without a price: a market order), and logs in first if needed; the future receives the exchange's reply."""

        def encode() -> tuple[int, bytes]:
            order, (message,) = self._session.new_order(symbol, side, qty_lots, price_ticks, TimeInForce.GTC, False)
            del self._session.orders[order.order_id]  # `OpenOrders` keeps it
            return order.order_id, message

        self._queue(future, encode)

    def cancel(self, future: "Future[str]", order_id: int) -> None:
        """Queues the cancellation of an open order. Raises `ActionFailed` if the order is not open."""
        if order_id not in self._open:
            raise ActionFailed(f"expected an open order of {self.name}, got {order_id}: it may be filled or cancelled")
        self._queue(future, lambda: self._session.command(CommandKind.CANCEL, order_id))

    def _queue(self, future: "Future[str]", encode: Callable[[], tuple[int, bytes]]) -> None:
        self.active = True
        self._queued.append((future, time.monotonic(), encode))

    def _send_queued(self, core: ClientCore) -> None:
        while self._queued:
            future, queued_s, encode = self._queued.pop(0)
            try:
                command_id, message = encode()
            except SerlError as error:  # another exchange may have started meanwhile, without the symbol
                future.set_exception(error)
                continue
            self._commands[command_id] = (future, queued_s)
            core.send(message)

    @property
    def live(self) -> bool:
        """Whether it is logged in."""
        return self._session.live

    def set_balances(self, rows: list[list[int]]) -> None:
        """Sets the fees from the reply to ACCOUNT."""
        self._fees = {symbol: Balances.from_balances(amounts).fees_microticks for symbol, _, *amounts in rows}

    def as_json(self, mids: dict[int, float | None]) -> dict[str, Any]:
        """The account's state for the page. mids: mid prices in ticks by symbol number; profit = cash + position x mid, in ticks x lots."""
        rows = []
        for symbol, instrument in (
            (instrument.number, instrument) for instrument in self._session.instruments.values()
        ):
            position, cash, mid = self._session.positions.get(symbol, 0), self._cash.get(symbol, 0), mids.get(symbol)
            if not position and not cash:
                continue
            profit = float(cash) if not position else None if mid is None else cash + position * mid
            rows.append(
                {"symbol": instrument.name, "position": position, "profit": profit, "fees": self._fees.get(symbol, 0)}
            )
        names = self._names()
        orders = [
            [order_id, names[order.symbol], order.side, order.open_lots, order.price_ticks or None]
            for order_id, order in islice(self._open.items(), ORDERS_SHOWN)
        ]
        return {
            "name": self.name, "live": self.live, "problem": self.problem, "rows": rows,
            "orders": orders, "open": len(self._open),
        }  # fmt: skip

    def _names(self) -> dict[int, str]:
        return {instrument.number: instrument.name for instrument in self._session.instruments.values()}

    def trades_json(self) -> list[list[Any]]:
        """For the page: [symbol, match_id, time_s, side, qty_lots, price_ticks, role] of the last trades, oldest first."""
        names = self._names()
        return [
            [names[fill.symbol], fill.match_id, time_of_day_s(fill.time_ns), fill.side, fill.qty_lots, fill.price_ticks, role(fill)]
            for fill in self._fills
        ]  # fmt: skip

    def close(self) -> None:
        """Logs out."""
        if self._core is None:
            return
        try:
            self._core.close()
        except (SerlError, OSError):
            self._core.context.destroy(0)


def role(fill: Report) -> str:
    """Whether a fill made or took liquidity, or was in an auction."""
    if fill.flags & EventFlag.AUCTION:
        return "auction"
    return "maker" if fill.flags & EventFlag.MAKER else "taker"
