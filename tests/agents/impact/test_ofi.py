"""The price impact of order-flow imbalance: books with a known beta, forecasts that exist and forecasts that do not."""

from dataclasses import replace

import numpy as np
import pytest

from serl.agents.impact.errors import ImpactError
from serl.agents.impact.ofi import BEST, INTEGRATED, NORMALISED, Intervals, cut_intervals, fit_ofi
from serl.agents.impact.ofi_report import conclusions, line_table, period_table
from serl.agents.impact.regression import fit_line, newey_west
from serl.agents.realism.errors import EmptyWindow
from serl.agents.realism.scores import ofi
from serl.agents.realism.tape import SECOND_NS, Floats, Ints, Tape, build_tape
from serl.exchange.records import Rows
from tests.agents.realism.sample import BUY, SELL, TEN_NS, day_of, five_messages, new

DEPTH, STEP, COUNT = 7, 10 * SECOND_NS, 120
WINDOW = (TEN_NS, TEN_NS + COUNT * STEP + SECOND_NS)
SPLIT_NS = TEN_NS + COUNT // 2 * STEP


def walk(steps: Ints, levels: int = 3) -> Tape:
    """A book of DEPTH lots at every price, whose mid moves by steps[i] ticks in the i-th 10 s.

    A step up takes the best ask and quotes a bid at its price: an order-flow imbalance of 2 DEPTH at each level.
    """
    reach = int(np.abs(np.cumsum(steps)).max()) + 20
    sides = ((BUY, 1000, -1), (SELL, 999, 1))
    commands: list[Rows] = [
        new(side, middle + sign * away, DEPTH, -1000) for away in range(1, reach) for side, middle, sign in sides
    ]
    opening, bid, ask = len(commands), 999, 1000
    for number, step in enumerate(steps.tolist()):
        for turn in range(abs(step)):
            ms = 10_000 * number + 100 * turn
            taker, price = (BUY, ask) if step > 0 else (SELL, bid)
            commands += [new(taker, price, DEPTH, ms, ioc=True), new(taker, price, DEPTH, ms + 50)]
            bid, ask = bid + np.sign(step), ask + np.sign(step)
    commands += [new(BUY, bid - 1, 1, 10_000 * len(steps))]
    return build_tape(day_of(*commands, opening=opening, levels=levels))


def persistent(seed: int = 1) -> Ints:
    """Steps of ±3 that keep their sign nine times in ten."""
    return 3 * np.cumprod(np.where(np.random.default_rng(seed).random(COUNT) < 0.1, -1, 1))


def independent(seed: int = 1) -> Ints:
    steps = np.random.default_rng(seed).integers(-3, 4, COUNT)
    steps[0] = 1  # the first interval begins with the first message
    return steps


@pytest.fixture(scope="module")
def intervals() -> Intervals:
    return cut_intervals(walk(independent()), WINDOW, STEP, [10.0])


def test_the_book_of_the_paper_gives_its_beta_back(intervals: Intervals) -> None:
    """beta = 1 / (2 depth), exactly and with its sign, tested hours included; independent steps forecast nothing."""
    assert intervals.moves_ticks.tolist() == independent().tolist()
    assert (intervals.ofi_lots == 2 * DEPTH * intervals.moves_ticks[:, np.newaxis]).all()
    assert (intervals.depth_lots == DEPTH).all()
    found = fit_ofi(intervals, SPLIT_NS)
    for name, beta in ((BEST, 1 / (2 * DEPTH)), (NORMALISED, 0.5), (INTEGRATED, 0.5)):
        same, later = found.lines[name]
        assert same.beta == pytest.approx(beta) and same.r2 == pytest.approx(1) and same.r2_tested == pytest.approx(1)
        assert same.intercept == pytest.approx(0, abs=1e-12) and same.standard_error < 1e-9
        assert later.r2 < 0.1 and later.r2_tested < 0.05 and abs(later.t) < 3
    assert found.weights == pytest.approx([1 / 3] * 3) and found.dropped == 0
    assert [one.line.beta for one in found.periods] == pytest.approx([1 / (2 * DEPTH)])
    assert found.depth_exponent is None, "one half hour has no exponent"


def test_a_forecast_that_exists_is_found_and_none_leaks_over_the_split() -> None:
    """Signs that last nine times in ten have a correlation of .8: R² of .64 over the next interval, also on tested ones."""
    found = fit_ofi(cut_intervals(walk(persistent(2)), WINDOW, STEP, [10.0, 0.1]), SPLIT_NS)
    same, next_10, next_one = found.lines[BEST]
    assert next_10.beta == pytest.approx(0.8 / (2 * DEPTH), rel=0.25) and next_10.t > 3
    assert 0.4 < next_10.r2_tested < 0.9
    assert next_one.beta == pytest.approx(next_10.beta / 3), "one of three steps comes within .1 s"
    assert same.fitted == next_10.fitted + 1 and same.tested == next_10.tested + 1, "a horizon ends before the split"
    # What happens from the split on changes nothing that was fitted.
    other = persistent(2)
    other[COUNT // 2 :] = independent(5)[COUNT // 2 :]
    again = fit_ofi(cut_intervals(walk(other), WINDOW, STEP, [10.0, 0.1]), SPLIT_NS)
    for one, two in zip(found.lines[BEST], again.lines[BEST], strict=True):
        assert (one.beta, one.standard_error, one.r2, one.fitted) == (two.beta, two.standard_error, two.r2, two.fitted)
    assert again.lines[BEST][1].r2_tested < next_10.r2_tested - 0.2


def test_shuffled_flow_explains_nothing(intervals: Intervals) -> None:
    order = np.random.default_rng(3).permutation(len(intervals.moves_ticks))
    shuffled = fit_ofi(replace(intervals, ofi_lots=intervals.ofi_lots[order]), SPLIT_NS).lines[BEST][0]
    assert shuffled.r2 < 0.1 and abs(shuffled.t) < 3 and shuffled.r2_tested < 0.05
    half = np.arange(len(order))
    late = half[half * STEP + intervals.edges_ns[0] >= SPLIT_NS]
    half[late] = np.random.default_rng(3).permutation(late)
    later = fit_ofi(replace(intervals, ofi_lots=intervals.ofi_lots[half]), SPLIT_NS).lines[BEST][0]
    assert later.r2 == pytest.approx(1) and later.r2_tested < -0.2, "a fit of 1 is worth nothing on shuffled hours"


def test_beta_of_the_half_hours_falls_with_depth() -> None:
    """Noise on beta = 1 / (2 depth): an exponent of -1, and intervals with an empty side are left out."""
    rng = np.random.default_rng(4)
    count, depth = 6 * 180, np.repeat([5.0, 10, 20, 40, 80, 160], 180)
    flow = rng.normal(0, 100, count)
    flow[[3, 700]] = np.nan
    moves = np.nan_to_num(flow) / (2 * depth) + rng.normal(0, 0.2, count)
    edges = TEN_NS + STEP * np.arange(count + 1)
    mid = np.concatenate([[0.0], np.cumsum(moves)])
    made = Intervals("X", edges, flow[:, np.newaxis], depth[:, np.newaxis], mid, np.zeros((0, count)), ())
    found = fit_ofi(made, int(edges[count // 2]))
    assert found.dropped == 2 and set(found.lines) == {BEST, NORMALISED} and len(found.periods) == 6
    assert found.depth_exponent is not None and found.depth_exponent.beta == pytest.approx(-1, abs=0.05)
    for one in found.periods:
        assert abs(one.line.beta - 1 / (2 * one.depth_lots)) < 4 * one.line.standard_error
    assert found.lines[NORMALISED][0].r2_tested > found.lines[BEST][0].r2_tested


def test_deeper_levels_by_hand() -> None:
    """Of the sample of five messages: a bid that pushes others down, an ask that joins, and a sweep that leaves no second ask."""
    tape = five_messages()
    assert ofi(tape)[:2].tolist() == [5, -5]
    assert ofi(tape, 1)[:3].tolist() == [10, 0, 30], "the bid improves to 99 x 10; 103 x 30 is gone"


def test_standard_errors_of_overlapping_moves_are_those_of_repetition() -> None:
    """y sums six shocks of which five are the next one's, x is persistent: the error without lags is far too small."""
    rng, slopes, wide, narrow = np.random.default_rng(6), [], [], []
    every, none = np.ones(600, np.bool_), np.zeros(600, np.bool_)
    for _ in range(300):
        x = np.convolve(rng.normal(size=605), np.ones(6), "valid")
        y = np.convolve(rng.normal(size=605), np.ones(6), "valid")
        line = fit_line(x, y, every, none, overlap=12)
        slopes.append(line.beta)
        wide.append(line.standard_error)
        centred = x - x.mean()
        narrow.append(newey_west(centred, y - line.intercept - line.beta * x, 0))
    assert line.lags == 12 and np.isnan(line.r2_tested)
    assert np.mean(wide) == pytest.approx(np.std(slopes), rel=0.25) and np.mean(narrow) < 0.6 * np.std(slopes)


def test_newey_west_by_hand() -> None:
    centred, residual = np.array([1.0, -1.0, 0.0, 2.0]), np.array([1.0, 2.0, 0.0, 1.0])
    # Scores 1, -2, 0 (missing), 2: squares 9, lag 1 at weight 2/3: -2, lag 2 at 1/3: -4.
    assert newey_west(centred, residual, 2) == pytest.approx(np.sqrt(9 + 2 * (2 / 3 * -2 + 1 / 3 * -4)) / 6)


def constant(values: Floats) -> Floats:
    return np.zeros_like(values)


def test_an_interval_that_begins_without_an_ask_is_left_out() -> None:
    """Without a message in it, its flow was 0: it counted among the intervals that are long enough, and none of the tested ones had a move."""
    empty = [
        new(SELL, 101, 5, -1000),
        new(BUY, 99, 5, -1000),
        new(BUY, 101, 5, 15_000, ioc=True),
        new(BUY, 98, 1, 55_000),
    ]
    tape = build_tape(day_of(*empty, new(SELL, 103, 5, 55_500), new(SELL, 103, 5, 75_000), opening=2))
    found = cut_intervals(tape, (TEN_NS, TEN_NS + 80 * SECOND_NS), STEP)
    assert np.isnan(found.mid_ticks).tolist() == [True] * 4 + [False] * 2, "from 20 s to 70 s"
    assert np.isnan(found.ofi_lots[:, 0]).tolist() == [True] * 4 + [False]


def test_a_mid_that_does_not_move_has_no_r2_and_hides_no_forecast(intervals: Intervals) -> None:
    """ "OFI explains nan%" stood in the report; and a forecast of nothing, which came first, was the best of all."""
    still = replace(intervals, mid_ticks=constant(intervals.mid_ticks), later_ticks=constant(intervals.later_ticks))
    found = fit_ofi(still, SPLIT_NS)
    assert np.isnan(found.lines[BEST][0].t) and np.isnan(found.lines[BEST][0].r2_tested)
    assert conclusions(found) == ["In the same interval, there is nothing to explain: all tested moves are equal."]
    shown = [list(column.cells) for made in (line_table(found), period_table(found)) for column in made.columns]
    assert "nan" not in str(shown) and shown[5] == ["–"] * 6, "the t of every line"
    both = np.vstack(
        [
            constant(intervals.moves_ticks),
            np.where(np.isfinite(intervals.later_ticks[0]), intervals.moves_ticks, np.nan),
        ]
    )
    found = fit_ofi(replace(intervals, later_ticks=both, horizons_s=(1.0, 10.0)), SPLIT_NS)
    assert "Forecasts: the best of 3 (all levels, next 10 s) explains 100.0%" in conclusions(found)[1]


def test_what_cannot_be_fitted_is_refused(intervals: Intervals) -> None:
    with pytest.raises(ImpactError, match=r"before 10:00:30: expected 30 or more .* got \d; give a longer --window"):
        fit_ofi(intervals, TEN_NS + 3 * STEP)
    with pytest.raises(ImpactError, match=r"after 10:19:50: expected 10 or more .* got 0"):
        fit_ofi(intervals, TEN_NS + 119 * STEP)
    with pytest.raises(ImpactError, match="orders that change the best prices"):
        fit_ofi(replace(intervals, ofi_lots=constant(intervals.ofi_lots)), SPLIT_NS)
    empty_later = np.where(np.arange(intervals.later_ticks.shape[1]) < COUNT // 2, np.nan, intervals.later_ticks)
    with pytest.raises(ImpactError, match=r"before 10:10:00: expected 30 or more .* longest horizon, got 0"):
        fit_ofi(replace(intervals, later_ticks=empty_later), SPLIT_NS)
    with pytest.raises(ImpactError, match=r"got 3600 s; give a shorter one"):
        cut_intervals(walk(independent()), WINDOW, 360 * STEP)
    with pytest.raises(EmptyWindow):
        cut_intervals(walk(independent()), (0, SECOND_NS), STEP)
