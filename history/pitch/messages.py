"""The binary messages of Multicast PITCH that change a book, from Cboe's "US Equities/Options Multicast Depth of Book (PITCH) Specification",
version 2.41.64; little-endian.

A datagram begins with the sequenced unit header. Each message begins with its length and its type, one byte each. Fields may be added at the end
of a message, so the known part of a longer message is read; types that are not listed here are omitted. Long prices have four decimals in 8 bytes,
short ones two decimals in 2 bytes. Times are nanoseconds after the second of the unit's last Time message.
"""

from struct import Struct
from typing import NamedTuple

UNIT_HEADER = Struct("<HBBI")
"""Length of header and messages, number of messages, unit, sequence number of the first message (0: not sequenced)."""
MESSAGE_HEAD = 2
OFFSET = Struct("<I")
TIME = 0x20
ADD_LONG, ADD_SHORT, ADD_EXPANDED = 0x21, 0x22, 0x2F
EXECUTED, EXECUTED_AT = 0x23, 0x24
REDUCE_LONG, REDUCE_SHORT = 0x25, 0x26
MODIFY_LONG, MODIFY_SHORT = 0x27, 0x28
DELETE = 0x29
TRADE_LONG, TRADE_SHORT, TRADE_EXPANDED = 0x2A, 0x2B, 0x30
TRADE_BREAK, END_OF_SESSION = 0x2C, 0x2D
TRADING_STATUS, AUCTION_SUMMARY, UNIT_CLEAR = 0x31, 0x96, 0x97
MAINTAIN_PRIORITY = 2
"""Bit of a modify's flags: the order keeps its place in the queue."""
SHORT_PRICES = {ADD_SHORT, MODIFY_SHORT, TRADE_SHORT}
SHORT_PRICE_UNITS = 100
"""Ten-thousandths in one unit of a short price."""


class Layout(NamedTuple):
    """Name and fields of a message."""

    name: str
    fields: Struct
    """The fields after the type byte."""

    @property
    def length(self) -> int:
        """Minimum length of the message, including the length and type bytes."""
        return MESSAGE_HEAD + self.fields.size


LAYOUTS = {
    TIME: Layout("time", Struct("<I")),  # seconds after midnight, Eastern time
    # time offset, order, side, shares, symbol, price, flags (and participant, customer)
    ADD_LONG: Layout("add order (long)", Struct("<IQcI6sQB")),
    ADD_SHORT: Layout("add order (short)", Struct("<IQcH6sHB")),
    ADD_EXPANDED: Layout("add order (expanded)", Struct("<IQcI8sQB4x")),
    # time offset, order, executed (and remaining) shares, execution (and price)
    EXECUTED: Layout("order executed", Struct("<IQIQ")),
    EXECUTED_AT: Layout("order executed at price/size", Struct("<IQIIQQ")),
    # time offset, order, cancelled shares
    REDUCE_LONG: Layout("reduce size (long)", Struct("<IQI")),
    REDUCE_SHORT: Layout("reduce size (short)", Struct("<IQH")),
    # time offset, order, shares, price, flags
    MODIFY_LONG: Layout("modify order (long)", Struct("<IQIQB")),
    MODIFY_SHORT: Layout("modify order (short)", Struct("<IQHHB")),
    DELETE: Layout("delete order", Struct("<IQ")),
    # time offset, order, side, shares, symbol, price, execution
    TRADE_LONG: Layout("trade (long)", Struct("<IQcI6sQQ")),
    TRADE_SHORT: Layout("trade (short)", Struct("<IQcH6sHQ")),
    TRADE_EXPANDED: Layout("trade (expanded)", Struct("<IQcI8sQQ")),
    TRADE_BREAK: Layout("trade break", Struct("<IQ")),
    END_OF_SESSION: Layout("end of session", Struct("<I")),
    # time offset, symbol, status, Reg SHO action, reserved
    TRADING_STATUS: Layout("trading status", Struct("<I8scc2x")),
    # time offset, symbol, auction, price, shares
    AUCTION_SUMMARY: Layout("auction summary", Struct("<I8scQI")),
    UNIT_CLEAR: Layout("unit clear", Struct("<I")),
}


def tiles(payload: bytes) -> bool:
    """Whether a datagram is a sequenced unit header followed by as many complete messages as the header says."""
    if len(payload) < UNIT_HEADER.size:
        return False
    length, count, _, _ = UNIT_HEADER.unpack_from(payload)
    if length > len(payload):
        return False
    at = UNIT_HEADER.size
    for _ in range(count):
        if at + MESSAGE_HEAD > length or payload[at] < MESSAGE_HEAD:
            return False
        at += payload[at]
    return at == length
