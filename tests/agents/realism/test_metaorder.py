"""The square-root law on runs that obey it, and metaorders in a replay."""

import json
from pathlib import Path

import numpy as np
import pytest

from serl.agents.pages.errors import ReportFileError
from serl.agents.realism.cli_impact import impact
from serl.agents.realism.errors import EmptyWindow, NoSuchSymbol, NoTrades, NoTwoSidedBook, RealismError
from serl.agents.realism.metaorder import replay_impact
from serl.agents.realism.square_root_law import fit_impact_law, plot_impact_law
from serl.agents.realism.tape import SECOND_NS
from serl.exchange.records import Side
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.realism.sample import BUY, SELL, TEN_NS, day_of, new

SIZES = np.array([0.001, 0.003, 0.01, 0.03, 0.1])
WINDOW = (TEN_NS, TEN_NS + 60 * SECOND_NS)


def test_an_exact_law() -> None:
    law = fit_impact_law(SIZES, 0.8 * SIZES**0.5, bootstraps=0)
    assert law.delta.value == pytest.approx(0.5) and law.prefactor.value == pytest.approx(0.8)
    with_runs = fit_impact_law(np.tile(SIZES, 3), np.tile(1.5 * SIZES**0.6, 3), run=np.repeat(np.arange(3), 5))
    assert with_runs.delta.interval == pytest.approx((0.6, 0.6))
    assert with_runs.prefactor.value == pytest.approx(1.5) and with_runs.runs == 3


def test_noise_widens_the_interval_and_runs_are_resampled_whole(tmp_path: Path) -> None:
    """A run's common factor moves Y and not delta: with common random numbers delta's interval does not see it."""
    random = np.random.default_rng(1)
    factor = random.lognormal(0, 0.5, size=200)
    fractions, run = np.tile(SIZES, 200), np.repeat(np.arange(200), 5)
    impacts = np.repeat(factor, 5) * fractions**0.5
    paired = fit_impact_law(fractions, impacts, run=run)
    alone = fit_impact_law(fractions, impacts)
    assert np.diff(paired.delta.interval) < 1e-9 < 1e-3 < np.diff(alone.delta.interval)
    assert paired.prefactor.interval[0] < paired.prefactor.value < paired.prefactor.interval[1]
    noisy = fit_impact_law(fractions, impacts + random.normal(0, 0.05, size=1000), run=run)
    low, high = noisy.delta.interval
    assert low < 0.5 < high and high - low < 0.2, "single impacts below 0 do no harm"
    assert plot_impact_law(noisy)[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("fractions", "impacts", "message"),
    [
        ([0.1, 0.1], [1, 1], "at least two sizes"),
        ([0.1, 0.2], [1, -1], "a positive mean impact at every size is due, got -1 at Q / V = 0.2"),
        ([0.1, 0], [1, 1], "Q / V above 0"),
        ([0.1, 0.2, 0.3], [1, 1], "arrays of one length"),
    ],
)
def test_laws_that_cannot_be_fitted(fractions: list[float], impacts: list[float], message: str) -> None:
    with pytest.raises(RealismError, match=message):
        fit_impact_law(np.array(fractions), np.array(impacts, np.float64))


def test_by_hand() -> None:
    """Asks 101 x 10 and 102 x 10, bid 99: a buy of 15 takes the first level, the mid goes from 100 to 100.5 for good."""
    history = day_of(
        new(BUY, 99, 100, -1000), new(SELL, 101, 10, -1000), new(SELL, 102, 10, -1000),
        new(SELL, 99, 15, 30_000, ioc=True), new(BUY, 98, 1, 200_000), opening=3,
    )  # fmt: skip
    found = replay_impact(history, Side.BUY, [1.0], WINDOW, interval_ns=60 * SECOND_NS, grid_step_ns=30 * SECOND_NS)
    (order,) = found.orders
    assert found.window_lots == found.day_lots == order.qty_lots == order.filled_lots == 15
    assert ((found.grid_ns - TEN_NS) // SECOND_NS).tolist() == [0, 30, 60, 90, 120]
    assert order.impact_ticks.tolist() == [0, 0.5, 0.5, 0.5, 0.5]
    assert order.at_end_ticks == 0.5 and order.mean_ticks == pytest.approx(1 / 3)
    assert (order.child_ticks == 0.5).all()
    sold = replay_impact(history, Side.SELL, [1.0], WINDOW, interval_ns=30 * SECOND_NS, grid_step_ns=30 * SECOND_NS)
    assert sold.orders[0].impact_ticks.tolist() == [0] * 5, "a bid of 100 lots is not used up"


def test_larger_orders_move_a_generated_day_more() -> None:
    history = generate_day(1, start_ns=TEN_NS - 60 * SECOND_NS, end_ns=TEN_NS + 1800 * SECOND_NS)
    window = (TEN_NS, TEN_NS + 900 * SECOND_NS)
    for side in (Side.BUY, Side.SELL):
        found = replay_impact(history, side, [0.01, 0.1, 0.5], window)
        first = [order.child_ticks[0] for order in found.orders]
        assert 0 <= first[0] < first[1] < first[2]
        assert found.orders[2].filled_lots <= found.orders[2].qty_lots
        assert found.sigma_ticks > 0


def test_what_cannot_be_replayed() -> None:
    history = day_of(new(BUY, 99, 5, 0), new(SELL, 101, 5, 0), new(SELL, 99, 1, 1, ioc=True), new(BUY, 98, 1, 90_000))
    for shares in ([], [0.0], [-1.0]):
        with pytest.raises(RealismError, match="qty-share"):
            replay_impact(history, Side.BUY, shares, WINDOW)
    with pytest.raises(RealismError, match="grid"):
        replay_impact(history, Side.BUY, [0.1], WINDOW, grid_step_ns=0)
    with pytest.raises(EmptyWindow):
        replay_impact(history, Side.BUY, [0.1], (TEN_NS + 200 * SECOND_NS, TEN_NS + 300 * SECOND_NS))
    with pytest.raises(NoTrades):
        replay_impact(history, Side.BUY, [0.1], (TEN_NS + 80 * SECOND_NS, TEN_NS + 100 * SECOND_NS))
    with pytest.raises(NoTwoSidedBook, match="give a later window"):
        replay_impact(history, Side.BUY, [0.1], WINDOW)
    with pytest.raises(NoSuchSymbol):
        replay_impact(history, Side.BUY, [0.1], WINDOW, symbol="SIX")


def test_command_line(tmp_path: Path) -> None:
    write_day(generate_day(1, start_ns=TEN_NS - 60 * SECOND_NS, end_ns=TEN_NS + 1800 * SECOND_NS), tmp_path / "x.day")
    output = tmp_path / "impact.json"
    arguments = [str(tmp_path / "x.day"), "--side", "buy", "--window", "10:00-10:10", "--qty-share", ".05,.2"]
    impact.main([*arguments, "-o", str(output)], standalone_mode=False)
    found = json.loads(output.read_text())
    assert [order["qty_share"] for order in found["orders"]] == [0.05, 0.2]
    assert len(found["time_s"]) == len(found["orders"][0]["impact_ticks"]) == 241
    assert output.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    for wrong in (["--qty-share", "much"], ["--window", "10:10-10:00"], ["-o", str(tmp_path / "none" / "x.json")]):
        with pytest.raises((RealismError, ReportFileError)):
            impact.main([*arguments, *wrong], standalone_mode=False)
