"""A simulated market with rules of its own: what the schedule of an exchange acts on in process."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from serl.agents.traders.build import Crowd
from serl.agents.traders.engine import next_arrival_ns
from serl.agents.traders.inprocess import FINISHED, KEPT_FULL, MARKET_FULL, execute_scheduled
from serl.agents.traders.value import SECOND_NS
from serl.exchange.compiling import compiled
from serl.exchange.market import Market
from serl.exchange.records import EVENT, Rows
from serl.exchange.schedule import Schedule

EXCHANGE = 0
"""The participant that sends the exchange's own commands; the traders are the same one, as in a recorded day."""


class SimulatedVenue:
    """See `serl.exchange.venue.Venue`; its own reader of events. `record` adds a COMMAND row to the tape."""

    def __init__(self, crowd: Crowd, market: Market, event_rows: int, record: Callable[[Any], None]) -> None:
        self.crowd, self.market, self._record = crowd, market, record
        config = crowd.population.exchange
        self.time_ns, self.event_sequence = crowd.population.open_ns, 0
        self.follows = any(symbol.band_ppm for symbol in config.symbols)
        """Whether price bands follow the market, so that its trades are kept for them."""
        self.kept = np.zeros(8 * event_rows if self.follows else 0, EVENT)
        self.kept_count = np.zeros(1, np.int64)
        self._kept_before: list[Rows] = []
        self._events = np.zeros(event_rows, EVENT)
        market.grant_operator(EXCHANGE)
        self.schedule = Schedule(self, config, lambda: EXCHANGE, lambda: self.time_ns, self._next_arrival_ns)
        self.schedule.start(config, lambda name: EXCHANGE, self.time_ns)

    def _next_arrival_ns(self) -> int:
        return int(_next_arrival(self.crowd.traders))

    def due_ns(self, until_ns: int, reached_ns: int) -> int:
        """How far the market may run before the schedule must be asked again. Bands are looked at each second."""
        if self.follows:
            until_ns = min(until_ns, (reached_ns // SECOND_NS + 1) * SECOND_NS)
        return min(until_ns, self.schedule.next_ns)

    def submit(self, rows: Rows) -> None:
        """See Venue."""
        for number in range(len(rows)):
            command = rows[number : number + 1]
            self._record(command)
            status = -1
            while status != FINISHED:
                status = execute_scheduled(
                    self.crowd.traders, self.market.state, self._events, command, self.kept, self.kept_count
                )
                self.make_room(status)
            self.note(int(command["time_ns"][0]))

    def note(self, time_ns: int) -> None:
        """Something was executed at a time."""
        self.time_ns = time_ns
        self.event_sequence += 1

    def make_room(self, status: int) -> None:
        """Makes the room that a compiled function lacked, if it returned MARKET_FULL or KEPT_FULL."""
        if status == MARKET_FULL:
            self.market.grow()
        elif status == KEPT_FULL:
            self._kept_before += self.new()

    def read_events(self) -> "SimulatedVenue":
        """See Venue. There is one reader: the bands."""
        return self

    def newest(self) -> Iterator[Rows]:
        """See EventReader. A simulation has no events before its start."""
        return iter(())

    def new(self) -> list[Rows]:
        """See EventReader."""
        before, self._kept_before = self._kept_before, []
        rows = self.kept[: self.kept_count[0]].copy()
        self.kept_count[0] = 0
        return [*before, rows]


@compiled
def _next_arrival(traders: Any) -> int:
    return next_arrival_ns(traders)
