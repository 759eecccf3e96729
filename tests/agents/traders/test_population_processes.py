"""`serl exchange start --with`: an exchange and a population's hosts from one command."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from serl.agents.traders.errors import FlowFileError, PopulationError
from serl.agents.traders.population import PopulationConfig, load_population
from serl.agents.traders.population_processes import PopulationProcesses, match_symbols, own_endpoint
from serl.agents.traders.simulate import Simulation, replay_events, tape_hash
from serl.agents.traders.symbols import SymbolConfig
from serl.clients.blocking import connect
from serl.exchange.config import ExchangeConfig, load_config
from serl.exchange.journal.segment import read_rows
from serl.exchange.keys import new_keys
from serl.exchange.records import EVENT, EventKind, Phase
from serl.exchange.trader_processes import TraderOptions
from tests.server_fixture import free_endpoint

SMALL = load_population("small")
PATIENCE_S = 150
"""For what takes seconds on an idle machine."""
CHILDREN = Path("/proc/self/task") / str(os.getpid()) / "children"
in_proc = pytest.mark.skipif(not CHILDREN.exists(), reason="looks for processes in /proc")


class Together:
    """`serl exchange start --with` in a session of its own, with its output in a file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.endpoint, self.log = free_endpoint(), folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", "serl", "exchange", "start", "--endpoint", self.endpoint, *options],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def output(self) -> str:
        return self.log.read_text()

    def wait_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.02)

    def hosts(self) -> list[int]:
        """Process ids of the hosts."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]

    def interrupt(self) -> int:
        """Sends SIGINT to all of its processes, as Ctrl-C does. Returns the exit status."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE_S)


@contextmanager
def together(folder: Path, *options: str) -> Iterator[Together]:
    started = Together(folder, *options)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.wait()


def short_population(folder: Path, base: str = "liquid", **more: Any) -> Path:
    """A population with a day of two minutes."""
    path = folder / "short.yaml"
    values = load_population(base).model_dump(mode="json")
    path.write_text(yaml.safe_dump(values | {"name": "short", "close": "09:32"} | more))
    return path


RULES: dict[str, Any] = {
    "day": [
        {"at": "09:29", "phase": "pre_open"}, {"at": "09:30:05", "phase": "continuous"}, {"at": "09:31:40", "phase": "closing"},
        {"at": "09:31:55", "phase": "closed"},
    ],
    "band_ppm": 200, "reference_ticks": 10000, "band_action": "auction", "volatility_s": 7, "fees": {"taker_ppm": 100, "maker_ppm": -50},
    "matching": "pro-rata", "lot_multiple": 1,
}  # fmt: skip
"""Rules of a market in which everything happens within two minutes."""


@pytest.mark.parametrize(
    ("base", "more"),
    [
        pytest.param("liquid", {"close": "09:30:40"}, id="continuous"),
        pytest.param("liquid", {"market": RULES}, id="with rules", marks=pytest.mark.long),
        pytest.param("basket", {}, id="several symbols", marks=pytest.mark.long),
    ],
)
def test_in_lockstep_the_tape_is_that_of_a_simulation_also_with_tokens(
    base: str, more: dict[str, Any], tmp_path: Path
) -> None:
    path = short_population(tmp_path, base, **more)
    participants = {f"traders-short-{host}": {"token": f"secret {host}"} for host in range(2)}
    (tmp_path / "exchange.yaml").write_text(yaml.safe_dump({"login": {"participants": participants}}))
    (tmp_path / "exchange.yaml").chmod(0o600)
    population = load_population(path)
    simulation = Simulation(population, 7)
    simulation.advance(population.close_ns)
    expected = replay_events(simulation.day())
    journal = tmp_path / "journal"
    with together(
        tmp_path, "--with", str(path), "--hosts", "2", "--seed", "7", "--clock", "lockstep", "--journal", str(journal), "--config",
        str(tmp_path / "exchange.yaml"), "--flow", str(tmp_path / "flow"),
    ) as run:  # fmt: skip
        run.wait_for(lambda: "the day of short has ended" in run.output)
        assert run.interrupt() == 0, run.output
    names = ", ".join(population.symbol_names)
    assert f"  traders  short: {population.traders} traders of {names} in 2 hosts, seed 7" in run.output
    found = np.concatenate([read_rows(path, EVENT) for path in sorted(journal.glob("events-*.rows"))])
    found = found[(found["sequence"] > 0) & (found["time_ns"] < population.close_ns)]
    assert len(found) > 1000
    assert set(found["symbol"].tolist()) >= set(range(len(population.symbols)))
    phases = found[found["kind"] == EventKind.PHASED]
    assert (np.count_nonzero(phases["flags"] == Phase.VOLATILITY) > 0) == ("market" in more), "bands are met"
    assert (len(found), tape_hash(found)) == (len(expected), tape_hash(expected))
    assert len(list((tmp_path / "flow").glob("traders-short-*.jsonl"))) == 2


@in_proc
def test_on_a_live_clock_a_host_that_dies_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    """The population trades the exchange's symbol in place of its own."""
    with together(tmp_path, "--with", "small", "--hosts", "2", "--symbols", "AMZN") as run:
        run.wait_for(lambda: "  journal" in run.output)
        hosts = run.hosts()
        assert len(hosts) == 2
        with connect(run.endpoint, "looker") as looker:
            looker.subscribe("trade", "AMZN")

            def traded() -> bool:
                item = looker.wait(0.2)
                return isinstance(item, tuple) and item[0] == "trade/AMZN/"

            run.wait_for(traded)
            os.kill(hosts[1], signal.SIGKILL)
            run.wait_for(lambda: "error: host 1 of small ended with status -9" in run.output)
            assert run.hosts() == hosts[:1], "the other host continues"
        assert run.interrupt() == 2
    assert "expected the 2 hosts of small to trade until the end, got an error in host 1" in run.output
    assert "Traceback" not in run.output
    assert not Path(f"/proc/{hosts[0]}").exists(), "the hosts end with the exchange"


@pytest.mark.long
def test_on_a_scaled_clock_the_day_starts_at_the_populations_open(tmp_path: Path) -> None:
    path, journal = short_population(tmp_path), tmp_path / "journal"
    with together(tmp_path, "--with", str(path), "--clock", "scaled:60", "--journal", str(journal)) as run:
        run.wait_for(lambda: "the day of short has ended" in run.output)
        assert run.interrupt() == 0, run.output
    rows = np.concatenate([read_rows(path, EVENT) for path in sorted(journal.glob("events-*.rows"))])
    rows = rows[rows["sequence"] > 0]
    assert np.count_nonzero(rows["kind"] == EventKind.FILL) > 20
    assert rows["time_ns"].min() >= load_population(path).open_ns


@in_proc
def test_ctrl_c_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    with together(tmp_path, "--with", "small", "--hosts", "2") as run:
        run.wait_for(lambda: len(run.hosts()) == 2)
        found = run.hosts()
        assert run.interrupt() in (0, 128 + signal.SIGINT)
    assert "Traceback" not in run.output
    assert not any(Path(f"/proc/{host}").exists() for host in found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--with", "liqiud"), "got neither; did you mean liquid?"),
        (("--with", "small", "--hosts", "50"), "expected at most 31, one per trader, got 50"),
        (("--hosts", "2", "--seed", "1"), "--hosts, --seed: expected --with POPULATION"),
        (("--with", "small", "--symbols", "A,B"), "leave --symbols out, or start with --symbols DEMO=0.01"),
        (("--with", "small", "--symbols", "A=0.5"), "expected a tick size of 0.01 for A, as small has, got 0.5"),
        (("--with", "small", "--hosts", "2", "--clock", "lockstep", "--participants", "1"), "expected at least 2"),
    ],
)
def test_errors_come_before_anything_starts(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "serl", "exchange", "start", *options, "--journal", str(tmp_path / "journal")],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert run.returncode == 2
    assert words in run.stderr
    assert "exchange ready" not in run.stdout
    assert not (tmp_path / "journal").exists()


def settings_of(defaults: dict[str, Any] | None = None, **values: Any) -> ExchangeConfig:
    return load_config(None, values, defaults)


def test_the_populations_settings_hold_where_nothing_else_is_said() -> None:
    traders = PopulationProcesses(TraderOptions("small", 2, 1, None))
    settings = settings_of(traders.defaults, clock={"kind": "lockstep"})
    assert [(symbol.name, symbol.tick_size) for symbol in settings.symbols] == [("DEMO", "0.01")]
    assert (settings.clock.start, settings.clock.participants) == ("09:30", 2)
    others = settings_of(traders.defaults, symbols=[{"name": "X"}], clock={"start": "10:00:00", "participants": 3})
    assert (others.symbols[0].name, others.clock.start, others.clock.participants) == ("X", "10:00:00", 3)


def test_symbols_are_matched_by_name_else_in_order() -> None:
    two = PopulationConfig(name="two", symbols=[SymbolConfig(name="A"), SymbolConfig(name="B")], groups=SMALL.groups)
    named = [{"name": name} for name in ("C", "B", "A")]
    assert match_symbols(two, settings_of(symbols=named)).symbol_names == ["A", "B"]
    assert match_symbols(two, settings_of(symbols=named[:2])).symbol_names == ["C", "B"]
    with pytest.raises(
        PopulationError,
        match=r"expected those of two \(A, B\), or as many if they have no settings of their own, got C; leave --symbols out",
    ):
        match_symbols(two, settings_of(symbols=named[:1]))
    assert match_symbols(SMALL, settings_of(symbols=[{"name": "A", "tick_size": "0.010"}])).symbol_names == ["A"]


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ({"participants": {"alice": {"token": "a"}}}, "expected traders-small-0 with the permissions trade and data"),
        (
            {"participants": {"traders-small-0": {"token": "a", "permissions": ["trade"]}}},
            "got one with trade; add `traders-small-0: {token_file: FILE}` for each of the 1 hosts",
        ),
    ],
)
def test_traders_that_could_not_log_in_are_refused(login: dict[str, Any], words: str) -> None:
    traders = PopulationProcesses(TraderOptions("small", 1, 1, None))
    with pytest.raises(PopulationError) as error:
        traders.start(settings_of(traders.defaults, login=login))
    assert words in str(error.value)


def test_with_keys_the_traders_use_those_of_the_exchange(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    new_keys(keys)
    traders = PopulationProcesses(TraderOptions("small", 1, 1, None))
    own = {"token": "a", "client_key": (keys / "client.public").read_text().strip()}
    login = {"curve_keys": str(keys), "participants": {"traders-small-0": own}}
    assert traders._tokens(settings_of(traders.defaults, login=login)) == ("a",)
    own["client_key"] = "0" * 40
    with pytest.raises(PopulationError, match="which the traders use, got another"):
        traders.start(settings_of(traders.defaults, login=login))


def test_a_flow_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    traders = PopulationProcesses(TraderOptions("small", 1, 1, tmp_path / "file" / "flow"))
    with pytest.raises(FlowFileError, match="expected a writable folder"):
        traders.start(settings_of(traders.defaults))


@pytest.mark.parametrize(
    ("endpoint", "own"),
    [
        ("tcp://127.0.0.1:5570", "tcp://127.0.0.1:5570"),
        ("tcp://0.0.0.0:5570", "tcp://127.0.0.1:5570"),
        ("tcp://*:5570", "tcp://127.0.0.1:5570"),
        ("tcp://10.0.0.3:5570", "tcp://10.0.0.3:5570"),
    ],
)
def test_traders_reach_an_exchange_that_listens_on_all_addresses(endpoint: str, own: str) -> None:
    assert own_endpoint(endpoint) == own


@pytest.mark.long  # `make test` begins with this command
def test_an_image_can_be_prepared_with_its_traders() -> None:
    """`serl exchange compile --with`: the hosts have compiled when it ends, and nothing runs on."""
    done = subprocess.run(
        [sys.executable, "-m", "serl", "exchange", "compile", "--with", "small"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "compiled in" in done.stdout
    unknown = subprocess.run(
        [sys.executable, "-m", "serl", "exchange", "compile", "--with", "smal"], capture_output=True, text=True
    )
    assert unknown.returncode == 2
    assert "did you mean small?" in unknown.stderr and "compiling" not in unknown.stderr, "before anything starts"
