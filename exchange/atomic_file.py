"""Atomic file writes: a temporary file is written, synced and renamed, so a file is complete or absent."""

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
    """Yields a file that is renamed to `path` when the block ends. If the block raises, the file is removed. Raises UnwritableFileError if
    the file cannot be created."""
    path = Path(path)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        unwritable = UnwritableFileError(
            f"{path}: cannot be written ({error.strerror}); give a file in a folder that exists"
        )
        unwritable.errno, unwritable.strerror = error.errno, error.strerror
        raise unwritable from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def require_other_file(output: Path, *sources: Path) -> None:
    """Raises ConfigError if the output is one of the files that a command reads, which it would replace."""
    for source in sources:
        if output.exists() and source.exists() and output.samefile(source):
            raise ConfigError(
                f"--output: expected another file than {source}, which it would replace; give another name"
            )


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
