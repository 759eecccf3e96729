"""The gateway's process: users on the exchange, clients over SoupBinTCP, and the folder that holds their streams."""

import asyncio
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from serl.clients.errors import SessionEnded
from serl.exchange.atomic_file import atomic_file
from serl.exchange.errors import ConfigError
from serl.gateways.accounts import Accounts
from serl.gateways.itch.feed import ItchFeed
from serl.gateways.ouch.link import GONE, RETRY_S, OtherJournal
from serl.gateways.ouch.user import User
from serl.gateways.soup.packets import NO_SESSION, NOT_AUTHORIZED, SESSION_BYTES, Login
from serl.gateways.soup.server import DEFAULT_LIMITS, Refusal, SoupLimits, SoupServer


class OuchGateway:
    """Serves OUCH to the users in `accounts`. Its session lasts as long as the exchange's journal: a new journal begins a new session."""

    def __init__(
        self, endpoint: str, accounts: Accounts, state: Path, report: Callable[[str], None], curve: Path | None = None,
        limits: SoupLimits = DEFAULT_LIMITS, feed_token: str | None = None,
    ) -> None:  # fmt: skip
        self._endpoint, self._curve = endpoint, curve
        self._accounts = accounts
        self._report = report
        self._state = state
        self._lock = _lock(state)
        self._users: dict[str, User] = {}
        self._session = self._stored_session() or self._new_session()
        self.server = SoupServer(self._session, self._authorize, report, limits)
        #: serves market data, if `feed_token` (empty where the exchange has no participants) was given
        self.feed_server = SoupServer(self._session, self._authorize_feed, report, limits)
        self._feed_token = feed_token
        self._feed: ItchFeed | None = None

    def _stored_session(self) -> str:
        path = self._state / "session"
        session = path.read_text().strip() if path.exists() else ""
        if session and (len(session) > SESSION_BYTES or not session.isalnum()):
            raise ConfigError(f"{path}: expected a session of a gateway, got {session[:40]!r}; give another --state")
        return session

    def _new_session(self) -> str:
        """A session name that no earlier session of this folder has used."""
        session = str(int(time.time()))
        while (self._state / session).exists():
            session = str(int(session) + 1)
        self._state.mkdir(parents=True, exist_ok=True)
        with atomic_file(self._state / "session") as file:
            file.write(session.encode())
        return session

    def _check(self, login: Login) -> None:
        account = self._accounts.get(login.user)
        if account is None or not account.proves(login.secret):
            raise Refusal(NOT_AUTHORIZED, "expected the user name and password of an account, got others")
        if login.session not in ("", self._session):
            raise Refusal(NO_SESSION, f"expected session {self._session} or none, got {login.session!r}")

    def _authorize_feed(self, login: Login) -> ItchFeed:
        self._check(login)
        if self._feed is None:
            raise Refusal(NO_SESSION, "the gateway has no feed at the moment")
        return self._feed

    def _authorize(self, login: Login) -> User:
        self._check(login)
        user = self._users.get(login.user)
        if user is None:
            raise Refusal(NO_SESSION, "the user has no session on the exchange")
        return user

    async def open(self) -> None:
        """Logs all users in. Raises the exchange's refusals, and ConfigError."""
        try:
            await self._open_users()
        except OtherJournal as other:
            await self._begin_session(other)
            await self._open_users()

    async def _open_users(self) -> None:
        for login, account in self._accounts.items():
            folder = self._state / self._session / quote(login, safe="").replace(".", "%2E")
            user = User(folder, account, self._endpoint, self._curve, self._report)
            try:
                await user.open()
            except BaseException:
                await user.close()
                raise
            self._users[login] = user
        if self._feed_token is not None:
            folder = self._state / self._session / "%itch"
            feed = ItchFeed(folder, self._endpoint, self._curve, self._feed_token, self._report)
            try:
                await feed.open()
            except BaseException:
                await feed.close()
                raise
            self._feed = feed

    async def _begin_session(self, reason: Exception) -> None:
        await self._close_users()
        before, self._session = self._session, self._new_session()
        self._report(f"session {before} ended, {self._session} begins: the exchange has another journal: {reason}")
        self.server.end_session(self._session)
        self.feed_server.end_session(self._session)

    async def _reopen(self, other: OtherJournal) -> None:
        """Begins another session, and logs all users in as soon as the exchange answers."""
        await self._begin_session(other)
        while True:
            try:
                await self._open_users()
                return
            except OtherJournal as another:
                await self._begin_session(another)
            except GONE as error:
                self._report(f"the exchange went away again: {error}")
                await self._close_users()
                await asyncio.sleep(RETRY_S)

    async def run(self) -> None:
        """Keeps the users on the exchange, until it is cancelled."""
        while True:
            tasks = [asyncio.create_task(self._run_user(login, user)) for login, user in self._users.items()]
            if self._feed is not None:
                tasks.append(asyncio.create_task(self._feed.run()))
            try:
                await asyncio.gather(*tasks)
                await asyncio.Event().wait()  # every user's session was taken over
            except OtherJournal as other:
                await _cancel(tasks)
                await self._reopen(other)
            finally:
                await _cancel(tasks)

    async def _run_user(self, login: str, user: User) -> None:
        serving = asyncio.ensure_future(user.run())
        try:
            await asyncio.wait({serving, user.failure}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (user.failure, serving):
                if ended.done():
                    ended.result()
        except SessionEnded:
            self._report(
                f"{login}: another client took over the participant's session; restart the gateway to get it back"
            )
            del self._users[login]
            for reader in list(user.readers):
                reader.close("another client took over the participant's session")
            await user.close()
        finally:
            await _cancel([serving])
            user.failure.cancel()

    async def _close_users(self) -> None:
        users, self._users = self._users, {}
        for user in users.values():
            await user.close()
        feed, self._feed = self._feed, None
        if feed is not None:
            await feed.close()

    async def close(self) -> None:
        """Disconnects clients, and logs out of the exchange."""
        await self.server.close()
        await self.feed_server.close()
        await self._close_users()
        os.close(self._lock)


def _lock(state: Path) -> int:
    """Takes a lock on the folder, which ends with the process. Raises ConfigError if another gateway has it."""
    state.mkdir(parents=True, exist_ok=True)
    file = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise ConfigError(
            f"{state}: expected a folder of its own, got one that another gateway uses; give another --state"
        ) from None
    return file


async def _cancel(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
