"""A 4-ary min-heap over two arrays, O(log size) per operation. Index 0 is unused.

Siblings are adjacent in memory, so a large heap costs half the cache misses of a binary one.
"""

from typing import Any

from serl.exchange.compiling import inlined


@inlined
def push(keys: Any, items: Any, counter: Any, size_slot: int, key: int, item: int) -> None:
    """Adds an item; counter[size_slot] is the size."""
    counter[size_slot] += 1
    index = counter[size_slot]
    while index > 1:
        parent = (index + 2) >> 2
        if keys[parent] <= key:
            break
        keys[index] = keys[parent]
        items[index] = items[parent]
        index = parent
    keys[index] = key
    items[index] = item


@inlined
def replace_first(keys: Any, items: Any, size: int, key: int, item: int) -> None:
    """Replaces the first item by another."""
    index = 1
    while True:
        child = 4 * index - 2
        if child > size:
            break
        for sibling in range(child + 1, min(child + 4, size + 1)):
            if keys[sibling] < keys[child]:
                child = sibling
        if keys[child] >= key:
            break
        keys[index] = keys[child]
        items[index] = items[child]
        index = child
    keys[index] = key
    items[index] = item


@inlined
def pop(keys: Any, items: Any, counter: Any, size_slot: int) -> None:
    """Removes the first item."""
    size = counter[size_slot] - 1
    counter[size_slot] = size
    if size > 0:
        replace_first(keys, items, size, keys[size + 1], items[size + 1])
