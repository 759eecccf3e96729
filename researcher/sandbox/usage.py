"""Resources that a running job uses, measured from outside."""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Resource usage of a process."""

    threads: int
    cpu_s: float


def child_of(init_pid: int) -> int | None:
    """The only child of the sandbox's first process; None before it starts and after it ends."""
    try:
        children = Path(f"/proc/{init_pid}/task/{init_pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def usage_of(pid: int) -> Usage | None:
    """Usage of a process from /proc/PID/stat (proc(5)); None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the process name before it may contain anything
    return Usage(threads=int(fields[17]), cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S)


def folder_excess(folder: Path, bytes_max: int, entries_max: int) -> str:
    """Which limit a folder exceeds, or that it cannot be read; empty if neither. Follows no links and stops at the first excess."""
    entries = size = 0
    errors: list[OSError] = []
    for _, folders, files, folder_fd in os.fwalk(folder, onerror=errors.append):
        entries += len(folders) + len(files)
        if entries > entries_max:
            return f"left more than {entries_max} files and folders in its folder"
        for name in files:
            try:
                size += os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_blocks * 512
            except FileNotFoundError:
                continue
        if size > bytes_max:
            return f"wrote more than {bytes_max:,} bytes to its folder"
    if any(not isinstance(error, FileNotFoundError) for error in errors):
        return "created a folder that cannot be read"
    return ""
