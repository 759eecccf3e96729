"""`serl impact --validity` from end to end: a small population, and a generated day."""

import json
import math
from html import escape
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.execution.answering.model import answering_day
from serl.agents.impact.cli import impact
from serl.agents.impact.errors import ImpactError
from serl.agents.impact.responses import STEPS
from serl.agents.impact.validity_replay import replayed_responses
from serl.agents.impact.validity_simulated import simulated_responses
from serl.agents.impact_memory import REFERENCE_S, mean_memory
from serl.agents.realism.errors import EmptyWindow
from serl.agents.realism.tape import SECOND_NS
from serl.exchange.records import CommandKind, Rule, Side, command
from serl.history.day import Day, write_day
from serl.history.generate import generate_day
from tests.agents.calibration.sample import flow
from tests.agents.realism.sample import BUY, SELL, TEN_NS, day_of, new


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(1, start_ns=TEN_NS, end_ns=TEN_NS + 900 * SECOND_NS)


@pytest.mark.long
def test_a_population_and_a_day_side_by_side(day: Day, tmp_path: Path) -> None:
    write_day(day, tmp_path / "x.day")
    population = tmp_path / "flow.yaml"
    population.write_text("{name: flow, close: '10:00', groups: [{trader: flow, latency_us: 1}]}")
    arguments = ["--validity", "--simulated", str(population), str(tmp_path / "x.day"), "--seeds", "5"]
    arguments += [
        "--duration",
        "60",
        "--qty-share",
        ".3,1",
        "-o",
        str(tmp_path / "found.json"),
        "--answering",
        "square_root",
    ]
    result = CliRunner().invoke(impact, arguments, catch_exceptions=False)
    assert result.exit_code == 0 and "Nobody reacts in a replayed day" in result.output
    numbers = json.loads((tmp_path / "found.json").read_text())
    markets = numbers["markets"]
    assert [market["market"] for market in markets] == ["population flow", "DEMO, replayed", "DEMO, answering"]
    assert [market["run"] for market in markets] == ["seeds", "start times", "start times"]
    assert "used: " in markets[2]["note"] and markets[2]["note"] in result.output
    for market in markets:
        assert len(market["checks"]) == 12 and market["volume_lots"] > 0 and market["runs"] == 5
        buys = market["checks"][0]
        assert buys["interval"][0] <= buys["value"] <= buys["interval"][1]
        assert buys["value"] == pytest.approx(market["impact_ticks"]["buy"][-1][STEPS])
        assert buys["verdict"] in result.output
    assert escape(numbers["made"]["data"]) in (tmp_path / "found.html").read_text()
    assert (tmp_path / "found.png").read_bytes()[:4] == b"\x89PNG"


def test_a_population_responds_alike_to_the_same_seeds() -> None:
    short = flow().model_copy(update={"close": "09:50"})
    calls: list[int] = []
    first, again = (
        simulated_responses(short, [0.3, 1.0], range(1, 6), 60.0, lambda: calls.append(1)) for _ in range(2)
    )
    assert first.impact_ticks.tobytes() == again.impact_ticks.tobytes() and len(calls) == 2 * 5 * (1 + 2 * 4)
    assert np.isfinite(first.impact_ticks).all() and (first.impact_ticks[:, :, :, STEPS] != 0).any()
    assert (first.filled > 0.9).all() and first.sigma_ticks > 0
    with pytest.raises(ImpactError, match=r"before the close of flow \(09:50\), got a duration of 600 s"):
        simulated_responses(short, [0.3, 1.0], range(1, 6), 600.0)


@pytest.mark.long
def test_a_day_that_answers_has_the_square_root_law_and_a_plain_replay_has_not(day: Day) -> None:
    """At the end of the order the mid is where the model says, plus what the plain replay has: the liquidity that the last child took."""
    window = (TEN_NS + 60 * SECOND_NS, TEN_NS + 890 * SECOND_NS)
    found = replayed_responses(day, [0.3, 1.2], 5, 60.0, window, answers="square_root")
    plain = replayed_responses(day, [0.3, 1.2], 5, 60.0, window)
    assert (found.filled == 1).all() and not plain.note
    model = answering_day(day.commands, "square_root")
    remembered = mean_memory(model.weights, 60.0) / mean_memory(model.weights, REFERENCE_S)
    wanted = model.coefficient * np.sqrt(found.volume_lots * found.shares * remembered)
    mechanical = plain.impact_ticks[:, :, :, STEPS].mean(axis=(0, 1))
    assert found.impact_ticks[:, :, :, STEPS].mean(axis=(0, 1)) == pytest.approx(wanted + mechanical, abs=0.6)
    later = found.impact_ticks[:, :, :, 2 * STEPS].mean() / found.impact_ticks[:, :, :, STEPS].mean()
    assert 0.7 < later < 0.95
    assert plain.impact_ticks[:, :, :, 2 * STEPS].mean() < 0.2 * found.impact_ticks[:, :, :, 2 * STEPS].mean()


def test_a_replayed_book_by_hand() -> None:
    """Asks 101 x 10 and 102 x 1000, bids 99 x 1000: a buy of 20 takes the first level for good, a sell moves nothing."""
    history = day_of(
        new(BUY, 99, 1000, -1000), new(SELL, 101, 10, -1000), new(SELL, 102, 1000, -1000),
        new(SELL, 99, 20, 10_000, ioc=True), new(BUY, 98, 1, 400_000), opening=3,
    )  # fmt: skip
    window = (TEN_NS, TEN_NS + 362 * SECOND_NS)
    found = replayed_responses(history, [0.1, 1.0, 24.0], 5, 60.0, window)
    assert found.volume_lots == 20 and found.filled.tolist() == [1.0] * 3
    small, large, huge = found.impact_ticks[0, 0]
    assert (small == 0).all() and large[STEPS // 4] == 0 and (large[STEPS:] == 0.5).all()
    assert huge[0] == 0 and huge[1] == 0.5, "the first child is sent after the first reading"
    assert (found.impact_ticks[:, 1] == 0).all() and Side.BUY.value == BUY
    with pytest.raises(EmptyWindow, match="give a longer window or a shorter --duration"):
        replayed_responses(history, [0.1, 1.0], 5, 600.0, window)
    with pytest.raises(EmptyWindow, match="expected an end by 10:06:40, the day's last command"):
        replayed_responses(history, [0.1, 1.0], 5, 60.0, (TEN_NS, TEN_NS + 500 * SECOND_NS))


def test_orders_in_a_replay_are_whole_multiples_of_the_lot() -> None:
    lot = command(CommandKind.RULE, flags=int(Rule.LOT), price_ticks=10, time_ns=TEN_NS - SECOND_NS)
    history = day_of(
        lot, new(BUY, 99, 10_000, -1000), new(SELL, 101, 20, -1000), new(SELL, 102, 10_000, -1000),
        *(new(SELL, 99, 20, 1000 * s, ioc=True) for s in range(10, 390, 10)), opening=4,
    )  # fmt: skip
    found = replayed_responses(history, [0.1, 1.0], 5, 60.0, (TEN_NS, TEN_NS + 362 * SECOND_NS))
    assert found.filled.tolist() == [1.0] * 2 and (found.impact_ticks[0, 0, :, STEPS] == [0, 0.5]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--validity"], "a DAY or both with --validity, got neither"),
        (["--validity", "x.day", "--side", "buy"], "expected --side with a single measurement only"),
        (["--validity", "--simulated", "small", "--window", "10:00-11:00"], "expected --window with a DAY only"),
        (["--json", "--simulated", "small"], "expected --json with --validity or --ofi only"),
    ],
)
def test_options_that_do_not_mix(arguments: list[str], message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        impact.main(arguments, standalone_mode=False)


def test_json_on_the_terminal_is_json(day: Day, tmp_path: Path) -> None:
    write_day(day, tmp_path / "x.day")
    arguments = [str(tmp_path / "x.day"), "--validity", "--json", "--seeds", "5", "--duration", "60"]
    result = CliRunner().invoke(impact, [*arguments, "-o", str(tmp_path / "found.json")], catch_exceptions=False)
    (market,) = json.loads(result.stdout)["markets"]
    assert market["qty_shares"] == [0.03, 0.1, 0.3] and math.isfinite(market["sigma_ticks"])
