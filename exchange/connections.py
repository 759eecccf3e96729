"""The TCP connections of the exchange's sockets: limits on their number and unread bytes, and how to close one."""

import contextlib
import ctypes
import fcntl
import os
import socket
import sys
import termios
import time
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from serl.exchange.budget import processor_time_s
from serl.exchange.log import log
from serl.exchange.open_files import raise_open_files
from serl.exchange.open_sockets import open_sockets
from serl.exchange.peer import Refusals
from serl.exchange.unread_replies import UnreadReplies

RESERVED = 128
"""Descriptors kept for the journal, snapshots, libzmq's own and the standard streams."""


_connect = getattr(ctypes.CDLL(None), "connect", None)


def raise_descriptor_limit(connections_max: int) -> int:
    """Raises the process's limit of open descriptors as far as the system permits. Returns the number of connections that allows, at most connections_max."""
    wanted = 2 * connections_max + RESERVED
    allowed = raise_open_files(wanted)
    if allowed is None or allowed >= wanted:
        return connections_max
    fewer = max(1, (allowed - RESERVED) // 2)
    log(
        "few_descriptors",
        f"connections_max: expected a limit of {wanted} open files for {connections_max} connections, got {allowed}: "
        f"{fewer} connections are served; raise it with ulimit -n",
        connections_max=fewer,
    )
    return min(fewer, connections_max)


PERIOD_S, SHARE, SUSPECT_S = 0.02, 0.02, 0.005
"""The connections are checked once per PERIOD_S, less often if the checks would take more than SHARE of the time. If a check has found one that
may have to be closed, the next check follows after SUSPECT_S: such a connection fills memory meanwhile."""
AHEAD = 64
"""Descriptors above the highest known one that are checked for new connections; once a second all are checked."""
READ_BYTE_S = 7.5e-10
"""Processor time that libzmq's thread takes to read, store and free a byte of an endless message: about 0.7 s per GB, most of it system time for memory."""
ADDRESS_BYTES = 16
"""A socket address of zeros, of family AF_UNSPEC: connecting to it dissolves a connection (connect(2))."""
PART, PART_DESCRIPTORS, PAUSE_S = 64, 512, 0.001
"""The most connections, and descriptors, read at once as one part of a check, which takes about 0.1 ms; and the time between two parts."""


class Connections:
    """Closes connections beyond the maximum number (never those of sessions), and connections whose bytes never become a complete message.

    libzmq accepts every connection; without a limit the process would run out of descriptors, which the journal needs for its files too. libzmq
    also stores the frames of a message, however large, until the last one arrives; until then the exchange does not see them. A connection is
    therefore closed if it has sent more than `unread_bytes_max` since the last message that was read from it, although every complete message
    has been read meanwhile. Only Linux reports how much a connection has received; elsewhere there is no such limit.
    """

    def __init__(
        self, ports: Sequence[int], connections_max: int, unread_bytes_max: int, refusals: Refusals, charge: Callable[[float], None]
    ) -> None:  # fmt: skip
        """ports: that of the orders socket first. charge: called with the seconds that closed connections have cost; new ones wait for them."""
        self._ports, self._orders_port, self.connections_max = frozenset(ports), ports[0], connections_max
        self._unread_bytes_max, self._refusals, self._charge = unread_bytes_max, refusals, charge
        self._next_s = self._next_full_s = self._looked_s = self._took_s = 0.0
        self._parts: list[NDArray[np.void]] = []
        self._read_stop = self._stop = 0  # descriptors read so far in this check, and all that it reads
        self._began_s = 0.0
        self._highest = self._drained = 0
        self._read_bytes = np.zeros(0, np.int64)  # by descriptor: received when a message was last read
        self._is_over = np.zeros(0, np.bool_)  # by descriptor: more than unread_bytes_max was unread at the last check

    @property
    def wait_s(self) -> float:
        """Seconds until `check` has something to do, at least the time between two parts of a check."""
        return PAUSE_S if self._parts else max(PAUSE_S, self._next_s - time.monotonic())

    def check(self, kept: Callable[[int], tuple[Collection[int], Collection[int]]], drained: int) -> None:
        """Reads a part of the connections when it is time, and after the last part closes some. kept: returns the descriptors of sessions, and those
        of them that sent a message since a monotonic time in ns. drained: how often the orders socket has been empty since the start."""
        began = time.monotonic()
        if began < self._next_s:
            return
        worked = (
            processor_time_s()
        )  # a flood on another connection may take the processor meanwhile: that is when checks are needed most
        suspects = False
        if not self._parts:
            self._began_s, self._took_s, self._read_stop, self._stop = began, 0.0, 0, self._descriptors_stop(began)
        stop = min(self._read_stop + PART_DESCRIPTORS, self._stop)
        part, self._read_stop = open_sockets(self._read_stop, stop, self._ports, PART)
        self._parts.append(part)
        if self._read_stop == self._stop:
            found, self._parts = np.concatenate(self._parts), []
            self._highest = int(found["descriptor"].max(initial=0))
            sessions, spoke = kept(int(self._looked_s * 1e9))
            self._looked_s = self._began_s
            suspects = self._close_unread(found, spoke, drained)
            self._close_excess(found["descriptor"], found["port"], sessions)
        now = time.monotonic()
        self._took_s += processor_time_s() - worked
        if not self._parts:
            wait_s = max(self._began_s + PERIOD_S - now, self._took_s / SHARE)
            self._next_s = now + (SUSPECT_S if suspects else wait_s)

    def _descriptors_stop(self, now_s: float) -> int:
        """The end of the descriptors that a check reads (exclusive)."""
        stop = self._highest + 1
        with contextlib.suppress(OSError):
            lowest_free = os.dup(0)
            os.close(lowest_free)
            stop = max(stop, lowest_free)
        if now_s >= self._next_full_s:
            self._next_full_s = now_s + 1.0
            stop = max(stop, 2 * self.connections_max + RESERVED)
        return stop + AHEAD

    def _close_unread(self, found: NDArray[np.void], spoke: Collection[int], drained: int) -> bool:
        """Closes connections with too many unread bytes at this check and the last. Returns whether others have too many at this one only."""
        descriptors, received = found["descriptor"], found["received"]
        before = np.zeros((2, self._highest + 1), np.int64)
        known = descriptors < len(self._read_bytes)
        before[0, descriptors[known]] = self._read_bytes[descriptors[known]]
        before[1, descriptors[known]] = self._is_over[descriptors[known]]
        has_spoken = np.zeros(self._highest + 1, np.bool_)
        has_spoken[[each for each in (*self._refusals.heard, *spoke) if 0 <= each <= self._highest]] = True
        read = has_spoken[descriptors] | (received < before[0, descriptors])
        self._refusals.heard.clear()
        if drained == self._drained:  # messages of the orders socket may wait for the loop
            read |= found["port"] == self._orders_port
        self._drained = drained
        before[0, descriptors[read]] = received[read]
        over = received - before[0, descriptors] > self._unread_bytes_max
        for row in found[over & (before[1, descriptors] != 0)]:
            unread_bytes = int(row["received"] - before[0, row["descriptor"]])
            if unread_bytes - _queued_bytes(row) > self._unread_bytes_max:
                self._charge(unread_bytes * READ_BYTE_S)
                self._refusals.connections_closed += 1
                close_connection(int(row["descriptor"]), int(row["port"]))
        self._read_bytes, self._is_over = before[0], before[1] != 0
        self._is_over[descriptors] = over
        return bool(np.any(over & (before[1, descriptors] == 0)))

    def unread_replies(self, bytes_max: int) -> UnreadReplies:
        """An account of unread replies that closes connections which do not read theirs."""
        return UnreadReplies(bytes_max, self._close_replied)

    def _close_replied(self, descriptor: int) -> None:
        self._refusals.connections_closed += 1
        for port in self._ports - {self._orders_port}:
            close_connection(descriptor, port)

    def _close_excess(
        self, descriptors: NDArray[np.int64], ports: NDArray[np.int64], sessions: Collection[int]
    ) -> None:
        """Closes unauthenticated connections beyond the maximum number, those with the highest descriptors first."""
        excess = len(descriptors) - self.connections_max
        if excess <= 0:
            return
        unauthenticated = np.flatnonzero(~np.isin(descriptors, list(sessions)))[::-1]
        for index in unauthenticated[:excess]:
            self._refusals.connections_closed += 1
            close_connection(int(descriptors[index]), int(ports[index]))


def _queued_bytes(row: np.void) -> int:
    """Bytes that the system has received on a connection and libzmq has not read yet; excludes what libzmq stores."""
    connection = open_connection(int(row["descriptor"]), int(row["port"]))
    if connection is None:
        return 0
    count = bytearray(4)
    with connection:
        fcntl.ioctl(connection, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)


def close_connection(descriptor: int, port: int) -> None:
    """Resets a TCP connection of libzmq to a port of the exchange; libzmq notices it. Does nothing if the descriptor is no longer such a
    connection."""
    connection = open_connection(descriptor, port)
    if connection is not None:
        with contextlib.suppress(OSError), connection:
            _reset(connection)


def _reset(connection: socket.socket) -> None:
    """Ends a connection and discards what the system has received on it and libzmq has not read yet; after `shutdown`, libzmq would read all of
    that, megabytes of a flood. Where the system cannot do that, it shuts the connection down."""
    if _connect is None or _connect(connection.fileno(), bytes(ADDRESS_BYTES), ADDRESS_BYTES):
        connection.shutdown(socket.SHUT_RDWR)


def open_connection(descriptor: int, port: int) -> socket.socket | None:
    """A separate socket object for a connection to a port. It keeps referring to this connection even if another owner closes the descriptor.
    None if the descriptor is not such a connection."""
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
    """A separate socket object for a descriptor. Raises OSError if it is not a socket."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
