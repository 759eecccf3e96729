"""Traders in two host processes on a served exchange in lockstep, against the same market in process."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import Simulation, replay_events, tape_hash
from serl.agents.traders.value import SECOND_NS
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.records import EVENT

HOSTS, MINUTES, SEED = 2, 60, 1


def run() -> dict[str, float]:
    """Speed of the first hour of RMSC04 (1,116 traders), starting the hosts included, and whether the tapes are equal."""
    from tests.server_fixture import start_exchange

    population = load_population("rmsc04")
    until_ns = population.open_ns + MINUTES * 60 * SECOND_NS
    simulation = Simulation(population, SEED)
    simulation.advance(until_ns)
    until = f"{until_ns // SECOND_NS // 3600:02d}:{until_ns // SECOND_NS // 60 % 60:02d}"
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as name:
        folder = Path(name)
        config: dict[str, object] = {"clock": {"kind": "lockstep", "participants": HOSTS}}
        with start_exchange(
            symbols="DEMO", config=config, folder=folder, clock="lockstep", journal=folder / "journal"
        ) as exchange:
            arguments = ["--population", "rmsc04", "--hosts", str(HOSTS), "--seed", str(SEED), "--until", until]
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "serl", "agents", "start", *arguments, "--connect", exchange.endpoint],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            elapsed_s = time.perf_counter() - began
            exchange.stop()
        rows = np.concatenate([stored_rows(path, EVENT)[:] for path in stored_paths(folder / "journal", "events")])
    served = rows[(rows["sequence"] > 0) & (rows["time_ns"] < until_ns)]
    return {
        "served_lockstep_x_real_time": MINUTES * 60 / elapsed_s,
        "tapes_equal": float(tape_hash(served) == tape_hash(replay_events(simulation.day()))),
    }
