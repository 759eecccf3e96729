"""A lock, so that at most one process works on a run."""

from pathlib import Path
from typing import BinaryIO

from serl.exchange.journal.lock import locked
from serl.researcher.outer.errors import RunError

LOCK = "run.lock"


def lock_run(folder: Path) -> BinaryIO:
    """Lock a run's folder, which is created if needed, until the returned file is closed or the process ends. RunError while another process holds
    the lock."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = locked(folder / LOCK)
    except OSError as error:
        raise RunError(f"{folder}: expected the folder of a run, got {error}; use another --output") from None
    if lock is None:
        raise RunError(
            f"{folder}: expected no other process at work on this run, got one; wait until it ends, or stop it (serl researcher status shows "
            "its progress)"
        )
    return lock
