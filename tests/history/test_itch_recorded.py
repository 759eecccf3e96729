"""Messages byte by byte: bodies as they are in the publisher's files (stocks A, BBRY, ZXZZT, HIBB, ESSA, NUGT, ZWZZT), and, for the types
without one, written out from the specification's tables. Nothing here uses the reader's own layouts to write."""

from pathlib import Path
from typing import Any

import pytest

from serl.history.itch.messages import decode
from tests.history.itch_sample import import_itch
from tests.history.sample import commands_of_row

OPEN_NS = 34_200 * 10**9
HEAD = "0007 0002"
"""Stock locate 7, tracking number 2."""
RECORDED: list[tuple[str, str, dict[str, Any]]] = [
    ("S", "4f", {"event": "O"}),
    (
        "R",
        "41202020 20202020 4e 20 00000064 4e 43 5a20 50 4e 20 31 4e 00000000 4e",
        {
            "stock": "A", "category": "N", "status": "", "round_lot": 100, "round_lots_only": "N", "classification": "C", "subtype": "Z",
            "authenticity": "P", "short_sale_threshold": "N", "ipo": "", "luld_tier": "1", "etp": "N", "etp_leverage": 0, "inverse": "N",
        },
    ),
    ("L", "4144414d 42425259 20202020 59 4e 41", {"participant": "ADAM", "stock": "BBRY", "primary": "Y", "mode": "N", "state": "A"}),
    ("K", "5a575a5a 54202020 0000891c 41 000186a0", {"stock": "ZWZZT", "release_s": 35_100, "qualifier": "A", "price": 100_000}),
    ("A", "00000000 00000584 42 00000064 5a585a5a 54202020 00002710", {"order": 1412, "side": "B", "shares": 100, "stock": "ZXZZT", "price": 10_000}),
    ("P", "00000000 00000000 42 00000bb8 4e554754 20202020 000193e8 00000000 0000417f",
     {"order": 0, "side": "B", "shares": 3_000, "stock": "NUGT", "price": 103_400, "match": 16_767}),
    ("Q", "00000000 00000000 45535341 20202020 00000000 00000000 000003c0 43",
     {"shares": 0, "stock": "ESSA", "price": 0, "match": 960, "cross": "C"}),
    ("I", "00000000 00000000 00000000 00000000 4f 48494242 20202020 00000000 00000000 00000000 43 20",
     {"paired": 0, "imbalance": 0, "direction": "O", "stock": "HIBB", "far": 0, "near": 0, "reference": 0, "cross": "C", "variation": ""}),
]  # fmt: skip
SPECIFIED: list[tuple[str, str, dict[str, Any]]] = [
    ("F", "00000000 00000585 53 000000c8 5a585a5a 54202020 00002af8 4e534451",
     {"order": 1413, "side": "S", "shares": 200, "stock": "ZXZZT", "price": 11_000, "attribution": "NSDQ"}),
    ("E", "00000000 00000584 00000014 00000000 00004180", {"order": 1412, "shares": 20, "match": 16_768}),
    ("C", "00000000 00000584 0000000a 00000000 00004181 59 00002648", {"order": 1412, "shares": 10, "match": 16_769, "printable": "Y", "price": 9_800}),
    ("X", "00000000 00000584 0000001e", {"order": 1412, "shares": 30}),
    ("U", "00000000 00000584 00000000 00000586 00000032 00002774", {"order": 1412, "new_order": 1414, "shares": 50, "price": 10_100}),
    ("D", "00000000 00000586", {"order": 1414}),
    ("B", "00000000 00004180", {"match": 16_768}),
    ("H", "5a585a5a 54202020 48 20 54312020", {"stock": "ZXZZT", "state": "H", "reserved": "", "reason": "T1"}),
]  # fmt: skip


def body(kind: str, fields: str, time_ns: int) -> bytes:
    return kind.encode() + bytes.fromhex(HEAD) + time_ns.to_bytes(6, "big") + bytes.fromhex(fields)


@pytest.mark.parametrize(("kind", "fields", "values"), RECORDED + SPECIFIED)
def test_the_fields_of_a_message(kind: str, fields: str, values: dict[str, Any]) -> None:
    head = {"type": kind, "locate": 7, "tracking": 2, "time_ns": OPEN_NS}
    assert decode(body(kind, fields, OPEN_NS)) == head | values


def test_a_whole_message_as_recorded() -> None:
    """The start of messages, at 12:20:38."""
    message = bytes.fromhex("53 0000 0000 286aab3b3a99 4f")
    assert decode(message) == {"type": "S", "locate": 0, "tracking": 0, "time_ns": 44_438_604_429_977, "event": "O"}


def test_the_commands_of_the_messages(tmp_path: Path) -> None:
    """One file of them all; the stocks of other messages have other locates, as in the publisher's files."""
    data = b""
    for number, (kind, fields, _) in enumerate(RECORDED + SPECIFIED):
        message = bytearray(body(kind, fields, OPEN_NS + number))
        if kind in "RLKPQI":
            message[1:3] = (100 + number).to_bytes(2, "big")
        data += len(message).to_bytes(2, "big") + message
    (tmp_path / "01302019.NASDAQ_ITCH50").write_bytes(data + b"\0\0")
    day = import_itch(tmp_path / "01302019.NASDAQ_ITCH50")
    assert [symbol.name for symbol in day.reference.symbols] == ["ZXZZT", "NUGT", "ESSA"]
    assert {row: commands_of_row(day, row) for row in sorted(set(day.rows.tolist()))} == {
        4: [("NEW", 0, 0, 100, 100)],
        5: [("PRINT", 0, 0, 3_000, 1_034)],
        8: [("NEW", 0, 1, 200, 110)],
        9: [("NEW", 0, 1, 20, 100)],
        10: [("REDUCE", 1, 0, 10, 100), ("PRINT", 0, 0, 10, 98)],
        11: [("REDUCE", 1, 0, 30, 100)],
        12: [("CANCEL", 1, 0, 0, 100), ("NEW", 0, 0, 50, 101)],
        13: [("CANCEL", 9, 0, 0, 101)],
        15: [("HALT", 0, 0, 0, 0)],
    }
    counts = {
        "crosses_empty": 1,
        "broken_trades": 1,
        "replaces": 1,
        "executions_other_price": 1,
        "messages_without_effect": 5,
    }
    assert counts.items() <= day.reference.counts.items() and day.reference.source_rows == 16
