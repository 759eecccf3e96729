"""The job's writable folder: a file system in memory of a fixed size, which only the job and we see.

The kernel counts every byte in it, including files that were deleted while open or mapped, so the limit cannot be exceeded. It exists as long as
the job or our descriptor of it.
"""

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from serl.researcher.sandbox.boot import ANSWER
from serl.researcher.sandbox.errors import ReturnedError, SandboxUnavailableError

FOLDER = "/job"
"""Path of the job's folder inside the sandbox."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
"""Names that inputs, and files taken from a job, may have."""
DEPTH_MAX = 16
"""Maximum depth of folders."""


@contextlib.contextmanager
def opened(process: int) -> Iterator[Path]:
    """The folder of a process in the sandbox, as a path of this process that stays valid after the job has ended. ProcessLookupError or
    FileNotFoundError if it has ended already; SandboxUnavailableError if this machine does not let us in."""
    try:
        folder = os.open(f"/proc/{process}/root{FOLDER}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        raise SandboxUnavailableError(
            "expected to read the folder of our own job through /proc/PID/root, got no permission; run where /proc is not restricted"
        ) from None
    try:
        yield Path(f"/proc/self/fd/{folder}")
    finally:
        os.close(folder)


def fill(folder: Path, source: Path) -> bool:
    """Copy the plain files of `source` into a job's folder, before its code runs. Returns whether there was space for them."""
    try:
        for path in source.iterdir():
            if PLAIN_NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                shutil.copyfile(path, f"{folder}/{path.name}")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


def take(folder: Path, target: Path, bytes_max: int) -> None:
    """Copy the plain files of a job's folder to `target`, readable by us alone and never executable. Links, pipes, folders and hidden files are not
    copied. ReturnedError if the files are longer than `bytes_max` together; sparse files can be, although they take no space."""
    rest = bytes_max
    for name in sorted(os.listdir(folder)):
        if PLAIN_NAME.fullmatch(name) and name != ANSWER:
            rest -= _take_file(f"{folder}/{name}", target / name, rest)


def _take_file(source: str, target: Path, bytes_max: int) -> int:
    """Copy a file if it is a regular file without further hard links. Returns the number of bytes copied."""
    try:
        file = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a link, or a file without permissions
        return 0
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return 0
        if status.st_size > bytes_max:
            raise ReturnedError(f"its files are longer than the limit by {status.st_size - bytes_max:,} bytes")
        part = target.with_name(f".{target.name}")
        part.unlink(missing_ok=True)
        with (
            os.fdopen(os.dup(file), "rb") as reading,
            open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as writing,
        ):
            shutil.copyfileobj(reading, writing)
        part.replace(target)
    finally:
        os.close(file)
    return status.st_size


def excess(folder: Path, entries_max: int) -> str:
    """Text that a folder has too many or too deep entries, or that it cannot be read; empty otherwise. Follows no links and stops at the first
    excess. Each level takes one of our file descriptors."""
    entries, root = 0, f"{folder}/."
    errors: list[OSError] = []
    for path, folders, files, _ in os.fwalk(root, onerror=errors.append):
        entries += len(folders) + len(files)
        if entries > entries_max:
            return f"left more than {entries_max} files and folders in its folder"
        if folders and path.count("/") - root.count("/") >= DEPTH_MAX:
            return f"left folders that are more than {DEPTH_MAX} deep in its folder"
    if any(not isinstance(error, FileNotFoundError) for error in errors):
        return "created a folder that cannot be read"
    return ""
