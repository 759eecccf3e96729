"""FIX messages as bytes: framing with length and checksum, fields, timestamps. No sockets, no session."""

import re
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from zlib import adler32

BEGIN_STRING = "FIX.4.4"
SOH = "\x01"
MESSAGE_BYTES_MAX = 1 << 16
"""A longer message is garbled."""
_HEADER = re.compile(rb"8=([^\x01]{1,20})\x019=(\d{1,7})\x01")
_HEADER_PART = re.compile(rb"(?:8(?:=(?:[^\x01]{1,20}(?:\x01(?:9(?:=\d{0,7})?)?)?)?)?)?\Z")
_TRAILER_BYTES = 7  # 10=nnn and its SOH
_CHUNK = 256  # bytes whose sum Adler-32 gives exactly: 256 * 255 < 65521
SECOND_NS = 1_000_000_000
_TIMESTAMP = re.compile(r"(\d{8})-(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?\Z", re.ASCII)


class Frame(NamedTuple):
    """A message with the right length and checksum; body: the fields between BodyLength and CheckSum, without the last SOH."""

    begin_string: str
    body: str


def checksum(data: bytes) -> int:
    """The sum of the bytes, modulo 256."""
    if len(data) <= _CHUNK:
        return (adler32(data) - 1) & 0xFF
    return sum((adler32(data[at : at + _CHUNK]) - 1) & 0xFFFF for at in range(0, len(data), _CHUNK)) & 0xFF


def encode(fields: str) -> bytes:
    """Encodes a whole message from its fields, from MsgType on, each with its SOH."""
    data = f"8={BEGIN_STRING}\x019={len(fields)}\x01{fields}".encode("latin-1")
    return b"%b10=%03d\x01" % (data, checksum(data))


class Framer:
    """Splits a stream of bytes into messages. Garbled ones are counted and skipped, up to the next BeginString."""

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self.garbled = 0

    def feed(self, data: bytes) -> None:
        """Adds received bytes."""
        self._data = self._data[self._at :] + data
        self._at = 0

    def next(self) -> Frame | None:
        """The next whole message; None until more bytes arrive."""
        while self._at < len(self._data):
            data, at = self._data, self._at
            header = _HEADER.match(data, at)
            if header is None:
                if _HEADER_PART.match(data, at):
                    return None
                self._skip(at)
                continue
            start, length = header.end(), int(header[2])
            end = start + length
            if length > MESSAGE_BYTES_MAX:
                self._skip(at)
            elif len(data) < end + _TRAILER_BYTES:
                following = data.find(b"\x018=FIX", start)
                if following < 0:
                    return None
                self._skip(following)
            elif data[end : end + _TRAILER_BYTES] != b"10=%03d\x01" % checksum(data[at:end]):
                self._skip(at)
            else:
                self._at = end + _TRAILER_BYTES
                return Frame(header[1].decode("latin-1"), data[start : end - 1].decode("latin-1"))
        return None

    def _skip(self, at: int) -> None:
        """Counts a garbled message and continues at the next BeginString, which may have arrived only in part."""
        self.garbled += 1
        following = self._data.find(b"8=FIX", at + 1)
        if following < 0:
            following = max(at + 1, len(self._data) - 4)
            while following < len(self._data) and not b"8=FIX".startswith(self._data[following:]):
                following += 1
        self._at = following


class Message:
    """The fields of a message: `fields` has the last value of a repeated tag, `pairs` has all [tag, value] in order. For a field without `=`
    the tag is the whole text and the value is empty."""

    __slots__ = ("begin_string", "fields", "pairs", "seq", "type")

    def __init__(self, frame: Frame) -> None:
        self.begin_string = frame.begin_string
        self.pairs = [field.split("=", 1) for field in frame.body.split(SOH)]
        try:
            self.fields: dict[str, str] = dict(self.pairs)
        except ValueError:
            self.pairs = [pair if len(pair) == 2 else [*pair, ""] for pair in self.pairs]
            self.fields = dict(self.pairs)
        self.type = self.fields.get("35", "")
        #: MsgSeqNum; -1 if it is missing or not a number
        self.seq = number(self.fields.get("34", ""))

    @property
    def poss_dup(self) -> bool:
        """Whether it is marked as a possible duplicate."""
        return self.fields.get("43") == "Y"


def number(text: str) -> int:
    """Parses a non-negative integer of at most 18 digits; -1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else -1


class UtcClock:
    """UTC timestamps to the millisecond; the text of each second is created once."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def text(self, time_ns: int) -> str:
        """Formats nanoseconds since 1970 as YYYYMMDD-HH:MM:SS.sss."""
        second, rest = divmod(time_ns, SECOND_NS)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y%m%d-%H:%M:%S.")
        return f"{self._text}{rest // 1_000_000:03d}"

    def now(self) -> str:
        """The current time."""
        return self.text(time.time_ns())


@lru_cache(maxsize=256)
def _day_ns(date: str) -> int:
    """Converts a date to nanoseconds since 1970; -1 if there is no such day."""
    try:
        moment = datetime(int(date[:4]), int(date[4:6]), int(date[6:]), tzinfo=UTC)
    except ValueError:
        return -1
    return int(moment.timestamp()) * SECOND_NS


@lru_cache(maxsize=16)
def parse_timestamp(text: str) -> int:
    """Converts a UTCTimestamp to nanoseconds since 1970; -1 for anything else."""
    found = _TIMESTAMP.match(text)
    if found is None:
        return -1
    date, hour, minute, second, fraction = found.groups("")
    day_ns = _day_ns(date)
    seconds = 3600 * int(hour) + 60 * int(minute) + int(second)
    if day_ns < 0 or hour > "23" or minute > "59" or second > "60":
        return -1
    return day_ns + seconds * SECOND_NS + (int(fraction.ljust(9, "0")) if fraction else 0)


def plain(text: str) -> str:
    """Makes a text fit for a FIX field: one line of Latin-1, at most 200 characters."""
    return text.encode("latin-1", "replace").decode("latin-1").replace(SOH, " ").replace("\n", " ")[:200]


def is_comp_id(text: str) -> bool:
    """Whether a text can be a CompID here: printable ASCII."""
    return bool(text) and text.isascii() and text.isprintable()
