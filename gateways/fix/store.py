"""The durable state of a FIX session: sequence numbers, sent messages, orders. One append-only file per session.

The file is written before anything leaves the gateway, without a sync: a killed gateway loses nothing, a power cut loses at most the last second
(`sync` is called each second). Each record is its length and CRC-32, then a msgpack array; data after the last whole record was never sent.
"""

import errno
import fcntl
import os
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

import msgpack

from serl.exchange.errors import ConfigError

INBOUND, OUTBOUND, SEQUENCES, REPORT, SNAPSHOT, SYMBOLS = range(1, 7)
"""[INBOUND, in_seq, change, command_id, rows]: a request, and the COMMAND rows that it became.
[OUTBOUND, out_seq, report, message, change]: a message to the client, caused by this report (0: by no report).
[SEQUENCES, next_in, next_out]; [REPORT, report]: processed without a message, and in a drop copy [REPORT, report, journal], the id of the journal from here on; [SNAPSHOT, last_report, state]: numbers begin again.
[SYMBOLS, symbols]: those of the exchange from here on; a journal has the same ones for good, so others mean another journal."""
_HEAD = struct.Struct("<II")
_READ_BYTES = 1 << 20
_pack = msgpack.Packer().pack


class SessionStore:
    """The file of one session. Records wait until `flush`, which writes all of them at once."""

    def __init__(self, folder: Path, login: str) -> None:
        self.path = folder / f"{quote(login, safe='')}.session"
        self._pending: list[bytes] = []
        self._offsets = array("q")  # offset of each outbound message's record, from 1 on; -1: none is kept
        self._fd = -1
        self._size = 0
        self._synced = 0
        #: whether a write has failed: the state in memory differs from the file, which must be loaded again
        self.broken = False
        self.next_in = self.next_out = 1
        #: number of the last report whose message, if any, has its sequence number
        self.last_report = -1

    def load(self) -> Iterator[list[Any]]:
        """Opens the file; yields its records, from which the caller restores its state. Raises ConfigError if the file cannot be used."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}; give another --store") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            self._fd = -1
            raise ConfigError(f"{self.path}: expected a store of its own, got one that another gateway uses") from None
        self._size = 0
        for record, length in self._records():
            self._note(record, self._size)
            self._size += length
            yield record
        os.ftruncate(self._fd, self._size)

    def _records(self) -> Iterator[tuple[list[Any], int]]:
        data, at, read = b"", 0, 0
        while True:
            if len(data) - at >= _HEAD.size:
                length, check = _HEAD.unpack_from(data, at)
                end = at + _HEAD.size + length
                if len(data) >= end:
                    payload = data[at + _HEAD.size : end]
                    if crc32(payload) != check:
                        return
                    yield msgpack.unpackb(payload, strict_map_key=False), end - at
                    at = end
                    continue
            more = os.pread(self._fd, _READ_BYTES, read)
            if not more:
                return
            read += len(more)
            data, at = data[at:] + more, 0

    def _note(self, record: list[Any], offset: int) -> None:
        kind = record[0]
        if kind == INBOUND:
            self.next_in = record[1] + 1
        elif kind == OUTBOUND:
            self._place(record[1], offset)
            self.last_report = record[2] or self.last_report
        elif kind == SEQUENCES:
            self.next_in, self.next_out = record[1], record[2]
        elif kind == REPORT:
            self.last_report = record[1]
        elif kind == SNAPSHOT:
            self.next_in = self.next_out = 1
            self.last_report = record[1]
            del self._offsets[:]

    def _place(self, out_seq: int, offset: int) -> None:
        missing = out_seq - 1 - len(self._offsets)
        if missing > 0:
            self._offsets.extend([-1] * missing)
        self._offsets.append(offset)
        self.next_out = out_seq + 1

    def append(self, record: list[Any]) -> None:
        """Adds a record to those that the next `flush` writes."""
        payload = _pack(record)
        self._note(record, self._size)
        data = _HEAD.pack(len(payload), crc32(payload)) + payload
        self._size += len(data)
        self._pending.append(data)

    def flush(self) -> None:
        """Writes the waiting records. Raises OSError, for example if the disk is full: the store is then `broken`, and the file ends where it
        ended before."""
        if self.broken:
            raise OSError(errno.EIO, "it could not be written before")
        if self._pending:
            data = b"".join(self._pending)
            self._pending = []
            try:
                _write(self._fd, data)
            except OSError:
                self.broken = True
                os.ftruncate(self._fd, self._size - len(data))
                raise

    def message(self, out_seq: int) -> bytes | None:
        """A sent message; None if the number belongs to an administrative one."""
        offset = self._offsets[out_seq - 1] if out_seq <= len(self._offsets) else -1
        if offset < 0:
            return None
        length, _ = _HEAD.unpack(os.pread(self._fd, _HEAD.size, offset))
        return bytes(msgpack.unpackb(os.pread(self._fd, length, offset + _HEAD.size), strict_map_key=False)[3])

    def reset(self, state: Any) -> None:
        """Restarts the numbers at 1 and forgets sent messages; only `state` and the last report remain. If it raises OSError, the store is
        `broken` and the file is as it was."""
        self._pending = []
        payload = _pack([SNAPSHOT, self.last_report, state])
        data = _HEAD.pack(len(payload), crc32(payload)) + payload
        temporary = self.path.with_suffix(".new")
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(descriptor, data)
            os.fsync(descriptor)
            temporary.replace(self.path)
        except OSError:
            self.broken = True
            raise
        os.close(self._fd)
        self._fd = descriptor
        self._note([SNAPSHOT, self.last_report], 0)
        self._size = len(data)

    def sync(self) -> None:
        """Waits until everything written is on the disk."""
        if self._size != self._synced:
            self._synced = self._size
            os.fdatasync(self._fd)

    def close(self) -> None:
        """Writes and syncs the remaining records. Raises OSError."""
        if self._fd < 0:
            return
        try:
            if not self.broken:
                self.flush()
                self.sync()
        finally:
            os.close(self._fd)
            self._fd = -1


def _write(descriptor: int, data: bytes) -> None:
    """Writes all of the data."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
