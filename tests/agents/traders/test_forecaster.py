"""The compiled forecaster against that of serl.agents.signals, who may have one, and what others read of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from serl.agents.realism.tape import history_market, symbol_commands
from serl.agents.signals import features
from serl.agents.signals.features import NAMES, FeatureStream
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import LEVELS, STEP_NS, read_flow, taken_lots
from serl.agents.signals.inputs import Inputs
from serl.agents.signals.log_linear import EXPONENT_MAX
from serl.agents.traders import forecast_features
from serl.agents.traders.build import Crowd
from serl.agents.traders.cli import simulate
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.flow_file import FlowFile
from serl.agents.traders.forecast_features import COUNT, RAW
from serl.agents.traders.forecasters import forecaster_numbers, with_forecaster
from serl.agents.traders.kinds import forecaster as kind
from serl.agents.traders.legs import own_numbers
from serl.agents.traders.population import PopulationConfig, check_population, load_population
from serl.agents.traders.records import (
    BOARD_COUNT,
    BOARD_START,
    BOARD_TIME,
    BOUGHT_LOTS,
    FORECAST_NUMBERS,
    SOLD_LOTS,
    TRADED_LOTS,
)
from serl.agents.traders.simulate import Simulation
from serl.agents.traders.trader_api import SECOND_NS
from serl.history.book_rows import book_rows
from tests.agents.traders.random_forecaster import HORIZONS_S, random_forecaster
from tests.agents.traders.trader_bench import ZERO, TraderBench, population, signs

SMALL = load_population("small")
AUCTION = [
    {"at": "09:30", "phase": "continuous"}, {"at": "09:31:10", "phase": "intraday"}, {"at": "09:31:30", "phase": "continuous"},
]  # fmt: skip
CROSSING = {"trader": "value", "count": 9, "profile": {"interval_s": 5.0}}, {"trader": "noise", "count": 5}
"""Traders whose limit orders cross in an auction."""


def memory_of_last(simulation: Simulation) -> Any:
    """The memory of the last trader."""
    start = (simulation.crowd.traders.agents["memory_address"][-1] - simulation.crowd.memory_address) // 8
    return simulation.crowd.changing[-1][start:]


def recorded(simulation: Simulation, times_ns: Any) -> list[Any]:
    """The features at these times by what `serl signals` sees of the simulated day; None where there are none."""
    _, commands, _ = symbol_commands(simulation.day(), None)
    rows = book_rows(history_market(commands), commands, LEVELS, 0, times_ns)
    buys, sells = taken_lots(read_flow(commands, times_ns).fills, times_ns)
    ticks, lots, stream = rows.ticks.transpose(2, 0, 1), rows.lots.transpose(2, 0, 1), FeatureStream()
    return [
        stream.push(ticks[place], lots[place], int(buys[place]), int(sells[place])) for place in range(len(times_ns))
    ]


@pytest.mark.parametrize("model", ["logistic", "network"])
@pytest.mark.parametrize("rules", [{}, {"market": {"day": AUCTION}}])
def test_features_and_probabilities_are_those_of_the_recorded_day(rules: dict[str, Any], model: str) -> None:
    """Also through an auction, whose trades do not count; from its crossed book until a minute after it nothing is known."""
    made = random_forecaster(model)
    config = with_forecaster(population(ZERO, *CROSSING, **rules), made, every_steps=1)
    simulation, steps = Simulation(config, 1), 1600
    times_ns = config.open_ns + STEP_NS * np.arange(steps) + config.traders - 1
    seen, boards = [], []
    for time_ns in times_ns.tolist():
        simulation.advance(time_ns + 1)
        seen.append(memory_of_last(simulation)[[COUNT, *range(RAW, RAW + len(NAMES))]])
        boards.append(simulation.crowd.traders.forecast_board[0].copy())
    assert [row[0] for row in seen] == list(range(1, steps + 1)), "a look at each of these times"
    known = 0
    for time_ns, expected, row, board in zip(times_ns, recorded(simulation, times_ns), seen, boards, strict=True):
        assert board[BOARD_COUNT] == (0 if expected is None else len(HORIZONS_S))
        if expected is not None:
            known += 1
            np.testing.assert_allclose(row[1:], expected, rtol=1e-9, atol=1e-9)
            assert abs(board[BOARD_TIME] - time_ns) < 1
            rows = board[BOARD_START:].reshape(-1, FORECAST_NUMBERS)[: len(HORIZONS_S)]
            inputs = Inputs(expected[None], np.zeros((0, 0), np.float32), np.zeros(0, np.int64))
            assert tuple(rows[:, 0]) == HORIZONS_S
            np.testing.assert_allclose(rows[:, 1:4], made.probabilities(inputs)[0], atol=1e-9)
            np.testing.assert_allclose(rows[:, 4], made.volumes(inputs.features)[0], rtol=1e-9)
            np.testing.assert_allclose(rows[:, 5:], made.fills(inputs.features)[0], atol=1e-9)
    assert 150 < known < 400 if rules else known == steps - 601, "the first book is empty"
    totals = simulation.crowd.traders.public_totals[0]
    bought, sold, traded = (int(totals[column]) for column in (BOUGHT_LOTS, SOLD_LOTS, TRADED_LOTS))
    assert bought > 0 and sold > 0 and (traded - bought - sold > 100 if rules else traded == bought + sold)


def test_the_constants_are_those_of_signals() -> None:
    for name in ("WINDOW_STEPS", "LONGEST", "OFI", "DEPTH", "BUYS", "SELLS", "MOVE", "PATH", "UNKNOWN"):
        assert getattr(forecast_features, name) == getattr(features, name)
    assert (len(NAMES), LEVELS) == (forecast_features.FEATURES, forecast_features.LEVELS)
    assert (forecast_features.STEP_NS, kind.CLIP, kind.EXPONENT_MAX) == (STEP_NS, features.CLIP, EXPONENT_MAX)


def test_it_forecasts_once_in_so_many_steps() -> None:
    simulation = Simulation(with_forecaster(SMALL, random_forecaster()), 1)
    times = set()
    for step in range(615, 650):
        simulation.advance(SMALL.open_ns + step * STEP_NS + 100)
        times.add(int(simulation.crowd.traders.forecast_board[0, BOARD_TIME]) - SMALL.open_ns)
    assert times == {second * SECOND_NS + 31 for second in range(61, 65)}, "the book of the open was empty"


def test_a_model_that_is_no_small_network_is_replaced_by_the_better_one() -> None:
    for better, other, log_loss in (("logistic", "network", (0.8, 0.9)), ("network", "logistic", (0.9, 0.8))):
        made = random_forecaster("attention", log_loss=log_loss)
        assert forecaster_numbers(made) == forecaster_numbers(random_forecaster(better))
        assert forecaster_numbers(made) != forecaster_numbers(random_forecaster(other))
    with pytest.raises(PopulationError, match=r"expected a forecaster in base64 \(.* numbers for layers of \[29, 99"):
        with_forecaster(SMALL, random_forecaster(hidden=99))


def test_the_others_trade_as_they_do_without_it() -> None:
    """If the spacing of traders stays: `small` has 31."""
    tapes = []
    for config in (SMALL, with_forecaster(SMALL, random_forecaster())):
        simulation = Simulation(config, 1)
        simulation.advance(config.open_ns + 100 * SECOND_NS)
        tapes.append(simulation.commands)
    assert config.spacing_ns == SMALL.spacing_ns and len(tapes[0]) > 500
    assert (tapes[0] == tapes[1]).all()


def test_which_symbol_it_forecasts() -> None:
    pair = load_population("pair")
    first, second = pair.symbol_names
    for made, symbol, expected in (
        (random_forecaster(symbol=second), None, second),
        (random_forecaster(symbol="AMZN"), first, first),
    ):
        assert with_forecaster(pair, made, symbol).groups[-1].symbol == pair.symbol_names.index(expected)
    with pytest.raises(
        PopulationError, match=f"pair: expected a forecaster of one of {first}, {second}, got one of AMZN"
    ):
        with_forecaster(pair, random_forecaster(symbol="AMZN"))
    assert with_forecaster(SMALL, random_forecaster(symbol="AMZN")).groups[-1].symbol == 0, "its only one"
    made = with_forecaster(pair, random_forecaster(symbol=second))
    simulation = Simulation(made, 1)
    simulation.advance(made.open_ns + 90 * SECOND_NS)
    assert simulation.crowd.traders.forecast_board[:, BOARD_COUNT].tolist() == [0, 3]
    basket = with_forecaster(load_population("basket"), random_forecaster(), "ETF")
    assert check_population(basket.model_dump(), "in a host") == basket


def test_who_reads_forecasts_needs_one_forecaster() -> None:
    reader = population(ZERO, {"trader": "forecast_taker"})
    with pytest.raises(
        PopulationError,
        match=r"groups\.1: expected a forecaster in DEMO, whose .* forecast_taker reads, got none; give one",
    ):
        Crowd(reader, 1)
    made = with_forecaster(reader, random_forecaster())
    Crowd(made, 1)
    with pytest.raises(PopulationError, match="expected at most one forecaster in DEMO, got 2"):
        Crowd(with_forecaster(made, random_forecaster()), 1)


def test_every_host_has_all_forecasters_and_its_share_of_the_others() -> None:
    made = with_forecaster(SMALL, random_forecaster())
    assert made.independent_traders == SMALL.traders == 31
    numbers = [own_numbers(made, host, 3).tolist() for host in range(3)]
    assert all(each[-1] == 31 for each in numbers)
    assert sorted(number for each in numbers for number in each[:-1]) == list(range(31))
    assert own_numbers(made, 0, 1).tolist() == list(range(32))


def test_flow_files_leave_forecasters_out(tmp_path: Path) -> None:
    """Each host would count them again."""
    made = with_forecaster(SMALL, random_forecaster())
    simulation = Simulation(made, 1)
    simulation.advance(made.open_ns + 10 * SECOND_NS)
    file = FlowFile(tmp_path / "flow", made, simulation.crowd.traders.agents)
    file.add(simulation.commands)
    file.close()
    accounts = json.loads((tmp_path / "flow").read_text().splitlines()[-1])["accounts"]["DEMO"]
    assert sum(count for count, _, _ in accounts.values()) == 31 and "forecaster" not in accounts


RISE, FALL, NONE = (10.0, 0.1, 0.2, 0.7), (10.0, 0.7, 0.2, 0.1), (10.0, 0.3, 0.4, 0.3)


def test_a_taker_trades_with_the_forecast_of_the_nearest_horizon() -> None:
    bench = TraderBench("forecast_taker", interval_s=1.0, horizon_s=12.0, leave_below=0.1, position_lots_max=150)
    assert bench.wake(1.0) == [], "no forecast"
    bench.set_forecasts((1.0, *FALL[1:]), RISE, (60.0, *FALL[1:]))
    (order,) = bench.wake(2.0)
    assert (signs([order]), order.price_ticks, order.lots) == ([1], 1001, 100)
    bench.set_position(100)
    assert [order.lots for order in bench.wake(3.0)] == [50], "up to its limit"
    bench.set_position(150)
    assert bench.wake(12.9) == []
    (order,) = bench.wake(13.1)
    assert (signs([order]), order.price_ticks, order.lots) == ([-1], 999, 150), "10 s after its last entry"
    for rows, expected in (((FALL,), [-1]), ((NONE,), []), ((), [])):
        bench.set_position(0)
        bench.set_forecasts(*rows)
        assert signs(bench.wake(20.0)) == expected
    bench.set_position(-150)
    bench.set_forecasts(FALL)
    assert bench.wake(21.0) == []
    bench.set_forecasts(NONE)
    assert signs(bench.wake(22.0)) == [1], "it has faded"


def test_takers_trade_in_a_market_only_once_there_are_forecasts() -> None:
    config = takers()
    simulation, kinds = Simulation(config, 1), config.groups
    simulation.advance(config.open_ns + 60 * SECOND_NS)
    agents = simulation.crowd.traders.agents
    own = agents["kind"] == [group.trader for group in kinds].index("forecast_taker")
    assert not agents["cash_ticks"][own].any()
    simulation.advance(config.open_ns + 120 * SECOND_NS)
    assert agents["cash_ticks"][own].all() and (abs(agents["position_lots"][own]) <= 30).all()


def takers(made: Forecaster | None = None) -> PopulationConfig:
    """`small` with three takers who trade on every forecast."""
    profile = {"enter_above": 0.01, "order_lots": 10, "position_lots_max": 30}
    values = SMALL.model_dump()
    values["groups"].append({"trader": "forecast_taker", "symbol": 0, "count": 3, "profile": profile})
    return with_forecaster(SMALL.model_validate(values), made or random_forecaster())


def test_the_command_line(tmp_path: Path) -> None:
    path, found = tmp_path / "random.signals", []
    random_forecaster().write(path)
    reader = {"name": "reader", "groups": [ZERO, {"trader": "forecast_taker", "count": 2}]}
    (tmp_path / "reader.yaml").write_text(yaml.safe_dump(reader))
    for options in (["--forecaster", str(path)], []):
        words = [str(tmp_path / "reader.yaml"), "-o", str(tmp_path / "some.day"), "--until", "09:32", *options]
        found.append(CliRunner().invoke(simulate, words))
    assert "reader, 4 traders" in found[0].output
    assert isinstance(found[1].exception, PopulationError)
