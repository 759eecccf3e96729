"""The state of one environment's simulated market at one time: its traders, its book, and what its rules schedule."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from serl.agents.execution.environment.own_orders import EVENT_ROWS, NOW
from serl.agents.execution.environment.records import FILL, FRAME
from serl.agents.execution.environment.simulated_step import LAST_NS, execute_scheduled
from serl.agents.execution.environment.state_block import Block
from serl.agents.traders.build import CHANGING, Crowd
from serl.agents.traders.inprocess import (
    FINISHED,
    KEPT_FULL,
    MARKET_FULL,
    PHASE_CHANGED,
    TRADERS_FULL,
    next_arrival,
)
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.venue import SimulatedVenue
from serl.exchange.kernel.state import State
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, Rows

LIMITS = MarketLimits(participants_max=3)
"""One participant for all simulated traders together, and up to two agents."""
NEVER = 1 << 62
NONE_KEPT = np.zeros(0, EVENT), np.zeros(1, np.int64)
BOOK_FIELDS = State._fields[:-1]
"""All fields but the handle."""


class Buffers(NamedTuple):
    """The buffers of a thread."""

    row: Rows
    """(1,) COMMAND: our command."""
    events: Rows
    """(EVENT_ROWS,) EVENT."""

    @classmethod
    def new(cls) -> "Buffers":
        """Empty buffers."""
        return cls(np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT))


class Environments(NamedTuple):
    """The rows of N environments with S symbols: progress of their steps, the market now, and our fills. Rows of one environment are adjacent."""

    states: Any
    """(N, 6) int64; see own_orders.py."""
    frames: Rows
    """(N S,) FRAME."""
    fills: Rows
    """(N S,) FILL."""

    @classmethod
    def new(cls, count: int, symbols: int = 1) -> "Environments":
        """The rows before anything has happened."""
        rows = count * symbols
        return cls(np.zeros((count, 6), np.int64), np.zeros(rows, FRAME), np.zeros(rows, FILL))


Advance = Callable[["MarketState", int], int]
"""Runs the compiled step of one environment up to a time: (market, time) to its status."""


class MarketState:
    """Traders and their market. venue: the market's rules, if any; idle between two steps. block: the memory of the arrays."""

    def __init__(
        self, crowd: Crowd, market: Market, venue: SimulatedVenue | None = None, block: Block | None = None
    ) -> None:
        self.crowd, self.market, self.venue, self._block = crowd, market, venue, block

    @classmethod
    def at_open(cls, population: PopulationConfig, seed: int) -> "MarketState":
        """The state at the open, with the rules in force."""
        state = cls(Crowd(population, seed), Market(population.symbol_names, limits=LIMITS))
        if population.has_rules:
            scheduled = _Scheduled(state, Buffers.new().events, Environments.new(1, len(population.symbols)), 0)
            state.venue = SimulatedVenue(
                population, state.market, EVENT_ROWS, scheduled.execute, scheduled.next_arrival_ns
            )
            state.venue.start()
        return state

    @property
    def _arrays(self) -> list[Any]:
        return [*self.crowd.changing, *(getattr(self.market.state, name) for name in BOOK_FIELDS)]

    @property
    def own_block(self) -> Block | None:
        """The memory block that holds all arrays; None if there is none or some arrays have grown out of it."""
        return self._block if self._block is not None and self._block.holds(self._arrays) else None

    @property
    def block(self) -> Block:
        """All arrays in one memory block: `own_block`, or a copy if there is none."""
        return self.own_block or Block.of(self._arrays)

    @property
    def origin(self) -> "Origin":
        """What copies of this state need besides its arrays."""
        return Origin(self.crowd, self.crowd.memory_address, self.market, self.venue)

    def copy(self, spare: "MarketState | None" = None) -> "MarketState":
        """An independent copy. It reuses the memory of `spare`, a state that is no longer needed, if it fits."""
        block = self.block
        return self.origin.rebuilt(block, lambda words: np.copyto(words, block.words), spare)

    @property
    def commands(self) -> int:
        """Number of commands executed so far."""
        return int(self.market.state.counters["command_sequence"][0])

    @property
    def kept(self) -> tuple[Rows, Any]:
        """The venue's array of kept trades and phases, and their count."""
        return NONE_KEPT if self.venue is None else (self.venue.kept, self.venue.kept_count)

    def step(
        self, events: Rows, envs: Environments, env: int, until_ns: int, advance: Advance, sends_last: bool
    ) -> None:
        """Steps environment `env`, whose market has rules, to a time. Scheduled commands precede everybody's commands of the same time.

        advance: runs the compiled step up to a time and returns its status. sends_last: whether our commands arrive at the end of the step, after
        what is scheduled then. events: (EVENT_ROWS,) EVENT, a buffer.
        """
        assert self.venue is not None
        scheduled, own = _Scheduled(self, events, envs, env), envs.states[env]
        sequence = self.market.state.counters["command_sequence"]

        def run(limit_ns: int) -> bool:
            """Runs what comes before a time; returns False after a command that changed the phase."""
            assert self.venue is not None
            before, status = int(sequence[0]), advance(self, limit_ns)
            while status not in (FINISHED, PHASE_CHANGED):
                self.make_room(status)
                status = advance(self, limit_ns)
            if sequence[0] > before:
                self.venue.note(int(own[LAST_NS]))
            return status == FINISHED

        self.venue.attach(scheduled.execute, scheduled.next_arrival_ns)
        run(int(own[NOW]))  # begins the step, so that fills of what is scheduled now belong to it
        self.venue.advance(until_ns, until_ns if sends_last else until_ns - 1, run)
        while not run(until_ns + 1):
            pass

    def make_room(self, status: int) -> None:
        """Grows or empties the array that a compiled function found full."""
        if status == TRADERS_FULL:
            self.crowd.grow()
        elif status == MARKET_FULL:
            self.market.grow()
        elif status == KEPT_FULL and self.venue is not None:
            self.venue.empty_kept()


class Origin(NamedTuple):
    """What a copy of a state needs besides its arrays."""

    crowd: Crowd
    """Source of what does not change."""
    memory_address: int
    """Address of the traders' memory that the arrays refer to."""
    market: Market
    """Source of names and limits."""
    venue: SimulatedVenue | None

    def rebuilt(self, like: Block, fill: Callable[[Any], None], spare: MarketState | None) -> MarketState:
        """Builds a state whose arrays have the layout of `like`. fill: writes all words of their block. spare: reused if its layout is the same."""
        block, count = None if spare is None else spare.own_block, len(CHANGING) + 1
        if spare is not None and block is not None and block.layout == like.layout:
            fill(block.words)
            market = spare.market
        else:
            block = Block.new(like.layout, like.arrays)
            fill(block.words)
            books = dict(zip(BOOK_FIELDS, block.arrays[count:], strict=True))
            market = self.market.around(self.market.state._replace(**books))
        crowd = self.crowd.placed(block.arrays[:count], self.memory_address)
        return MarketState(crowd, market, None if self.venue is None else self.venue.copy(market), block)


class _Scheduled(NamedTuple):
    """Executes the exchange's own commands in one environment."""

    state: MarketState
    events: Rows
    envs: Environments
    env: int

    def execute(self, command: Rows) -> None:
        """Executes a command of the exchange: a (1,) COMMAND row."""
        status = -1
        while status not in (FINISHED, PHASE_CHANGED):
            status = execute_scheduled(
                self.state.crowd.traders, self.state.market.state, command, self.envs.states, self.env, self.events,
                self.envs.frames, self.envs.fills, *self.state.kept,
            )  # fmt: skip
            self.state.make_room(status)

    def next_arrival_ns(self) -> int:
        """Arrival time of the next command of a trader."""
        return int(next_arrival(self.state.crowd.traders))
