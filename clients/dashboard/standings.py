"""Participants by profit, for operators: their names from COMMAND_COPY, their balances from ACCOUNT, a few at a time."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from serl.clients.dashboard.symbol import SymbolView
from serl.clients.sockets import OnReply, Sockets
from serl.exchange.account import Account
from serl.exchange.wire import Kind

NAMES_S = 10.0
ACCOUNTS_A_COLUMN = 8
"""Number of accounts requested at once; more take turns."""
PENDING_S = 5.0
SHOWN = 100


class Standings:
    """Requests its data while an operator's page is open; the exchange decides whether the token may read it."""

    def __init__(self, sockets: Sockets, token: Callable[[], str]) -> None:
        self._sockets, self._token = sockets, token
        self._process = 0
        self.reset()

    def reset(self) -> None:
        """Starts again after the exchange was restarted."""
        self._names: list[str] = []
        self._accounts: dict[str, list[tuple[int, int, Account]]] = {}
        self._problem = ""
        self._names_s, self._participants, self._turn = -NAMES_S, -1, 0
        self._pending: dict[str, float] = {}
        self._process += 1

    def _request(self, on_reply: OnReply, kind: Kind, *values: Any) -> bool:
        """Sends a request with the token. A new process of the exchange may answer a request made before `reset`: that reply is dropped."""
        process = self._process

        def on_reply_of_process(reply: list[Any], round_trip_s: float) -> None:
            if process == self._process:
                on_reply(reply, round_trip_s)

        return self._sockets.request(on_reply_of_process, kind, self._token(), *values)

    def update(self, statistics: Mapping[str, Any]) -> None:
        """Requests new names, if there are new participants, and some accounts. statistics: the last reply to STATISTICS."""
        if self._problem:
            return  # a refused credential would be refused every time, and the exchange logs each refusal
        now_s = time.monotonic()
        if statistics["participants"] != self._participants or now_s - self._names_s > NAMES_S:
            self._names_s, self._participants = now_s, statistics["participants"]
            self._request(self._on_names, Kind.COMMAND_COPY, statistics["commands"])
        for _ in range(min(ACCOUNTS_A_COLUMN, len(self._names))):
            self._turn = (self._turn + 1) % len(self._names)
            self._request_account(self._names[self._turn], now_s)

    def _on_names(self, reply: list[Any], round_trip_s: float) -> None:
        if reply[0] != Kind.ERROR:
            # the exchange's own name begins with a zero byte; it has no account
            self._names = [name for name in reply[5][1].split("\n") if name and not name.startswith("\0")]
            self._accounts = {name: self._accounts[name] for name in self._names if name in self._accounts}
        elif reply[1] != "replay_gone":
            self._problem = f"the names of the participants cannot be read: {reply[2]}"

    def _request_account(self, name: str, now_s: float) -> None:
        if now_s - self._pending.get(name, -PENDING_S) < PENDING_S:
            return

        def on_account(reply: list[Any], round_trip_s: float) -> None:
            self._pending.pop(name, None)
            if reply[0] == Kind.ERROR:
                self._problem = f"the account of {name} cannot be read: {reply[2]}"
            else:
                self._accounts[name] = [
                    (symbol, last_ticks, Account.from_balances(amounts)) for symbol, last_ticks, *amounts in reply[5]
                ]

        if self._request(on_account, Kind.ACCOUNT, name):
            self._pending[name] = now_s

    def as_json(self, views: Mapping[str, SymbolView], mids: Mapping[int, float | None]) -> dict[str, Any]:
        """For the page: {"problem", "participants": their number, "rows": [[name, profit, fees, {symbol: position_lots}], ...]}, largest profit first.

        mids: mid prices in ticks by symbol number. Profit = cash + position x mid (the last trade if a side is empty), before fees. Both are in currency: symbols have different sizes.
        """
        by_number = {view.number: view for view in views.values()}
        rows: list[list[Any]] = []
        for name, balances in self._accounts.items():
            profit = fees = 0.0
            positions = {}
            for symbol, last_ticks, account in balances:
                view = by_number.get(symbol)
                if view is None:
                    continue  # the symbols are not known yet
                unit = float(view.tick_size) * float(view.lot_size)
                mid = mids.get(symbol)
                profit += (account.cash_ticks + account.position_lots * (last_ticks if mid is None else mid)) * unit
                fees += account.fees_microticks / 1e6 * unit
                if account.position_lots:
                    positions[view.name] = account.position_lots
            if balances:
                rows.append([name, round(profit, 6), round(fees, 6), positions])
        rows.sort(key=lambda row: -row[1])
        return {"problem": self._problem, "participants": len(rows), "rows": rows[:SHOWN]}
