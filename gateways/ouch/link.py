"""The session of one user on the exchange."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from serl.clients.asynchronous import AsyncExchange
from serl.clients.core import ClientCore
from serl.clients.errors import ExchangeUnreachable, LoginRefused, ReportGap, RequestRejected, SessionEnded, no_reply
from serl.clients.session import Session
from serl.exchange.errors import SerlError
from serl.exchange.records import COMMAND, CommandKind, Rows
from serl.exchange.wire import Kind
from serl.gateways.accounts import GatewayAccount
from serl.gateways.soup.stream import Mark

AWAY_S = 5.0
"""An exchange that sends nothing for this long, not even a heartbeat, counts as away."""
LOGIN_S = 2.0
RETRY_S = 0.5
WAIT_S = 0.25
REFUSED_RETRY_S = 0.05
"""Delay before commands that the exchange did not accept (rate limit, full disk) are sent again."""
RETRY_CODES = ("throttled", "disk_full")
UNANSWERED_ROWS_MAX = 16_384
"""Maximum number of commands without a report; with more, no further messages are received from the user."""
REPEATABLE = [int(CommandKind.CANCEL), int(CommandKind.REDUCE), int(CommandKind.MASS_CANCEL)]
"""Commands that are sent again after the exchange was away; orders are not, because the market may have moved."""


class OtherJournal(SerlError):
    """The exchange has another journal than the one whose reports the stream contains."""


class LinkSession(Session):
    """A session that requests the last report again at each login: in another journal it differs.

    Attributes:
        logins: number of WELCOMEs received.
        last_command_id: the last command of ours that the exchange had at the last login.
        answered_id: the largest id of a command that has a report.
        answered_before: `answered_id` at the time when the last login was sent.
    """

    def __init__(self, name: str, token: str) -> None:
        super().__init__(name, token, rows=True, replace=True)
        self.logins = 0
        self._told = 0, 0.0  # the last time of the exchange, and of this machine's monotonic clock when it arrived
        self.last_command_id = 0
        self.answered_id = self.answered_before = 0

    def hello(self) -> bytes:
        """See Session."""
        self.answered_before = self.answered_id
        if self.last_report > 0:
            self.last_report -= 1
        return super().hello()

    def receive(self, data: bytes) -> list[Any]:
        """See Session."""
        was_live, before_ns = self.live, int(self.clock[2])
        items = super().receive(data)
        if self.clock[2] != before_ns:
            self._told = int(self.clock[2]), time.monotonic()
        for rows in items:
            if rows[-1]["time_ns"] > self.now_ns():
                self._told = int(rows[-1]["time_ns"]), time.monotonic()
        if self.live and not was_live:
            self.last_command_id = int(msgpack.unpackb(data, strict_map_key=False)[5])
            self.logins += 1
        return items

    def now_ns(self) -> int:
        """The exchange's time, as far as it is known; not before the last report."""
        told_ns, heard_s = self._told
        return told_ns + int((time.monotonic() - heard_s) * 1e9 * float(self.clock[1] or 0))


class Link:
    """Keeps a user logged in, sends commands and delivers reports.

    Attributes:
        session: the user's session on the exchange.
        unanswered: commands without a report, as they were sent.
    """

    def __init__(
        self, endpoint: str, curve: Path | None, account: GatewayAccount, report: Callable[[str], None]
    ) -> None:
        self._endpoint, self._curve = endpoint, curve
        self._account = account
        self._report = report
        self.session = LinkSession(account.participant, account.token)
        self.unanswered: deque[Rows] = deque()
        self.unanswered_rows = 0
        self._client: AsyncExchange | None = None
        self._heard_s = 0.0
        self._settled = -1  # logins after which `logged_in` was called
        self._resend_s = float("inf")

    @property
    def is_live(self) -> bool:
        """Whether the exchange accepts commands, and the fate of commands that it did not receive before is settled."""
        return self._client is not None and self.session.live and self._settled == self.session.logins

    async def connect(self, mark: Mark) -> None:
        """Logs in; the reports after `mark` follow. Raises the exchange's refusal, ExchangeUnreachable, and OtherJournal."""
        self.session.last_report = mark.number
        client = AsyncExchange(ClientCore(self._endpoint, self.session, self._curve))
        try:
            self._client = client
            client.core.send(self.session.hello())
            deadline = time.monotonic() + LOGIN_S
            while not self.session.live:
                if time.monotonic() > deadline:
                    raise no_reply(self._endpoint, LOGIN_S, with_keys=self._curve is not None)
                item = await client.wait(WAIT_S)
                if item is not None:
                    client.core.inbox.appendleft(item)
                    break
        except ReportGap as gap:
            await self.close()
            raise OtherJournal(str(gap)) from None
        except BaseException:
            await self.close()
            raise
        self._heard_s = time.monotonic()

    async def serve(self, receive: Callable[[Rows], None], logged_in: Callable[[], None]) -> None:
        """Delivers reports until the session ends, which raises SessionEnded, ExchangeUnreachable, LoginRefused or OtherJournal.

        logged_in is called after each login, before anything else is sent.
        """
        assert self._client is not None
        client, core, received = self._client, self._client.core, -1
        while True:
            self.settle(logged_in)
            try:
                item = await client.wait(WAIT_S)
            except RequestRejected as refusal:
                self._refused(refusal)
                continue
            except ReportGap as gap:
                raise OtherJournal(str(gap)) from None
            now_s = time.monotonic()
            if core.received != received:
                received, self._heard_s = core.received, now_s
            self.settle(logged_in)
            if isinstance(item, np.ndarray):
                receive(item)
            if now_s > self._resend_s:
                self._resend_s = float("inf")
                self._send(list(self.unanswered))
            if now_s - self._heard_s > AWAY_S:
                raise ExchangeUnreachable(f"nothing from {self._endpoint} for {AWAY_S:g} s")

    def settle(self, logged_in: Callable[[], None]) -> None:
        """After a login: calls logged_in, and accepts commands from then on."""
        if self.session.live and self.session.logins != self._settled:
            logged_in()
            self._settled = self.session.logins

    def _refused(self, refusal: RequestRejected) -> None:
        if refusal.code in RETRY_CODES:
            self._resend_s = min(self._resend_s, time.monotonic() + REFUSED_RETRY_S)
        else:
            self._report(f"{self._account.participant}: the exchange refused a message: {refusal}")

    def send(self, rows: Rows) -> None:
        """Sends COMMAND rows with their ids."""
        if not len(rows):
            return
        self.unanswered.append(rows)
        self.unanswered_rows += len(rows)
        if self._resend_s == float("inf"):
            self._send([rows])

    def _send(self, parts: list[Rows]) -> None:
        if not parts or not self.session.live or self._client is None:
            return
        rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
        most = int(self.session.limits.get("bulk_rows_max", 1024))
        for first in range(0, len(rows), most):
            try:
                self._client.send(msgpack.packb([Kind.BULK, rows[first : first + most].tobytes()]))
            except ExchangeUnreachable:
                return  # its queue is full: unanswered commands are checked after the next login

    def answered(self, command_id: int) -> None:
        """Forgets the commands up to this id."""
        while self.unanswered:
            first = self.unanswered[0]
            rest = first[first["command_id"] > command_id]
            self.unanswered_rows -= len(first) - len(rest)
            if len(rest):
                self.unanswered[0] = rest
                return
            self.unanswered.popleft()

    def repeat(self) -> Rows:
        """After a login: resends the repeatable commands that the exchange has not received; returns the others, which are forgotten."""
        self._resend_s = float("inf")
        rows = np.concatenate([np.zeros(0, COMMAND), *self.unanswered])
        lost = rows["command_id"] > self.session.last_command_id
        again = lost & np.isin(rows["kind"], REPEATABLE)
        kept = [part for part in (rows[~lost], rows[again]) if len(part)]
        self.unanswered = deque(kept)
        self.unanswered_rows = sum(map(len, kept))
        self._send([rows[again]] if again.any() else [])
        return rows[lost & ~again]

    async def close(self) -> None:
        """Logs out; orders stay open."""
        if self._client is not None:
            client, self._client = self._client, None
            if not self.session.live:
                client.core.orders.linger = 0  # nobody will receive what it still holds
            await client.close()
        self.session.live = False


GONE = (SessionEnded, ExchangeUnreachable, LoginRefused, RequestRejected)
"""Errors that end a connection to an exchange that may come back."""
