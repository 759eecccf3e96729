"""What a job uses, seen from outside while it runs."""

import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Of a process."""

    threads: int
    cpu_s: float


def child_of(init_pid: int) -> int | None:
    """The one child of a sandbox's first process; None before it is there or after it is gone."""
    try:
        children = Path(f"/proc/{init_pid}/task/{init_pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def usage_of(pid: int) -> Usage | None:
    """Of a process, from /proc/PID/stat (proc(5)); None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before may hold anything
    return Usage(threads=int(fields[17]), cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S)


def folder_excess(folder: Path, bytes_max: int, entries_max: int) -> str:
    """What is too much in a folder, or cannot be looked into; empty if nothing. Follows no link, stops at the first excess."""
    entries = size = 0
    refused: list[OSError] = []
    for _, folders, files, here in os.fwalk(folder, onerror=refused.append):
        entries += len(folders) + len(files)
        if entries > entries_max:
            return f"more than {entries_max} files and folders were left in the folder"
        for name in files:
            try:
                size += os.stat(name, dir_fd=here, follow_symlinks=False).st_blocks * 512
            except FileNotFoundError:
                continue
        if size > bytes_max:
            return f"more than {bytes_max:,} bytes were written to the folder"
    if any(not isinstance(error, FileNotFoundError) for error in refused):
        return "a folder was made that cannot be looked into"
    return ""
