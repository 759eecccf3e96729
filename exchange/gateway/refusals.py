"""Answers that the compiled loop gives itself to messages that change nothing: PONG, and ERROR for what exceeds a rate limit.

In Python each answer would take as long as fifty orders, and a client that sends too much gets many of them.
"""

from typing import Any

import numpy as np

from serl.exchange.compiling import inlined, int64
from serl.exchange.gateway.accept import BULK, BULK_HEADER_BYTES, ROW_BYTES, is_cancellation
from serl.exchange.gateway.codec import INVALID, copy_bytes, read_bin, read_int, write_array, write_int
from serl.exchange.gateway.state import (
    BULK_ROWS_MAX,
    CLOCK_KIND,
    LOCKSTEP_CLOCK,
    ROWS_USABLE,
    THROTTLED_MESSAGES,
    GatewayState,
)
from serl.exchange.gateway.timing import clock_now_ns
from serl.exchange.records import COMMAND
from serl.exchange.wire import ORDER_FORMS, Kind

_COMMAND_ID_AT = int(COMMAND.fields["command_id"][1]) if COMMAND.fields else 0
_LAST_ORDER_KIND = max(int(kind) for kind in ORDER_FORMS)
_ERROR, _PING, _PONG = int(Kind.ERROR), int(Kind.PING), int(Kind.PONG)
_CODE, _BEFORE = np.frombuffer(b"throttled", np.uint8), np.frombuffer(b"command ", np.uint8)
_STRING, _STRING_8 = 0xA0, 0xD9
"""First bytes of msgpack strings; the first has the length in its lower bits."""


def throttled_text(rate: float) -> bytes:
    """The text of an ERROR `throttled` after the number of the command."""
    return f" was not accepted: more than {rate:g} messages per second; resend it later".encode()


@inlined
def _command_id(gateway: GatewayState, buffer: Any) -> int:
    """The first command id of a message with orders; INVALID for other messages."""
    size, kind = buffer.size, int64(buffer[1])
    if kind == BULK:
        start, length = read_bin(buffer, 2, size)
        if (
            buffer[0] != 0x92
            or start == INVALID
            or length == 0
            or length % ROW_BYTES
            or size > gateway.counter[BULK_ROWS_MAX] * ROW_BYTES + BULK_HEADER_BYTES
        ):
            return INVALID
        value = 0
        for byte in range(8):
            value |= int64(buffer[start + _COMMAND_ID_AT + byte]) << (8 * byte)
        return value
    if kind > _LAST_ORDER_KIND or buffer[0] < 0x93 or buffer[0] > 0x99:
        return INVALID
    return read_int(buffer, 2, size)[0]


@inlined
def _write_number(out: Any, at: int, value: int) -> int:
    """Writes the decimal digits of a positive number. Returns the position after them."""
    digits, rest = 1, value // 10
    while rest > 0:
        digits, rest = digits + 1, rest // 10
    for place in range(digits):
        out[at + digits - 1 - place] = 48 + value % 10
        value //= 10
    return at + digits


@inlined
def _write_throttled(gateway: GatewayState, session: int, command_id: int, cancels: int) -> int:
    """Writes ERROR `throttled` to gateway.answer. Returns its size."""
    out = gateway.answer
    at = write_int(out, write_array(out, 0, 3), _ERROR)
    out[at] = _STRING | _CODE.size
    copy_bytes(out, at + 1, _CODE, 0, _CODE.size)
    text = at + 3 + _CODE.size
    copy_bytes(out, text, _BEFORE, 0, _BEFORE.size)
    end = _write_number(out, text + _BEFORE.size, command_id)
    size = int64(gateway.throttled_bytes[session, cancels])
    copy_bytes(out, end, gateway.throttled[session, cancels], 0, size)
    end += size
    out[text - 2], out[text - 1] = _STRING_8, end - text
    return end


@inlined
def write_answer(gateway: GatewayState, last_command_id: Any, session: int, buffer: Any) -> int:
    """Writes the answer to a PING, or to a new order beyond a rate limit, to gateway.answer. Returns its size, 0 if Python must answer."""
    if gateway.answers_left[session] <= 0 or gateway.clock[CLOCK_KIND] == LOCKSTEP_CLOCK:
        return 0
    if buffer[1] == _PING:
        number, end = read_int(buffer, 2, buffer.size)
        if buffer[0] != 0x92 or end != buffer.size:
            return 0
        out = gateway.answer
        at = write_int(out, write_array(out, 0, 3), _PONG)
        size = write_int(out, write_int(out, at, number), clock_now_ns(gateway))
    else:
        participant = gateway.participant[session]
        command_id = _command_id(gateway, buffer)
        last = max(last_command_id[participant], gateway.last_sent_id[participant])
        if command_id == INVALID or command_id <= last or gateway.counter[ROWS_USABLE] == 0:
            return 0
        size = _write_throttled(gateway, session, command_id, int64(is_cancellation(int64(buffer[1]))))
        gateway.counter[THROTTLED_MESSAGES] += 1
    gateway.answers_left[session] -= 1
    return size
