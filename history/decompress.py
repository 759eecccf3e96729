"""Reads plain, gzip, xz and zstd files; the first bytes identify the format."""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from serl.exchange.zstd import ZstdError, ZstdFile
from serl.history.errors import SourceError

GZIP, XZ, ZSTD = b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
BLOCK_BYTES = 1 << 23


def _opened(raw: IO[bytes]) -> Any:
    start = raw.read(6)
    raw.seek(0)
    if start.startswith(GZIP):
        return gzip.open(raw)
    if start == XZ:
        return lzma.open(raw)
    if start.startswith(ZSTD):
        return ZstdFile(raw)
    return raw


def read_blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The decompressed bytes of a file, `size` at a time. Raises `SourceError`."""
    try:
        with path.open("rb") as raw:
            file = _opened(raw)
            while block := file.read(size):
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, ZstdError) as error:
        raise SourceError(f"{path}: its compressed data is damaged or truncated ({error}); download it again") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None


def read_head(path: Path, size: int = 1 << 16) -> bytes:
    """The first decompressed bytes of a file."""
    return next(read_blocks(path, size), b"")
