"""Messages other than orders, in Python: kinds, error codes and message forms of docs/protocol.md."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgpack

from serl.exchange.errors import SerlError
from serl.exchange.records import Rows

VERSION = 1


class Kind(IntEnum):
    """First element of a message that is not an order."""

    BULK = 32
    ON_BEHALF = 33
    HELLO = 64
    BYE = 65
    PING = 66
    PROMISE = 67
    REPORTS = 80
    REPORT_ROWS = 81
    DUPLICATE = 82
    WELCOME = 96
    ERROR = 97
    PONG = 98
    HEARTBEAT = 99
    GOODBYE = 100
    GRANT = 101
    INFO = 128
    L2 = 129
    L3 = 130
    TRADES = 131
    STATISTICS = 132
    HASH = 133
    STATUS = 134
    INDICATIVE = 135
    ACCOUNT = 136
    FEES = 137
    NEWS = 138
    BALANCES = 139
    ASSETS = 140
    RULES = 141
    STOP = 160
    CLOCK = 161
    SNAPSHOT = 162
    OPERATE = 163
    SPEED = 164
    PURGE = 165
    DROP_COPY = 166
    KILL = 167
    COMMAND_COPY = 168
    PUBLISH_NEWS = 169
    DEPOSIT = 170


def kind_name(kind: Any) -> str:
    """The name of a message's kind, for the log. kind: its first element, which may be anything."""
    return next((known.name for known in Kind if known == kind), str(kind) if isinstance(kind, int) else "of no kind")


class FeedKind(IntEnum):
    """First element of a feed message. Every kind but TIME is a channel of its name in lower case."""

    L1 = 112
    L2 = 113
    L3 = 114
    TRADE = 115
    STATUS = 116
    TIME = 117
    ROWS = 118
    AUCTION = 119


REPLY = 16
"""A reply's kind is its request's plus this."""

EVENT_FIELDS = (
    "kind", "time_ns", "command_id", "order_id", "order_number", "symbol", "side", "qty_lots", "price_ticks",
    "leaves_lots", "reason", "flags", "match_id", "sequence",
)  # fmt: skip

ORDER_FORMS = {
    1: "[1, command_id, symbol, side, qty_lots, price_ticks, time_in_force, flags, time_ns]",
    2: "[2, command_id, order_id, time_ns]",
    3: "[3, command_id, order_id, qty_lots, time_ns]",
    4: "[4, command_id, order_id, qty_lots, price_ticks, time_ns]",
    5: "[5, command_id, symbol, time_ns] or [5, command_id, symbol, flags, time_ns]",
    6: "[6, command_id, term, value, time_ns]",
    16: "[16, command_id, time_ns]",
    17: "[17, command_id, symbol, time_ns] or [17, command_id, symbol, reason, time_ns]",
    18: "[18, command_id, symbol, time_ns]",
    19: "[19, command_id, symbol, side, qty_lots, price_ticks, time_ns]",
    20: "[20, command_id, symbol, phase, time_ns]",
    21: "[21, command_id, symbol, time_ns]",
    22: "[22, command_id, time_ns]",
    23: "[23, command_id, participant, setting, value, time_ns]",
    24: "[24, command_id, symbol, rule, value, from_ticks, time_ns]",
    25: "[25, command_id, participant, symbol, flags, time_ns]",
    26: "[26, command_id, participant, asset, amount, time_ns]",
}

NESTING_MAX = 8
"""Maximum nesting of lists and maps in a client's message. No message needs more than three levels; Python can neither print nor compare a thousand."""


class RequestError(SerlError):
    """A rejected message, which changes nothing. Its sender receives ERROR with this code and text."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def pack(*message: Any) -> bytes:
    """Encodes a message as a msgpack array."""
    return bytes(msgpack.packb(message))


def unpack(data: bytes) -> list[Any]:
    """Decodes an untrusted message. Raises RequestError `malformed` unless it is one small msgpack array `[kind, ...]`."""
    try:
        message = msgpack.unpackb(data, strict_map_key=False, max_array_len=64, max_map_len=64, max_ext_len=0)
    except Exception as error:  # msgpack raises its own errors, ValueError, UnicodeDecodeError, RecursionError ...
        raise RequestError(
            "malformed", f"expected a msgpack array [kind, ...], got {len(data)} bytes: {_describe(error)}"
        ) from None
    if not _is_shallow(message, NESTING_MAX):
        raise RequestError("malformed", f"expected at most {NESTING_MAX} lists or maps in each other, got more")
    if not isinstance(message, list) or not message or not is_int(message[0]):
        raise RequestError(
            "malformed", f"expected a msgpack array [kind, ...] with an integer kind, got {_abbreviate(message)}"
        )
    return message


def _is_shallow(value: Any, levels: int) -> bool:
    """Whether a decoded value nests lists and maps at most `levels` deep."""
    if not isinstance(value, (list, dict)):
        return True
    return levels > 0 and all(
        _is_shallow(each, levels - 1) for each in (value.values() if isinstance(value, dict) else value)
    )


def _describe(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()[:120]


def _abbreviate(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def is_int(value: Any) -> bool:
    """Whether a decoded value is an integer (True and False are not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def expect(message: list[Any], form: str, *types: type) -> list[Any]:
    """The elements after the kind. Raises RequestError `malformed`, with the form, unless they have these types."""
    values = message[1:]
    fits = len(values) == len(types) and all(
        is_int(value) if kind is int else isinstance(value, kind) for value, kind in zip(values, types, strict=True)
    )
    if not fits:
        raise RequestError("malformed", f"expected {form}, got {_abbreviate(message)}")
    return values


def with_token(values: Sequence[Any], token: str) -> list[Any]:
    """The values of a query, followed by the token if there is one."""
    return [*values, token] if token else list(values)


def split_token(message: list[Any]) -> tuple[list[Any], str]:
    """(a query without its token, the token; "" without one). No query ends with another text, so a last text is the token."""
    return (message[:-1], message[-1]) if isinstance(message[-1], str) else (message, "")


def subscription(topic: bytes, token: str) -> bytes:
    """The subscription needed in addition to the topic itself on an exchange that requires a login."""
    return b"\0" + token.encode() + b"\0" + topic


def read_subscription(prefix: bytes) -> tuple[str, bytes] | None:
    """(token, topic) of a subscription with a credential; None for any other."""
    empty, *rest = prefix.split(b"\0", 2)
    return None if empty or len(rest) != 2 else (rest[0].decode(errors="replace"), rest[1])


def event_lists(rows: Rows) -> list[list[int]]:
    """EVENT rows in the array form of REPORTS."""
    columns = [rows[name].tolist() for name in EVENT_FIELDS]
    return [list(values) for values in zip(*columns, strict=True)]


def reports(rows: Rows, as_rows: bool) -> bytes:
    """A REPORTS message of EVENT rows with consecutive report numbers."""
    first = int(rows[0]["report"])
    return pack(Kind.REPORT_ROWS, first, rows.tobytes()) if as_rows else pack(Kind.REPORTS, first, event_lists(rows))
