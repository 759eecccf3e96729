"""A binary heap over two arrays: smallest key first, O(log size) a step. Place 0 is not used."""

from typing import Any

from serl.exchange.compiling import inlined


@inlined
def push(keys: Any, items: Any, counter: Any, size_at: int, key: int, item: int) -> None:
    """Adds an item; counter[size_at] is the size."""
    counter[size_at] += 1
    place = counter[size_at]
    while place > 1:
        parent = place >> 1
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
        child = 2 * place
        if child > size:
            break
        if child < size and keys[child + 1] < keys[child]:
            child += 1
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
