"""A participant's own session: what it holds, what that is worth, and orders that the page's operator gives."""

import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from serl.clients.core import ANSWER_S, ClientCore
from serl.clients.dashboard.errors import NotSent
from serl.clients.errors import ExchangeAway, LoginRefused, Refused, ReportGap, SessionEnded
from serl.clients.session import Report, Session
from serl.exchange.errors import SerlError
from serl.exchange.records import EventKind, Reason, TimeInForce

AGAIN_S = 2.0
FILLS_SHOWN = 30


class Account:
    """Logs in when it is `wanted` and asks for all reports that are kept, so positions count from the account's first day."""

    def __init__(self, endpoint: str, name: str, token: str, curve: Path | None, *, wanted: bool) -> None:
        self.name, self.wanted = name, wanted
        self._endpoint, self._token, self._curve = endpoint, token, curve
        self._core: ClientCore | None = None
        self._said_s = 0.0
        self._unsent: list[tuple[Future[str], float, tuple[str, int, int, int | None]]] = []
        self._orders: dict[int, tuple[Future[str], float]] = {}
        self._begin(from_start=True)

    def _begin(self, *, from_start: bool) -> None:
        self.problem = "" if from_start else "older reports are not kept: positions count from the login"
        self._session = Session(self.name, self._token)
        self._session.last_report = 0 if from_start else -1
        #: ticks x lots that came in less what went out, by symbol number
        self._cash: dict[int, int] = {}
        self._fills: list[Report] = []
        for future, _ in self._orders.values():
            future.set_exception(NotSent("the exchange went away before it answered"))
        self._orders.clear()
        self._retry_s = 0.0

    def turn(self) -> None:
        """Logs in, and takes what has come; never waits."""
        now_s = time.monotonic()
        self._give_up_late(now_s)
        if not self.wanted or now_s < self._retry_s:
            return
        try:
            if self._core is None:
                self._core = ClientCore(self._endpoint, self._session, self._curve)
                self._hello()
            self._core.receive()
            if not self._session.live and now_s - self._said_s > ANSWER_S:
                raise ExchangeAway("the exchange does not answer")
            while self._core.inbox:
                self._take(self._core.inbox.popleft())
            if self._session.live:
                self._send(self._core)
        except ReportGap:
            self._leave("")
            self._begin(from_start=False)
        except Refused as error:
            self.problem = str(error)
        except (ExchangeAway, LoginRefused, SessionEnded) as error:
            self._leave(str(error))

    def _hello(self) -> None:
        assert self._core is not None
        self._said_s = time.monotonic()
        self._core.say(self._session.hello())

    def _leave(self, problem: str) -> None:
        self.problem, self._retry_s = problem, time.monotonic() + AGAIN_S
        if self._core is not None:
            self._core.context.destroy(0)
            self._core = None
        self._session.live = False

    def restart(self) -> None:
        """Another process is the exchange now. Reports are numbered on where the exchange keeps a journal, and begin anew where it does not: all are taken again."""
        self._leave("")
        self._begin(from_start=True)

    def _take(self, item: Any) -> None:
        if not isinstance(item, Report):
            return
        if item.kind == EventKind.FILL:
            self._fills = [*self._fills[1 - FILLS_SHOWN :], item]
            signed = item.qty_lots if item.side == 1 else -item.qty_lots
            self._cash[item.symbol] = self._cash.get(item.symbol, 0) + signed * item.price_ticks
        if item.kind in (EventKind.ACCEPTED, EventKind.REJECTED) and item.command_id in self._orders:
            future, _ = self._orders.pop(item.command_id)
            if item.kind == EventKind.ACCEPTED:
                future.set_result(f"order {item.order_id} accepted")
            else:
                future.set_exception(NotSent(f"rejected: {Reason(item.reason).name}"))

    def _give_up_late(self, now_s: float) -> None:
        late = [future for future, asked_s, _ in self._unsent if now_s - asked_s > ANSWER_S]
        self._unsent = [one for one in self._unsent if one[0] not in late]
        for command_id in [number for number, (_, asked_s) in self._orders.items() if now_s - asked_s > ANSWER_S]:
            late.append(self._orders.pop(command_id)[0])
        for future in late:
            future.set_exception(NotSent(self.problem or "no answer from the exchange"))

    def order(self, future: "Future[str]", symbol: str, side: int, qty_lots: int, price_ticks: int | None) -> None:
        """Sends an order (without a price at the market), after a login where there was none; the future tells what the exchange said to it."""
        self.wanted = True
        self._unsent.append((future, time.monotonic(), (symbol, side, qty_lots, price_ticks)))

    def _send(self, core: ClientCore) -> None:
        while self._unsent:
            future, asked_s, order = self._unsent.pop(0)
            sent, (message,) = self._session.new(*order, TimeInForce.GTC, False)
            self._orders[sent.order_id] = (future, asked_s)
            core.send(message)

    def shown(self, mids: dict[int, float | None]) -> dict[str, Any]:
        """For the page. mids: in ticks, by symbol number; profit is cash and position at the mid, in ticks x lots."""
        rows = []
        for symbol, instrument in ((one.number, one) for one in self._session.instruments.values()):
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
        """Says BYE."""
        if self._core is None:
            return
        try:
            self._core.close()
        except (SerlError, OSError):
            self._core.context.destroy(0)
