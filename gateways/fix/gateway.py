"""The gateway: listens, keeps the accounts, and gives each connection its session."""

import asyncio
import contextlib
import os
import signal

from serl.exchange.errors import ConfigError
from serl.exchange.log import log
from serl.garbage import collect_while_serving
from serl.gateways.accounts import Accounts, GatewayAccount
from serl.gateways.connections import BACKLOG, lengthen_queues, permitted
from serl.gateways.fix.codec import Message
from serl.gateways.fix.connection import Business, Connection
from serl.gateways.fix.drop_copy import DropCopies
from serl.gateways.fix.session import LOGOUT_S
from serl.gateways.fix.settings import Settings
from serl.gateways.fix.trading import Trading

_TICK_S = 0.1
_SYNC_TICKS = 10
_STRANGER = GatewayAccount(participant="stranger", secret="no secret has a zero \0")  # takes as long to refuse


class Gateway:
    """Serves FIX clients until it is stopped."""

    def __init__(self, settings: Settings, accounts: Accounts) -> None:
        self._settings, self._accounts = settings, accounts
        self._limits = permitted(settings.connections)
        self._businesses: dict[str, Trading | DropCopies] = {}
        self._connections: set[Connection] = set()
        self._owners: dict[Business, Connection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self, host: str, port: int) -> None:
        """Starts accepting connections; `port` is then the actual port. Raises ConfigError."""
        try:
            self._server = await asyncio.get_running_loop().create_server(self._accept, host, port, backlog=BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"--listen {host}:{port}: {os.strerror(error.errno or 0)}; choose another address or port"
            ) from None
        lengthen_queues(self._server.sockets)
        self.port = self._server.sockets[0].getsockname()[1]

    async def run(self) -> None:
        """Serves until SIGINT or SIGTERM, then logs everybody out."""
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        ticks = asyncio.create_task(self._tick())
        try:
            await stop.wait()
            await self._stop()
        finally:
            ticks.cancel()

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._connections):
            connection.logout("the gateway stops")
        self._note_empty()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), LOGOUT_S + 1)
        for connection in list(self._connections):
            connection.cut("the gateway stops")
        for business in self._businesses.values():
            await business.close()
            with contextlib.suppress(OSError):
                business.store.close()

    def _accept(self) -> Connection:
        return Connection(self._settings.comp_id, self._admit, self._find, self._left)

    def _admit(self, connection: Connection) -> str:
        """Admits a connection. Returns the reason for refusing it, "" if it is admitted."""
        limit = self._limits.exceeded((each.address for each in self._connections), connection.address)
        if limit:
            return f"expected at most {limit} connections (--connections, --connections-per-address), got more"
        self._connections.add(connection)
        return ""

    def _find(self, connection: Connection, message: Message) -> tuple[Business | None, str]:
        """The session of a Logon, or None and the reason for refusing it."""
        fields = message.fields
        account = self._accounts.get(fields.get("49", ""), _STRANGER)
        is_proven = account.proves(fields.get("554", ""))
        if account is _STRANGER or not is_proven:
            return None, "expected a known SenderCompID (49) with its Password (554), got others"
        if fields.get("56") != self._settings.comp_id:
            return None, f"expected TargetCompID (56) {self._settings.comp_id}, got {fields.get('56', 'none')}"
        business = self._businesses.get(account.login)
        if business is None:
            kind = DropCopies if account.drop_copy else Trading
            business = self._businesses[account.login] = kind(account, self._settings)
        if business in self._owners:
            return None, ""
        if business.store.broken:
            return None, "the store could not be written and will be read again; try later"
        self._owners[business] = connection
        return business, ""

    def _left(self, connection: Connection) -> None:
        self._connections.discard(connection)
        business = connection.business
        if business is not None and self._owners.get(business) is connection:
            del self._owners[business]
            business.session.live = False
            task = asyncio.create_task(self._close(business))
            self._closing.add(task)
            task.add_done_callback(self._released)
        self._note_empty()

    async def _close(self, business: Business) -> None:
        await business.close()
        store = business.session.store
        if store.broken:
            store.close()
            del self._businesses[business.session.login]

    def _released(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        self._note_empty()

    def _note_empty(self) -> None:
        if self._connections or self._closing:
            self._empty.clear()
        else:
            self._empty.set()

    async def _tick(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(_TICK_S)
            count += 1
            for connection in list(self._connections):
                connection.tick()
            if count % _SYNC_TICKS == 0:
                for business in list(self._owners):
                    with contextlib.suppress(OSError):
                        await asyncio.to_thread(business.session.store.sync)


async def serve(settings: Settings, accounts: Accounts, host: str, port: int, ready: str) -> None:
    """Serves FIX clients until a signal. ready: the text to print once it serves, with {port}. Raises ConfigError."""
    gateway = Gateway(settings, accounts)
    await gateway.listen(host, port)
    print(ready.format(port=gateway.port), flush=True)
    collect_while_serving()
    await gateway.run()
    log("fix_stopped", "stopped")
