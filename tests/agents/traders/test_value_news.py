"""News of kind `value` moves the fundamental value of a population's traders, in lockstep with the same tape every time."""

import math
import threading
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.traders.cli import simulate
from serl.agents.traders.host import Host
from serl.agents.traders.paths import value_paths
from serl.agents.traders.population import PopulationConfig, check_population, load_population
from serl.agents.traders.simulate import Simulation, replay_events, tape_hash
from serl.agents.traders.value import SECOND_NS
from serl.agents.traders.value_news import ValueNews, read_day_news
from serl.clients.news_sender import NewsSender
from serl.exchange.errors import ConfigError
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.news import News, NewsKind
from serl.exchange.records import EVENT
from serl.history.day import read_day
from tests.server_fixture import start_exchange

SMALL = load_population("small")
UNTIL_NS = SMALL.open_ns + 60 * SECOND_NS


def worth(time_ns: int, value: int, symbol: str = "DEMO") -> News:
    return News(0, time_ns, NewsKind.VALUE, symbol, "", "", value, "")


SHOCKS = (
    worth(SMALL.open_ns + 10 * SECOND_NS + 500, 10_200),
    News(0, SMALL.open_ns + 20 * SECOND_NS, NewsKind.MACRO, "DEMO", "Rates up", "", 5.0, ""),
    worth(SMALL.open_ns + 30 * SECOND_NS, 9_900),
)


def simulated(shocks: tuple[News, ...]) -> Simulation:
    """A minute of `small` in process."""
    simulation = Simulation(SMALL, 1)
    values = ValueNews(SMALL, simulation.crowd.traders.value)
    for message in shocks:
        values.add(message)
    values.advance(simulation.time_ns, UNTIL_NS, simulation.advance)
    return simulation


def served_tape(folder: Path, hosts: int) -> str:
    """Hash of the tape of the same minute on an exchange in lockstep, with the news from a sender."""
    clock = {"kind": "lockstep", "participants": hosts + 1, "start": SMALL.open}
    config: dict[str, object] = {"clock": clock}
    with start_exchange(symbols="DEMO", clock="", config=config, folder=folder, journal=folder / "journal") as exchange:

        def send() -> None:
            with NewsSender(exchange.endpoint, SHOCKS, "news", "", None) as sender:
                assert len(list(sender.send())) == len(SHOCKS)

        def run(number: int) -> None:
            host = Host(SMALL, 1, exchange.endpoint, host=number, hosts=hosts, until_ns=UNTIL_NS)
            try:
                host.run()
            finally:
                host.close()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(hosts)]
        threads.append(threading.Thread(target=send))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        exchange.stop()
    rows = np.concatenate([stored_rows(path, EVENT)[:] for path in stored_paths(folder / "journal", "events")])
    return tape_hash(rows[(rows["sequence"] > 0) & (rows["time_ns"] < UNTIL_NS)])


@pytest.mark.parametrize("hosts", [2, pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_traders_react_and_the_tape_is_that_in_process(hosts: int, tmp_path: Path) -> None:
    shocked, undisturbed = simulated(SHOCKS), simulated(())
    tape = tape_hash(replay_events(shocked.day()))
    before = np.searchsorted(shocked.commands["time_ns"], SHOCKS[0].time_ns, side="right")
    assert (shocked.commands[:before] == undisturbed.commands[:before]).all() and before > 100
    assert tape != tape_hash(replay_events(undisturbed.day()))
    assert served_tape(tmp_path, hosts) == tape


def test_reports_from_after_a_message_wait_for_their_time() -> None:
    reports = np.zeros(2, EVENT)
    reports["time_ns"] = SMALL.open_ns + 100, SMALL.open_ns + 300
    waiting: list[list[int]] = []
    with start_exchange(symbols="DEMO") as exchange:
        host = Host(SMALL, 1, exchange.endpoint)
        host._private = [reports]
        for until_ns in (SMALL.open_ns + 201, SMALL.open_ns + 301):
            host._run(until_ns, is_last=until_ns == SMALL.open_ns + 301)
            waiting.append(np.concatenate(host._private)["time_ns"].tolist())
        host.close()
    assert waiting == [[SMALL.open_ns + 300], []]


def test_the_path_goes_on_from_the_new_value() -> None:
    population = check_population(
        {
            **SMALL.model_dump(),
            "value": {"mean_ticks": 1000, "reversion_per_s": 0.01, "volatility_ticks_per_root_s": 3},
        },
        "test",
    )
    before = value_paths(population, 1)
    after = shocked_paths(population, worth(population.open_ns + 100 * SECOND_NS + 7, 1500))
    assert (after[0, :100] == before[0, :100]).all() and after[0, 100] == 1500
    moved = after[0] - before[0]
    assert moved[400] == pytest.approx(moved[100] * math.exp(-0.01 * 300), rel=1e-9)
    assert shocked_paths(population, worth(population.open_ns, -5))[0].min() == 1.0, "never below one tick"
    assert (shocked_paths(population, worth(population.close_ns, 7))[0, :-2] == before[0, :-2]).all()


def test_what_is_no_value_of_the_day_changes_nothing() -> None:
    ignored = (
        worth(SMALL.open_ns - 1, 1),
        worth(SMALL.open_ns, 1, "OTHER"),
        News(0, SMALL.open_ns, NewsKind.FUNDAMENTAL, "DEMO", "Revenue", "", 1.0, ""),
    )
    assert (shocked_paths(SMALL, *ignored) == value_paths(SMALL, 1)).all()


def test_a_basket_follows_its_members_only() -> None:
    basket = load_population("basket")
    name = basket.symbols[-1].name
    (member, _, ticks), *_ = basket.basket(len(basket.symbols) - 1)
    before, later_ns = value_paths(basket, 1), basket.open_ns + SECOND_NS
    after = shocked_paths(basket, worth(later_ns, 20_000, basket.symbols[member].name), worth(later_ns, 1, name))
    moved = after - before
    assert moved[member, 1:].min() > 0
    assert moved[-1, 1:] == pytest.approx(ticks * moved[member, 1:])


def test_a_value_follows_the_shock_of_another_and_nobody_follows_its_own() -> None:
    pair = load_population("pair")
    before, later_ns = value_paths(pair, 1), pair.open_ns + SECOND_NS
    first, second = pair.symbol_names
    moved = shocked_paths(pair, worth(later_ns, 10_400, first)) - before
    assert moved[0, 1] == pytest.approx(10_400 - before[0, 1])
    assert moved[1] == pytest.approx(0.5 * moved[0])
    moved = shocked_paths(pair, worth(later_ns, 6400, second)) - before
    assert (moved[0] == 0).all() and moved[1, 1] == pytest.approx(6400 - before[1, 1])
    assert moved[1, 70] == pytest.approx(moved[1, 1] * math.exp(-0.01 * 69)), "the distance reverts"


def shocked_paths(population: PopulationConfig, *messages: News) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    paths = value_paths(population, 1)
    values = ValueNews(population, paths)
    for message in messages:
        values.add(message)
    values.advance(population.open_ns, population.close_ns + 1, lambda time_ns: None)
    return paths


def test_simulate_takes_the_file_of_news_send(tmp_path: Path) -> None:
    news, output = tmp_path / "news.csv", tmp_path / "simulated.day"
    news.write_text(
        "time_ns,kind,symbol,headline,value\n"
        + "".join(
            f"{each.time_ns},{NewsKind(each.kind).name.lower()},{each.symbol},{each.headline},{each.value}\n"
            for each in (worth(SMALL.open_ns - 1, 5), *SHOCKS, worth(UNTIL_NS, 5))
        )
    )
    words = [str(load) for load in ("small", "-o", output, "--until", "09:31", "--news", news)]
    done = CliRunner().invoke(simulate, words)
    assert done.exit_code == 0, done.output
    day = read_day(output)
    assert day.commands.tobytes() == simulated(SHOCKS).day().commands.tobytes()
    assert day.news == tuple(each._replace(sequence=number) for number, each in enumerate(SHOCKS, 1))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("symbol,kind,value\nDEMO,value,5\n", "expected a time in each row, got none"),
        ("time,symbol,headline\n09:31,AMZN,x\n", "expected one of the symbols DEMO, got AMZN"),
    ],
)
def test_simulate_refuses_other_files(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "news.csv").write_text(text)
    with pytest.raises(ConfigError, match=error):
        read_day_news(tmp_path / "news.csv", SMALL, UNTIL_NS)
