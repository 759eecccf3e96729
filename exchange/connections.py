"""The TCP connections of the exchange's sockets: how many there may be, and how one is closed."""

import contextlib
import os
import resource
import socket
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from serl.exchange.log import log
from serl.exchange.peer import Refusals

RESERVED = 128
"""Descriptors kept for the journal, snapshots, libzmq's own and the standard streams."""


def raise_descriptor_limit(connections_max: int) -> int:
    """Lets the process open as many descriptors as the system permits. Returns how many connections that allows, at most connections_max."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections_max + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections_max
    fewer = max(1, (soft - RESERVED) // 2)
    log(
        "few_descriptors",
        f"connections_max: expected a limit of {wanted} open files for {connections_max} connections, got {soft}: "
        f"{fewer} connections are served; raise it with ulimit -n",
        connections_max=fewer,
    )
    return min(fewer, connections_max)


COUNT_S = 0.1
"""Connections are counted at most this often, because that takes milliseconds."""


class Connections:
    """Closes connections beyond a number, never those of sessions. libzmq accepts every connection; without a limit the process would run
    out of descriptors, with which the journal needs files too."""

    def __init__(self, ports: Collection[int], connections_max: int, refusals: Refusals) -> None:
        self._ports, self.connections_max = frozenset(ports), connections_max
        self._counted_s, self._refusals = 0.0, refusals

    def check(self, kept: Callable[[], Collection[int]]) -> None:
        """Closes the excess, those with the highest descriptors first. kept: returns the descriptors of sessions. Costs microseconds below the limit."""
        with contextlib.suppress(OSError):
            lowest_free = os.dup(0)
            os.close(lowest_free)
            if lowest_free < self.connections_max + RESERVED // 2:  # there are hardly more connections than that
                return
        if time.monotonic() - self._counted_s < COUNT_S:
            return
        self._counted_s = time.monotonic()
        open_now = dict(self._open())
        excess = len(open_now) - self.connections_max
        sessions = kept()
        strangers = sorted((each for each in open_now if each not in sessions), reverse=True)
        for descriptor in strangers[: max(0, excess)]:
            self._refusals.connections_closed += 1
            close_connection(descriptor, open_now[descriptor])

    def _open(self) -> Iterator[tuple[int, int]]:
        """Descriptor and port of every connection."""
        for entry in Path("/dev/fd").iterdir():
            if entry.name.isdigit() and (port := _local_port(int(entry.name))) in self._ports:
                yield int(entry.name), port


def close_connection(descriptor: int, port: int) -> None:
    """Closes a TCP connection to a port of the exchange that libzmq holds, which then notices. Does nothing if the descriptor is no such one
    any more."""
    connection = open_connection(descriptor, port)
    if connection is not None:
        with contextlib.suppress(OSError), connection:
            connection.shutdown(socket.SHUT_RDWR)


def open_connection(descriptor: int, port: int) -> socket.socket | None:
    """A socket object of its own for a connection to a port, which stays this connection's whoever closes the descriptor. None if the
    descriptor is no such one."""
    try:
        connection = _duplicate(descriptor)
    except OSError:
        return None
    try:
        connection.getpeername()
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.getsockname()[1] == port:
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _duplicate(descriptor: int) -> socket.socket:
    """A socket object of its own for a descriptor. Raises OSError if it is no socket."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
