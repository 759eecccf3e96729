"""A heap over two arrays, four children a place: smallest key first, O(log size) a step. Place 0 is not used.

Four children lie next to each other in memory, so that a large heap is half as many cache misses deep as a binary one.
"""

from typing import Any

from serl.exchange.compiling import inlined


@inlined
def push(keys: Any, items: Any, counter: Any, size_at: int, key: int, item: int) -> None:
    """Adds an item; counter[size_at] is the size."""
    counter[size_at] += 1
    place = counter[size_at]
    while place > 1:
        parent = (place + 2) >> 2
        if keys[parent] <= key:
            break
        keys[place] = keys[parent]
        items[place] = items[parent]
        place = parent
    keys[place] = key
    items[place] = item


@inlined
def sink(keys: Any, items: Any, size: int, key: int, item: int) -> None:
    """Puts an item in the place of the first one."""
    place = 1
    while True:
        child = 4 * place - 2
        if child > size:
            break
        for sibling in range(child + 1, min(child + 4, size + 1)):
            if keys[sibling] < keys[child]:
                child = sibling
        if keys[child] >= key:
            break
        keys[place] = keys[child]
        items[place] = items[child]
        place = child
    keys[place] = key
    items[place] = item


@inlined
def pop(keys: Any, items: Any, counter: Any, size_at: int) -> None:
    """Takes the first item off."""
    size = counter[size_at] - 1
    counter[size_at] = size
    if size > 0:
        sink(keys, items, size, keys[size + 1], items[size + 1])
