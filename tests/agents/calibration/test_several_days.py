"""Several days: pooled measurements, days that are only scored, and days that do not fit together."""

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from serl.agents.calibration import costs
from serl.agents.calibration.cli import calibrate
from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.measure import TRADING_HOURS, measure_flow
from serl.agents.calibration.poisson import measure_poisson
from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import MINUTE_NS, Tape, build_tape
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import simulate
from serl.history.day import Day, write_day
from tests.agents.calibration.sample import OPEN_NS, TRAIN, poisson, poisson_day

SHORT = (OPEN_NS + 5 * MINUTE_NS, OPEN_NS + 20 * MINUTE_NS)
SHORT_OPTIONS = ["--train", "09:35-09:50", "--score", "09:50-10:00", "--trials", "1", "--score-seeds", "2"]


@cache
def short_day(seed: int) -> Day:
    """Half an hour of `poisson`."""
    return simulate(poisson(), seed, OPEN_NS + 30 * MINUTE_NS)


def windows(*seeds: int) -> list[Tape]:
    return [build_tape(short_day(seed), 10).window(*SHORT) for seed in seeds]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(calibrate, [str(one) for one in arguments], catch_exceptions=False)


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "DAY_PAIRS", 1)
    for name in ("SEARCH_PAIRS", "SCORE_PAIRS", "COST_DAYS"):
        monkeypatch.setattr(f"serl.agents.calibration.calibrate.{name}", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("days")
    for name, seed in (("a", 3), ("b", 4), ("c", 5)):
        write_day(short_day(seed), path / f"{name}.day")
    return path


def test_counts_time_and_rates_are_those_of_all_days() -> None:
    one, other, both = (measure_flow(windows(*seeds), *SHORT) for seeds in ((3,), (4,), (3, 4)))
    assert both.counts == {kind: one.counts[kind] + other.counts[kind] for kind in one.counts}
    assert both.duration_s == one.duration_s + other.duration_s == 1800
    assert both.volume_lots == one.volume_lots + other.volume_lots
    assert both.first_mid_ticks == (one.first_mid_ticks + other.first_mid_ticks) / 2
    rates = [measure_poisson(windows(*seeds), *SHORT, 30, 1) for seeds in ((3,), (4,), (3, 4))]
    assert rates[2].market_per_s == pytest.approx((rates[0].market_per_s + rates[1].market_per_s) / 2)
    assert (rates[2].limit_per_s[:6] <= np.maximum(rates[0].limit_per_s, rates[1].limit_per_s)[:6]).all()
    assert (rates[2].limit_per_s[:6] >= np.minimum(rates[0].limit_per_s, rates[1].limit_per_s)[:6]).all()


def test_the_last_message_of_a_day_and_the_first_of_the_next_are_no_pair() -> None:
    """The same day twice has the pairs of one, twice; a wait from its close back to its open would be clipped to a nanosecond."""
    once, twice = (measure_flow(windows(*seeds), *SHORT) for seeds in ((3,), (3, 3)))
    assert twice.wait_log_s.min() == pytest.approx(once.wait_log_s.min()) and once.wait_log_s.min() > np.log(2e-9)
    assert twice.market_orders.repeat_share == pytest.approx(once.market_orders.repeat_share, abs=1e-12)
    for name in (
        "volatility_ticks",
        "activity_deviation",
        "spread_ticks",
        "lots_per_tick",
    ):
        assert getattr(twice, name) == pytest.approx(getattr(once, name)), name
    assert twice.market_orders.touch_edges_lots == pytest.approx(once.market_orders.touch_edges_lots, rel=0.01)
    kinds = windows(3)[0].kind.astype(np.int64)
    pairs = np.bincount(3 * kinds[:-1] + kinds[1:], minlength=9).reshape(3, 3)
    assert np.allclose(twice.next_share, (2 * pairs + 1) / (2 * pairs + 1).sum(axis=1, keepdims=True))


def test_a_busier_day_is_no_activity_within_the_day() -> None:
    (window,) = windows(3)
    busy = dataclasses.replace(window, time_ns=window.time_ns[0] + (window.time_ns - window.time_ns[0]) // 2)
    one, both = (measure_flow(days, *SHORT) for days in ([window], [window, window]))
    assert both.activity_deviation == one.activity_deviation
    halves = measure_flow([window, busy], *SHORT)
    assert halves.duration_s == both.duration_s and (halves.wait_log_s.mean() < both.wait_log_s.mean())


def test_one_day_gives_the_population_that_it_gave_before() -> None:
    """One_day.yaml was written when one day was all that could be given."""
    expected = yaml.safe_load((Path(__file__).parent / "one_day.yaml").read_text())
    tape = build_tape(poisson_day(), 10).window(*TRAIN)
    flow = measure_flow([tape], *TRAIN)
    measured = dataclasses.asdict(flow) | {
        f"poisson_{name}": value for name, value in dataclasses.asdict(measure_poisson([tape], *TRAIN, 30, 1)).items()
    }
    del measured["market_orders"]
    measured |= {f"market_orders_{name}": value for name, value in dataclasses.asdict(flow.market_orders).items()}
    assert set(measured) == set(expected)
    for name, value in expected.items():
        if name == "counts":
            assert measured[name] == value
            continue
        found = measured[name]
        flat = list(found.values()) if isinstance(found, dict) else np.ravel(found)
        np.testing.assert_allclose(flat, value, rtol=1e-9, err_msg=name)


@pytest.mark.long
def test_two_days_and_a_test_day_from_end_to_end(folder: Path, few_pairs: None, tmp_path: Path) -> None:
    fitted = tmp_path / "fitted.yaml"
    result = run(folder / "a.day", folder / "b.day", "--test-day", folder / "c.day", "-o", fitted, *SHORT_OPTIONS)
    assert result.exit_code == 0, result.output
    shown = " ".join(result.output.split())
    assert all(name in shown for name in ("mean of 2 days", "a.day", "b.day", "c.day (test day)"))
    assert fitted.read_text().startswith("# fitted to 09:35-09:50 of a.day, b.day; tested on c.day\n")
    load_population(fitted)
    numbers = json.loads((tmp_path / "fitted.yaml.json").read_text())
    assert [(day["name"], day["test"]) for day in numbers["data"]["days"]] == [
        ("a.day", False), ("b.day", False), ("c.day", True),
    ]  # fmt: skip
    score = numbers["score"]
    each = [day["calibrated"]["mean_l1"]["values"] for day in score["days"]]
    assert score["calibrated"]["mean_l1"]["values"] == pytest.approx(np.mean(each[:2], axis=0).tolist())
    assert score["tests"]["calibrated"]["mean_l1"]["values"] == pytest.approx(each[2]) and each[0] != each[1]
    assert len(score["days"][0]["ceiling"]["mean_l1"]["values"]) == 2
    assert numbers["train"]["messages"] == measure_flow(windows(3, 4), *SHORT).counts
    without = tmp_path / "without.yaml"
    assert run(folder / "a.day", folder / "b.day", "-o", without, *SHORT_OPTIONS).exit_code == 0
    populations = [load_population(path).model_dump(exclude={"name"}) for path in (fitted, without)]
    assert populations[0] == populations[1]  # the test day changes nothing in the fit


@pytest.mark.parametrize("hours", [["--train", "09:00-09:50", "--score", "09:50-10:00"], ["--score", "15:00-16:30"]])
def test_hours_in_which_populations_do_not_trade_are_refused(hours: list[str], folder: Path, tmp_path: Path) -> None:
    """The score in them was an error after the whole search, and half an hour before the open was scored as if it was quiet."""
    with pytest.raises(
        CalibrationError, match="expected hours within 09:30:00-16:00:00, in which populations trade, got"
    ):
        run(folder / "a.day", "-o", tmp_path / "out.yaml", *SHORT_OPTIONS, *hours)
    assert (poisson().open_ns, poisson().close_ns) == TRADING_HOURS


def test_days_that_do_not_fit_together_are_refused(folder: Path, tmp_path: Path) -> None:
    day = short_day(4)
    (symbol,) = day.reference.symbols
    other = dataclasses.replace(
        day, reference=dataclasses.replace(day.reference, symbols=(dataclasses.replace(symbol, tick_size="0.05"),))
    )
    write_day(other, tmp_path / "wide.day")
    touch = dataclasses.replace(day, reference=dataclasses.replace(day.reference, levels=1))
    write_day(touch, tmp_path / "touch.day")
    first, wide, alone, output = folder / "a.day", tmp_path / "wide.day", tmp_path / "touch.day", tmp_path / "out.yaml"
    cases: list[tuple[list[Any], str]] = [
        ([wide], r"wide\.day: expected a tick size of 0\.01 as in a\.day, got 0\.05; calibrate"),
        (["--test-day", wide], r"wide\.day: expected a tick size of 0\.01 as in a\.day, got 0\.05"),
        ([alone], r"touch\.day: expected a day with at least two levels a side, got the touch alone"),
        (["--test-day", alone], r"touch\.day: expected a test day that shows 10 levels .*, got 1"),
        ([first], r"a\.day: expected each day once, got the same day as a\.day; leave one out"),
        (["--test-day", first], r"a\.day: expected each day once"),
    ]
    for more, message in cases:
        with pytest.raises(CalibrationError, match=message):
            run(first, *more, "-o", output, *SHORT_OPTIONS)
    with pytest.raises(
        CalibrationError,
        match=r"a\.day: expected messages in all of 09:50:00-10:20:00, got some in 09:50:00-09:59:\d\d only",
    ):
        run(first, "-o", output, *SHORT_OPTIONS, "--score", "09:50-10:20")
    with pytest.raises(
        CalibrationError, match=r"a\.day: expected messages in all of 09:40:00-10:10:00, got some in 09:40"
    ):
        run(first, "-o", output, *SHORT_OPTIONS, "--train", "09:40-10:10", "--score", "09:31-09:39")
    with pytest.raises(RealismError, match=r"touch\.day: levels: expected at most the 1 that the day shows, got 5"):
        run(alone, "-o", output, *SHORT_OPTIONS, "--levels", "5")
    assert not list(tmp_path.glob("out*"))
