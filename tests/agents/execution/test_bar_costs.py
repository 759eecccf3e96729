"""Costs of bars, from books and from bars themselves."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.execution.bar_costs import _walk, fit_costs, half_spreads_bps, take_slices
from serl.agents.execution.bar_files import BarTable
from serl.agents.execution.cli_data import bar_costs
from serl.agents.execution.environment.bars import BarDays
from serl.agents.execution.errors import DataError
from serl.history.day import Day, write_day
from serl.history.generate import generate_day

MINUTE_NS = 60_000_000_000


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(3)


def test_a_walk_through_a_book_by_hand() -> None:
    books = np.zeros(2, [("ticks", "<i8", (2, 3)), ("lots", "<i8", (2, 3))])
    books["ticks"] = [[990, 980, 970], [1010, 1020, 0]]
    books["lots"] = [[10, 10, 10], [5, 5, 0]]
    half_bps, excess_bps = _walk(books, np.array([0, 1]), np.array([15.0, 8.0]))
    np.testing.assert_allclose(half_bps, 10 / 1000 * 1e4)
    np.testing.assert_allclose(excess_bps, [5 * 10 / 15 / 1000 * 1e4, 3 * 10 / 8 / 1000 * 1e4])
    assert np.isnan(_walk(books[:1], np.array([1]), np.array([11.0]))[1]).all(), "the side shows ten lots"


@pytest.mark.long
def test_bars_charge_slices_as_much_as_the_book(day: Day) -> None:
    slices, costs = take_slices(day), fit_costs(day)
    paid = (slices.lots * slices.excess_bps).sum()
    charged = (slices.lots * costs.impact_bps * slices.lots / slices.volume_lots).sum()
    assert charged == pytest.approx(paid)
    assert paid > 0 and costs.impact_low_bps < costs.impact_bps < costs.impact_high_bps
    assert 0 < costs.half_spread_from_bars_bps < 3 * costs.half_spread_bps
    assert costs.slices == len(slices.lots) > 1000
    assert (slices.lots <= 0.2 * slices.volume_lots).all()


def test_a_day_whose_book_cannot_fill_a_slice_is_refused() -> None:
    with pytest.raises(DataError, match="use a day with trades"):
        take_slices(generate_day(3, end_ns=600 * MINUTE_NS), participation=1e-9)


def bars_with_bounce(half_spread_bps: float, tick: float, seed: int = 0) -> BarTable:
    """100 days of 200 bars of 40 trades; each trade pays half the spread to one side or the other. tick: price in ticks is 100 / tick."""
    random = np.random.default_rng(seed)
    moves = random.normal(0, 1e-4, (100, 200 * 40))
    side = random.choice([-1.0, 1.0], moves.shape)
    price = 100 / tick * np.exp(np.cumsum(moves, axis=1)) * (1 + side * half_spread_bps * 1e-4)
    trades = price.reshape(100, 200, 40)
    columns = (
        trades[..., 0],
        trades.max(-1),
        trades.min(-1),
        trades[..., -1],
        trades.mean(-1),
        np.full((100, 200), 1e3),
    )
    bars = BarDays(MINUTE_NS * np.arange(200), MINUTE_NS, np.stack(columns, axis=-1))
    dates = tuple(map(str, range(100)))
    return BarTable(bars, ("A", "B"), dates, np.zeros(100, np.int64), np.arange(100), {})


def test_half_the_spread_is_found_in_bars() -> None:
    table = bars_with_bounce(5.0, 0.01)
    found = half_spreads_bps(table, np.ones(100, bool))
    assert found[0] == pytest.approx(5.0, rel=0.1)
    assert np.isnan(found[1]), "a stock without days"
    only = half_spreads_bps(table, np.arange(100) < 50)
    assert only[0] != found[0], "only training days count"


def test_half_the_spread_is_half_a_tick_at_least() -> None:
    assert half_spreads_bps(bars_with_bounce(0.0, 0.5), np.ones(100, bool))[0] == pytest.approx(25, rel=0.02)


@pytest.mark.long
def test_the_command(day: Day, tmp_path: Path) -> None:
    path = tmp_path / "a.day"
    write_day(day, path)
    shown = CliRunner().invoke(bar_costs, [str(path)], catch_exceptions=False)
    assert shown.exit_code == 0 and "impact" in shown.output
    numbers = json.loads(CliRunner().invoke(bar_costs, [str(path), "--json"]).output)
    assert numbers["days"][0]["impact_bps"] == pytest.approx(fit_costs(day).impact_bps)
