"""The newest items of a stream, for readers who come when they can."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Ring(Generic[T]):
    """Keeps `size` items. A reader says up to which it has seen and gets what is newer and still kept."""

    def __init__(self, size: int) -> None:
        self._items: deque[T] = deque(maxlen=size)
        #: how many there ever were
        self.count = 0

    def append(self, item: T) -> None:
        """Adds an item; the oldest goes if there is no room."""
        self._items.append(item)
        self.count += 1

    def since(self, seen: int, most: int | None = None) -> list[T]:
        """What came after the first `seen` items and is kept, oldest first; at most the newest `most`."""
        fresh = min(max(self.count - seen, 0), len(self._items))
        if most is not None:
            fresh = min(fresh, most)
        return [self._items[index] for index in range(len(self._items) - fresh, len(self._items))]

    def clear(self) -> None:
        """Forgets the items; the count goes on."""
        self._items.clear()
