"""The message layouts of NASDAQ TotalView-ITCH 5.0, from its public specification; big-endian.

In a file each message follows its length in two bytes; a length of 0 ends the session. Prices have four decimals, times are nanoseconds
after midnight.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.exchange.compiling import inlined, int64

PRICE_UNITS = 10_000
"""Price units of a dollar."""
ROUND_LOT = 100
"""The round lot in the directory, of a stock that takes any quantity."""
HEAD = "locate:H tracking:H time_ns:6"
"""The fields that follow the type in every message."""
WIDTHS = {"B": 1, "H": 2, "I": 4, "6": 6, "Q": 8, "c": 1, "2s": 2, "4s": 4, "8s": 8}

_LAYOUTS = {
    "S": ("system event", "event:c"),
    "R": (
        "stock directory",
        "stock:8s category:c status:c round_lot:I round_lots_only:c classification:c subtype:2s authenticity:c "
        "short_sale_threshold:c ipo:c luld_tier:c etp:c etp_leverage:I inverse:c",
    ),
    "H": ("trading action", "stock:8s state:c reserved:c reason:4s"),
    "Y": ("Reg SHO restriction", "stock:8s action:c"),
    "L": ("market participant position", "participant:4s stock:8s primary:c mode:c state:c"),
    "V": ("market-wide circuit breaker levels", "level_1:Q level_2:Q level_3:Q"),
    "W": ("market-wide circuit breaker status", "level:c"),
    "K": ("IPO quoting period", "stock:8s release_s:I qualifier:c price:I"),
    "J": ("LULD auction collar", "stock:8s reference:I upper:I lower:I extension:I"),
    "h": ("operational halt", "stock:8s market:c action:c"),
    "A": ("add order", "order:Q side:c shares:I stock:8s price:I"),
    "F": ("add order with attribution", "order:Q side:c shares:I stock:8s price:I attribution:4s"),
    "E": ("order executed", "order:Q shares:I match:Q"),
    "C": ("order executed with price", "order:Q shares:I match:Q printable:c price:I"),
    "X": ("order cancel", "order:Q shares:I"),
    "D": ("order delete", "order:Q"),
    "U": ("order replace", "order:Q new_order:Q shares:I price:I"),
    "P": ("trade", "order:Q side:c shares:I stock:8s price:I match:Q"),
    "Q": ("cross trade", "shares:Q stock:8s price:I match:Q cross:c"),
    "B": ("broken trade", "match:Q"),
    "I": (
        "net order imbalance",
        "paired:Q imbalance:Q direction:c stock:8s far:I near:I reference:I cross:c variation:c",
    ),
    "N": ("retail price improvement", "stock:8s interest:c"),
    "O": (
        "direct listing with capital raise",
        "stock:8s eligible:c minimum:I maximum:I near:I near_time_ns:Q lower:I upper:I",
    ),
}


@dataclass(frozen=True)
class Layout:
    """Length of a message, and where its fields are."""

    name: str
    length: int
    fields: dict[str, tuple[int, str]]
    """By name: (offset from the type byte, format code of `struct`, or 6 for a time)."""


def _layout(name: str, text: str) -> Layout:
    fields, offset = {}, 1
    for item in f"{HEAD} {text}".split():
        field, _, code = item.partition(":")
        fields[field] = (offset, code)
        offset += WIDTHS[code]
    return Layout(name, offset, fields)


LAYOUTS = {kind: _layout(*layout) for kind, layout in _LAYOUTS.items()}
"""Layout by type."""
LENGTHS = np.zeros(256, np.int64)
"""Length by type byte; 0 for an unknown type."""
STOCK_AT = np.zeros(256, np.int64)
"""Offset of the stock's name by type byte; 0 if the message has none."""
for _kind, _layout_of_kind in LAYOUTS.items():
    LENGTHS[ord(_kind)] = _layout_of_kind.length
    STOCK_AT[ord(_kind)] = _layout_of_kind.fields.get("stock", (0, ""))[0]


def offset(kind: str, field: str) -> int:
    """Offset of a field from the type byte."""
    return LAYOUTS[kind].fields[field][0]


def decode(message: bytes) -> dict[str, Any]:
    """The fields of a message (without its length), `type` first. Raises KeyError for an unknown type, struct.error if too short."""
    kind = chr(message[0])
    values: dict[str, Any] = {"type": kind}
    for name, (at, code) in LAYOUTS[kind].fields.items():
        if code == "6":
            values[name] = int.from_bytes(message[at : at + 6], "big")
        else:
            (value,) = struct.unpack_from(f">{code}", message, at)
            values[name] = value.decode("latin-1").rstrip() if isinstance(value, bytes) else value
    return values


def encode(values: dict[str, Any]) -> bytes:
    """Encodes a message, with its length; missing fields are 0 or blank."""
    layout = LAYOUTS[values["type"]]
    message = bytearray(values["type"].encode())
    for name, (_, code) in layout.fields.items():
        value = values.get(name, "" if code[-1] in "sc" else 0)
        if code == "6":
            message += int(value).to_bytes(6, "big")
        elif code[-1] in "sc":
            message += str(value).ljust(WIDTHS[code]).encode("latin-1")
        else:
            message += struct.pack(f">{code}", value)
    return struct.pack(">H", layout.length) + bytes(message)


def session_start(names: Sequence[str], time_ns: int, lot_multiples: Sequence[int] = ()) -> bytes:
    """The messages at the start of a session: start of messages, the directory, and "trading" for every stock, because a stock without it counts as
    halted. The stock at position i has the locate i + 1, and takes only quantities that are multiples of its lot multiple, by default 1."""
    stocks = [{"locate": locate, "time_ns": time_ns, "stock": name} for locate, name in enumerate(names, 1)]
    start = [{"type": "S", "time_ns": time_ns, "event": "O"}]
    lots = [
        {"round_lot": multiple, "round_lots_only": "Y"}
        if multiple > 1
        else {"round_lot": ROUND_LOT, "round_lots_only": "N"}
        for multiple in lot_multiples or [1] * len(names)
    ]
    directory = [{"type": "R"} | lot | stock for lot, stock in zip(lots, stocks, strict=True)]
    states = [{"type": "H", "state": "T"} | stock for stock in stocks]
    return b"".join(encode(message) for message in (*start, *directory, *states))


@inlined
def read_int(data: Any, at: int, width: int) -> int:
    """Reads a big-endian unsigned integer."""
    value = np.uint64(0)
    for index in range(at, at + width):
        value = (value << np.uint64(8)) | np.uint64(data[index])
    return int64(value)


@inlined
def write_int(data: Any, at: int, width: int, value: int) -> None:
    """Writes a big-endian integer."""
    for index in range(width):
        data[at + width - 1 - index] = (value >> (8 * index)) & 255
