"""Generated flow that continues a recorded day, runs faster, or follows a path."""

import ctypes
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.calibration.calibrate import write_population
from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.flow.cli import flow
from serl.agents.calibration.flow.continuing import continued
from serl.agents.calibration.flow.population import flow_population, in_scenario
from serl.agents.calibration.flow.samples import averages_after
from serl.agents.realism.tape import HOUR_NS, MINUTE_NS, build_tape
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.flow_events import BOOK_AT, MEMORY, STATE_AT
from serl.agents.traders.flow_features import BOOK, STATE
from serl.agents.traders.flow_opening import STEP_NS, opening_text
from serl.agents.traders.flow_tokens import CLASSES, LEVELS
from serl.agents.traders.kinds.neural_flow import NeuralFlowProfile
from serl.agents.traders.population import GroupConfig, PopulationConfig, load_population
from serl.agents.traders.simulate import Simulation, simulate
from serl.history.day import Day, write_day
from tests.agents.calibration.sample import poisson_day

OPEN_NS = 9 * HOUR_NS + 30 * MINUTE_NS
AT_NS = OPEN_NS + 20 * MINUTE_NS


def untrained(**changes: Any) -> PopulationConfig:
    """A flow that draws every possible event with the same probability."""
    population = flow_population(NeuralFlowProfile().numbers, "untrained", "0.01", 1000.0)
    groups = [population.groups[0].model_copy(update={"profile": {**population.groups[0].profile, **changes}})]
    return population.model_copy(update={"groups": groups})


@pytest.fixture(scope="module")
def day() -> Day:
    return poisson_day()


def until(day: Day, time_ns: int) -> Day:
    kept = day.commands["time_ns"] < time_ns
    return dataclasses.replace(day, commands=day.commands[kept], rows=day.rows[kept])


@pytest.fixture(scope="module")
def opened(day: Day) -> tuple[Any, Simulation]:
    """The opening, and a simulation in which it has arrived and nothing else has happened."""
    population = continued(untrained(), day, AT_NS, "continued")
    record = population.groups[0].parameters().record()[0]
    rows, simulation = record["orders"][: record["orders_open"]], Simulation(population, 1)
    simulation.advance(AT_NS + len(rows) * STEP_NS)
    return rows, simulation


def test_a_day_goes_on_with_its_book(day: Day, opened: tuple[Any, Simulation]) -> None:
    tape = build_tape(until(day, AT_NS), LEVELS)
    for side, levels in enumerate(opened[1].market.book()):
        assert levels["price_ticks"].tolist() == tape.book_ticks[-1, side].tolist()
        assert levels["qty_lots"].tolist() == tape.book_lots[-1, side].tolist()


def test_orders_keep_their_priority_and_their_age(opened: tuple[Any, Simulation]) -> None:
    rows, simulation = opened
    assert (np.diff(rows[:, 3]) <= 0).all() and rows[:, 3].min() >= 0 and rows[:, 3].max() <= AT_NS - OPEN_NS
    found = simulation.market.orders(0)
    for side in (0, 1):
        for price in np.unique(rows[rows[:, 0] == side, 1]):
            expected = rows[(rows[:, 0] == side) & (rows[:, 1] == price), 2]
            resting = found[(found["side"] == side) & (found["price_ticks"] == price)]
            assert resting["open_lots"].tolist() == expected.tolist()


def test_its_first_event_sees_what_training_would(day: Day) -> None:
    """The book, the youngest orders' ages and the averages of the past."""
    population = continued(untrained(), day, AT_NS, "continued")
    simulation = Simulation(population, 1)
    count = int(population.groups[0].parameters().record()["orders_open"][0])
    simulation.advance(AT_NS + count * STEP_NS + 1)
    at = int(simulation.crowd.traders.agents["memory_address"][0])
    memory = np.ctypeslib.as_array((ctypes.c_double * MEMORY).from_address(at))
    tape = build_tape(until(day, AT_NS), LEVELS)
    averages = averages_after(tape, AT_NS)
    assert np.abs(averages).max() > 1
    seen = memory[BOOK_AT : BOOK_AT + BOOK].reshape(2, 4, LEVELS)
    assert seen[:, 0].tolist() == tape.book_ticks[-1].tolist() and seen[:, 1].tolist() == tape.book_lots[-1].tolist()
    orders = population.groups[0].parameters().record()["orders"][0, :count]
    for side in (0, 1):
        for price, age_log_s in zip(seen[side, 0], seen[side, 3], strict=True):
            own = orders[(orders[:, 0] == side) & (orders[:, 1] == price)]
            assert age_log_s == pytest.approx(np.log(own[:, 3].min() / 1e9), abs=0.3 if own[:, 3].min() < 1e9 else 0.05)
    # the first event has been added to the averages of 2,048 events since, which it changes by a two-thousandth
    np.testing.assert_allclose(memory[STATE_AT + 60 : STATE_AT + 72], averages[60:72], atol=1e-3)


def test_it_hears_what_others_do() -> None:
    """Beside another trader its averages are those of all messages, as in training."""
    alone = untrained(hears=1)
    other = GroupConfig(trader="noise", count=40, profile={"interval_s": 10.0, "orders": 10**6})
    simulation = Simulation(alone.model_copy(update={"groups": [alone.groups[0], other]}), 1)
    simulation.advance(AT_NS)
    numbers = simulation.commands["time_ns"] % simulation.population.spacing_ns
    assert 0.2 < (numbers > 0).mean() < 0.8, "both trade"
    at = int(simulation.crowd.traders.agents["memory_address"][0])
    memory = np.ctypeslib.as_array((ctypes.c_double * MEMORY).from_address(at))
    averages = averages_after(build_tape(simulation.day(), LEVELS), AT_NS)
    slow = slice(4 * CLASSES, 6 * CLASSES)  # over 512 and 2,048 events
    np.testing.assert_allclose(memory[STATE_AT : STATE_AT + STATE][slow], averages[slow], atol=0.03)


def test_a_faster_flow_does_the_same_sooner() -> None:
    plain, fast = (
        simulate(in_scenario(untrained(), volatility, 0.0, "flow"), 3, OPEN_NS + length_ns)
        for volatility, length_ns in ((1.0, 8 * MINUTE_NS), (2.0, 2 * MINUTE_NS))
    )
    count = min(len(plain.commands), len(fast.commands)) - 50
    assert count > 500
    for name in ("kind", "side", "price_ticks", "qty_lots"):
        assert plain.commands[name][:count].tolist() == fast.commands[name][:count].tolist()
    ratio = (plain.commands["time_ns"][count] - OPEN_NS) / (fast.commands["time_ns"][count] - OPEN_NS)
    assert ratio == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize(("value_lean", "follows"), [(0.0, False), (2.0, True)])
def test_a_flow_follows_a_path(value_lean: float, follows: bool) -> None:
    simulation, gaps = Simulation(in_scenario(untrained(), 1.0, value_lean, "flow"), 1), []
    for minute, value in enumerate((1000, 1080, 1160, 1100, 1020), 1):
        simulation.crowd.traders.value[:] = value
        simulation.advance(OPEN_NS + 2 * minute * MINUTE_NS)
        bid, ask = (int(side["price_ticks"][0]) for side in simulation.market.book(0, 1))
        gaps.append(abs(0.5 * (bid + ask) - value))
    assert (max(gaps) < 30) == follows, gaps


def test_commands_and_what_they_refuse(day: Day, tmp_path: Path) -> None:
    write_population(untrained(), tmp_path / "flow.yaml")
    write_day(day, tmp_path / "poisson.day")

    def run(*words: str) -> str:
        found = CliRunner().invoke(flow, [*words], catch_exceptions=True)
        return found.output + str(found.exception or "")

    def continue_at(at: str, population: str = str(tmp_path / "flow.yaml")) -> str:
        return run("continue", population, str(tmp_path / "poisson.day"), "--at", at, "-o", str(tmp_path / "on.yaml"))

    assert "09:50:00 to 16:00" in continue_at("09:50")
    assert len(simulate(load_population(tmp_path / "on.yaml"), 1, AT_NS + MINUTE_NS).commands) > 50
    assert "before the population's close, 16:00, got 16:00:00" in continue_at("16:00")
    assert "expected a book with both sides" in continue_at("09:29")
    assert "expected a population of `serl flow train`, with one trader, got traders" in continue_at("09:50", "small")
    scenario = run("scenario", str(tmp_path / "flow.yaml"), "--volatility", "2", "-o", str(tmp_path / "fast.yaml"))
    assert "wrote" in scenario and load_population(tmp_path / "fast.yaml").groups[0].profile["pace"] == 4
    for source, to, words in (
        ("fast", "leaning", ["--value-lean", "2"]),
        ("leaning", "led", ["--volatility", "2"]),
    ):  # one change after the other
        run("scenario", str(tmp_path / f"{source}.yaml"), *words, "-o", str(tmp_path / f"{to}.yaml"))
    assert "which it would replace" in run("scenario", str(tmp_path / "led.yaml"), "-o", str(tmp_path / "led.yaml"))
    led = load_population(tmp_path / "led.yaml").groups[0].profile
    assert (led["pace"], led["value_lean"]) == (16, 2)
    with pytest.raises(PopulationError, match="continue the day again"):
        untrained(opening=opening_text(np.ones((1, 4)), np.zeros(STATE))).groups[0].parameters()
    with pytest.raises(CalibrationError, match=r"expected the day's tick size, 0\.01, got 0\.5"):
        continued(untrained().model_copy(update={"tick_size": "0.5"}), day, AT_NS, "other")


def test_a_day_is_not_continued_after_its_last_message(day: Day) -> None:
    """It was, with orders that had rested for hours in a book that nobody knows."""
    assert continued(untrained(), day, OPEN_NS + 90 * MINUTE_NS, "last").open == "11:00:00"
    with pytest.raises(CalibrationError, match=r"--at: expected .* up to 10:59:59, got 11:00:01; give an earlier one"):
        continued(untrained(), day, OPEN_NS + 90 * MINUTE_NS + 10**9, "late")
