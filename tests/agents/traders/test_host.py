"""Traders in host processes on a served exchange."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
import yaml

from serl.agents.calibration.calibrate import write_population
from serl.agents.calibration.flow.population import flow_population
from serl.agents.traders.errors import SimulationError
from serl.agents.traders.host import Host
from serl.agents.traders.kinds.neural_flow import NeuralFlowProfile
from serl.agents.traders.population import PopulationConfig, load_population
from serl.agents.traders.simulate import Simulation, replay_events, tape_hash
from serl.clients.blocking import connect
from serl.clients.replay import set_clock
from serl.clients.values import FeedMessage
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.records import EVENT, EventKind, Rows
from serl.exchange.wire import FeedKind, Kind
from tests.server_fixture import RawClient, Served, start_exchange

MINUTE_NS = 60_000_000_000
CHILDREN = Path("/proc/self/task") / str(os.getpid()) / "children"


def served(
    folder: Path, population: PopulationConfig, hosts: int, clock: str = "lockstep"
) -> AbstractContextManager[Served]:
    clocks: dict[str, object] = {"kind": "lockstep", "participants": hosts, "start": population.open}
    lockstep = clock.startswith("lockstep")
    config: dict[str, object] = {"clock": clocks, "intervals": {"heartbeat_s": 0.2}} if lockstep else {}
    return start_exchange(
        symbols=",".join(population.symbol_names), config=config, folder=folder, clock=clock, journal=folder / "journal"
    )


def agents(exchange: Served, population: str, hosts: int, until: str, *options: str) -> "subprocess.Popen[str]":
    arguments = ["--population", population, "--hosts", str(hosts), "--connect", exchange.endpoint, "--until", until]
    return subprocess.Popen(
        [sys.executable, "-m", "serl", "agents", "start", *arguments, *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def events(folder: Path, until_ns: int) -> Rows:
    """The events before `until_ns` in the exchange's journal."""
    paths = stored_paths(folder / "journal", "events")
    rows = np.concatenate([stored_rows(path, EVENT)[:] for path in paths])
    return rows[(rows["sequence"] > 0) & (rows["time_ns"] < until_ns)]


@pytest.mark.long
@pytest.mark.parametrize("name", ["amzn", "generated"])
def test_a_paced_lockstep_run_of_a_whole_flow_equals_the_one_in_process(name: str, tmp_path: Path) -> None:
    """Such a trader reacts to its own orders within microseconds; on a clock that keeps running, late orders would fill the book."""
    source = name
    if name == "generated":
        source = str(tmp_path / "generated.yaml")
        write_population(flow_population(NeuralFlowProfile().numbers, name, "0.01", 10_000.0), Path(source))
    population = load_population(source)
    until_ns = population.open_ns + 5 * MINUTE_NS
    simulation = Simulation(population, 1)
    simulation.advance(until_ns)
    rows = replay_events(simulation.day())
    with served(tmp_path, population, 1, "lockstep:60") as exchange:
        run = agents(exchange, source, 1, "09:35")
        output, _ = run.communicate(timeout=120)
        assert run.returncode == 0, output
        exchange.stop()
    found = events(tmp_path, until_ns)
    assert len(found) > 1000
    assert (len(found), tape_hash(found)) == (len(rows), tape_hash(rows))


@pytest.fixture(scope="module")
def half_hour() -> tuple[PopulationConfig, int, str, int]:
    """RMSC04's first half hour in process: population, its end, hash of the tape, number of events."""
    population = load_population("rmsc04")
    until_ns = population.open_ns + 30 * MINUTE_NS
    simulation = Simulation(population, 1)
    simulation.advance(until_ns)
    rows = replay_events(simulation.day())
    assert len(rows) > 5_000
    return population, until_ns, tape_hash(rows), len(rows)


@pytest.mark.long
@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_half_an_hour_in_lockstep_is_that_in_process(
    hosts: int, half_hour: tuple[PopulationConfig, int, str, int], tmp_path: Path
) -> None:
    population, until_ns, tape, count = half_hour
    with served(tmp_path, population, hosts) as exchange:
        run = agents(exchange, "rmsc04", hosts, "10:00")
        output, _ = run.communicate(timeout=120)
        assert run.returncode == 0, output
        exchange.stop()
    rows = events(tmp_path, until_ns)
    assert (len(rows), tape_hash(rows)) == (count, tape)


@pytest.mark.long
@pytest.mark.skipif(not CHILDREN.exists(), reason="looks for processes in /proc")
def test_the_other_hosts_continue_when_one_dies(tmp_path: Path) -> None:
    population = load_population("small")
    with served(tmp_path, population, 2) as exchange:
        run = agents(exchange, "small", 2, "09:40", "--cancel-on-disconnect")
        with connect(exchange.endpoint, "looker") as looker:
            while looker.ask(Kind.STATISTICS)[5]["commands"] < 300:
                time.sleep(0.05)
            children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
            hosts = [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
            assert len(hosts) == 2
            os.kill(hosts[1], signal.SIGKILL)
            output, _ = run.communicate(timeout=120)
        assert run.returncode == 2
        assert "expected 2 hosts to finish, got an error in host 1" in output
        exchange.stop()
    rows = events(tmp_path, 1 << 62)
    assert rows["time_ns"].max() > population.open_ns + 9 * MINUTE_NS
    names = [
        entry["name"] for entry in json.loads((tmp_path / "journal" / "participants.json").read_text())["participants"]
    ]
    dead = names.index("traders-small-1")
    assert np.any((rows["participant"] == dead) & (rows["kind"] == EventKind.MASS_CANCELLED))


@pytest.mark.long
def test_hosts_trade_in_scaled_time(tmp_path: Path) -> None:
    population = load_population("small")
    with served(tmp_path, population, 2, clock="scaled:60") as exchange:
        run = agents(exchange, "small", 2, "09:35", "--wait-for-open")
        with RawClient(exchange.endpoint, "queries") as queries:
            sessions = 0
            while sessions < 2:  # a busy machine takes longer to start them than the market is open
                queries.send(132, 1)
                sessions = queries.receive()[5]["sessions"]
                time.sleep(0.1)
        set_clock(exchange.endpoint, "", population.open_ns, run=True)
        began = time.monotonic()
        output, _ = run.communicate(timeout=60)
        assert run.returncode == 0, output
        assert 4.0 < time.monotonic() - began < 30.0
        exchange.stop()
    rows = events(tmp_path, 1 << 62)
    assert np.count_nonzero(rows["kind"] == EventKind.FILL) > 50
    late_ns = rows["time_ns"].max() - population.open_ns
    assert 4 * MINUTE_NS < late_ns < 7 * MINUTE_NS


def test_a_host_loads_an_existing_book(tmp_path: Path) -> None:
    population = load_population("small")
    with served(tmp_path, population, 1, clock="live") as exchange, connect(exchange.endpoint, "first") as first:
        for price in (9990, 9991, 9991):
            first.buy("DEMO", 5, price)
        host = Host(population, 1, exchange.endpoint)
        try:
            assert [tuple(level) for level in host.book.book(0)[0].tolist()] == [(9991, 10, 2), (9990, 5, 1)]
        finally:
            host.close()


def test_an_exchange_that_takes_few_commands_at_once(tmp_path: Path) -> None:
    """The first longer message was refused as `too_large`, and the run ended."""
    population = load_population("small")
    config: dict[str, object] = {
        "clock": {"kind": "lockstep", "participants": 1, "start": population.open},
        "limits": {"bulk_rows_max": 8},
    }
    names = ",".join(population.symbol_names)
    with start_exchange(symbols=names, config=config, folder=tmp_path, clock="lockstep") as exchange:
        host = Host(population, 1, exchange.endpoint, until_ns=population.open_ns + MINUTE_NS)
        try:
            host.run()
        finally:
            host.close()
        assert host.commands > 100


def test_a_gap_in_the_feed_names_its_cause(tmp_path: Path) -> None:
    population = load_population("small")
    with served(tmp_path, population, 1, "live") as exchange:
        host = Host(population, 1, exchange.endpoint)
        known, epoch = host._sequences["DEMO"], host._epoch
        for seen, cause in (
            (epoch, "too slow for the feed; use more --hosts"),
            (epoch + 1, "the exchange was restarted"),
        ):
            rows = [FeedKind.ROWS, seen, known + 3, known + 5, 0, b""]
            with pytest.raises(SimulationError, match=f"expected sequence {known} .*, got {known + 3}: .*{cause}"):
                host._buffer(FeedMessage("rows/DEMO/", rows))
        host.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--population", "nobody"], "expected a YAML file or one of"),
        (["--population", "small", "--until", "09:00"], "expected a time after 09:30, got 09:00"),
        (["--population", "small", "--hosts", "50"], "expected at most 31, one per trader, got 50"),
        (["--population", "small", "--connect", "tcp://127.0.0.1:9"], "start an exchange with `serl exchange start`"),
    ],
)
def test_errors_of_bad_options_say_what_is_expected(options: list[str], message: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "serl", "agents", "start", *options], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 2
    assert message in run.stderr


@pytest.mark.long
def test_the_error_names_symbols_that_the_exchange_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({"name": "own", "symbols": ["XYZ"], "groups": [{"trader": "noise", "count": 3}]}))
    population = load_population("small")
    with served(tmp_path, population, 1) as exchange:
        run = agents(exchange, str(path), 1, "09:31")
        output, _ = run.communicate(timeout=60)
    assert run.returncode == 2
    assert "got one without XYZ; start it with --symbols XYZ" in output
