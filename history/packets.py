"""Finds the UDP datagrams of captured packets: pcap or pcapng, Ethernet, IPv4 or IPv6."""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from serl.history.decompress import read_blocks
from serl.history.errors import SourceError

PCAP = {b"\xd4\xc3\xb2\xa1": ("<", 1_000), b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\xc3\xd4": (">", 1_000), b"\xa1\xb2\x3c\x4d": (">", 1)}  # fmt: skip
"""Byte order and time unit in ns, by the first bytes of a pcap file."""
PCAPNG = b"\x0a\x0d\x0d\x0a"
PCAP_HEADER_BYTES, PACKET_HEADER_BYTES = 24, 16
PACKET_BYTES_MAX = 1 << 20
ETHERNET = 1
IPV4, IPV6, VLAN, UDP = 0x0800, 0x86DD, 0x8100, 17
NAIVE_NS = -1


class Datagram(NamedTuple):
    """The payload of a UDP packet."""

    offset: int
    """Position of the payload in the (decompressed) file."""
    stream: bytes
    """Destination address and port."""
    payload: bytes
    size: int
    """Size of the payload as sent; larger than its length if the capture truncated it."""
    time_ns: int
    """Time of the capture, since 1970; NAIVE_NS in a pcapng file."""


def is_capture(head: bytes) -> bool:
    """Whether a (decompressed) file begins like a capture."""
    return head[:4] in PCAP or head[:4] == PCAPNG


def read_datagrams(path: Path, error: type[SourceError]) -> Iterator[Datagram]:
    """The datagrams of a capture, block by block; other packets are omitted. Raises `error` with the byte of a damaged packet."""
    buffer, offset, at, split = b"", 0, 0, None
    for block in read_blocks(path):
        buffer, offset, at = buffer[at:] + block, offset + at, 0
        if split is None:
            if len(buffer) < PCAP_HEADER_BYTES:
                continue
            split = _Pcapng(path, error) if buffer[:4] == PCAPNG else _Pcap(path, error, buffer)
            at = split.header_bytes
        while True:
            found = split.next(buffer, at, offset)
            if found is None:
                break
            at, datagram = found
            if datagram is not None:
                yield datagram
    if at < len(buffer):
        raise error(f"{path}: byte {offset + at}: expected a whole packet, got the end of the file; download it again")


def head_datagrams(head: bytes) -> Iterator[Datagram]:
    """The datagrams of the complete packets at the start of a capture, up to the first damaged one."""
    name = Path()
    try:
        split = _Pcapng(name, SourceError) if head[:4] == PCAPNG else _Pcap(name, SourceError, head)
        at = split.header_bytes
        while (found := split.next(head, at, 0)) is not None:
            at, datagram = found
            if datagram is not None:
                yield datagram
    except SourceError:
        return


class _Pcap:
    """Packets after a header of 16 bytes each."""

    header_bytes = PCAP_HEADER_BYTES

    def __init__(self, path: Path, error: type[SourceError], head: bytes) -> None:
        order, self._unit_ns = PCAP[head[:4]]
        self._path, self._error = path, error
        self._header = Struct(f"{order}IIII")
        if len(head) < PCAP_HEADER_BYTES:
            raise error(f"{path}: byte 0: expected the header of a capture, got {len(head)} bytes")
        link = Struct(f"{order}I").unpack_from(head, 20)[0] & 0xFFFF
        if link != ETHERNET:
            raise error(f"{path}: byte 20: expected packets of Ethernet (link type 1), got link type {link}")

    def next(self, data: bytes, at: int, offset: int) -> tuple[int, Datagram | None] | None:
        """(position of the next packet, the datagram of this one); None if this packet is incomplete."""
        if at + PACKET_HEADER_BYTES > len(data):
            return None
        seconds, fraction, length, size = self._header.unpack_from(data, at)
        if length > PACKET_BYTES_MAX or length > size:
            got = data[at : at + PACKET_HEADER_BYTES].hex()
            raise self._error(
                f"{self._path}: byte {offset + at}: expected a packet after its length, got {got}; download it again"
            )
        start = at + PACKET_HEADER_BYTES
        stop = start + length
        if stop > len(data):
            return None
        time_ns = seconds * 1_000_000_000 + fraction * self._unit_ns
        return stop, _datagram(data, start, stop, offset, time_ns)


class _Pcapng:
    """Little-endian blocks; only enhanced packets (type 6) contain data."""

    header_bytes = 0
    _words = Struct("<II")

    def __init__(self, path: Path, error: type[SourceError]) -> None:
        self._path, self._error = path, error

    def next(self, data: bytes, at: int, offset: int) -> tuple[int, Datagram | None] | None:
        """See `_Pcap.next`."""
        if at + 12 > len(data):
            return None
        kind, length = self._words.unpack_from(data, at)
        if length < 12 or length % 4 or length > PACKET_BYTES_MAX:
            got = data[at : at + 12].hex()
            raise self._error(f"{self._path}: byte {offset + at}: expected a block after its length, got {got}")
        stop = at + length
        if stop > len(data):
            return None
        if kind == 1 and (link := int.from_bytes(data[at + 8 : at + 10], "little")) != ETHERNET:
            raise self._error(
                f"{self._path}: byte {offset + at + 8}: expected packets of Ethernet (link type 1), got link type {link}"
            )
        if kind != 6 or length < 32:
            return stop, None
        captured = self._words.unpack_from(data, at + 20)[0]
        return stop, _datagram(data, at + 28, min(at + 28 + captured, stop - 4), offset, NAIVE_NS)


def _datagram(data: bytes, start: int, stop: int, offset: int, time_ns: int) -> Datagram | None:
    """The UDP datagram of an Ethernet frame; None if it has none."""
    kind_at = start + 12
    while data[kind_at : kind_at + 2] == VLAN.to_bytes(2, "big"):
        kind_at += 4
    network, kind = kind_at + 2, int.from_bytes(data[kind_at : kind_at + 2], "big")
    if network + 28 > stop:
        return None
    if kind == IPV4 and data[network + 9] == UDP:
        transport, address = network + 4 * (data[network] & 15), data[network + 16 : network + 20]
    elif kind == IPV6 and data[network + 6] == UDP:
        transport, address = network + 40, data[network + 24 : network + 40]
    else:
        return None
    body, size = transport + 8, int.from_bytes(data[transport + 4 : transport + 6], "big") - 8
    if body > stop or size < 0:
        return None
    payload = data[body : min(body + size, stop)]
    return Datagram(offset + body, address + data[transport + 2 : transport + 4], payload, size, time_ns)
