"""Answers a ResendRequest: stored messages as possible duplicates, and gap fills for the numbers between them."""

from serl.gateways.fix.codec import SOH, encode
from serl.gateways.fix.store import SessionStore

PART_BYTES = 1 << 16
"""Bytes that a resend sends at a time before it waits for the client to read."""
PART_NUMBERS = 10_000
"""Sequence numbers that a resend processes at a time: those of administrative messages have no bytes, but take time."""


class Resends:
    """The messages to resend. Meanwhile new messages wait in the store: they follow as new ones."""

    def __init__(self, store: SessionStore, parties: str) -> None:
        self._store, self._parties = store, parties
        #: [at, to] twice: the requested numbers, then those of messages that were added meanwhile (to = 0: all)
        self._ranges: list[list[int]] = []
        #: messages from this number on were never sent
        self._unsent = 0

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def start(self, begin: int, end: int) -> None:
        """Begins to resend these numbers."""
        self._unsent = self._ranges[-1][0] if self._ranges else self._store.next_out
        self._ranges = [[begin, min(end, self._unsent - 1)], [self._unsent, 0]]

    def clear(self) -> None:
        """Ends the resend."""
        self._ranges = []

    def part(self, stamp: str) -> list[bytes]:
        """The next messages, about `PART_BYTES` in size, for up to `PART_NUMBERS` numbers. stamp: their SendingTime."""
        part: list[bytes] = []
        size = gap = count = 0
        while self._ranges and size < PART_BYTES and count < PART_NUMBERS:
            count += 1
            at, to = self._ranges[0]
            last = to or self._store.next_out - 1
            stored = self._store.message(at) if at <= last else None
            if gap and (stored is not None or at > last):
                part.append(self._gap_fill(gap, at, stamp))
                gap = 0
            if at > last:
                self._ranges.pop(0)
                continue
            if stored is not None:
                part.append(stored if at >= self._unsent else again(stored, stamp))
                size += len(stored)
            else:
                gap = gap or at
            self._ranges[0][0] += 1
        if gap:
            part.append(self._gap_fill(gap, self._ranges[0][0], stamp))
        return part

    def _gap_fill(self, begin: int, new: int, stamp: str) -> bytes:
        times = f"43=Y\x0152={stamp}\x01122={stamp}\x01"
        return encode(f"35=4\x01{self._parties}34={begin}\x01{times}123=Y\x0136={new}\x01")


def again(stored: bytes, stamp: str) -> bytes:
    """A stored message as a possible duplicate that is sent at `stamp`."""
    fields = stored[stored.index(b"\x0135=") + 1 : -7].decode("latin-1")
    head, _, rest = fields.partition(f"{SOH}52=")
    original, _, body = rest.partition(SOH)
    return encode(f"{head}\x0143=Y\x0152={stamp}\x01122={original}\x01{body}")
