"""The queries socket: snapshots, last trades, statistics. Answered between two runs of the compiled loop."""

import time
from collections import Counter
from typing import Any

import numpy as np
import zmq

from serl.exchange import wire
from serl.exchange.account import account_rows
from serl.exchange.budget import Budget
from serl.exchange.clock import Clock
from serl.exchange.core import Core
from serl.exchange.feed import symbol_status
from serl.exchange.gateway.state import MESSAGES_RECEIVED, THROTTLED_MESSAGES
from serl.exchange.holdings import holdings
from serl.exchange.journal.unreadable import readable
from serl.exchange.login import Credential, Login
from serl.exchange.news_channel import NewsChannel
from serl.exchange.peer import Peer, Refusals
from serl.exchange.records import FEE_COLUMNS, MAKER_FEE, EventFlag, EventKind, Setting
from serl.exchange.rejections import Rejections
from serl.exchange.requests import Requests
from serl.exchange.sessions import Sessions
from serl.exchange.symbol_rules import SymbolRules
from serl.exchange.unread_replies import UnreadReplies
from serl.exchange.wire import Kind, RequestError, pack


class Queries:
    """Answers the queries socket."""

    def __init__(
        self, core: Core, clock: Clock, sessions: Sessions, login: Login, refusals: Refusals,
        socket: "zmq.Socket[bytes]", budget: Budget, unread: UnreadReplies, news: NewsChannel,
    ) -> None:  # fmt: skip
        self._core = core
        self._clock = clock
        self._sessions, self._news = sessions, news
        self._login, self._refusals = login, refusals
        self.requests = Requests(socket, self._reply, budget, refusals, unread)
        self._rejections, self._started = Rejections(core), time.monotonic()

    def _reply(self, message: list[Any], peer: Peer) -> bytes:
        kind, request = message[0], message[1]
        if kind == Kind.ACCOUNT:
            token, name = wire.expect(message, "[136, request, token, name]", int, str, str)[1:]
            result: Any = self._account(self._participant(Credential(token, peer.key), name, peer, "ACCOUNT"))
        elif kind == Kind.FEES:
            token, name = wire.expect(message, "[137, request, token, name]", int, str, str)[1:]
            result = self._fees(self._participant(Credential(token, peer.key), name, peer, "FEES"))
        elif kind == Kind.BALANCES:
            token, name = wire.expect(message, "[139, request, token, name]", int, str, str)[1:]
            result = self._balances(self._participant(Credential(token, peer.key), name, peer, "BALANCES"))
        elif kind == Kind.ASSETS:
            (token,) = wire.expect(message, "[140, request, token]", int, str)[1:]
            self._check_data(token, peer, kind)
            result = [[symbol.base or symbol.name, symbol.quote] for symbol in self._core.config.symbols]
        elif kind == Kind.RULES:
            token, symbol = wire.expect(message, "[141, request, token, symbol]", int, str, int)[1:]
            self._check_data(token, peer, kind)
            result = SymbolRules.of_row(self._core.market.state.symbols[self._symbol(symbol)]).reply()
        elif kind == Kind.NEWS:
            token, after = wire.expect(message, "[138, request, token, after]", int, str, int)[1:]
            self._check_data(token, peer, kind)
            result = [self._news.last, [list(each) for each in self._news.messages_after(after)]]
        else:
            message, token = wire.split_token(message)
            self._check_data(token, peer, kind)
            result = self._result(kind, message)
        return pack(
            kind + wire.REPLY,
            request,
            self._core.journal.epoch,
            self._core.event_sequence,
            self._clock.now_ns(),
            result,
        )

    def _check_data(self, token: str, peer: Peer, kind: int) -> None:
        """Raises RequestError unless the sender may read data."""
        if not self._login.permits("data", token, peer.key):
            self._refusals.log(peer.address, f"query {wire.kind_name(kind)}")
            raise RequestError(
                "login",
                "expected the token of a participant that may read data, got none or another; give it with --token-file, or as the last element of the query",
            )

    def _result(self, kind: int, message: list[Any]) -> Any:
        forms = {
            Kind.INFO: "[128, request]", Kind.L2: "[129, request, symbol, depth]", Kind.L3: "[130, request, symbol]",
            Kind.TRADES: "[131, request, symbol, count]", Kind.STATISTICS: "[132, request]", Kind.HASH: "[133, request]",
            Kind.STATUS: "[134, request, symbol]", Kind.INDICATIVE: "[135, request, symbol]",
        }  # fmt: skip
        if kind not in forms:
            raise RequestError("malformed", f"expected a query (128 to 141), got kind {kind}")
        form = forms[Kind(kind)]
        arguments = wire.expect(message, form, *[int] * form.count(","))[1:]
        if kind == Kind.INFO:
            return [wire.VERSION, self._sessions.symbols(), self._clock.describe(), self._sessions.limits]
        if kind == Kind.STATISTICS:
            return self.statistics()
        if kind in (Kind.HASH, Kind.L3, Kind.INDICATIVE):
            self._check_size()
        if kind == Kind.HASH:
            return [self._core.executed_sequence, self._core.market.state_hash()]
        symbol = self._symbol(arguments[0])
        if kind == Kind.L2:
            depth = min(max(arguments[1], 0), self._sessions.limits["depth_max"]) or self._sessions.limits["depth_max"]
            return [[list(level) for level in side.tolist()] for side in self._core.market.book(symbol, depth)]
        if kind == Kind.L3:
            rows = self._core.market.orders(symbol)
            columns = (rows[name].tolist() for name in ("order_number", "side", "price_ticks", "open_lots"))
            return [list(values) for values in zip(*columns, strict=True)]
        if kind == Kind.STATUS:
            return symbol_status(self._core.market.state, symbol)
        if kind == Kind.INDICATIVE:
            return list(self._core.market.indicative(symbol))
        return self._last_trades(symbol, arguments[1])

    def _check_size(self) -> None:
        """Raises RequestError `too_large` if reading every order of the market would take too long."""
        orders, limit = self._orders_open(), self._sessions.limits["snapshot_orders_max"]
        if orders > limit:
            raise RequestError(
                "too_large",
                f"expected at most {limit} open orders (snapshot_orders_max), got {orders}; query L2, or raise the limit",
            )

    def _orders_open(self) -> int:
        return int(self._core.market.state.counters["orders_open"][0])

    def _participant(self, credential: Credential, name: str, peer: Peer, query: str) -> int:
        """The number of a participant whose account the sender may read. Raises RequestError."""
        if not self._login.may_read_account(name, credential):
            self._refusals.log(peer.address, f"{query} of {name[:80]!r}")
            raise RequestError(
                "login", f"participant {name[:80]!r} does not exist or has another token; an operator's works too"
            )
        return self._sessions.participants.number(name)

    def _account(self, participant: int) -> list[list[int]]:
        market = self._core.market
        return account_rows(market.balances()[participant], market.state.symbols)

    def _fees(self, participant: int) -> list[list[int]]:
        """[symbol, fees ...] of every symbol: the fees of the participant's next fills, its own or the symbol's."""
        state = self._core.market.state
        account = state.accounts[participant]
        fees = account[Setting.MAKER_MICROTICKS :][:FEE_COLUMNS].tolist()
        own = fees if account[Setting.OWN_FEES] else None
        of_symbols = state.symbols[: len(self._core.symbols), MAKER_FEE : MAKER_FEE + FEE_COLUMNS].tolist()
        return [[symbol, *(own or fees)] for symbol, fees in enumerate(of_symbols)]

    def _balances(self, participant: int) -> list[Any]:
        """[whether the account has balance checks, [[asset, balance, reserved] ...]], amounts as decimal texts. The list is empty for an account
        with neither checks nor deposits."""
        state, assets = self._core.market.state, self._core.assets
        checked = int(state.accounts[participant, Setting.BALANCE_CHECKS])
        if not checked and not state.deposits[participant].any():
            return [0, []]
        found = holdings(state, participant)
        return [
            checked,
            [
                [assets.names[asset - 1], *(str(assets.money(asset, each)) for each in held)]
                for asset, held in found.items()
            ],
        ]

    def _last_trades(self, symbol: int, count: int) -> list[list[int]]:
        """[match_id, time_ns, price_ticks, qty_lots, aggressor_side, off_book] of each trade, newest last."""
        with readable("older trades"):
            rows = self._core.journal.trades(
                symbol, min(count, self._sessions.limits["trades_kept"]), self._core.gateway
            )
        columns = [rows[name].tolist() for name in ("match_id", "time_ns", "price_ticks", "qty_lots")]
        columns.append((1 - rows["side"].astype(np.int64)).tolist())
        auction = rows["flags"] & EventFlag.AUCTION > 0
        columns.append(np.where(rows["kind"] == EventKind.PRINT, 1, np.where(auction, 2, 0)).tolist())
        return [list(values) for values in zip(*columns, strict=True)]

    def _symbol(self, symbol: int) -> int:
        if not 0 <= symbol < len(self._core.symbols):
            raise RequestError(
                "unknown_symbol", f"expected a symbol number from 0 to {len(self._core.symbols) - 1}, got {symbol}"
            )
        return symbol

    def statistics(self) -> dict[str, Any]:
        """The journal's id, counts of commands and events since its start, current numbers, and other counts since the start of the process."""
        counter, refusals = self._core.gateway.counter, self._refusals
        return {
            "journal": self._core.journal.id,
            "commands": self._core.command_sequence,
            "events": self._core.event_sequence,
            "news": self._news.last,
            "orders_open": self._orders_open(),
            "sessions": self._sessions.count,
            "participants": len(self._core.journal.participants),
            "commands_waiting": self._sessions.commands_waiting,
            "disk_full": int(self._core.journal.is_full),
            "messages": int(counter[MESSAGES_RECEIVED]),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "credentials_refused": refusals.credentials,
            "connections_closed": refusals.connections_closed,
            "errors": dict(refusals.errors + Counter({"throttled": int(counter[THROTTLED_MESSAGES])})),
            "sessions_ended": dict(refusals.sessions_ended),
            "commands_rejected": self._rejections.by_reason(),
        }
