"""Locks on a journal's folder, which the system releases when their process ends, however it ends."""

import fcntl
from pathlib import Path
from typing import BinaryIO

from serl.exchange.errors import JournalError


def locked(path: Path) -> BinaryIO | None:
    """Creates and returns a file that is locked until it is closed; None while another process or another open file has the lock."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def lock_of(folder: Path) -> BinaryIO:
    """Takes the lock of the exchange that uses a journal. Raises JournalError while another one has it."""
    file = locked(folder / "lock")
    if file is None:
        raise JournalError(f"{folder}: another exchange uses this journal; stop it or choose another folder")
    return file
