"""Simulates trading days: a population trades in an in-process market; the result is a day like any other."""

import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from serl.agents.traders.build import Crowd
from serl.agents.traders.inprocess import (
    FINISHED,
    KEPT_FULL,
    MARKET_FULL,
    PHASE_CHANGED,
    TAPE_FULL,
    TRADERS_FULL,
    execute_scheduled,
    next_arrival,
    run_market,
)
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.records import REQUESTS_DROPPED
from serl.agents.traders.venue import SimulatedVenue
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, EventFlag, EventKind, Rows
from serl.history.day import Day, Reference, SymbolReference

TAPE_ROWS, EVENT_ROWS = (16_384, 262_144), 4096
"""Rows of the tape's first and largest chunks, which double in size, and rows of events. Nothing is copied while the market runs."""


class Simulation:
    """A market and its traders in this process: `advance` it in steps of any length and inspect it in between.

    Actions that the population's `market` schedules happen as on an exchange: before the traders' commands of the same nanosecond. Actions
    scheduled at the population's close happen at the end.
    """

    def __init__(self, population: PopulationConfig, seed: int) -> None:
        self.population = population
        self.seed = seed
        self.crowd = Crowd(population, seed)
        self.market = Market(population.symbol_names, limits=MarketLimits(participants_max=2))
        self.time_ns = population.open_ns
        self._chunks = [np.zeros(TAPE_ROWS[0], COMMAND)]
        self._chunk_count = 0
        """Number of commands in the last chunk."""
        self._full_count = 0
        """Number of commands in the chunks before the last."""
        self._events = np.zeros(EVENT_ROWS, EVENT)
        self._kept, self._kept_count = np.zeros(0, EVENT), np.zeros(1, np.int64)
        self._venue: SimulatedVenue | None = None
        if population.has_rules:
            self._venue = SimulatedVenue(
                population, self.market, EVENT_ROWS, self._execute, lambda: int(next_arrival(self.crowd.traders))
            )
            self._kept, self._kept_count = self._venue.kept, self._venue.kept_count
            self._venue.start()

    @property
    def count(self) -> int:
        """Number of commands so far."""
        return self._full_count + self._chunk_count

    @property
    def commands(self) -> Rows:
        """The COMMAND rows so far, in order of arrival. O(rows)."""
        return np.concatenate([*self._chunks[:-1], self._chunks[-1][: self._chunk_count]])

    def advance(self, until_ns: int) -> None:
        """Runs up to `until_ns` (exclusive). Raises SimulationError if a trader sleeps for no time."""
        if self._venue is None:
            self._run(until_ns)
        else:
            self._run_schedule(self._venue, until_ns)
        self.crowd.check_traders()
        self.time_ns = max(self.time_ns, until_ns)

    def _run_schedule(self, venue: SimulatedVenue, until_ns: int) -> None:
        last_ns = until_ns if until_ns >= self.population.close_ns else until_ns - 1
        venue.advance(until_ns, last_ns, lambda time_ns: self._run(time_ns) == FINISHED)

    def _run(self, until_ns: int) -> int:
        """Runs the traders up to a time (exclusive) and returns FINISHED, or PHASE_CHANGED if a phase changes earlier."""
        while True:
            count = self._chunk_count
            status, self._chunk_count = run_market(
                self.crowd.traders, self.market.state, self._events, self._chunks[-1], self._chunk_count,
                self._full_count + 1, until_ns, self._kept, self._kept_count,
            )  # fmt: skip
            if self._venue is not None and self._chunk_count > count:
                self._venue.note(int(self._chunks[-1]["time_ns"][self._chunk_count - 1]))
            if status in (FINISHED, PHASE_CHANGED):
                return status
            self._make_room(status)

    def _execute(self, command: Rows) -> None:
        """Executes a command of the exchange: a (1,) COMMAND row."""
        self._record(command)
        status = -1
        while status != FINISHED:
            status = execute_scheduled(
                self.crowd.traders, self.market.state, self._events, command, self._kept, self._kept_count
            )
            self._make_room(status)

    def _make_room(self, status: int) -> None:
        """Grows or empties the array that a compiled function found full."""
        if status == TRADERS_FULL:
            self.crowd.grow()
        elif status == TAPE_FULL:
            self._add_chunk()
        elif status == MARKET_FULL:
            self.market.grow()
        elif status == KEPT_FULL and self._venue is not None:
            self._venue.empty_kept()

    def _add_chunk(self) -> None:
        self._full_count += self._chunk_count
        self._chunk_count = 0
        self._chunks.append(np.zeros(min(2 * len(self._chunks[-1]), TAPE_ROWS[1]), COMMAND))

    def _record(self, command: Rows) -> None:
        """Numbers a command of the exchange, a (1,) COMMAND row, and adds it to the tape."""
        if self._chunk_count == len(self._chunks[-1]):
            self._add_chunk()
        command["sequence"] = self.count + 1
        self._chunks[-1][self._chunk_count] = command[0]
        self._chunk_count += 1

    def day(self) -> Day:
        """The commands so far as a day, renumbered 1, 2, 3 ..."""
        rows = self.commands
        ids, own = (
            rows["command_id"].copy(),
            np.flatnonzero(rows["command_id"]),
        )  # the exchange's own commands have none
        rows["command_id"] = np.arange(1, len(rows) + 1)
        changes = own[rows["order_id"][own] > 0]
        rows["order_id"][changes] = own[np.searchsorted(ids[own], rows["order_id"][changes])] + 1
        rows["sequence"] = 0
        market = self.market
        counts = {"commands": len(rows), "requests_dropped": int(self.crowd.traders.counter[REQUESTS_DROPPED])}
        best = market.state.best[: len(self.population.symbols)]
        for side, is_empty in zip(("bid", "ask"), (best == 0).any(axis=0).tolist(), strict=True):
            counts[f"empty_side_{side}"] = int(is_empty)
        reference = Reference(
            symbols=symbol_references(self.population),
            date="",
            source="simulated",
            first_time_ns=self.population.open_ns,
            last_time_ns=max(self.time_ns, int(rows["time_ns"].max(initial=0))),  # Ctrl-C may end the run within a step
            source_rows=len(rows),
            counts=counts,
            parameters={"population": self.population.name, "seed": self.seed, "sha256": fingerprint(self.population)},
        )
        return Day(rows, np.arange(len(rows)), reference)


def symbol_references(population: PopulationConfig) -> tuple[SymbolReference, ...]:
    """The symbols, as in a day file."""
    return tuple(map(SymbolReference, population.symbol_names, population.tick_sizes))


def simulate(population: PopulationConfig, seed: int = 1, until_ns: int | None = None) -> Day:
    """Simulates a population from its open to `until_ns` (ns after midnight; by default its close)."""
    simulation = Simulation(population, seed)
    simulation.advance(population.close_ns if until_ns is None else until_ns)
    return simulation.day()


def simulate_many(
    population: PopulationConfig, seeds: Iterable[int], until_ns: int | None = None, threads: int | None = None
) -> Iterator[Day]:
    """Simulates a day per seed, in order, in parallel on all cores: the compiled loop releases the GIL."""
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda seed: simulate(population, seed, until_ns), seeds)


def fingerprint(population: PopulationConfig) -> str:
    """Prefix of the SHA-256 of all settings of a population and the source of its modules, which may define traders. Market rules are included only if
    there are any, so that earlier fingerprints stay valid."""
    without = None if population.has_rules else {"market"}
    digest = hashlib.sha256(population.model_dump_json(exclude=without).encode())
    for name in population.modules:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            digest.update(Path(spec.origin).read_bytes())
    return digest.hexdigest()[:16]


def tape_hash(events: Rows) -> str:
    """SHA-256 of the public tape: time, symbol, side, price, quantity and public order number of every change to a book.

    It does not depend on who sent the commands or how they were numbered.
    """
    kind, flags = events["kind"], events["flags"]
    resting = flags & EventFlag.RESTING > 0
    public = ((kind == EventKind.ACCEPTED) & resting) | ((kind == EventKind.CANCELLED) & resting)
    public |= ((kind == EventKind.FILL) & (flags & EventFlag.MAKER > 0)) | np.isin(
        kind, [EventKind.RESTED, EventKind.REDUCED, EventKind.REPLACED, EventKind.PRINT]
    )
    public &= (flags & EventFlag.HIDDEN == 0) | (kind == EventKind.FILL)
    digest = hashlib.sha256()
    for name in ("time_ns", "order_number", "price_ticks", "qty_lots", "match_id", "symbol", "kind", "side"):
        digest.update(np.ascontiguousarray(events[name][public]).tobytes())
    return digest.hexdigest()


def replay_events(day: Day) -> Rows:
    """Replays a day in a new market and returns the events."""
    market = Market([symbol.name for symbol in day.reference.symbols], limits=MarketLimits(participants_max=2))
    market.grant_operator(0)
    return market.submit(day.commands)
