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


def usage_of(pid: int) -> Usage | None:
    """Usage of a process from /proc/PID/stat (proc(5)); None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the process name before it may contain anything
    return Usage(threads=int(fields[17]), cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S)
