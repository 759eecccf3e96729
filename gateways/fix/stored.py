"""The common part of sessions for orders and for drop copies: a FIX session over a store, whose records are restored once."""

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Any

from serl.gateways.accounts import GatewayAccount
from serl.gateways.fix.interfaces import Owner
from serl.gateways.fix.session import FixSession
from serl.gateways.fix.settings import Settings
from serl.gateways.fix.store import SessionStore


class StoredApplication(ABC):
    """The `Application` of one account. Between two connections only its state remains.

    Attributes:
        store: sequence numbers and messages.
        session: the FIX session, which outlives connections.
    """

    def __init__(self, account: GatewayAccount, settings: Settings) -> None:
        self._account, self._settings = account, settings
        self.store = SessionStore(settings.store, account.login)
        self.session = FixSession(settings.comp_id, account.login, self.store)
        self.session.application = self
        self._loaded = False
        self._loading = threading.Lock()
        self._owner: Owner | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    def load(self) -> None:
        """Restores the state from the store, once; from any thread. Raises ConfigError."""
        with self._loading:
            if self._loaded:
                return
            for record in self.store.load():
                self._restore(record)
            self._loaded = True

    async def open(self, owner: Owner) -> None:
        """Connects to the exchange. Raises SerlError."""
        async with self._opening:
            await self._open(owner)

    @abstractmethod
    def receive(self, message: Any) -> None:
        """See `Application.receive`."""

    @abstractmethod
    def state(self) -> Any:
        """See `Application.state`."""

    @abstractmethod
    def _restore(self, record: list[Any]) -> None:
        """Restores a record of the store."""

    @abstractmethod
    async def _open(self, owner: Owner) -> None:
        """See `open`; one call at a time."""
