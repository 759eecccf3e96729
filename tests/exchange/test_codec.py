"""The compiled msgpack codec against the reference implementation, and golden bytes for the forms of docs/protocol.md."""

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.exchange.gateway import codec
from serl.exchange.records import COMMAND, EVENT


def as_array(data: bytes) -> Any:
    return np.frombuffer(bytearray(data), np.uint8)


@settings(max_examples=500)
@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_round_trip_and_match_msgpack(value: int) -> None:
    buffer = np.zeros(16, np.uint8)
    size = codec.write_int(buffer, 0, value)
    assert buffer[:size].tobytes() == msgpack.packb(value)
    assert codec.read_int(buffer, 0, size) == (value, size)


@pytest.mark.parametrize("data", [b"", b"\xcb" + b"\0" * 8, b"\xcf" + b"\xff" * 8, b"\xcd\x01", b"\xc0", b"\xa1a"])
def test_other_types_are_not_read_as_integers(data: bytes) -> None:
    assert codec.read_int(as_array(data + b"\0"), 0, len(data))[1] == codec.INVALID


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("99 01 07 02 01 64 cd 57 49 01 00 00", {"kind": 1, "command_id": 7, "symbol": 2, "side": 1, "qty_lots": 100,
                                                 "price_ticks": 22345, "time_in_force": 1, "flags": 0}),
        ("94 02 08 07 00", {"kind": 2, "command_id": 8, "order_id": 7}),
        ("95 03 09 07 05 00", {"kind": 3, "command_id": 9, "order_id": 7, "qty_lots": 5}),
        ("96 04 0a 07 32 cd 57 48 00", {"kind": 4, "command_id": 10, "order_id": 7, "qty_lots": 50, "price_ticks": 22344}),
        ("97 04 0a 07 32 cd 57 48 20 00", {"kind": 4, "command_id": 10, "order_id": 7, "qty_lots": 50, "price_ticks": 22344, "flags": 32}),
        ("94 05 0b cd ff ff 00", {"kind": 5, "command_id": 11, "symbol": 65535}),
        ("93 10 0c 00", {"kind": 16, "command_id": 12}),
        ("94 11 0d 02 00", {"kind": 17, "command_id": 13, "symbol": 2}),
        ("95 11 0d 02 04 00", {"kind": 17, "command_id": 13, "symbol": 2, "flags": 4}),
        ("96 19 0d 07 cd ff ff 02 00", {"kind": 25, "command_id": 13, "order_id": 7, "symbol": 65535, "flags": 2}),
        ("94 12 0e 02 00", {"kind": 18, "command_id": 14, "symbol": 2}),
        ("97 13 0f 02 00 05 64 7b", {"kind": 19, "command_id": 15, "symbol": 2, "qty_lots": 5, "price_ticks": 100,
                                     "time_ns": 123}),
    ],
)  # fmt: skip
def test_golden_orders(message: str, fields: dict[str, int]) -> None:
    row = np.zeros(1, COMMAND)
    data = bytes.fromhex(message)
    assert codec.read_order(as_array(data), len(data), row[0])
    assert {name: int(row[0][name]) for name in COMMAND.names or () if row[0][name]} == {
        name: value for name, value in fields.items() if value
    }


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_random_bytes_are_an_order_only_if_msgpack_agrees(data: bytes) -> None:
    row = np.zeros(1, COMMAND)
    if codec.read_order(as_array(data + b"\0"), len(data), row[0]):
        message = msgpack.unpackb(data)
        assert message[0] in (1, 2, 3, 4, 5, 16, 17, 18, 19)
        assert all(isinstance(value, int) for value in message)


def test_golden_report() -> None:
    event = np.zeros(1, EVENT)
    values = {"kind": 3, "time_ns": 5, "command_id": 6, "order_id": 7, "order_number": 8, "symbol": 9, "side": 1,
              "qty_lots": 300, "price_ticks": 70_000, "leaves_lots": 0, "reason": 0, "flags": 2, "match_id": 10,
              "sequence": 2**40}  # fmt: skip
    for name, value in values.items():
        event[name] = value
    buffer = np.zeros(128, np.uint8)
    size = codec.write_event(buffer, 0, event[0])
    golden = "9e 03 05 06 07 08 09 01 cd012c ce00011170 00 00 02 0a cf0000010000000000"
    assert buffer[:size].tobytes() == bytes.fromhex(golden) == msgpack.packb(list(values.values()))
