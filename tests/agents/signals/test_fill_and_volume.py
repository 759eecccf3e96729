"""Labels of fills by hand, the models of fills and volumes on planted data, and that nothing is found where nothing is."""

from dataclasses import replace

import numpy as np
import pytest

from serl.agents.signals import attention_training, network
from serl.agents.signals.conclusions import conclusions
from serl.agents.signals.evaluation import FILL, VOLUME, Evaluation, evaluate
from serl.agents.signals.features import NAMES, mirrored
from serl.agents.signals.fill import LOGISTIC, fit_fill
from serl.agents.signals.fill_labels import NEVER_NS, fill_times, later_fills, past_fills
from serl.agents.signals.grid import LEVELS, STEP_NS, Fills, Floats, Flow, Grid, build_grid
from serl.agents.signals.labels import later_volumes, past_volumes
from serl.agents.signals.log_linear import deviance, fit_log_linear, log_linear_means
from serl.agents.signals.logistic import RIDGE
from serl.agents.signals.samples import cut_samples
from serl.agents.signals.training import train_forecaster
from serl.agents.signals.volume import LAST_VOLUME, fit_volume
from serl.exchange.records import CommandKind
from serl.history.day import SymbolReference
from tests.agents.realism.sample import BUY, SELL, TEN_NS, change, day_of, new
from tests.agents.signals import sample

MS = 10**6


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks that say nothing of fills and volumes are hardly trained."""
    for module in (attention_training, network):
        monkeypatch.setattr(module, "EPOCHS_MAX", 1)


def filled_after_ms(grid: Grid, at_ms: int, side: int) -> float | None:
    """When an order that joins the touch at a time is filled, ms after 10:00; None: never."""
    place = int(np.flatnonzero(grid.time_ns == TEN_NS + at_ms * MS)[0])
    time_ns = int(fill_times(grid, 10.0)[place, side])
    return None if time_ns == NEVER_NS else (time_ns - TEN_NS) / MS


def test_an_order_waits_for_those_before_it_and_not_for_those_after() -> None:
    """Best bid 99: ten lots when we come, five more later. It takes a seller of more than the ten to reach us."""
    grid = build_grid(day_of(
        new(BUY, 99, 10, 0), new(BUY, 98, 10, 0), new(SELL, 101, 10, 0), new(BUY, 99, 5, 150),
        new(SELL, 99, 10, 320, ioc=True), new(SELL, 99, 1, 450, ioc=True), new(BUY, 97, 1, 900),
    ))  # fmt: skip
    assert filled_after_ms(grid, 100, BUY) == 450, "one lot of those who came later trades"
    assert filled_after_ms(grid, 200, BUY) is None, "behind the five, of which four are left"
    assert filled_after_ms(grid, 100, SELL) is None


def test_cancellations_before_an_order_let_it_move_up() -> None:
    grid = build_grid(day_of(
        new(SELL, 101, 10, 0), new(BUY, 99, 10, 0), new(SELL, 101, 5, 150), change(CommandKind.CANCEL, 1, 250),
        new(BUY, 101, 1, 350, ioc=True), new(BUY, 97, 1, 900),
    ))  # fmt: skip
    assert filled_after_ms(grid, 100, SELL) == 350 and filled_after_ms(grid, 200, SELL) is None


def test_a_worse_price_that_trades_and_an_other_side_that_comes_fill() -> None:
    grid = build_grid(day_of(
        new(BUY, 99, 1, 0), new(BUY, 98, 9, 0), new(SELL, 101, 10, 0), new(SELL, 98, 3, 250, ioc=True), new(BUY, 97, 1, 900),
    ))  # fmt: skip
    assert filled_after_ms(grid, 100, BUY) == 250, "98 traded"
    grid = build_grid(day_of(
        new(BUY, 99, 1, 0), new(BUY, 96, 9, 0), new(SELL, 101, 10, 0), new(SELL, 99, 3, 250), new(BUY, 95, 1, 900),
    ))  # fmt: skip
    assert filled_after_ms(grid, 100, BUY) == 300, "the seller's two lots that are left are offered at 99"
    assert filled_after_ms(grid, 100, SELL) is None


def test_labels_end_with_the_hours_and_past_ones_with_now() -> None:
    grid = build_grid(
        day_of(new(BUY, 99, 1, 0), new(SELL, 101, 10, 0), new(SELL, 99, 1, 450, ioc=True), new(BUY, 98, 1, 2000))
    )
    times_ns, end_ns = fill_times(grid, 0.5), TEN_NS + 800 * MS
    labels, past = later_fills(grid, times_ns, 0.5, end_ns), past_fills(grid, times_ns, 0.5)
    rows = {ms: int(np.flatnonzero(grid.time_ns == TEN_NS + ms * MS)[0]) for ms in (0, 100, 300, 400, 500, 600)}
    assert np.isnan(labels[rows[400]]).all(), "ends at 900 ms"
    assert labels[rows[300]].tolist() == [0, 0], "behind the one lot that trades"
    grid = build_grid(day_of(
        new(BUY, 99, 1, 0), new(SELL, 101, 10, 0), new(BUY, 99, 1, 50), new(SELL, 99, 3, 450, ioc=True), new(BUY, 98, 1, 2000)
    ))  # fmt: skip
    times_ns = fill_times(grid, 0.5)
    labels, past = later_fills(grid, times_ns, 0.5, end_ns), past_fills(grid, times_ns, 0.5)
    assert labels[rows[0], BUY] == 1 and past[rows[500], BUY] == 1 and past[rows[600], BUY] == labels[rows[100], BUY]
    assert np.isnan(past[: rows[400]]).any()


def test_volumes_of_the_next_and_the_last_horizon() -> None:
    grid = build_grid(day_of(
        new(BUY, 99, 50, 0), new(SELL, 101, 50, 0), new(BUY, 101, 4, 100, ioc=True), new(SELL, 99, 3, 150, ioc=True),
        new(BUY, 98, 1, 900),
    ))  # fmt: skip
    row = int(np.flatnonzero(grid.time_ns == TEN_NS + 100 * MS)[0])
    later, past = later_volumes(grid, 0.3, TEN_NS + 900 * MS), past_volumes(grid, 0.3)
    assert later[row - 1 : row + 2].tolist() == [7, 3, 0] and past[row + 2 : row + 5].tolist() == [7, 3, 0]
    assert np.isnan(later[row + 6 :]).all()


def test_the_last_volume_forecasts_the_mean_where_the_day_has_not_lasted_a_horizon() -> None:
    """The training ended with a traceback, after all of it, if its hours began earlier than the longest horizon after the start of the day."""
    past, later = np.array([[np.nan], [1.0], [2.0], [3.0]]), np.array([[5.0], [3.0], [5.0], [7.0]])
    model = fit_volume(np.zeros((4, 1)), later, past)
    assert model.lines[0] == pytest.approx([2, 1]) and model.means.tolist() == [5]
    assert model.forecasts(LAST_VOLUME, np.zeros((4, 1)), past)[:, 0] == pytest.approx([5, 3, 5, 7])
    early = fit_volume(np.zeros((4, 1)), later, np.full((4, 1), np.nan))
    assert early.forecasts(LAST_VOLUME, np.zeros((4, 1)), past)[:, 0] == pytest.approx([5, 5, 5, 5])


def test_the_log_linear_regression_minimises_its_objective_and_finds_known_weights() -> None:
    rng = np.random.default_rng(1)
    x, truth = rng.normal(size=(40_000, 2)), np.array([0.6, -0.3, -0.2])
    y = rng.gamma(0.5, 2.0, len(x)) * log_linear_means(x, truth)  # far from Poisson, with the same means
    weights = fit_log_linear(x, y)
    assert weights == pytest.approx(truth, abs=0.06)
    full = np.column_stack([x, np.ones(len(x))])
    gradient = full.T @ (log_linear_means(x, weights) - y) / len(x)
    gradient[:2] += RIDGE * weights[:2]
    assert abs(gradient).max() < 1e-4


def test_deviance() -> None:
    assert deviance(np.array([2.0, 0.0, 3.0]), np.array([2.0, 1.5, 1.0])) == pytest.approx(
        [0, 3, 2 * (3 * np.log(3) - 2)]
    )


def test_a_seller_sees_the_mirrored_market() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(6000, len(NAMES)))
    push = features[:, NAMES.index("ofi_2s")] - features[:, NAMES.index("log_bid_lots")]
    pull = -features[:, NAMES.index("ofi_2s")] - features[:, NAMES.index("log_ask_lots")]
    labels = np.stack([rng.random(6000) < 1 / (1 + np.exp(-one)) for one in (push, pull)], axis=1)[
        :, np.newaxis
    ].astype(float)
    model = fit_fill((features[:4000], labels[:4000], labels[:4000]), (features[4000:], labels[4000:]))
    made = model.forecasts(LOGISTIC, features, labels)[:, 0]
    assert np.corrcoef(made[:, 0], push)[0, 1] > 0.9 and np.corrcoef(made[:, 1], pull)[0, 1] > 0.9
    assert model.probabilities(mirrored(features))[:, 0] == pytest.approx(made[:, ::-1])


def planted(seed: int, *, told: bool) -> Grid:
    """Forty minutes with trades at random times, each of which fills whoever waits; many lots at the touch tell that one comes within a second.
    Untold, they tell of others."""
    rng, count = np.random.default_rng(seed), 24_000
    traded, others = rng.random((2, count)) < 0.03
    ticks, lots = np.zeros((2, count, 2, LEVELS), np.int64)
    ticks[:, 0, 0], ticks[:, 1, 0], lots[:, :, 0] = 9_999, 10_001, 20
    ticks[:, 0, 0] += np.repeat(rng.integers(0, 2, count // 10), 10)  # moves, so that there is a trend to fit
    sums = np.concatenate([[0], np.cumsum(traded if told else others)])
    lots[:-10, :, 0] += 60 * (sums[11:] - sums[1:-10] > 0)[:, np.newaxis]
    rows = np.flatnonzero(traded)
    sells = np.where(traded, 40, 0)
    time_ns = sample.HOURS[0] + STEP_NS * np.arange(count)
    both = np.repeat(rows, 2)
    sides, prices = np.tile([[BUY, SELL], [9_990, 10_010]], len(rows))
    fills = Fills(time_ns[both], sides, prices, np.full(len(both), 40), both + 1)
    return Grid(
        SymbolReference("AMZN"),
        time_ns,
        ticks,
        lots,
        np.zeros(count, np.int64),
        sells,
        Flow(fills, np.zeros(count, np.int64)),
    )


def verdict(grid: Grid) -> Evaluation:
    """Trained on the first twenty minutes, tested on the others."""
    start, middle, end = (sample.HOURS[0] + minutes * 60 * 10**9 for minutes in (0, 20, 40))
    found = train_forecaster(cut_samples(grid, (start, middle), (1.0,)), "AMZN", (1.0,), (start, middle), ("",), 1)
    return evaluate(found, cut_samples(grid, (middle, end), (1.0,)), 200, 1)


def gains(found: Evaluation) -> tuple[Floats, Floats]:
    """([low, high] of the fill model's Brier score less the share's, of the volume that is explained more than by the last volume)."""
    brier = found.difference(FILL, 0, FILL.models[0], FILL.baselines[0], 2)
    explained = found.difference(VOLUME, 0, VOLUME.models[0], VOLUME.baselines[1], 0)
    return np.array([brier.low, brier.high]), np.array([explained.low, explained.high])


@pytest.mark.long
def test_fills_and_volumes_that_are_told_are_found_and_untold_ones_are_not() -> None:
    brier, explained = gains(told := verdict(planted(1, told=True)))
    assert brier[1] < -0.02 and explained[0] > 0.3
    assert "fill forecast is better than" in conclusions(told)[1] and "explains more than" in conclusions(told)[1]
    brier, explained = gains(untold := verdict(planted(1, told=False)))
    assert brier[1] > -0.01 and explained[0] < 0.05
    assert "is better than" not in conclusions(untold)[1] and "explains more than" not in conclusions(untold)[1]


def test_the_future_changes_no_forecast_of_fills_and_volumes() -> None:
    grid = sample.grid()
    cut = int(np.searchsorted(grid.time_ns, sample.HOURS[1]))
    late = replace(grid, ticks=grid.ticks.copy(), lots=grid.lots.copy())
    late.ticks[cut + 1 :], late.lots[cut + 1 :] = late.ticks[cut + 1 :] + 50, 7
    found = sample.forecaster()
    before, after = (
        cut_samples(one, (sample.HOURS[0], sample.HOURS[1] + STEP_NS * 700), sample.HORIZONS) for one in (grid, late)
    )
    until = before.time_ns <= grid.time_ns[cut]
    for values in (found.volumes, found.fills):
        assert (values(before.inputs.features)[until] == values(after.inputs.features[: len(until)])[until]).all()
