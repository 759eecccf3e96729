"""The heap, against a sorted list."""

import heapq

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.agents.traders import heap

STEPS = st.lists(
    st.one_of(st.none(), st.tuples(st.just("replace_first"), st.integers(0, 50)), st.integers(0, 50)), max_size=80
)


@settings(max_examples=200)
@given(STEPS)
def test_against_heapq(steps: list[int | tuple[str, int] | None]) -> None:
    """An integer is pushed, None pops, ("replace_first", key) replaces the first one."""
    keys, items, counter = np.zeros(100, np.int64), np.zeros(100, np.int32), np.zeros(2, np.int64)
    plain: list[int] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            heap.push(keys, items, counter, 1, step, np.int32(step + 1000))
            heapq.heappush(plain, step)
        elif plain and step is None:
            heap.pop(keys, items, counter, 1)
            heapq.heappop(plain)
        elif plain and step is not None:
            heap.replace_first(keys, items, counter[1], step[1], np.int32(step[1] + 1000))
            heapq.heapreplace(plain, step[1])
        size = len(plain)
        assert counter.tolist() == [0, size], number
        assert sorted(keys[1 : size + 1].tolist()) == sorted(plain)
        assert np.array_equal(items[1 : size + 1], keys[1 : size + 1] + 1000)
        if plain:
            assert keys[1] == plain[0]
