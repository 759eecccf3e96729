"""Finds the DEEP messages of one symbol in captured packets: pcap or pcapng, Ethernet, IP, UDP, IEX-TP (docs/history.md)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64

PCAP = {b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"}
"""First bytes of pcap files with times in us and in ns; little-endian, as in everything that IEX publishes."""
PCAPNG = b"\x0a\x0d\x0d\x0a"
ETHERNET = 1
IPV4, IPV6, VLAN, UDP = 0x0800, 0x86DD, 0x8100, 17
TRANSPORT_BYTES = 40
DEEP = 0x8004
"""Protocol number of DEEP 1.0 in IEX-TP."""
MESSAGE = np.dtype(
    [("kind", "u1"), ("flag", "u1"), ("time_ns", "<i8"), ("symbol", "S8"), ("shares", "<u4"), ("price_units", "<i8")]
)
"""The fields that price levels and trades share; a trading status and an operational halt status end after `symbol`."""
MESSAGE_BYTES, STATUS_BYTES = MESSAGE.itemsize, 18
SEGMENT_MESSAGES_MAX = 1 << 16
PACKET_BYTES_MAX = 1 << 20
BUY_LEVEL, SELL_LEVEL, TRADE, STATUS, OPERATIONAL = ord("8"), ord("5"), ord("T"), ord("H"), ord("O")
MORE_DATA, FULL, NO_BLOCK, NO_ETHERNET, NO_DEEP, SHORT_MESSAGE = range(6)
NEXT_SEQUENCE, SESSION, MESSAGES, MISSING, REPEATED, OTHER_PACKETS = range(6)
COUNTER_NAMES = ("messages", "messages_missing", "messages_repeated", "other_packets")
"""Names of the counters from MESSAGES on."""


class Scan(NamedTuple):
    """The state of a scan: counters over all blocks, and the positions of the messages found in the current block."""

    counters: NDArray[np.int64]
    found: NDArray[np.int64]
    found_count: NDArray[np.int64]


def new_scan(room: int = 1 << 17) -> Scan:
    """The state of a scan before the first block. At most `room` messages are found at a time."""
    return Scan(np.zeros(6, np.int64), np.zeros(room, np.int64), np.zeros(1, np.int64))


@inlined
def _little(data: Any, at: int, size: int) -> int:
    value = int64(0)
    for index in range(size):
        value |= int64(data[at + index]) << (8 * index)
    return value


@inlined
def _payload(data: Any, at: int, stop: int) -> int:
    """Position of the UDP payload of an Ethernet frame; -1 if it has none."""
    kind_at = at + 12
    while kind_at + 2 <= stop and (int64(data[kind_at]) << 8 | int64(data[kind_at + 1])) == VLAN:
        kind_at += 4
    network = kind_at + 2
    if network + 48 > stop:
        return -1
    kind = int64(data[kind_at]) << 8 | int64(data[kind_at + 1])
    if kind == IPV4 and int64(data[network + 9]) == UDP:
        return network + 4 * (int64(data[network]) & 15) + 8
    if kind == IPV6 and int64(data[network + 6]) == UDP:
        return network + 48
    return -1


@inlined
def _is_wanted(data: Any, at: int, symbol: int) -> bool:
    kind = int64(data[at])
    is_status = kind == STATUS or kind == OPERATIONAL
    return (is_status or kind == BUY_LEVEL or kind == SELL_LEVEL or kind == TRADE) and _little(
        data, at + 10, 8
    ) == symbol


@inlined
def _read_segment(data: Any, at: int, stop: int, symbol: int, scan: Any) -> int:
    """Records the messages of one IEX-TP segment. Returns MORE_DATA if the segment was read."""
    counters = scan.counters
    if at < 0 or at + TRANSPORT_BYTES > stop or int64(data[at]) != 1:
        counters[OTHER_PACKETS] += 1
        return MORE_DATA
    if _little(data, at + 2, 2) != DEEP:
        return NO_DEEP
    session, sequence = _little(data, at + 8, 4), _little(data, at + 24, 8)
    if session != counters[SESSION]:
        counters[SESSION], counters[NEXT_SEQUENCE] = session, sequence
    number = _little(data, at + 14, 2)
    counters[MISSING] += max(0, sequence - counters[NEXT_SEQUENCE])
    place = at + TRANSPORT_BYTES
    for index in range(number):
        if place + 2 > stop:
            return SHORT_MESSAGE
        length = _little(data, place, 2)
        place += 2
        if place + length > stop or length < 1:
            return SHORT_MESSAGE
        if sequence + index < counters[NEXT_SEQUENCE]:
            counters[REPEATED] += 1
        else:
            counters[MESSAGES] += 1
            if length >= STATUS_BYTES and _is_wanted(data, place, symbol):
                if int64(data[place]) not in (STATUS, OPERATIONAL) and length < MESSAGE_BYTES:
                    return SHORT_MESSAGE
                scan.found[scan.found_count[0]] = place
                scan.found_count[0] += 1
        place += length
    counters[NEXT_SEQUENCE] = max(counters[NEXT_SEQUENCE], sequence + number)
    return MORE_DATA


@compiled
def scan_pcap(data: Any, at: int, symbol: int, scan: Any) -> tuple[int, int]:
    """Reads whole packets from `at` on; returns (where it stopped, why)."""
    while at + 16 <= data.size:
        length = _little(data, at + 8, 4)
        if length > PACKET_BYTES_MAX:
            return at, NO_BLOCK
        start = at + 16
        if start + length > data.size:
            break
        if scan.found_count[0] + SEGMENT_MESSAGES_MAX > scan.found.size:
            return at, FULL
        why = _read_segment(data, _payload(data, start, start + length), start + length, symbol, scan)
        if why != MORE_DATA:
            return at, why
        at = start + length
    return at, MORE_DATA


@compiled
def scan_pcapng(data: Any, at: int, symbol: int, scan: Any) -> tuple[int, int]:
    """Reads whole blocks from `at` on; returns (where it stopped, why)."""
    while at + 12 <= data.size:
        kind, length = _little(data, at, 4), _little(data, at + 4, 4)
        if length < 12 or length % 4 or length > PACKET_BYTES_MAX:
            return at, NO_BLOCK
        if at + length > data.size:
            break
        if kind == 1 and _little(data, at + 8, 2) != ETHERNET:
            return at, NO_ETHERNET
        if kind == 6 and length >= 32:
            if scan.found_count[0] + SEGMENT_MESSAGES_MAX > scan.found.size:
                return at, FULL
            start = at + 28
            stop = min(start + _little(data, at + 20, 4), at + length - 4)
            why = _read_segment(data, _payload(data, start, stop), stop, symbol, scan)
            if why != MORE_DATA:
                return at, why
        at += length
    return at, MORE_DATA
