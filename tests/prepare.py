"""`python -m tests.prepare PART`: compiles, before the tests, the functions that many of them use. Beside them it would happen one after the other.

The parts are compiled at the same time; a function of both is compiled by whoever comes first.
"""

import gc
import sys
import tempfile
from pathlib import Path

import numpy as np

from serl.agents.execution.environment.bars import BarDays, StaticBars
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.static import StaticBook
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.realism.tape import build_tape
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import simulate
from serl.history.day import read_day, write_day
from serl.history.generate import generate_day
from serl.history.verdict import verdict

MINUTE_NS = 60_000_000_000
OPEN_NS = 570 * MINUTE_NS


def step(market: ExecutionMarket) -> None:
    """An order of one step, in mode `hybrid`."""
    hours = Hours(0, OPEN_NS + 5 * MINUTE_NS, OPEN_NS + 8 * MINUTE_NS, 100.0)
    env = ExecutionVectorEnv(market, RandomOrders([hours], 60, 60), actions="hybrid")
    env.reset(seed=1)
    env.step(np.full((market.count, 3), 0.5))


def recorded() -> None:
    """Markets of bars and of recorded days, and what is measured of days."""
    values = np.full((1, 20, 6), 100.0)
    step(StaticBars(BarDays(OPEN_NS + MINUTE_NS * np.arange(20), MINUTE_NS, values), 2))
    day = generate_day(1, start_ns=OPEN_NS, end_ns=OPEN_NS + 10 * MINUTE_NS)
    with tempfile.TemporaryDirectory() as folder:
        write_day(day, Path(folder) / "a.day")
        read_day(Path(folder) / "a.day")
    build_tape(day, 5)
    verdict(day.reference, lambda: [day.commands])
    step(StaticBook([day], 2))
    step(ReplayMarket([day], 2))


def simulated() -> None:
    """Simulated markets."""
    simulate(load_population("amzn"), 1, OPEN_NS + MINUTE_NS)
    step(DynamicMarket(load_population("small"), 2))


PARTS = {"recorded": recorded, "simulated": simulated}


if __name__ == "__main__":
    gc.disable()  # a compiler makes much that lives long, and this process does not
    PARTS[sys.argv[1]]()
