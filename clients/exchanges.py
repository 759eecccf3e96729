"""One client of several exchanges that together trade the symbols of a market."""

import time
from pathlib import Path
from types import TracebackType

import zmq

from serl.clients.blocking import Exchange, connect
from serl.clients.inbox import InboxItem
from serl.clients.values import Balance
from serl.exchange.directory import read_directory
from serl.exchange.errors import ConfigError

SERVED_S = 1.0
"""`wait` services each session at least this often, which keeps it alive."""


class Exchanges:
    """A session with each exchange of a directory that is in use: `exchanges["AMZN"]` is the client of the exchange that trades AMZN.

    Each exchange has its own journal, clock, accounts and limits. Positions and cash are kept by symbol anyway, but balance checks, the order of
    events and mass cancels do not span exchanges.
    """

    def __init__(
        self, directory: Path | str, name: str = "client", token: str = "", *, curve: Path | None = None,
        cancel_on_disconnect: bool = False, replace: bool = False,
    ) -> None:  # fmt: skip
        """Reads the directory; each session begins with its first use.

        Args:
            directory: a file like `exchanges: [{endpoint: tcp://127.0.0.1:5570, symbols: [AMZN]}]`.
            name, token, curve, cancel_on_disconnect, replace: see `serl.clients.blocking.connect`.

        Raises:
            ConfigError: the file is not a directory of exchanges.
        """
        self.directory = read_directory(Path(directory))
        self._arguments = (name, token)
        self._options = {"curve": curve, "cancel_on_disconnect": cancel_on_disconnect, "replace": replace}
        self._clients: dict[str, Exchange] = {}
        self._waiting: list[tuple[Exchange, InboxItem]] = []

    def __getitem__(self, symbol: str) -> Exchange:
        """The client of the exchange that trades a symbol, logged in.

        Raises:
            ConfigError: the directory has no exchange for the symbol, or that exchange does not trade it.
            ExchangeUnreachable, LoginRefused: see `connect`.
        """
        endpoint = self.directory.endpoint(symbol)
        if endpoint not in self._clients:
            self._clients[endpoint] = self._connected(endpoint)
        return self._clients[endpoint]

    def _connected(self, endpoint: str) -> Exchange:
        client = connect(endpoint, *self._arguments, **self._options)
        traded = client.session.instruments
        if missing := [symbol for symbol in self.directory.symbols_at(endpoint) if symbol not in traded]:
            client.close()
            raise ConfigError(
                f"{self.directory.path}: expected {', '.join(missing)} at {endpoint}, which trades {', '.join(traded)}; correct the directory"
            )
        return client

    def connect_all(self) -> None:
        """Logs in to every exchange of the directory."""
        for symbols in self.directory.symbols.values():
            self[next(iter(symbols))]

    def wait(self, timeout_s: float = 1.0) -> tuple[Exchange, InboxItem] | None:
        """The next report or message of any exchange that is in use, with its client; None if nothing arrives within timeout_s."""
        until_s = time.monotonic() + timeout_s
        while not self._waiting:
            for client in self._clients.values():
                self._waiting += [(client, item) for item in client.wait_all(0.0)]
            left_s = until_s - time.monotonic()
            if self._waiting or left_s <= 0:
                break
            self._poll(min(left_s, SERVED_S))
        return self._waiting.pop(0) if self._waiting else None

    def _poll(self, timeout_s: float) -> None:
        """Returns when anything has arrived, or after timeout_s."""
        poller = zmq.Poller()
        for client in self._clients.values():
            for socket in client.core.sockets:
                poller.register(socket, zmq.POLLIN)
        poller.poll(round(1000 * timeout_s))

    def account(self) -> dict[str, Balance]:
        """`Exchange.account` of all exchanges that are in use, together."""
        return {symbol: balance for client in self._clients.values() for symbol, balance in client.account().items()}

    def close(self) -> None:
        """Logs out everywhere."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def __enter__(self) -> "Exchanges":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
