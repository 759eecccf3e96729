"""The newest items of a stream, for readers of different speeds."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Ring(Generic[T]):
    """Keeps the newest `size` items. Each reader remembers the `count` that it has read up to."""

    def __init__(self, size: int) -> None:
        self._items: deque[T] = deque(maxlen=size)
        #: number of items ever appended
        self.count = 0

    def append(self, item: T) -> None:
        """Appends an item; drops the oldest if the ring is full."""
        self._items.append(item)
        self.count += 1

    def since(self, seen: int, limit: int | None = None) -> list[T]:
        """The items after the first `seen` that are still kept, oldest first; at most the newest `limit`."""
        new = min(max(self.count - seen, 0), len(self._items))
        if limit is not None:
            new = min(new, limit)
        return [self._items[index] for index in range(len(self._items) - new, len(self._items))]

    def clear(self) -> None:
        """Drops all items; `count` continues."""
        self._items.clear()
