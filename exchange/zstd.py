"""Zstandard compression: part of Python from 3.14 on, the same as a package before."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError, ZstdFile, compress
else:
    from backports.zstd import ZstdDecompressor, ZstdError, ZstdFile, compress

__all__ = ["ZstdError", "ZstdFile", "compress", "decompress"]


def decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that a frame contains, in memory for so many at most. Raises ZstdError if the frame is damaged or has others."""
    frame = ZstdDecompressor()
    found = frame.decompress(data, size)
    if len(found) != size or not frame.eof:
        raise ZstdError(f"expected a frame of {size:,} bytes, got a longer or a cut one")
    return found
