"""A sequenced stream in a file: it survives the process, and each message keeps its number.

The file has a header and blocks. A block is written in one go, before any of its messages is sent, and contains the mark up to which its source
has been processed: after a kill, the last complete block says where to continue. An incomplete block has not been sent.
"""

import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from serl.exchange.errors import ConfigError

MAGIC = b"serlsoup"
HEAD = struct.Struct("<IIIIqqq")
"""Header of a block: size of its messages in bytes, their checksum, their number, checksum of the other fields; the three fields of its mark."""
SCAN_BYTES = 1 << 20
NO_MARK = -1


class Mark(NamedTuple):
    """The position up to which the source has been processed.

    Attributes:
        number: number of the source's last processed item, as the source counts them; -1 for none.
        sequence: the exchange's number of its event.
        time_ns: the time of that event.
    """

    number: int = NO_MARK
    sequence: int = 0
    time_ns: int = 0


class StreamLog:
    """The messages of one stream, as SoupBinTCP packets, numbered from 1.

    Attributes:
        count: number of messages so far.
        mark: the mark of the last block.
    """

    def __init__(self, path: Path) -> None:
        self.count = 0
        self.mark = Mark()
        self._path = path
        self._starts: list[int] = []  # position of each block's messages in the file
        self._firsts: list[int] = []  # number of each block's first message
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._end = self._scan()
        except BaseException:
            self.close()
            raise

    def _scan(self) -> int:
        """Reads the blocks; removes an incomplete one at the end. Returns the position of the end."""
        size = os.fstat(self._file).st_size
        if size < len(MAGIC):
            os.ftruncate(self._file, 0)
            os.write(self._file, MAGIC)
            return len(MAGIC)
        if os.pread(self._file, len(MAGIC), 0) != MAGIC:
            raise ConfigError(f"{self._path}: expected a stream of a gateway, got another file; give another --state")
        at = len(MAGIC)
        while (head := self._read_head(at)) is not None:
            size, count, mark = head
            self._note(at, count, mark)
            at += HEAD.size + size
        os.ftruncate(self._file, at)
        return at

    def _read_head(self, at: int) -> tuple[int, int, Mark] | None:
        data = os.pread(self._file, HEAD.size, at)
        if len(data) < HEAD.size:
            return None
        size, check, count, head_check, *mark = HEAD.unpack(data)
        if _head_check(size, check, count, mark) != head_check:
            return None
        packets = os.pread(self._file, size, at + HEAD.size)
        if len(packets) < size or zlib.crc32(packets) != check:
            return None
        return size, count, Mark(*mark)

    def _note(self, at: int, count: int, mark: Mark) -> None:
        if count:
            self._starts.append(at + HEAD.size)
            self._firsts.append(self.count + 1)
        self.count += count
        self.mark = mark

    def append(self, packets: bytes, count: int, mark: Mark | None = None) -> None:
        """Writes messages, framed as sequenced packets. mark: the new mark, None to keep the last one. If it raises OSError, nothing was added."""
        mark = self.mark if mark is None else mark
        check = zlib.crc32(packets)
        head = HEAD.pack(len(packets), check, count, _head_check(len(packets), check, count, list(mark)), *mark)
        block = head + packets
        written = os.write(self._file, block)
        if written != len(block):
            os.ftruncate(self._file, self._end)
            raise OSError(28, "expected room for a block, got none", str(self._path))
        self._note(self._end, count, mark)
        self._end += len(block)

    def read(self, sequence: int) -> tuple[bytes, int]:
        """(packets from message `sequence` to the end of its block, their number); empty beyond the last message."""
        if sequence > self.count:
            return b"", 0
        index = bisect_right(self._firsts, sequence) - 1
        start = self._starts[index]
        size = HEAD.unpack(os.pread(self._file, HEAD.size, start - HEAD.size))[0]
        packets = os.pread(self._file, size, start)
        at = 0
        for _ in range(sequence - self._firsts[index]):
            at += 2 + int.from_bytes(packets[at : at + 2], "big")
        next_first = self._firsts[index + 1] if index + 1 < len(self._firsts) else self.count + 1
        return packets[at:], next_first - sequence

    def blocks(self, sequence: int = 1) -> Iterator[bytes]:
        """Yields the packets of each block, starting with the first block that begins at message `sequence` or later."""
        for first in self._firsts[bisect_left(self._firsts, sequence) :]:
            yield self.read(first)[0]

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def _head_check(size: int, check: int, count: int, mark: "list[int]") -> int:
    return zlib.crc32(struct.pack("<IIIqqq", size, check, count, *mark))
