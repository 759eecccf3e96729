"""Generated flow: what training sees is what the trader sees, and training moves it towards the day."""

import base64
import ctypes
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.flow import train, training
from serl.agents.calibration.flow.cli import flow
from serl.agents.calibration.flow.population import flow_population
from serl.agents.calibration.flow.samples import NO_TOKEN, Samples, samples_of, tokens_of
from serl.agents.realism.messages import CANCEL, LIMIT, MARKET
from serl.agents.realism.tape import HOUR_NS, MINUTE_NS, Tape, build_tape
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.flow_events import INPUTS_AT, MEMORY
from serl.agents.traders.flow_features import HOUR_INPUTS, INPUTS
from serl.agents.traders.flow_network import INPUT_MAX, STARTS
from serl.agents.traders.flow_tables import PROBABILITIES
from serl.agents.traders.flow_tokens import (
    CANCEL_AT,
    GAP,
    INSIDE,
    JOIN,
    LEVELS,
    LOCAL,
    TRADE_LESS,
    TRADE_THROUGH,
    TRADE_TOUCH,
    inside_class,
    inside_ticks,
)
from serl.agents.traders.kinds.neural_flow import NeuralFlowProfile
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import Simulation, simulate
from serl.history.day import write_day
from tests.agents.calibration.sample import poisson_day

OPEN_NS = 9 * HOUR_NS + 30 * MINUTE_NS
PER_LEVEL = 4
"""Inputs of each of the five best levels: lots, gap, orders, age of the youngest."""


def one_message(kind: int, side: int, price_ticks: int, lots: int) -> Tape:
    """A message before the book 100, 98, 95 (bids of 10 lots) against 104, 105, 109."""
    ticks = np.array([[[100, 98, 95], [104, 105, 109]]] * 2)
    column = [np.array([value]) for value in (0, kind, side, price_ticks, lots, -1, False)]
    return Tape("X", *column, book_ticks=ticks, book_lots=np.full((2, 2, 3), 10))


@pytest.mark.parametrize(
    ("kind", "side", "price_ticks", "lots", "local"),
    [
        (LIMIT, 0, 101, 5, INSIDE), (LIMIT, 0, 103, 5, INSIDE + 4), (LIMIT, 1, 102, 5, INSIDE + 3), (LIMIT, 0, 100, 5, JOIN),
        (LIMIT, 1, 105, 5, JOIN + 1), (LIMIT, 0, 99, 5, GAP), (LIMIT, 1, 107, 5, GAP + 1), (LIMIT, 0, 90, 5, NO_TOKEN),
        (CANCEL, 0, 98, 5, CANCEL_AT + 1), (CANCEL, 1, 104, 5, CANCEL_AT), (CANCEL, 1, 106, 5, NO_TOKEN),
        (MARKET, 0, 104, 4, TRADE_LESS), (MARKET, 0, 104, 10, TRADE_TOUCH), (MARKET, 1, 98, 15, TRADE_THROUGH),
    ],
)  # fmt: skip
def test_tokens(kind: int, side: int, price_ticks: int, lots: int, local: int) -> None:
    expected = NO_TOKEN if local == NO_TOKEN else side * LOCAL + local
    assert tokens_of(one_message(kind, side, price_ticks, lots)).tolist() == [expected]


def test_improvements_are_of_the_class_that_they_are_drawn_from() -> None:
    for spread in (2, 3, 7, 40, 300):
        for improvement in range(1, spread):
            local = inside_class(improvement, spread)
            drawn = [inside_ticks(local, spread, draw) for draw in np.linspace(0.001, 0.999, 20)]
            assert all(1 <= ticks < spread for ticks in drawn)
            if spread >= 40:
                assert {inside_class(ticks, spread) for ticks in drawn} == {local}


@pytest.mark.long
def test_training_sees_what_the_trader_sees() -> None:
    """The inputs of the last message in the trader's memory, and those that training computes from the recorded day."""
    population = flow_population(NeuralFlowProfile().numbers, "untrained", "0.01", 1000.0)
    simulation = Simulation(population, 1)
    simulation.advance(OPEN_NS + 20 * MINUTE_NS)
    at = int(simulation.crowd.traders.agents["memory_address"][0])
    memory = np.ctypeslib.as_array((ctypes.c_double * MEMORY).from_address(at))
    seen = memory[INPUTS_AT : INPUTS_AT + INPUTS].copy()
    simulation.advance(OPEN_NS + 21 * MINUTE_NS)
    samples = samples_of(build_tape(simulation.day(), LEVELS))
    side_inputs = 5 * PER_LEVEL + 2
    first = HOUR_INPUTS[0] - 2 * side_inputs
    estimated = [
        first + side * side_inputs + level * PER_LEVEL + place
        for side in (0, 1)
        for level in range(5)
        for place in (2, 3)
    ]
    compared = [number for number in range(INPUTS) if number not in estimated]
    gaps = np.abs(np.clip(samples.inputs[0][:, compared], -INPUT_MAX, INPUT_MAX) - seen[compared]).max(axis=1)
    assert gaps.min() < 1e-3 and np.sort(gaps)[1] > 0.01, "those of one message, and of no other"


def test_sides_are_exchanged_in_mirrored_inputs() -> None:
    tape = build_tape(poisson_day(), 5).window(OPEN_NS + 10 * MINUTE_NS, OPEN_NS + 40 * MINUTE_NS)
    mirror = Tape(
        tape.symbol, tape.time_ns, tape.kind, (1 - tape.side).astype(np.int8), 1_000_000 - tape.price_ticks, tape.qty_lots, tape.entered_ns,
        tape.first_cancel, np.where(tape.book_ticks > 0, 1_000_000 - tape.book_ticks, 0)[:, ::-1].copy(), tape.book_lots[:, ::-1].copy(),
    )  # fmt: skip
    one, other = samples_of(tape), samples_of(mirror)
    assert (one.token != other.token).all() and ((one.token + LOCAL) % (2 * LOCAL) == other.token).all()
    np.testing.assert_allclose(one.inputs[1], other.inputs[0], atol=1e-4)
    assert not np.allclose(one.inputs[0], other.inputs[0], atol=0.1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A flow trained for two epochs, and what the command printed."""
    folder = tmp_path_factory.mktemp("flow")
    write_day(poisson_day(), folder / "poisson.day")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "EPOCHS_MAX", 2)
        patch.setattr(train, "VARIANTS", {"all inputs": ()})
        patch.setattr(train, "ATTEMPTS", 1)
        arguments = [
            folder / "poisson.day",
            "-o",
            folder / "flow.yaml",
            "--train",
            "09:40-10:30",
            "--score",
            "10:30-11:00",
            "--score-seeds",
            2,
        ]
        result = CliRunner().invoke(flow, ["train", *map(str, arguments), "--levels", "5"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder, result.output


def test_hours_that_are_scored_are_not_trained_on(tmp_path: Path) -> None:
    write_day(poisson_day(), tmp_path / "a.day")
    hours = ["--train", "09:40-10:30", "--score", "10:29-11:00"]
    arguments = ["train", str(tmp_path / "a.day"), "-o", str(tmp_path / "flow.yaml"), *hours]
    with pytest.raises(
        CalibrationError, match=r"expected separate windows .* got 09:40:00-10:30:00 and 10:29:00-11:00:00"
    ):
        CliRunner().invoke(flow, arguments, catch_exceptions=False)


@pytest.mark.long
def test_training_learns_and_the_population_trades(trained: tuple[Path, str]) -> None:
    folder, shown = trained
    assert "generated flow" in shown and "zero intelligence" in shown
    numbers = json.loads((folder / "flow.yaml.json").read_text())
    nats = numbers["tried"][0]["nats_per_message"]
    assert min(nats) < nats[0] - 1
    scores = numbers["days"][0]["scores"]
    assert scores["flow"]["mean_l1"]["mean"] < 0.5 and scores["flow"]["one_sided_share"]["mean"] < 0.01
    population = load_population(folder / "flow.yaml")
    first, again = (simulate(population, 4, OPEN_NS + 5 * MINUTE_NS) for _ in range(2))
    assert first.commands.tobytes() == again.commands.tobytes() and len(first.commands) > 200


@pytest.mark.parametrize(
    ("numbers", "message"),
    [("?", "expected base64"), (base64.b64encode(b"\0" * 8).decode(), "got 2"), (base64.b64encode(b"\0\0\xc0\x7f").decode(), "1 of them not finite")],
)  # fmt: skip
def test_damaged_numbers(numbers: str, message: str) -> None:
    with pytest.raises(PopulationError, match=message):
        flow_population(numbers, "damaged", "0.01", 1000.0)


def test_networks_trained_before_tables_had_tails() -> None:
    """Their tables have 33 equally spaced points: read with those of today, linear in between."""
    numbers = NeuralFlowProfile().record()["numbers"][0]
    tables = np.stack([np.linspace(1.0, 33.0, 33), np.linspace(100.0, 420.0, 33)]).astype("<f4")
    start, end = STARTS["deep_gap_ticks"], STARTS["hours"]
    earlier = np.concatenate([numbers[:start], tables.ravel(), numbers[end:]])
    found = NeuralFlowProfile(numbers=base64.b64encode(earlier.tobytes()).decode()).record()["numbers"][0]
    assert found.shape == numbers.shape and found[:start].tolist() == numbers[:start].tolist()
    assert np.allclose(
        found[start:end].reshape(2, -1), [32 * np.array(PROBABILITIES) + 1, 320 * np.array(PROBABILITIES) + 100]
    )
    assert found[end:].tolist() == numbers[end:].tolist()


def test_a_day_without_cancellations_of_a_known_age_is_refused() -> None:
    """There are no quantiles of nothing."""
    ones, unknown = np.ones(8, np.int64), np.full(8, np.nan)
    samples = Samples(ones, ones, unknown, np.zeros(8), np.zeros((2, 8, INPUTS), np.float32), 0)
    with pytest.raises(CalibrationError, match="expected cancellations of orders that arrived on the day, got none"):
        training.classes_of([samples])
