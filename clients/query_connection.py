"""Queries without arguments over one persistent connection: with a new one per query, each handshake would wait behind the logins of a busy exchange."""

from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

from serl.exchange.errors import ExchangeUnreachable, RequestRejected
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind


class QueryConnection:
    """Queries an exchange, one query at a time, from any thread."""

    def __init__(self, endpoint: str, curve: Path | None = None, token: str = "") -> None:
        self._arguments = endpoint, "queries", curve, token
        self._lock, self._stack = Lock(), ExitStack()
        self._request: Request | None = None

    def ask(self, kind: Kind) -> Any:
        """Returns the result of a query. Raises ExchangeUnreachable and RequestRejected."""
        with self._lock:
            known = self._request is not None
            try:
                return self._ask(kind)
            except RequestRejected:
                if not known:
                    raise
                self.close()  # after a restart the exchange has another operator token
                return self._ask(kind)

    def _ask(self, kind: Kind) -> Any:
        if self._request is None:
            self._request = self._stack.enter_context(request_socket(*self._arguments))
        try:
            return self._request(kind)[5]
        except ExchangeUnreachable:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection; the next query opens a new one."""
        self._request = None
        self._stack.close()
