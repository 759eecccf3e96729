"""msgpack in compiled code: only the parts needed to decode orders and encode reports.

It reads integers in every msgpack form and writes them in the shortest one, as the reference encoders do.
"""

from typing import Any

from serl.exchange.compiling import inlined, int64
from serl.exchange.kernel.intrinsics import store_big_endian

INVALID = -1
"""The position returned if the bytes are not of the expected type."""


@inlined
def copy_bytes(target: Any, at: int, source: Any, start: int, size: int) -> None:
    """target[at:at + size] = source[start:start + size] for memory that does not overlap. A slice would allocate."""
    for offset in range(size):
        target[at + offset] = source[start + offset]


@inlined
def read_int(buffer: Any, position: int, size: int) -> tuple[int, int]:
    """Reads the integer at `position` of `size` bytes: (value, next position); the position is INVALID if there is none."""
    if position < 0 or position >= size:
        return 0, INVALID
    head = int64(buffer[position])
    position += 1
    if head < 0x80:
        return head, position
    if head >= 0xE0:
        return head - 256, position
    if head < 0xCC or head > 0xD3:
        return 0, INVALID
    width = 1 << ((head - 0xCC) & 3)
    if position + width > size:
        return 0, INVALID
    value = 0
    for offset in range(width):
        value = (value << 8) | int64(buffer[position + offset])
    if head >= 0xD0:
        shift = 64 - 8 * width
        value = (value << shift) >> shift
    elif width == 8 and value < 0:  # above the largest signed integer
        return 0, INVALID
    return value, position + width


@inlined
def _put(buffer: Any, position: int, head: int, value: int, width: int) -> int:
    buffer[position] = head
    for offset in range(width):
        buffer[position + 1 + offset] = (value >> (8 * (width - 1 - offset))) & 0xFF
    return position + 1 + width


@inlined
def write_int(buffer: Any, position: int, value: int) -> int:
    """Writes `value` in its shortest form. Returns the next position. The nine bytes of the longest form must be free: the
    bytes among them that the value does not need become undefined."""
    if -32 <= value < 0x80:
        buffer[position] = value & 0xFF
        return position + 1
    half = ~value if value < 0 else value >> 1  # below 1 << 7 for values that need one byte, below 1 << 15 for two
    log = int64(half >= 1 << 7) + int64(half >= 1 << 15) + int64(half >= 1 << 31)
    width = 1 << log
    buffer[position] = (0xD0 if value < 0 else 0xCC) + log
    store_big_endian(buffer.ctypes.data + position + 1, value << (64 - 8 * width))
    return position + 1 + width


@inlined
def write_array(buffer: Any, position: int, count: int) -> int:
    """Writes the header of an array of `count` elements (at most 5 bytes). Returns the next position."""
    if count < 16:
        buffer[position] = 0x90 | count
        return position + 1
    if count < 0x10000:
        return _put(buffer, position, 0xDC, count, 2)
    return _put(buffer, position, 0xDD, count, 4)


@inlined
def write_bin(buffer: Any, position: int, size: int) -> int:
    """Writes the header of a binary of `size` bytes (at most 5 bytes). Returns the next position."""
    if size < 0x100:
        return _put(buffer, position, 0xC4, size, 1)
    if size < 0x10000:
        return _put(buffer, position, 0xC5, size, 2)
    return _put(buffer, position, 0xC6, size, 4)


@inlined
def read_bin(buffer: Any, position: int, size: int) -> tuple[int, int]:
    """The binary at `position`, up to the end: (start, length). The start is INVALID if there is none or bytes are missing."""
    if position >= size:
        return INVALID, 0
    head = int64(buffer[position])
    if head < 0xC4 or head > 0xC6:
        return INVALID, 0
    width = 1 << (head - 0xC4)
    start = position + 1 + width
    if start > size:
        return INVALID, 0
    length = 0
    for offset in range(width):
        length = (length << 8) | int64(buffer[position + 1 + offset])
    if start + length != size:
        return INVALID, 0
    return start, length


@inlined
def read_order(buffer: Any, size: int, row: Any) -> bool:
    """Decodes a single-order message of docs/protocol.md into one COMMAND record; False if it is malformed.

    Each kind has a fixed number of integers, and nothing may follow them.
    """
    if size < 3 or buffer[0] < 0x93 or buffer[0] > 0x99:
        return False
    kind = int64(buffer[1])
    arity = int64(buffer[0]) & 0x0F
    command_id, at = read_int(buffer, 2, size)
    a = b = c = d = e = f = 0  # the integers between the command's id and its time
    if arity > 3:
        a, at = read_int(buffer, at, size)
    if arity > 4:
        b, at = read_int(buffer, at, size)
    if arity > 5:
        c, at = read_int(buffer, at, size)
    if arity > 6:
        d, at = read_int(buffer, at, size)
    if arity > 7:
        e, at = read_int(buffer, at, size)
        f, at = read_int(buffer, at, size)
    time_ns, at = read_int(buffer, at, size)
    order_id = symbol = side = qty = price = tif = flags = 0
    if kind == 1 and arity == 9:
        symbol, side, qty, price, tif, flags = a, b, c, d, e, f
    elif kind == 2 and arity == 4:
        order_id = a
    elif kind == 3 and arity == 5:
        order_id, qty = a, b
    elif (kind == 4 or kind == 26) and arity == 6:
        order_id, qty, price = a, b, c
    elif kind == 4 and arity == 7:
        order_id, qty, price, flags = a, b, c, d
    elif (kind == 5 or kind == 17 or kind == 18 or kind == 21) and arity == 4:
        symbol = a
    elif (kind == 5 or kind == 17 or kind == 20) and arity == 5:
        symbol, flags = a, b
    elif kind == 6 and arity == 5:
        flags, price = a, b
    elif kind == 23 and arity == 6:
        order_id, flags, price = a, b, c
    elif kind == 25 and arity == 6:
        order_id, symbol, flags = a, b, c
    elif kind == 24 and arity == 7:
        symbol, flags, price, order_id = a, b, c, d
    elif kind == 19 and arity == 7:
        symbol, side, qty, price = a, b, c, d
    elif not ((kind == 16 or kind == 22) and arity == 3):
        return False
    if at != size or command_id <= 0 or not 0 <= symbol <= 0xFFFF:
        return False
    if not (0 <= side <= 255 and 0 <= tif <= 255 and 0 <= flags <= 255):
        return False
    row.time_ns = time_ns
    row.sequence = 0
    row.command_id = command_id
    row.order_id = order_id
    row.price_ticks = price
    row.qty_lots = qty
    row.symbol = symbol
    row.participant = 0
    row.kind = kind
    row.side = side
    row.time_in_force = tif
    row.flags = flags
    row.check = 0
    row.reason = 0
    return True


@inlined
def write_event(buffer: Any, position: int, event: Any) -> int:
    """Writes one EVENT record in the array form of REPORTS (at most 127 bytes). Returns the next position."""
    buffer[position] = 0x9E  # an array of 14
    position = write_int(buffer, position + 1, int64(event.kind))
    position = write_int(buffer, position, int64(event.time_ns))
    position = write_int(buffer, position, int64(event.command_id))
    position = write_int(buffer, position, int64(event.order_id))
    position = write_int(buffer, position, int64(event.order_number))
    position = write_int(buffer, position, int64(event.symbol))
    position = write_int(buffer, position, int64(event.side))
    position = write_int(buffer, position, int64(event.qty_lots))
    position = write_int(buffer, position, int64(event.price_ticks))
    position = write_int(buffer, position, int64(event.leaves_lots))
    position = write_int(buffer, position, int64(event.reason))
    position = write_int(buffer, position, int64(event.flags))
    position = write_int(buffer, position, int64(event.match_id))
    return write_int(buffer, position, int64(event.sequence))
