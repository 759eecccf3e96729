"""Free loopback ports, and the processes that use the others."""

import contextlib
import os
import secrets
import socket
import sys
from collections import deque
from pathlib import Path

from serl.exchange.errors import SerlError

PORTS = 4
"""Consecutive ports of an exchange."""

CLAIMED = 64
"""Number of claims that a process keeps; an exchange needs its claim only for the seconds in which it starts."""

_claims: deque[socket.socket] = deque()

LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp (include/net/tcp_states.h)."""


class NoFreePort(SerlError, RuntimeError):
    """There are no free ports."""


def free_port() -> int:
    """A loopback port that is free together with the next three, below the ephemeral ports of outgoing connections.

    No other caller gets the port for a while, because an exchange binds its ports some time after they are chosen.
    """
    for _ in range(1000):
        port = secrets.randbelow(5000) * PORTS + 10_000
        if _claim(port) and all(port_is_free(port + offset) for offset in range(PORTS)):
            return port
    raise NoFreePort(
        f"expected {PORTS} consecutive free ports on 127.0.0.1 from 10000 to 30000, got none; stop a process that listens there"
    )


def _claim(port: int) -> bool:
    """Claims a port among the processes of this machine that look for free ones, until this process ends or has claimed CLAIMED others.

    The claim is the name of a socket that Linux keeps outside the file system; elsewhere there are no claims.
    """
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0serl-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    if len(_claims) > CLAIMED:
        _claims.popleft().close()
    return True


def port_is_free(port: int) -> bool:
    """Whether an exchange could be started on 127.0.0.1:port."""
    with socket.socket() as probe:
        # as servers do: connections in TIME_WAIT do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listening_process(port: int) -> str | None:
    """The process that listens on a port, like 'python (process 123)'. None without /proc, or if another user owns it."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(port)}
    for folder in Path("/proc").glob("[0-9]*/fd") if inodes else ():
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            if any(os.readlink(link) in inodes for link in folder.iterdir()):
                return f"{(folder.parent / 'comm').read_text().strip()} (process {folder.parent.name})"
    return None


def _inodes(port: int) -> list[str]:
    found = []
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if table.exists():
            for line in table.read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
                    found.append(columns[9])
    return found
