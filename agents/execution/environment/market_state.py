"""One simulated market of an environment at one time: its traders, its book, and what its rules schedule."""

import copy
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
"""All simulated traders together, and up to two agents."""
NEVER = 1 << 62
NONE_KEPT = np.zeros(0, EVENT), np.zeros(1, np.int64)
BOOK_FIELDS = State._fields[:-1]
"""All but the handle."""


class Buffers(NamedTuple):
    """What a thread works with."""

    row: Rows
    """(1,) COMMAND, our command."""
    events: Rows
    """(EVENT_ROWS,) EVENT."""

    @classmethod
    def new(cls) -> "Buffers":
        """Empty ones."""
        return cls(np.zeros(1, COMMAND), np.zeros(EVENT_ROWS, EVENT))


class Environments(NamedTuple):
    """Of N environments: how far their steps have come, the markets that they see, and our fills; of S symbols, those of an environment together."""

    states: Any
    """(N, 6) int64, see own_orders.py."""
    frames: Rows
    """(N S,) FRAME."""
    fills: Rows
    """(N S,) FILL."""

    @classmethod
    def new(cls, count: int, symbols: int = 1) -> "Environments":
        """Before anything has happened."""
        rows = count * symbols
        return cls(np.zeros((count, 6), np.int64), np.zeros(rows, FRAME), np.zeros(rows, FILL))


Advance = Callable[["MarketState", int], int]
"""(market, time up to which it may go) to the status of a compiled step of one environment."""


class MarketState:
    """Traders and their market; `venue` has the rules, if there are any, and is idle between two steps. block: where the arrays lie."""

    def __init__(
        self, crowd: Crowd, market: Market, venue: SimulatedVenue | None = None, block: Block | None = None
    ) -> None:
        self.crowd, self.market, self.venue, self._block = crowd, market, venue, block

    @classmethod
    def at_open(cls, population: PopulationConfig, seed: int) -> "MarketState":
        """With the rules in force."""
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
        """The piece of memory in which all arrays lie; None if some have grown, or none is in one."""
        return self._block if self._block is not None and self._block.holds(self._arrays) else None

    @property
    def block(self) -> Block:
        """All arrays in one piece of memory: a copy if there is no `own_block`."""
        return self.own_block or Block.of(self._arrays)

    @property
    def origin(self) -> "Origin":
        """Its own, for copies."""
        return Origin(self.crowd, self.crowd.memory_address, self.market, self.venue)

    def copy(self, spare: "MarketState | None" = None) -> "MarketState":
        """An independent copy, in the memory of `spare`, a state that is no longer needed, if it fits."""
        block = self.block
        return self.origin.rebuilt(block, lambda words: np.copyto(words, block.words), spare)

    @property
    def commands(self) -> int:
        """Executed so far."""
        return int(self.market.state.counters["command_sequence"][0])

    @property
    def kept(self) -> tuple[Rows, Any]:
        """The venue's room for trades and phases, and how many there are."""
        return NONE_KEPT if self.venue is None else (self.venue.kept, self.venue.kept_count)

    def step(
        self, events: Rows, envs: Environments, env: int, until_ns: int, advance: Advance, sends_last: bool
    ) -> None:
        """Steps environment `env`, whose market has rules, to a time. What is scheduled happens before everybody's commands of the same time.

        advance: the compiled step up to a time; returns its status. sends_last: our commands arrive at the end of the step, behind what is
        scheduled then. events: (EVENT_ROWS,) EVENT, a buffer.
        """
        assert self.venue is not None
        scheduled, own = _Scheduled(self, events, envs, env), envs.states[env]
        sequence = self.market.state.counters["command_sequence"]

        def run(limit_ns: int) -> bool:
            """What comes before a time; False after a command that changed the phase."""
            assert self.venue is not None
            before, status = int(sequence[0]), advance(self, limit_ns)
            while status not in (FINISHED, PHASE_CHANGED):
                self.make_room(status)
                status = advance(self, limit_ns)
            if sequence[0] > before:
                self.venue.note(int(own[LAST_NS]))
            return status == FINISHED

        self.venue.attach(scheduled.execute, scheduled.next_arrival_ns)
        run(int(own[NOW]))  # begins the step: fills of what is scheduled now are of this one
        self.venue.advance(until_ns, until_ns if sends_last else until_ns - 1, run)
        while not run(until_ns + 1):
            pass

    def make_room(self, status: int) -> None:
        """Makes the room that a compiled function lacked."""
        if status == TRADERS_FULL:
            self.crowd.grow()
        elif status == MARKET_FULL:
            self.market.grow()
        elif status == KEPT_FULL and self.venue is not None:
            self.venue.empty_kept()


class Origin(NamedTuple):
    """What a copy of a state needs besides its arrays."""

    crowd: Crowd
    """For what does not change."""
    memory_address: int
    """Of the traders' memory, by the arrays."""
    market: Market
    """For its names and limits."""
    venue: SimulatedVenue | None

    def rebuilt(self, like: Block, fill: Callable[[Any], None], spare: MarketState | None) -> MarketState:
        """A state whose arrays have the layout of `like`. fill: writes all words of their block."""
        block, count = None if spare is None else spare.own_block, len(CHANGING) + 1
        if spare is not None and block is not None and block.layout == like.layout:
            fill(block.words)
            market = spare.market
        else:
            block = Block.new(like.layout, like.arrays)
            fill(block.words)
            market = copy.copy(self.market)
            market.state = self.market.state._replace(**dict(zip(BOOK_FIELDS, block.arrays[count:], strict=True)))
        crowd = self.crowd.placed(block.arrays[:count], self.memory_address)
        return MarketState(crowd, market, None if self.venue is None else self.venue.copy(market), block)


class _Scheduled(NamedTuple):
    """The commands of a market's exchange, in one environment."""

    state: MarketState
    events: Rows
    envs: Environments
    env: int

    def execute(self, command: Rows) -> None:
        """Executes a command of the exchange, a COMMAND row (1,)."""
        status = -1
        while status not in (FINISHED, PHASE_CHANGED):
            status = execute_scheduled(
                self.state.crowd.traders, self.state.market.state, command, self.envs.states, self.env, self.events,
                self.envs.frames, self.envs.fills, *self.state.kept,
            )  # fmt: skip
            self.state.make_room(status)

    def next_arrival_ns(self) -> int:
        """When the next command of a trader arrives."""
        return int(next_arrival(self.state.crowd.traders))
