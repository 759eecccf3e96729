"""The admin socket: clock, phases, halts, purges, kill switches, drop copies."""

from collections.abc import Callable
from typing import Any

import numpy as np
import zmq

from serl.exchange import wire
from serl.exchange.budget import Budget
from serl.exchange.clock import Clock
from serl.exchange.core import Core
from serl.exchange.errors import ConfigError
from serl.exchange.gateway.state import GatewayState
from serl.exchange.journal.unreadable import readable
from serl.exchange.login import Login, Permission
from serl.exchange.news_channel import NewsChannel
from serl.exchange.peer import Peer, Refusals
from serl.exchange.reasons import described
from serl.exchange.records import ALL_SYMBOLS, CommandKind, EventKind, HaltReason, Phase, Reason, Rows, Setting, command
from serl.exchange.requests import Requests
from serl.exchange.schedule import Schedule
from serl.exchange.sessions import Sessions
from serl.exchange.settings import asset_rows, deposit_row
from serl.exchange.unread_replies import UnreadReplies
from serl.exchange.wire import Kind, RequestError, pack

OPERATE_FORM = (
    "[163, request, token, kind, symbol] or, with a phase or reason, [163, request, token, kind, symbol, flags]"
)
DROP_COPY_FORM = (
    "[166, request, token, name, after] or, with the journal's id, [166, request, token, name, after, journal]"
)
COMMAND_COPY_FORM = "[168, request, token, after] or, with the journal's id, [168, request, token, after, journal]"
FLAGS_MAX = {
    CommandKind.END_DAY: 0,
    CommandKind.HALT: int(max(HaltReason)),
    CommandKind.RESUME: 0,
    CommandKind.PHASE: int(max(Phase)),
    CommandKind.UNCROSS: 0,
}
"""The largest flags of the commands that OPERATE accepts."""
COPIES = (Kind.DROP_COPY, Kind.COMMAND_COPY)
"""The requests that require the permission drop_copy."""
DROP_COPY_ROWS = 16_384
"""Events per DROP_COPY request, and commands per COMMAND_COPY request."""


class Admin:
    """Answers the admin socket; `stop(reason)` ends the exchange."""

    def __init__(
        self,
        core: Core,
        clock: Clock,
        sessions: Sessions,
        login: Login,
        refusals: Refusals,
        socket: "zmq.Socket[bytes]",
        stop: Callable[[str], None],
        budget: Budget,
        unread: UnreadReplies,
        news: NewsChannel,
        schedule: Schedule,
    ) -> None:
        self._core, self._clock, self._sessions, self._news = core, clock, sessions, news
        self._login, self._refusals, self._stop, self._schedule = login, refusals, stop, schedule
        self.requests = Requests(socket, self._reply, budget, refusals, unread, charges_answers=False)

    def _reply(self, message: list[Any], peer: Peer) -> bytes:
        permission: Permission = "drop_copy" if message[0] in COPIES else "operate"
        if not self._login.permits(permission, message[2] if len(message) > 2 else None, peer.key):
            self._refusals.log(peer.address, f"admin request {wire.kind_name(message[0])}")
            raise RequestError(
                "not_permitted",
                f"expected an operator's token, got none or another; give that of a participant with the permission {permission} with --token-file",
            )
        result = self._result(message[0], message)
        core, now_ns = self._core, self._clock.now_ns()
        return pack(message[0] + wire.REPLY, message[1], core.journal.epoch, core.event_sequence, now_ns, result)

    def _result(self, kind: int, message: list[Any]) -> Any:
        if kind == Kind.STOP:
            self._stop("admin STOP")
        elif kind == Kind.CLOCK:
            _, _, time_ns, run = wire.expect(message, "[161, request, token, time_ns, run]", int, str, int, int)
            self._set_clock(lambda: self._clock.set(time_ns, bool(run)))
        elif kind == Kind.SPEED:
            _, _, speed_micro = wire.expect(message, "[164, request, token, speed_millionths]", int, str, int)
            self._set_clock(lambda: self._clock.set_speed(speed_micro / 1e6))
        elif kind == Kind.SNAPSHOT:
            self._core.save_snapshot()
            return self._core.command_sequence
        elif kind == Kind.OPERATE:
            integers = [int] * min(3, max(2, len(message) - 3))
            self._operate(*wire.expect(message, OPERATE_FORM, int, str, *integers)[2:])
        elif kind == Kind.PURGE:
            form = "[165, request, token, name, symbol, flags]"
            return self._purge(*wire.expect(message, form, int, str, str, int, int)[2:])
        elif kind == Kind.KILL:
            form = "[167, request, token, name, on]"
            return self._kill(*wire.expect(message, form, int, str, str, int)[2:])
        elif kind == Kind.DROP_COPY:
            journal = [str] * (len(message) == 6)
            name, after, *wanted = wire.expect(message, DROP_COPY_FORM, int, str, str, int, *journal)[2:]
            return self._of_journal(wanted, lambda: self._drop_copy(name, after))
        elif kind == Kind.COMMAND_COPY:
            journal = [str] * (len(message) == 5)
            after, *wanted = wire.expect(message, COMMAND_COPY_FORM, int, str, int, *journal)[2:]
            return self._of_journal(wanted, lambda: self._command_copy(after))
        elif kind == Kind.PUBLISH_NEWS:
            form = "[169, request, token, kind, symbol, headline, body, value, source]"
            values = wire.expect(message, form, int, str, int, str, str, str, object, str)[2:]
            published = self._news.accept(*values)
            return [published.sequence, published.time_ns]
        elif kind == Kind.DEPOSIT:
            form = "[170, request, token, name, asset, amount]"
            self._deposit(*wire.expect(message, form, int, str, str, str, str)[2:])
        else:
            raise RequestError("malformed", f"expected an admin message (160 to 170), got kind {kind}")
        return 1

    def _set_clock(self, change: Callable[[], None]) -> None:
        before_ns = self._clock.now_ns()
        try:
            change()
        except ConfigError as error:
            raise RequestError("clock", str(error)) from None
        if (now_ns := self._clock.now_ns()) < before_ns:
            self._schedule.set_back(now_ns)

    def _operate(self, kind: int, symbol: int, flags: int = 0) -> None:
        if kind not in FLAGS_MAX:
            kinds = "END_DAY (16), HALT (17), RESUME (18), PHASE (20) or UNCROSS (21)"
            raise RequestError("malformed", f"expected {kinds}, got {kind}")
        flags_max = FLAGS_MAX[CommandKind(kind)]
        if not 0 <= flags <= flags_max:
            raise RequestError("malformed", f"expected flags (a phase, a reason) from 0 to {flags_max}, got {flags}")
        number = self._symbol(symbol)
        if kind == CommandKind.PHASE:
            self._core.execute_journaled()  # commands that wait for the disk also decide whether an auction trades
            self._schedule.prepare_phase(number, flags, self._clock.now_ns())
        self._submit(kind, number, flags)

    def _purge(self, name: str, symbol: int, flags: int) -> int:
        """Cancels the orders of a participant. Returns their number."""
        if not 0 <= flags <= 2:
            raise RequestError("malformed", f"expected flags 0 (both sides), 1 (buys) or 2 (sells), got {flags}")
        checked = symbol if symbol == ALL_SYMBOLS else self._symbol(symbol)
        return int(
            self._submit(CommandKind.PURGE, checked, flags, self._sessions.participants.number(name))["qty_lots"]
        )

    def _kill(self, name: str, on: int) -> int:
        """Activates (1) or lifts (0) the kill switch of a participant. Returns the number of cancelled orders."""
        if on not in (0, 1):
            raise RequestError("malformed", f"expected on 1 (activate) or 0 (lift), got {on}")
        return int(
            self._submit(CommandKind.ACCOUNT, 0, Setting.KILLED, self._sessions.participants.number(name), on)[
                "qty_lots"
            ]
        )

    def _deposit(self, name: str, asset: str, amount: str) -> None:
        """Adds an amount (below 0: a withdrawal) to a participant's balance of an asset."""
        assets, state = self._core.assets, self._core.market.state
        try:
            number, units = assets.number(asset), assets.amount_units(asset, amount)
        except ConfigError as error:
            raise RequestError("malformed", str(error)) from None
        participant = self._sessions.participants.number(name)
        for row in (*asset_rows(assets, state.assets), deposit_row(participant, number, units)):
            self._submit_row(row)

    def _drop_copy(self, name: str, after: int) -> list[Any]:
        """[sequence for the next request, EVENT rows] of a participant, or of all participants if `name` is empty."""
        rows = self._journal_after("event", after, self._core.event_sequence, self._core.journal.events_after)
        next_after = int(rows[-1]["sequence"]) if len(rows) else after
        if name:
            rows = rows[rows["participant"] == self._sessions.participants.number(name)]
        return [next_after, rows.tobytes()]

    def _command_copy(self, after: int) -> list[Any]:
        """[COMMAND rows, names of the participants in the order of their numbers, one per line]."""
        rows = self._journal_after("command", after, self._core.command_sequence, self._core.journal.commands_after)
        return [rows.tobytes(), "\n".join(entry["name"] for entry in self._core.journal.participants)]

    def _of_journal(self, wanted: list[str], copy: Callable[[], list[Any]]) -> list[Any]:
        """A copy, with the id of the journal if the request has one. Raises RequestError if it wants another journal, which may have had rows of the same
        numbers."""
        own = self._core.journal.id
        if wanted and wanted[0] not in ("", own):
            raise RequestError(
                "replay_gone",
                f"expected a request for the journal {own}, got one for {wanted[0]}: the exchange was restarted with another journal; read it from its first row",
            )
        return [*copy(), own] if wanted else copy()

    def _journal_after(
        self, what: str, after: int, last: int, following: Callable[[int, int, GatewayState], Rows | None]
    ) -> Rows:
        """The next rows of the journal after event or command `after`. Raises RequestError if they are not stored."""
        if not 0 <= after <= last:
            raise RequestError(
                "replay_gone",
                f"expected a number up to the last {what}, {last}, got {after}; it belongs to another journal",
            )
        with readable(f"{what} {after + 1}"):
            rows = following(after, DROP_COPY_ROWS, self._core.gateway)
        if rows is None:
            raise RequestError("replay_gone", f"{what} {after + 1} is no longer stored; request a later one")
        return rows

    def _symbol(self, symbol: int) -> int:
        if not 0 <= symbol < len(self._core.symbols):
            last = len(self._core.symbols) - 1
            raise RequestError("unknown_symbol", f"expected a symbol number from 0 to {last}, got {symbol}")
        return symbol

    def _submit(self, kind: int, symbol: int, flags: int, order_id: int = 0, price_ticks: int = 0) -> np.void:
        """Executes a command of the exchange itself. Returns the event that answers it, which is the last one of its participant. Raises
        RequestError if the command was rejected."""
        return self._submit_row(command(kind, symbol=symbol, flags=flags, order_id=order_id, price_ticks=price_ticks))

    def _submit_row(self, row: Rows) -> np.void:
        """The same as `_submit`, for a COMMAND row; sets its participant and time."""
        own, now_ns = self._sessions.participants.exchange(), self._clock.now_ns()
        row["participant"], row["time_ns"] = own, now_ns
        self._core.submit(row)
        answer = self._last_event(own)
        if answer["kind"] == EventKind.REJECTED:
            name, reason = CommandKind(row["kind"][0]).name, Reason(answer["reason"])
            where = "" if row["kind"][0] == CommandKind.DEPOSIT else f" of symbol {row['symbol'][0]}"
            raise RequestError("rejected", f"{name}{where} was rejected: {described(reason)}")
        return answer

    def _last_event(self, participant: int) -> np.void:
        """The newest event of a participant that has one."""
        for rows in self._core.journal.newest_events(self._core.gateway):
            own = rows[rows["participant"] == participant]
            if len(own):
                return own[-1]
        raise AssertionError("every command is answered")
