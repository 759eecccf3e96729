"""Changes of inputs that keep their structure, so that they get past the first check: compiled decoders give no guidance, and FIX has a checksum."""

from random import Random
from typing import Any

import msgpack

EDGES = (
    0, 1, -1, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 53, (1 << 62) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
    -(1 << 31), -(1 << 63), 1.5, float("nan"), float("inf"), None, True, "", "\0", "DEMO", b"", b"\0" * 64, [], [[]], {}, {"a": 1},
)  # fmt: skip
KINDS = (*range(1, 8), 32, *range(64, 72), *range(128, 142), *range(160, 176))
"""First elements of messages: those of the protocol, and some that it does not have."""
TEXTS = (
    "0", "1", "-1", "1e9", ".5", "1.", "00", "9" * 18, "9" * 19, "9" * 5000, "0." + "0" * 18 + "1", "\xb2", "Y", "N", "DEMO", "COIN", "20261125-12:00:00",
    "99991231-23:59:59.999999999", "00010101-00:00:00", "20260230-12:00:00", "R", "M", "G 6", "P", "2", "3", "4", "5", "6", "7",
)  # fmt: skip
TAGS = (
    "1", "11", "18", "37", "38", "40", "41", "44", "54", "55", "59", "60", "97", "99", "110", "111", "126", "211", "262", "263", "264", "269", "36", "43",
    "122", "123", "7", "16", "112", "108", "141", "530", "1138", "34", "5001", "0", "x",
)  # fmt: skip
TYPES = "DFGHqV0123455AcxejZ"


def change_values(data: bytes, seed: int) -> bytes:
    """Another msgpack array: some values replaced, added, taken off or repeated."""
    random = Random(seed)
    try:
        message = msgpack.unpackb(data, strict_map_key=False)
    except Exception:  # whatever it is: a new one
        message = None
    if not isinstance(message, list) or not message or random.random() < 0.05:
        message = [random.choice(KINDS), *(random.randrange(1000) for _ in range(random.randrange(12)))]
    for _ in range(random.randrange(1, 4)):
        _change(message, random)
    try:
        return bytes(msgpack.packb(message))
    except (ValueError, OverflowError):
        return data


def _change(message: list[Any], random: Random) -> None:
    place, how = random.randrange(len(message)), random.randrange(7)
    if how == 0 and len(message) > 1:
        del message[place]
    elif how == 1:
        message.insert(place, random.choice(EDGES))
    elif how == 2:
        message[0] = random.choice(KINDS)
    elif how == 3:
        message[place] = random.randrange(-(1 << 63), 1 << 64) >> random.randrange(64)
    elif how == 4:
        message[place] = random.randbytes(random.randrange(200))
    else:
        message[place] = random.choice(EDGES)


def change_fields(data: bytes, seed: int) -> bytes:
    """Other fields of FIX messages between zero bytes."""
    random = Random(seed)
    messages = [text.split("\x01") for text in data.decode("latin-1").split("\0")]
    for _ in range(random.randrange(1, 5)):
        fields = random.choice(messages)
        place, how = random.randrange(len(fields)), random.randrange(8)
        tag, _, value = fields[place].partition("=")
        if how == 0 and len(fields) > 1:
            del fields[place]
        elif how == 1:
            fields.insert(max(place, 1), f"{random.choice(TAGS)}={random.choice(TEXTS)}")
        elif how == 2:
            fields[0] = random.choice(TYPES)
        elif how == 3:
            fields[place] = f"{random.choice(TAGS)}={value}"
        elif how == 4:
            messages.insert(0, list(random.choice(messages)))
        elif how == 5:
            fields[place] = fields[place] + chr(random.randrange(1, 256))
        elif "=" in fields[place]:
            fields[place] = f"{tag}={random.choice(TEXTS)}"
    return "\0".join("\x01".join(fields) for fields in messages[:20]).encode("latin-1")
