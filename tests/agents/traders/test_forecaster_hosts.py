"""Forecasts on a served exchange: every host has the forecaster, so that the tape is that of a simulation in process."""

import threading
from pathlib import Path

import numpy as np
import pytest

from serl.agents.traders import build
from serl.agents.traders.host import Host
from serl.agents.traders.legs import own_numbers
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import Simulation, replay_events, tape_hash
from serl.agents.traders.trader_api import SECOND_NS
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.records import EVENT
from tests.agents.traders.test_forecaster import takers
from tests.server_fixture import start_exchange

MADE = takers()
UNTIL_NS = MADE.open_ns + 90 * SECOND_NS


def served_tape(folder: Path, hosts: int) -> tuple[str, list[int]]:
    """(hash of the tape on an exchange in lockstep, forecast takers that have traded in each host)."""
    clock = {"kind": "lockstep", "participants": hosts, "start": MADE.open}
    traded = [0] * hosts
    with start_exchange(
        symbols="DEMO", clock="", config={"clock": clock}, folder=folder, journal=folder / "journal"
    ) as exchange:

        def run(number: int) -> None:
            host = Host(MADE, 1, exchange.endpoint, host=number, hosts=hosts, until_ns=UNTIL_NS)
            try:
                host.run()
                agents = host.crowd.traders.agents
                traded[number] = int(np.count_nonzero(agents["cash_ticks"][agents["kind"] == len(MADE.groups) - 2]))
            finally:
                host.close()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(hosts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        exchange.stop()
    rows = np.concatenate([stored_rows(path, EVENT)[:] for path in stored_paths(folder / "journal", "events")])
    return tape_hash(rows[(rows["sequence"] > 0) & (rows["time_ns"] < UNTIL_NS)]), traded


@pytest.fixture(scope="module")
def tape() -> str:
    """That of the simulation in process."""
    simulation = Simulation(MADE, 1)
    simulation.advance(UNTIL_NS)
    return tape_hash(replay_events(simulation.day()))


@pytest.mark.parametrize("hosts", [2, pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_the_tape_is_that_in_process(hosts: int, tape: str, tmp_path: Path) -> None:
    found, traded = served_tape(tmp_path, hosts)
    assert sum(traded) == 3 and all(traded), "takers in every host"
    assert found == tape


@pytest.mark.long
def test_it_is_another_one_if_a_host_has_no_forecaster(
    tape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(population: PopulationConfig, host: int, hosts: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        numbers = own_numbers(population, host, hosts)
        return numbers[:-1] if host else numbers

    monkeypatch.setattr(build, "own_numbers", without)
    found, traded = served_tape(tmp_path, 2)
    assert traded[0] and not traded[1]
    assert found != tape
