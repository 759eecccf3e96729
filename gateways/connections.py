"""Limits on the TCP connections that a gateway accepts, in total and per address."""

import functools
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import click

from serl.exchange.log import log
from serl.exchange.open_files import raise_open_files

BACKLOG = 32
"""Maximum number of connections that asyncio accepts in one turn of its loop, so that a flood of them does not starve other tasks. Until a refused
one is closed, it accepts for three more turns."""
QUEUE = 1024
"""Maximum number of connections that wait in the system to be accepted."""
RESERVED = 128 + 4 * BACKLOG
"""Descriptors kept for the exchange's sockets, files, the standard streams, and connections that are being refused."""


class SupportsFileno(Protocol):
    """A socket."""

    def fileno(self) -> int:
        """The file descriptor."""


class ConnectionLimits(NamedTuple):
    """How many connections may be open.

    Attributes:
        total: from all addresses together.
        per_address: from a single address.
    """

    total: int
    per_address: int

    def exceeded(self, open_addresses: Iterable[str], address: str) -> int:
        """The limit that one more connection from an address would exceed; 0 if it is permitted. O(open connections), microseconds per hundred."""
        total = own = 0
        for each in open_addresses:
            total += 1
            own += each == address
        return self.total if total >= self.total else self.per_address if own >= self.per_address else 0


REQUESTS = ConnectionLimits(total=1024, per_address=300)
"""Defaults for gateways whose clients open connections for requests and streams as they need them."""
SESSIONS = ConnectionLimits(total=256, per_address=128)
"""Defaults for gateways with one connection per session."""


def permitted(limits: ConnectionLimits) -> ConnectionLimits:
    """Lets the process open this many connections, as far as the system permits. Returns the permitted limits, and logs if they are lower."""
    wanted = limits.total + RESERVED
    allowed = raise_open_files(wanted)
    if allowed is None or allowed >= wanted:
        return limits
    total = max(1, allowed - RESERVED)
    log(
        "few_descriptors",
        f"--connections: expected a limit of {wanted} open files for {limits.total} connections, got {allowed}: "
        f"{total} connections are served; raise it with ulimit -n",
    )
    return limits._replace(total=total)


def lengthen_queues(sockets: Iterable[SupportsFileno]) -> None:
    """Lets QUEUE connections wait at listening sockets: asyncio uses one number, BACKLOG, for both the queue and the turn."""
    for each in sockets:
        with socket.socket(fileno=os.dup(each.fileno())) as same:
            same.listen(QUEUE)


def connection_options(limits: ConnectionLimits) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds --connections and --connections-per-address, with these defaults, to a command, which receives `connections`, ConnectionLimits."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--connections",
            default=limits.total,
            show_default=True,
            type=click.IntRange(1),
            help="Maximum number of open connections.",
        )
        @click.option(
            "--connections-per-address",
            default=limits.per_address,
            show_default=True,
            type=click.IntRange(1),
            help="Maximum number of open connections of one address.",
        )
        @functools.wraps(command)
        def with_connections(connections: int, connections_per_address: int, **options: Any) -> None:
            command(connections=ConnectionLimits(connections, connections_per_address), **options)

        return with_connections

    return add
