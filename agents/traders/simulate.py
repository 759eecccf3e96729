"""`simulate(population, seed, until)`: a trading day made by traders, as a day file like any other."""

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from serl.agents.traders.build import Crowd
from serl.agents.traders.inprocess import FINISHED, MARKET_FULL, TAPE_FULL, TRADERS_FULL, run
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.records import DROPPED
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, EventFlag, EventKind, Rows
from serl.history.day import Day, Reference, SymbolReference

TAPE_ROWS, EVENT_ROWS = (16_384, 262_144), 4096
"""Rows of the tape's first part; parts double up to the second number. Nothing is copied while the market runs."""


class Simulation:
    """A market and its traders in this process: `advance` it as far as you like, look at it in between."""

    def __init__(self, population: PopulationConfig, seed: int) -> None:
        if seed < 0:
            raise ValueError(f"seed: a number from 0 on is due, got {seed}")
        self.population = population
        self.seed = seed
        self.crowd = Crowd(population, seed)
        self.market = Market(population.symbols, limits=MarketLimits(participants_max=2))
        self.time_ns = population.open_ns
        self._parts = [np.zeros(TAPE_ROWS[0], COMMAND)]
        self._count = 0
        self._before = 0
        self._events = np.zeros(EVENT_ROWS, EVENT)

    @property
    def count(self) -> int:
        """Commands so far."""
        return self._before + self._count

    @property
    def commands(self) -> Rows:
        """The COMMAND rows so far, in order of arrival. O(rows)."""
        return np.concatenate([*self._parts[:-1], self._parts[-1][: self._count]])

    def advance(self, until_ns: int) -> None:
        """Runs up to `until_ns` (exclusive)."""
        status = -1
        while status != FINISHED:
            status, self._count = run(
                self.crowd.traders, self.market.state, self._events, self._parts[-1], self._count, self._before + 1,
                until_ns,
            )  # fmt: skip
            if status == TRADERS_FULL:
                self.crowd.grow()
            elif status == MARKET_FULL:
                self.market.grow()
            elif status == TAPE_FULL:
                self._before += self._count
                self._count = 0
                self._parts.append(np.zeros(min(2 * len(self._parts[-1]), TAPE_ROWS[1]), COMMAND))
        self.time_ns = max(self.time_ns, until_ns)

    def day(self) -> Day:
        """What happened so far as a day; the traders' command ids become 1, 2, 3 ..."""
        rows = self.commands
        ids = rows["command_id"].copy()
        rows["command_id"] = np.arange(1, len(rows) + 1)
        refers = rows["order_id"] > 0
        rows["order_id"][refers] = np.searchsorted(ids, rows["order_id"][refers]) + 1
        rows["sequence"] = 0
        market = self.market
        counts = {"commands": len(rows), "requests_dropped": int(self.crowd.traders.counter[DROPPED])}
        counts |= {
            f"empty_side_{side}": int(market.state.best[0, place] == 0) for place, side in enumerate(("bid", "ask"))
        }
        reference = Reference(
            symbols=tuple(SymbolReference(name, self.population.tick_size) for name in self.population.symbols),
            date="",
            source="simulated",
            first_time_ns=self.population.open_ns,
            last_time_ns=self.time_ns,
            source_rows=len(rows),
            counts=counts,
            parameters={"population": self.population.name, "seed": self.seed, "sha256": fingerprint(self.population)},
        )
        return Day(rows, np.arange(len(rows)), reference)


def simulate(population: PopulationConfig, seed: int = 1, until_ns: int | None = None) -> Day:
    """The day that a population makes from its open to `until_ns` (ns after midnight; the close without it)."""
    simulation = Simulation(population, seed)
    simulation.advance(population.close_ns if until_ns is None else until_ns)
    return simulation.day()


def simulate_many(
    population: PopulationConfig, seeds: Iterable[int], until_ns: int | None = None, threads: int | None = None
) -> Iterator[Day]:
    """A day for each seed, in order, as many at a time as there are cores: the compiled loops run side by side."""
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda seed: simulate(population, seed, until_ns), seeds)


def fingerprint(population: PopulationConfig) -> str:
    """Names a population by all that it says."""
    return hashlib.sha256(population.model_dump_json().encode()).hexdigest()[:16]


def tape_hash(events: Rows) -> str:
    """Names what the public saw: time, symbol, side, price, quantity and public order number of all that changed a book.

    Who sent it, and how the commands were numbered, does not matter.
    """
    kind, flags = events["kind"], events["flags"]
    resting = flags & EventFlag.RESTING > 0
    shown = ((kind == EventKind.ACCEPTED) & resting) | ((kind == EventKind.CANCELLED) & resting)
    shown |= ((kind == EventKind.FILL) & (flags & EventFlag.MAKER > 0)) | np.isin(
        kind, [EventKind.RESTED, EventKind.REDUCED, EventKind.REPLACED, EventKind.PRINT]
    )
    shown &= (flags & EventFlag.HIDDEN == 0) | (kind == EventKind.FILL)
    digest = hashlib.sha256()
    for name in ("time_ns", "order_number", "price_ticks", "qty_lots", "match_id", "symbol", "kind", "side"):
        digest.update(np.ascontiguousarray(events[name][shown]).tobytes())
    return digest.hexdigest()


def play(day: Day) -> Rows:
    """The events of a day, played through a market of its own."""
    market = Market([symbol.name for symbol in day.reference.symbols], limits=MarketLimits(participants_max=2))
    market.grant_operator(0)
    return market.submit(day.commands)
