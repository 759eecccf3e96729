"""Atomic file writes: a temporary file is written, synced and renamed, so a file is complete or absent."""

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from serl.exchange.errors import ConfigError, UnwritableFileError


@contextmanager
def atomic_file(path: Path | str) -> Iterator[IO[bytes]]:
    """Yields a file that is renamed to `path`, or to the file that this links to, when the block ends. If the block raises, the file is removed.
    Raises UnwritableFileError if the file cannot be created, or if `path` is a folder, a device or a pipe, which a renamed file would replace."""
    _require_file(path)
    target = Path(os.path.realpath(path))
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _unwritable(
            error.errno, f"{path}: cannot be written ({error.strerror}); give a file in a folder that exists"
        ) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
        sync_folder(target.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def require_other_file(output: Path, *sources: Path) -> None:
    """Raises ConfigError if the output is one of the files that a command reads, which it would replace; UnwritableFileError if it is no file
    or its folder does not exist."""
    _require_file(output)
    if not output.parent.is_dir():
        raise _unwritable(
            errno.ENOENT,
            f"{output}: expected a file in a folder that exists, got no folder {output.parent}; create it first",
        )
    for source in sources:
        if output.exists() and source.exists() and output.samefile(source):
            raise ConfigError(
                f"--output: expected another file than {source}, which it would replace; give another name"
            )


def _require_file(path: Path | str) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        code, got = (errno.EISDIR, "a folder") if os.path.isdir(path) else (errno.EINVAL, "a device or pipe")
        raise _unwritable(code, f"{path}: expected a file to write, got {got}; give another name")


def _unwritable(code: int | None, text: str) -> UnwritableFileError:
    unwritable = UnwritableFileError(text)
    unwritable.errno, unwritable.strerror = code, None if code is None else os.strerror(code)
    return unwritable


def sync_folder(folder: Path) -> None:
    """Syncs the names of the folder's files to disk: a rename alone may not survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any, indent: int | None = None) -> None:
    """Writes a value as JSON, atomically."""
    with atomic_file(path) as file:
        file.write(json.dumps(value, indent=indent).encode())


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
