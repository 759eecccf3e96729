"""A simulated market with rules, on which the schedule of an exchange acts in process."""

import copy
from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np

from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.value import SECOND_NS
from serl.exchange.market import Market
from serl.exchange.records import EVENT, Rows
from serl.exchange.schedule import Schedule

EXCHANGE = 0
"""The participant that sends the exchange's own commands. The traders are the same participant, as in a recorded day."""


def _not_attached(*_: object) -> NoReturn:
    raise AssertionError("a copy of a venue has its own functions: attach them")


class SimulatedVenue:
    """See `serl.exchange.venue.Venue`. It is also its own reader of events.

    `execute` executes one of the exchange's own commands, a (1,) COMMAND row; `next_arrival_ns` returns when the next command of another
    participant arrives. `kept` holds trades and phases for price bands that need them; `kept_count` is their number.
    """

    def __init__(
        self, population: PopulationConfig, market: Market, event_rows: int, execute: Callable[[Rows], None], next_arrival_ns: Callable[[], int]
    ) -> None:  # fmt: skip
        self.market = market
        self.attach(execute, next_arrival_ns)
        config = population.exchange
        self.time_ns, self.event_sequence = population.open_ns, 0
        self._reached_ns = population.open_ns
        self._follows = any(symbol.band_ppm for symbol in config.symbols)
        """Whether price bands follow the market, so that its trades must be kept."""
        self._kept_rows = 8 * event_rows if self._follows else 0
        self.kept = np.zeros(self._kept_rows, EVENT)
        self.kept_count = np.zeros(1, np.int64)
        self._kept_before: list[Rows] = []
        market.grant_operator(EXCHANGE)
        self.schedule = Schedule(self, config, lambda: EXCHANGE, self._now_ns, self._first_arrival_ns)
        self._config = config

    def attach(self, execute: Callable[[Rows], None], next_arrival_ns: Callable[[], int]) -> None:
        """Replaces the functions given to the constructor."""
        self._execute, self._next_arrival_ns = execute, next_arrival_ns

    def copy(self, market: Market) -> "SimulatedVenue":
        """A copy for a copy of the market, made between two calls of `advance`. Call `attach` before you use it."""
        other = copy.copy(self)
        other.market = market
        other.attach(_not_attached, _not_attached)
        other.kept, other.kept_count = np.zeros(self._kept_rows, EVENT), self.kept_count.copy()
        count = int(self.kept_count[0])
        other.kept[:count] = self.kept[:count]
        other._kept_before = self._kept_before.copy()
        other.schedule = copy.deepcopy(self.schedule, {id(self): other})
        return other

    def trim(self) -> None:
        """Releases the unused room in `kept`, for a copy that will only be copied again."""
        self.kept = self.kept[: self.kept_count[0]].copy()

    def _now_ns(self) -> int:
        return self.time_ns

    def _first_arrival_ns(self) -> int:
        return self._next_arrival_ns()

    def start(self) -> None:
        """Applies the rules. Call it once the market can execute commands."""
        self.schedule.start(self._config, {}, self.time_ns)

    def advance(self, until_ns: int, last_ns: int, run: Callable[[int], bool]) -> None:
        """Runs everybody's commands before `until_ns`, and scheduled commands up to `last_ns`, in order.

        `run` executes everybody's commands before a time; it returns early, with False, after a command that changed a symbol's phase.
        """

        def run_before(time_ns: int) -> None:
            """Runs up to a time (exclusive), or to what becomes due earlier."""
            while (due_ns := self._due_ns(time_ns)) > self._reached_ns:
                if run(due_ns):
                    self._reached_ns = due_ns

        while self._reached_ns < until_ns or self.schedule.next_ns <= last_ns:
            self.schedule.run(last_ns, run_before)
            run_before(until_ns)

    def _due_ns(self, until_ns: int) -> int:
        """How far the market may run before the schedule must be checked again. Bands are checked every second."""
        if self._follows:
            until_ns = min(until_ns, (self._reached_ns // SECOND_NS + 1) * SECOND_NS)
        return min(until_ns, self.schedule.next_ns)

    def submit(self, rows: Rows) -> None:
        """See Venue."""
        for number in range(len(rows)):
            self._execute(rows[number : number + 1])
            self.note(int(rows["time_ns"][number]))

    def note(self, time_ns: int) -> None:
        """Notes that something was executed at a time."""
        self.time_ns = time_ns
        self.event_sequence += 1

    def empty_kept(self) -> None:
        """Makes room in `kept`."""
        self._kept_before += self.new()

    def read_events(self) -> "SimulatedVenue":
        """See Venue. The only reader is the price bands."""
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
