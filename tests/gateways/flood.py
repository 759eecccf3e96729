"""Ten thousand connections from one address."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from serl.exchange.open_files import raise_open_files
from serl.gateways.connections import RESERVED, ConnectionLimits

COUNT = 10_000
STRANGER = "127.0.0.2"


@contextmanager
def flooded(pid: int, port: int, limits: ConnectionLimits) -> Iterator[None]:
    """Holds the connections, to a gateway that has as many descriptors as it asks for in a shell with few."""
    files = limits.total + RESERVED
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, files))
    allowed = raise_open_files(COUNT + 500)
    if allowed is not None and allowed < COUNT + 500:
        pytest.skip(f"expected a limit of {COUNT + 500} open files, got {allowed}")
    with ExitStack() as closing:
        for _ in range(COUNT):
            closing.enter_context(socket.create_connection(("127.0.0.1", port), 20, (STRANGER, 0)))
        yield
