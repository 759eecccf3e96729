"""A cache of states of simulated days, so that windows of the same day need not be simulated from the open.

A cached state stores only the difference from a base state of the same layout, because most of a market's arrays are unused room for orders, the
same in all states.
"""

from bisect import bisect_right, insort
from collections import OrderedDict
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.market_state import NEVER, MarketState, Origin
from serl.agents.execution.environment.state_block import Block, Layout
from serl.exchange.market import Market

COARSEST_NS = 1_800_000_000_000
FINEST_NS = COARSEST_NS // 16
COMMANDS_MIN = 1000
"""The fewest commands between two cached states: executing this many takes longer than storing a state and starting from it."""
MEGABYTE = 1_000_000
MB_PER_DAY = 16
"""Enough for a state every two to four minutes of a day, in the shipped populations."""
VENUE_BYTES = 10_000
"""Approximate size of the schedule and the price bands of a market with rules."""


class Base(NamedTuple):
    """The base state, from which the other states of its layout store their difference."""

    block: Block
    market: Market
    """The market whose arrays are in this block."""

    @classmethod
    def of(cls, state: MarketState) -> "Base":
        """A base from a copy of a state."""
        copied = state.copy()
        return cls(copied.block, copied.market)


class KeptState(NamedTuple):
    """A cached state: its difference from the base."""

    base: Base
    places: NDArray[np.uint8]
    """A bit per word: whether it differs."""
    words: NDArray[np.uint64]
    origin: Origin

    @classmethod
    def of(cls, state: MarketState, block: Block, base: Base) -> "KeptState":
        """A cached copy of a state, independent of it. block: holds the state's arrays."""
        differ = block.words != base.block.words
        venue = None if state.venue is None else state.venue.copy(base.market)
        if venue is not None:
            venue.trim()
        origin = Origin(state.crowd.without_arrays(), state.crowd.memory_address, base.market, venue)
        return cls(base, np.packbits(differ), block.words[differ], origin)

    @property
    def bytes(self) -> int:
        """Memory that it does not share with other states."""
        venue = self.origin.venue
        rules = 0 if venue is None else VENUE_BYTES + venue.kept.nbytes
        return self.places.nbytes + self.words.nbytes + rules

    def restored(self, spare: MarketState | None) -> MarketState:
        """A copy of the state. It reuses the memory of `spare`, a state that is no longer needed, if it fits."""

        def fill(words: Any) -> None:
            np.copyto(words, self.base.block.words)
            words[np.unpackbits(self.places, count=words.size).view(bool)] = self.words

        return self.origin.rebuilt(self.base.block, fill, spare)


class StateCache:
    """A thread-safe cache of states at the open and at multiples of `interval_ns`. Whenever they take more than `size_mb` MB, the interval doubles, up
    to half an hour; after that the least recently used states are dropped."""

    def __init__(self, open_ns: int, size_mb: int) -> None:
        self.interval_ns = FINEST_NS
        self._open_ns, self._bytes_max = open_ns, size_mb * MEGABYTE
        self._states: OrderedDict[tuple[int, int], KeptState] = OrderedDict()
        self._times_ns: dict[int, list[int]] = {}
        """Increasing times of each seed's states."""
        self._seed_bytes = 0
        """Size of what the states of a seed share: the path of the fundamental value."""
        self._bases: dict[Layout, Base] = {}
        self._lock = Lock()
        self.bytes_used = 0
        """Size of all states and what they share."""

    def __len__(self) -> int:
        return len(self._states)

    def due_ns(self, time_ns: int) -> int:
        """The next time after `time_ns` at which to keep a state."""
        return (time_ns // self.interval_ns + 1) * self.interval_ns if self._bytes_max else NEVER

    def is_due(self, time_ns: int) -> bool:
        """Whether to keep a state at this time."""
        return bool(self._bytes_max) and time_ns % self.interval_ns == 0

    def latest(self, seed: int, time_ns: int) -> tuple[int, KeptState | None]:
        """(time, state) of a seed's last state up to a time; (time of the open, None) if there is none."""
        with self._lock:
            times_ns = self._times_ns.get(seed, [])
            place = bisect_right(times_ns, time_ns)
            if not place:
                return self._open_ns, None
            key = seed, times_ns[place - 1]
            self._states.move_to_end(key)
            return key[1], self._states[key]

    def keep(self, seed: int, time_ns: int, state: MarketState) -> None:
        """Keeps a copy of a state, unless there is one of this time or the cache has no room."""
        if not self._bytes_max or (seed, time_ns) in self._states:
            return
        block = state.block
        kept = KeptState.of(state, block, self._base(state, block))
        with self._lock:
            if seed not in self._times_ns:
                self._times_ns[seed], self._seed_bytes = [], state.crowd.traders.value.nbytes
                self.bytes_used += self._seed_bytes
            insort(self._times_ns[seed], time_ns)
            self._states[seed, time_ns] = kept
            self.bytes_used += kept.bytes
            while self.bytes_used > self._bytes_max and self._states:
                self._make_room()

    def _base(self, state: MarketState, block: Block) -> Base:
        with self._lock:
            if block.layout not in self._bases:
                self._bases[block.layout] = Base.of(state)
                self.bytes_used += block.words.nbytes
            return self._bases[block.layout]

    def _make_room(self) -> None:
        if self.interval_ns < COARSEST_NS:
            self.interval_ns *= 2
            for seed, time_ns in list(self._states):
                if time_ns % self.interval_ns and time_ns != self._open_ns:
                    self._drop(seed, time_ns)
        else:
            self._drop(*next(iter(self._states)))

    def _drop(self, seed: int, time_ns: int) -> None:
        self.bytes_used -= self._states.pop((seed, time_ns)).bytes
        self._times_ns[seed].remove(time_ns)
        if not self._times_ns[seed]:
            del self._times_ns[seed]
            self.bytes_used -= self._seed_bytes
