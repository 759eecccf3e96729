"""The newest items of a history, in memory that does not grow."""

from typing import Generic, TypeVar

import msgpack
import numpy as np

T = TypeVar("T")


class Ring(Generic[T]):
    """Keeps the newest `size` items, or as many as fit into `bytes_max` bytes. Each reader remembers the `count` up to which it has read.

    The items, JSON values, are packed one after another into one buffer. As objects of varying sizes, replaced four times a second for hours,
    they would fragment the heap, which then grows although their number does not.
    """

    def __init__(self, size: int, bytes_max: int) -> None:
        self._size, self._bytes_max = size, bytes_max
        self._data = bytearray()  # allocated with the first item: most symbols are never shown
        self._places = np.zeros((size, 2), np.int64)  # begin and end in the buffer; item n is in row n % size
        self._end = self._kept = 0
        #: number of items ever appended
        self.count = 0

    def append(self, item: T) -> None:
        """Appends an item; drops the oldest if the ring is full. An item that is too large by itself leaves the ring empty."""
        if not self._data:
            self._data = bytearray(b"\xff") * self._bytes_max  # filled, so that all of its memory is allocated
        packed = msgpack.packb(item)
        if self._end + len(packed) > self._bytes_max:
            self._drop(self._end, self._bytes_max)
            self._end = 0
        begin, end = self._end, self._end + len(packed)
        self._drop(begin, end)
        if end <= self._bytes_max:
            self._data[begin:end] = packed
            self._places[self.count % self._size] = begin, end
            self._kept, self._end = min(self._kept + 1, self._size), end
        self.count += 1

    def _drop(self, begin: int, end: int) -> None:
        """Drops the oldest items as long as they begin in this part of the buffer."""
        while self._kept and begin <= self._places[(self.count - self._kept) % self._size, 0] < end:
            self._kept -= 1

    def since(self, seen: int, limit: int | None = None) -> list[T]:
        """The items after the first `seen` that are still kept, oldest first; at most the newest `limit`. Tuples become lists."""
        new = min(max(self.count - seen, 0), self._kept)
        if limit is not None:
            new = min(new, limit)
        places = self._places[np.arange(self.count - new, self.count) % self._size].tolist()
        return [msgpack.unpackb(self._data[begin:end], strict_map_key=False) for begin, end in places]

    def clear(self) -> None:
        """Drops all items; `count` continues."""
        self._kept = 0
