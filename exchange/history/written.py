"""Files that are there as a whole or not at all: written under another name, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from serl.exchange.history.errors import DayError


@contextmanager
def written_whole(path: Path | str) -> Iterator[IO[bytes]]:
    """A file to write to; it gets its name when the block ends, and nothing stays if it raises. DayError without a folder."""
    path = Path(path)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DayError(f"{path}: cannot be written ({error.strerror}); give a file in a folder that exists") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
