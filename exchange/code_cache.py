"""The folder that stores compiled code, and the lock that decides which process compiles it. Imports no compiler, so that a start can check the cache
before it loads one.

The cached code of a function contains the functions that it calls, but numba's cache checks only the file of the function itself. The name of the
cache folder therefore contains a checksum of all sources that affect compiled code: an update gets a new folder.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path

import serl
from serl.exchange.errors import ConfigError, UnwritableFileError
from serl.exchange.user_folders import user_cache

CONSTANTS = ("records.py", "state.py", "feed_state.py", "constants.py")
"""Files without compiled functions, whose constants are compiled into the functions of other files."""

COMPILED = re.compile(rb"^(?:from|import) (?:numba|serl\.exchange\.compiling)\b", re.MULTILINE)
"""Matches every file with compiled functions."""

BACKGROUND_NICENESS = 10
"""Niceness added to a process that compiles the full rule book, which may never be needed, while others work."""

UNUSED_DAYS = 7
"""The cache of other sources is deleted once no process has started with it for this long."""


def _sources() -> int:
    """A checksum of serl's source files that affect compiled code."""
    checksum = 0
    for folder, folders, names in os.walk(os.path.dirname(serl.__file__), followlinks=True):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    text = file.read()
                if name in CONSTANTS or COMPILED.search(text):
                    checksum = zlib.crc32(text, checksum)
    return checksum


def _folder() -> Path:
    """The folder for compiled code: in NUMBA_CACHE_DIR, otherwise beside serl's sources, or in the user's cache if the former is read-only; the first
    that exists if none is writable."""
    bases = [Path(serl.__file__).parent / "__pycache__"]
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        bases = [Path(given)]
    else:
        with suppress(ConfigError):  # there is no home
            bases.append(user_cache())
    name = f"serl-{_sources():08x}"
    folders = [base / name for base in bases]
    for folder in folders:
        with suppress(OSError):
            is_new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
            if is_new:
                delete_unused(folder.parent)
        if os.access(folder, os.W_OK):
            return folder
    return next((folder for folder in folders if folder.is_dir()), folders[-1])


def delete_unused(base: Path) -> None:
    """Deletes the caches in `base` that no process has started with for UNUSED_DAYS; a process may still be running from a more recent one."""
    for folder in base.glob("serl-????????"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > UNUSED_DAYS * 86_400:
                shutil.rmtree(folder, ignore_errors=True)


FOLDER = _folder()
"""The folder for the compiled code of these sources. If no folder is writable, it may not exist, and nothing is stored."""


def is_writable() -> bool:
    """Whether compiled code can be stored."""
    return os.access(FOLDER, os.W_OK)


def require_writable() -> None:
    """Raises UnwritableFileError if compiled code cannot be stored."""
    if not is_writable():
        raise UnwritableFileError(
            f"{FOLDER}: expected a writable folder for compiled code, got none; set NUMBA_CACHE_DIR to a folder that you can write to"
        )


def is_kept(name: str) -> bool:
    """Whether the code that is compiled within `alone(name)` is stored."""
    path = FOLDER / name
    return path.exists() and path.stat().st_size > 0


@contextmanager
def alone(name: str, wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Lets only one process at a time compile `name` within the block. A second process calls `wait`, waits, and then loads what the first compiled."""
    if not is_writable():  # nothing can be kept, and there is nobody to wait for
        yield
        return
    with open(FOLDER / name, "ab") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            wait()
            flock(file, LOCK_EX)
        try:
            yield
            if file.tell() == 0:
                file.write(b"compiled")
        finally:
            file.flush()
            flock(file, LOCK_UN)


@contextmanager
def precompiling(*pieces: str, niceness: int = 0) -> Iterator[list[subprocess.Popen[bytes]]]:
    """In separate processes, which end with the context and not with Ctrl-C, compiles the pieces (of `precompile.PIECES`) that are not stored yet.
    niceness: added to that of the processes."""
    command = [sys.executable, "-m", "serl.exchange.precompile"]
    missing = [piece for piece in pieces if not is_kept(piece)]
    processes = [subprocess.Popen([*command, piece], start_new_session=True) for piece in missing]
    try:
        for process in processes if niceness else ():
            os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + niceness)
        yield processes
    finally:
        for process in processes:
            process.terminate()
            process.wait()
