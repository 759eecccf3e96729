"""Who listens at a port, as far as Linux tells."""

import contextlib
from pathlib import Path

LISTEN = "0A"


def who_listens(port: int) -> str | None:
    """Command and process id, like 'python3 -m http.server (pid 42)'; None if it cannot be known."""
    inodes = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(Path("/proc/net") / table, port)}
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(str(link.readlink()) in inodes for link in (process / "fd").iterdir()):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return f"{command[:120]} (pid {process.name})"
    return None


def _listening(table: Path, port: int) -> list[str]:
    """Inodes of the sockets that listen at a port, in a table of proc(5)."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port]
