"""Zstandard compression: part of Python from 3.14 on, before that a package with the same API."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, ZstdDecompressor, ZstdError, ZstdFile, compress
else:
    from backports.zstd import CompressionParameter, ZstdDecompressor, ZstdError, ZstdFile, compress

__all__ = ["ZstdError", "ZstdFile", "compress", "compress_checked", "decompress", "decompress_up_to"]


def decompress(data: bytes, size: int) -> bytes:
    """Returns the `size` bytes that a frame contains; allocates no more. Raises ZstdError if the frame is damaged or its size differs."""
    frame = ZstdDecompressor()
    found = frame.decompress(data, size)
    if len(found) != size or not frame.eof:
        raise ZstdError(f"expected a frame of {size:,} bytes, got a longer or truncated one")
    return found


def compress_checked(data: bytes, level: int) -> bytes:
    """Compresses data into a frame with a checksum, which is verified on decompression."""
    options: dict[int, int] = {CompressionParameter.compression_level: level, CompressionParameter.checksum_flag: 1}
    return compress(data, options=options)


def decompress_up_to(data: bytes, size_max: int) -> bytes:
    """Returns the bytes that a frame contains, at most `size_max`. Raises ZstdError if the frame is damaged or has more."""
    frame = ZstdDecompressor()
    found = frame.decompress(data, size_max)
    if not frame.eof:
        raise ZstdError(f"expected a frame of at most {size_max:,} bytes, got a longer or truncated one")
    return found
