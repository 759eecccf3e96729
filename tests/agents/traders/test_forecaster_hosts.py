"""Forecasts on a served exchange: every host has the forecaster, so that the tape is that of a simulation in process."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import yaml

from serl.agents.traders import build
from serl.agents.traders.forecasters import load_with_forecaster, with_forecaster
from serl.agents.traders.host import Host
from serl.agents.traders.legs import own_numbers
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import Simulation, replay_events, tape_hash
from serl.agents.traders.trader_api import SECOND_NS
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.records import EVENT
from tests.agents.traders.random_forecaster import random_forecaster
from tests.agents.traders.test_forecaster import CROSSING, SMALL, takers
from tests.agents.traders.test_population_processes import together
from tests.agents.traders.trader_bench import ZERO
from tests.server_fixture import start_exchange

MADE = takers()
UNTIL_NS = MADE.open_ns + 90 * SECOND_NS


def tape_in(journal: Path, until_ns: int) -> str:
    """Hash of the tape before a time in a journal."""
    rows = np.concatenate([stored_rows(path, EVENT)[:] for path in stored_paths(journal, "events")])
    return tape_hash(rows[(rows["sequence"] > 0) & (rows["time_ns"] < until_ns)])


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
    return tape_in(folder / "journal", UNTIL_NS), traded


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


def test_looks_of_a_forecaster_do_not_shorten_promises() -> None:
    promises = []
    for population in (SMALL, with_forecaster(SMALL, random_forecaster())):
        with start_exchange(symbols="DEMO") as exchange:
            host = Host(population, 1, exchange.endpoint)
            try:
                promises.append(host._promise_ns())
                host.crowd.traders.agents["wake_ns"][: SMALL.traders] = -1
                promises.append(host._promise_ns())
            finally:
                host.close()
    assert promises[0] == promises[2] < SMALL.open_ns + 2 * SECOND_NS
    assert promises[3] == SMALL.close_ns, "nobody else will wake up"


@pytest.mark.long
def test_the_commands_give_the_tape_of_serl_simulate(tmp_path: Path) -> None:
    """`serl exchange start --with` and `serl agents start`, through an opening auction, whose trades are no trades in the book."""
    day = [{"at": "09:29", "phase": "pre_open"}, {"at": "09:30:05", "phase": "continuous"}]
    profile = {"enter_above": 0.01, "order_lots": 10, "position_lots_max": 30}
    groups = [ZERO, *CROSSING, {"trader": "forecast_taker", "count": 3, "profile": profile}]
    values = {
        "name": "short",
        "close": "09:31:30",
        "value": {"mean_ticks": 10_000},
        "market": {"day": day},
        "groups": groups,
    }
    source, file = tmp_path / "short.yaml", tmp_path / "random.signals"
    source.write_text(yaml.safe_dump(values))
    random_forecaster().write(file)
    population = load_with_forecaster(source, file)
    simulation = Simulation(population, 1)
    simulation.advance(population.close_ns)
    expected = tape_hash(replay_events(simulation.day()))
    agents = simulation.crowd.traders.agents
    assert agents["cash_ticks"][agents["kind"] == len(groups) - 1].all(), "they have traded"
    words = ["--clock", "lockstep", "--forecaster", str(file), "--hosts", "2"]
    with together(tmp_path, "--with", str(source), *words, "--journal", str(tmp_path / "beside")) as run:
        run.wait_for(lambda: "the day of short has ended" in run.output)
        assert run.interrupt() == 0, run.output
    assert "short: 19 traders of DEMO in 2 hosts" in run.output
    assert tape_in(tmp_path / "beside", population.close_ns) == expected
    clock = {"kind": "lockstep", "participants": 2, "start": population.open}
    config: dict[str, object] = {"clock": clock, "symbols": population.symbol_settings}
    with start_exchange(symbols="", clock="", config=config, folder=tmp_path, journal=tmp_path / "apart") as exchange:
        words = ["--population", str(source), "--hosts", "2", "--connect", exchange.endpoint, "--forecaster", str(file)]
        done = subprocess.run(
            [sys.executable, "-m", "serl", "agents", "start", *words], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        exchange.stop()
    assert tape_in(tmp_path / "apart", population.close_ns) == expected
