"""The codec on its own, beside simplefix and the definition."""

import random

import pytest
import simplefix

from serl.clients.session import Instrument
from serl.gateways.fix import fields
from serl.gateways.fix.codec import Frame, Framer, Message, UtcClock, checksum, encode, parse_timestamp
from serl.gateways.fix.instruments import Quoting

GOOD = encode("35=0\x0149=a\x0156=b\x0134=1\x01")


def frames(*parts: bytes) -> tuple[list[Frame], int]:
    framer, found = Framer(), []
    for part in parts:
        framer.feed(part)
        while (frame := framer.next()) is not None:
            found.append(frame)
    return found, framer.garbled


def test_messages_are_those_of_simplefix() -> None:
    other = simplefix.FixMessage()
    for tag, value in ((8, "FIX.4.4"), (35, "D"), (58, "Zürich".encode("latin-1") * 60)):
        other.append_pair(tag, value)
    raw = bytes(other.encode())
    (frame,), garbled = frames(raw)
    assert garbled == 0 and Message(frame).fields["58"] == "Zürich" * 60
    assert encode(frame.body + "\x01") == raw


def test_checksums_of_any_length() -> None:
    source = random.Random(1)
    for length in (0, 1, 255, 256, 257, 1000, 70_000):
        data = source.randbytes(length)
        assert checksum(data) == sum(data) % 256
    assert checksum(b"\xff" * 5000) == 255 * 5000 % 256


def test_bytes_one_by_one_and_many_messages_at_once() -> None:
    one_by_one, garbled = frames(*(bytes([byte]) for byte in GOOD * 3))
    assert len(one_by_one) == 3 and garbled == 0
    assert frames(GOOD * 3)[0] == one_by_one


@pytest.mark.parametrize(
    "junk",
    [
        b"x",
        b"\x01\x01",
        b"8=FIX.4.4\x01x",
        b"8=FIX.4.4\x019=x\x01",
        b"8=FIX.4.4\x019=99999999\x01",
        b"8=FIX.4.4\x019=9999999\x0135=0\x01",
        b"8=\x01",
        b"8=" + b"F" * 30,
        GOOD[:-4] + b"000\x01",  # checksum
        GOOD.replace(b"9=20", b"9=19"),
        GOOD.replace(b"9=20", b"9=21"),
        GOOD.replace(b"9=20", b"9=200"),
        GOOD.replace(b"9=20", b"9=65536"),
        GOOD[:20],
        b"8=FIX.4.4\x019=5\x0135=0\x0110=000\x01",
        b"8=FIX" * 5,
    ],
)
def test_garbled_bytes_are_skipped(junk: bytes) -> None:
    """What follows them is read, however it arrives."""
    found, garbled = frames(junk + GOOD + GOOD)
    assert [frame.body for frame in found][-2:] == ["35=0\x0149=a\x0156=b\x0134=1"] * 2 and garbled >= 1
    assert frames(*(bytes([byte]) for byte in junk + GOOD + GOOD))[0][-2:] == found[-2:]


def test_ten_megabytes_without_a_field_end() -> None:
    framer = Framer()
    for _ in range(160):
        framer.feed(b"8" * (1 << 16))
        assert framer.next() is None
    assert len(framer._data) < 1 << 18
    framer.feed(GOOD)
    assert framer.next() is not None


def test_random_bytes_never_fail() -> None:
    source = random.Random(2)
    for _ in range(300):
        damaged = bytearray(GOOD * 3)
        for _ in range(source.randrange(1, 6)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        for frame in frames(bytes(damaged) + GOOD)[0]:
            Message(frame)


@pytest.mark.parametrize(
    "text, time_ns",
    [
        ("19700101-00:00:00", 0),
        ("19700101-00:00:01.5", 1_500_000_000),
        ("20000229-23:59:60.123456789", 951_868_800_123_456_789),
        ("20010229-00:00:00", -1),
        ("20000101-24:00:00", -1),
        ("20000101-00:60:00", -1),
        ("20000101-00:00:61", -1),
        ("20000101 00:00:00", -1),
        ("", -1),
        ("00000101-00:00:00", -1),
        ("२०००0101-00:00:00", -1),
    ],
)
def test_timestamps(text: str, time_ns: int) -> None:
    assert parse_timestamp(text) == time_ns


def test_timestamps_are_written_as_they_are_read() -> None:
    clock = UtcClock()
    for time_ns in (0, 1_700_000_000_123_000_000, 1_700_000_000_124_000_000, 1_700_000_001_000_000_000):
        assert parse_timestamp(clock.text(time_ns)) == time_ns


def test_what_is_remembered_of_messages_takes_little_memory() -> None:
    """Each of these would have kept its 6,400 tags for good, of which a client can send ever other ones."""
    head, kept = "35=0\x0149=A\x0156=SERL\x0134=5\x0152=20260101-00:00:00\x01", set(fields._shapes)
    for number in range(1, 4):
        tags = "\x01".join(f"{100_000 * number + place}=1" for place in range(6400))
        assert fields.problem_of(Message(Frame("FIX.4.4", head + tags))) is None
    assert fields.problem_of(Message(Frame("FIX.4.4", head + "5001=1"))) is None
    assert max(map(len, fields._shapes.keys() - kept), default=0) < 200


def test_an_average_price_next_to_a_whole_number_has_no_point_at_its_end() -> None:
    """Of 3 coins in lots of 0.00000001, a lot traded a tick higher. Before, AvgPx was "100."."""
    quoting = Quoting(Instrument.of(0, "COIN", "0.01", "0.00000001"))
    assert quoting.average(10_000 * 300_000_000 + 1, 300_000_000) == "100"
    assert quoting.average(10_000 * 3 + 1, 3) == "100.00333333"
