"""The same strategy in process and on a served lockstep exchange: the same tape, the same fills, and it sees the same."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.agents.backtest.errors import BacktestError
from serl.agents.backtest.run import backtest
from serl.agents.backtest.served import Outcome, run_compiled, run_served
from serl.agents.traders.build import Crowd
from serl.agents.traders.host import Host, compile_traders
from serl.agents.traders.population import PopulationConfig, load_population
from serl.agents.traders.registry import load_kind
from serl.agents.traders.simulate import tape_hash
from serl.clients.blocking import connect
from serl.clients.replay import Replayer
from serl.exchange.config import load_config
from serl.exchange.journal.segment import read_rows
from serl.exchange.latency import Latencies
from serl.exchange.records import EVENT, EventFlag, EventKind, Phase, Rows
from serl.history.generate import generate_day
from tests.agents.backtest.sample import Busy
from tests.agents.traders.test_population_processes import RULES, short_population
from tests.server_fixture import Served, start_exchange

SECOND_NS = 1_000_000_000
NAME = "bot"
SLOW = {"orders": {"kind": "lognormal", "median_us": 40_000, "sigma": 1.0, "floor_us": 10}}


LIQUID = load_population("liquid")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """So that no thread compiles beside one that waits for an exchange: it would not hear it for as long."""
    compile_traders(Crowd(load_population("liquid"), 3))


@contextmanager
def lockstep(
    folder: Path, symbols: str, start: str, latency: object = None, more: dict[str, object] | None = None
) -> Iterator[Served]:
    config: dict[str, object] = {
        "clock": {"kind": "lockstep", "participants": 2, "start": start},
        "accounts": {NAME: {"latency": latency or {}}},
    } | (more or {})
    journal = folder / "journal"
    with start_exchange(symbols=symbols, clock="lockstep", config=config, folder=folder, journal=journal) as served:
        yield served
        served.stop()


@contextmanager
def meanwhile(action: Any) -> Iterator[None]:
    """Runs an action in another thread; its exceptions are raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(120)
    assert not raised, raised
    assert not thread.is_alive()


def served_events(folder: Path, until_ns: int) -> Rows:
    paths = sorted((folder / "journal").glob("events-*.rows"))
    rows = np.concatenate([read_rows(path, EVENT) for path in paths])
    return rows[(rows["sequence"] > 0) & (rows["time_ns"] < until_ns)]


def populate(served: Served, until_ns: int, population: PopulationConfig = LIQUID) -> None:
    host = Host(population, 3, served.endpoint, until_ns=until_ns)
    try:
        host.run()
    finally:
        host.close()


def run_on(served: Served, strategy: Busy, window_ns: tuple[int, int], other: Any) -> Outcome:
    """The strategy logs in before the other participant, so that its commands come first at equal times."""
    client = connect(served.endpoint, NAME, cancel_on_disconnect=True)
    with pytest.raises(BacktestError, match="expected --window FROM-TO on a lockstep clock, got none"):
        run_served(strategy, client)
    with pytest.raises(BacktestError, match=r"expected a window that has not begun, got 00:00:00-.* at 09:"):
        run_served(strategy, client, (0, window_ns[1]))
    with meanwhile(other), client:  # it leaves first: the other one waits for its promises
        return run_served(strategy, client, window_ns)


@pytest.mark.long
@pytest.mark.parametrize("latency", [None, SLOW], ids=["no latency", "latency"])
def test_a_strategy_among_traders_makes_the_tape_of_a_served_exchange(latency: object, tmp_path: Path) -> None:
    population = load_population("liquid")
    window_ns = (population.open_ns, population.open_ns + 40 * SECOND_NS)
    there, here = Busy(), Busy()
    with lockstep(tmp_path, "DEMO", "09:30", latency) as served:
        outcome = run_on(served, there, window_ns, lambda: populate(served, window_ns[1]))
    config = load_config(tmp_path / "exchange.yaml")
    delays = Latencies(config.latency, config.latencies).orders(NAME)
    assert (delays is None) == (latency is None)
    result = backtest(here, population=population, seed=3, window_ns=window_ns, delays=delays, events_kept=True)
    events = served_events(tmp_path, window_ns[1])
    assert result.events is not None and len(result.events) > 1000 and len(result.fill_rows) > 20
    assert {EventKind.REDUCED, EventKind.REPLACED, EventKind.REJECTED} <= set(result.events["kind"].tolist())
    assert here.started_ns == there.started_ns == [window_ns[0]]
    for mine, theirs in zip(here.seen, there.seen, strict=True):
        assert mine == theirs
    assert here.filled == there.filled and len(here.filled) > 20
    assert (len(events), tape_hash(events)) == (len(result.events), tape_hash(result.events))
    assert outcome.fills == len(result.fill_rows)
    assert outcome.positions == {"DEMO": result.positions[-1, 0]} and outcome.profits == {"DEMO": result.profit}


def market_with_rules(folder: Path) -> tuple[PopulationConfig, dict[str, object]]:
    """`liquid` in a market in which everything happens within two minutes, and the settings of an exchange like it."""
    population = load_population(short_population(folder, market=RULES))
    return population, {"symbols": population.symbol_settings}


@pytest.mark.long
def test_a_strategy_in_a_market_with_rules_makes_the_tape_of_a_served_exchange(tmp_path: Path) -> None:
    """Phases, auctions, interruptions, bands that follow the market, pro-rata matching; and it pays the fees."""
    population, settings = market_with_rules(tmp_path)
    compile_traders(Crowd(population, 3))  # see `compiled`: with the full rule book
    window_ns = (population.open_ns, population.close_ns)
    there, here = Busy(), Busy()
    with lockstep(tmp_path, "", "09:30", more=settings) as served:
        run_on(served, there, window_ns, lambda: populate(served, window_ns[1], population))
        with connect(served.endpoint, NAME) as client:
            paid = client.account()["DEMO"]
    result = backtest(here, population=population, seed=3, window_ns=window_ns, events_kept=True)
    events = served_events(tmp_path, window_ns[1])
    assert result.events is not None and len(result.fill_rows) > 20
    phases = result.events["flags"][result.events["kind"] == EventKind.PHASED].tolist()
    assert {Phase.CONTINUOUS, Phase.VOLATILITY, Phase.CLOSING, Phase.CLOSED} <= set(phases)
    assert (result.events["flags"] & EventFlag.AUCTION).any()
    assert (len(events), tape_hash(events)) == (len(result.events), tape_hash(result.events))
    for mine, theirs in zip(here.seen, there.seen, strict=True):
        assert mine == theirs
    assert here.filled == there.filled
    assert result.fees == paid.fees != 0
    assert result.settings["fees"] == "maker_ppm -50, taker_ppm 100"
    assert result.profit == result.pnl[-1] and result.fees_paid[-1] == sum(result.fill_fees)


@pytest.mark.long
def test_a_compiled_strategy_pays_the_fees_of_the_market(tmp_path: Path) -> None:
    population, _ = market_with_rules(tmp_path)
    window_ns = (population.open_ns, population.open_ns + 60 * SECOND_NS)
    result = backtest(load_kind("pulse"), population=population, seed=3, window_ns=window_ns)
    assert result.fee_microticks is not None and len(result.fill_rows) > 20
    free = backtest(
        load_kind("pulse"), seed=3, window_ns=window_ns,
        population=load_population(short_population(tmp_path, market=RULES | {"fees": {}})),
    )  # fmt: skip
    traded = ["time_ns", "side", "price_ticks", "qty_lots", "flags"]
    assert free.fees == 0 and (free.fill_rows[traded] == result.fill_rows[traded]).all(), "it does not look at its fees"
    assert result.profit == free.profit - result.fees != free.profit


@pytest.mark.long
def test_a_strategy_in_a_replayed_day_makes_the_tape_of_a_served_exchange(tmp_path: Path) -> None:
    day = generate_day(3, "AMZN")
    start_ns = int(day.commands["time_ns"][0]) // SECOND_NS * SECOND_NS
    window_ns = (start_ns + 20 * SECOND_NS, start_ns + 60 * SECOND_NS)
    there, here = Busy(), Busy()
    with lockstep(tmp_path, "AMZN", "09:00") as served:

        def replay() -> None:
            replayer = Replayer(day, served.endpoint, to_ns=window_ns[1] + SECOND_NS)
            try:
                replayer.run(lambda progress: None)
            finally:
                replayer.close()

        run_on(served, there, window_ns, replay)
    result = backtest(here, day=day, window_ns=window_ns, events_kept=True)
    events = served_events(tmp_path, window_ns[1])
    assert result.events is not None and len(result.fill_rows) > 20
    for mine, theirs in zip(here.seen, there.seen, strict=True):
        assert mine == theirs
    assert here.filled == there.filled
    assert (len(events), tape_hash(events)) == (len(result.events), tape_hash(result.events))


@pytest.mark.long
def test_a_compiled_strategy_makes_the_tape_of_a_served_exchange(tmp_path: Path) -> None:
    population = load_population("liquid")
    window_ns = (population.open_ns, population.open_ns + 40 * SECOND_NS)
    kind = load_kind("pulse")
    with lockstep(tmp_path, "DEMO", "09:30") as served, meanwhile(lambda: populate(served, window_ns[1])):
        outcome = run_compiled(kind, served.endpoint, window_ns, seed=3)
    result = backtest(kind, population=population, seed=3, window_ns=window_ns, events_kept=True)
    events = served_events(tmp_path, window_ns[1])
    assert result.events is not None and len(result.fill_rows) > 20
    assert (len(events), tape_hash(events)) == (len(result.events), tape_hash(result.events))
    assert outcome.positions == {"DEMO": result.positions[-1, 0]} and outcome.profits == {"DEMO": result.profit}
    assert outcome.decisions == result.decisions
    assert (outcome.fills, outcome.rejections) == (len(result.fill_rows), result.rejections)
