"""Whether a port on loopback is free, and which process has it."""

import contextlib
import os
import socket
from pathlib import Path

LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp (include/net/tcp_states.h)."""


def port_is_free(port: int) -> bool:
    """Whether an exchange could be started on 127.0.0.1:port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what lingers does not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def owner_of(port: int) -> str | None:
    """The process that listens, like 'python (process 123)'. None where /proc does not tell: other systems, processes of others."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(port)}
    for folder in Path("/proc").glob("[0-9]*/fd") if inodes else ():
        with contextlib.suppress(OSError):  # ended meanwhile, or somebody else's
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
