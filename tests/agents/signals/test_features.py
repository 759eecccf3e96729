"""Features and labels of books that are computed by hand, and of a whole day against the same day time by time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from serl.agents.signals.features import (
    LONGEST,
    NAMES,
    WINDOW_NAMES,
    WINDOW_STEPS,
    FeatureStream,
    changes,
    day_features,
    has_spread,
    mirrored,
)
from serl.agents.signals.grid import LEVELS, STEP_NS, Grid, build_grid
from serl.agents.signals.labels import DOWN, FLAT, NO_LABEL, UP, classify, fit_threshold, later_moves, past_moves
from serl.exchange.records import CommandKind, Phase, Rows, command
from serl.history.day import SymbolReference
from tests.agents.realism.sample import BUY, SELL, TEN_NS, change, day_of, new
from tests.agents.signals import sample


def flat_grid(count: int, **changed: Any) -> Grid:
    """Bid 99 x 10, ask 101 x 10 all the time."""
    ticks, lots = np.zeros((2, count, 2, LEVELS), np.int64)
    ticks[:, 0, 0], ticks[:, 1, 0], lots[:, :, 0] = 99, 101, 10
    nothing = np.zeros(count, np.int64)
    values: dict[str, Any] = {
        "buys": nothing,
        "sells": nothing.copy(),
        "ticks": ticks,
        "lots": lots,
        "flow": sample.no_flow(count),
    }
    return Grid(SymbolReference("TEST"), TEN_NS + STEP_NS * np.arange(count), **(values | changed))


def test_books_and_trades_every_100_ms() -> None:
    """An event at a time belongs to it. Prints and the cancellation are no trades."""
    day = day_of(
        new(BUY, 99, 10, -1000), new(BUY, 98, 20, -1000), new(SELL, 101, 10, -1000), new(SELL, 103, 30, -1000),
        new(BUY, 101, 4, 100, ioc=True), new(SELL, 99, 3, 150, ioc=True), new(BUY, 101, 1, 200, ioc=True),
        command(CommandKind.PRINT, side=SELL, price_ticks=100, qty_lots=7, time_ns=TEN_NS + 250_000_000),
        change(CommandKind.CANCEL, 2, 299), new(BUY, 97, 1, 301),
    )  # fmt: skip
    found = build_grid(day)
    start = int(np.flatnonzero(found.time_ns == TEN_NS + STEP_NS)[0])
    assert found.symbol == "TEST" and (np.diff(found.time_ns) == STEP_NS).all()
    assert found.buys[start : start + 4].tolist() == [4, 1, 0, 0] and found.buys.sum() == 5
    assert found.sells[start : start + 4].tolist() == [0, 3, 0, 0] and found.sells.sum() == 3
    assert found.lots[start : start + 3, 1, 0].tolist() == [6, 5, 5]
    assert found.ticks[start + 2, 0].tolist() == [99, 0, 0, 0, 0] and found.lots[start + 1, 0].tolist()[:2] == [7, 20]
    assert found.ticks[start + 3, 0].tolist() == [99, 97, 0, 0, 0]


def test_an_auction_is_no_trade_in_the_book() -> None:
    def operate(kind: CommandKind, ms: int, phase: Phase = Phase.CONTINUOUS) -> Rows:
        return command(kind, flags=phase, time_ns=TEN_NS + ms * 10**6)

    found = build_grid(
        day_of(
            operate(CommandKind.PHASE, 0, Phase.INTRADAY), new(BUY, 101, 5, 10), new(SELL, 99, 5, 20), new(SELL, 103, 2, 20),
            operate(CommandKind.UNCROSS, 150), operate(CommandKind.PHASE, 250), new(BUY, 103, 1, 350, ioc=True),
        )
    )  # fmt: skip
    assert found.ticks[1, :, 0].tolist() == [101, 99], "crossed while orders are collected"
    assert not has_spread(found.ticks[1:2]).any() and found.ticks[2, :, 0].tolist() == [0, 103]
    assert found.buys.tolist() == [0, 0, 0, 0, 1] and not found.sells.any()


@pytest.mark.parametrize(
    ("before", "after", "ofi"),
    [
        ((99, 10, 101, 10), (99, 15, 101, 10), 5),
        ((99, 10, 101, 10), (99, 10, 101, 4), 6),
        ((99, 10, 101, 10), (100, 3, 101, 10), 3),
        ((99, 10, 101, 10), (98, 7, 101, 10), -10),
        ((99, 10, 101, 10), (99, 10, 100, 8), -8),
        ((99, 10, 101, 10), (99, 10, 102, 8), 10),
        ((99, 10, 101, 10), (100, 2, 102, 8), 12),
    ],
)
def test_order_flow_imbalance(before: tuple[int, ...], after: tuple[int, ...], ofi: int) -> None:
    """Cont, Kukanov, Stoikov (2014), section 2."""
    ticks, lots = np.zeros((2, 2, 2, LEVELS), np.int64)
    for row, (bid, bid_lots, ask, ask_lots) in enumerate((before, after)):
        ticks[row, :, 0], lots[row, :, 0] = (bid, ask), (bid_lots, ask_lots)
    found = changes(ticks, lots, np.array([9, 2]), np.array([9, 3]))
    move = after[0] + after[2] - before[0] - before[2]
    assert found.tolist() == [[ofi, after[1] + after[3], 2, 3, move, abs(move), 0]]


def test_features_by_hand() -> None:
    made = flat_grid(LONGEST + 3)
    made.lots[:, 0, 1], made.ticks[:, 0, 1] = 20, 98
    made.lots[-1, 0, 0] = 30  # the last book: 30 + 20 lots bid, 10 offered
    made.buys[-3], made.sells[-2] = 6, 2
    features = day_features(made)
    assert np.isnan(features[:LONGEST]).all() and np.isfinite(features[LONGEST:]).all()
    last = dict(zip(NAMES, features[-1].tolist(), strict=True))
    assert last["spread_ticks"] == 2 and last["imbalance_1"] == 0.5 and last["imbalance_2"] == pytest.approx(40 / 60)
    assert last["weighted_mid_ticks"] == 0.5, "(101 x 30 + 99 x 10) / 40 - 100"
    for steps, window in zip(WINDOW_STEPS, WINDOW_NAMES, strict=True):
        depth = (20 * (steps - 1) + 40) / (2 * steps)
        assert last[f"ofi_{window}"] == pytest.approx(20 / depth) and last[f"trade_imbalance_{window}"] == 0.5
        assert last[f"move_ticks_{window}"] == last[f"path_ticks_{window}"] == 0
        assert last[f"log_volume_{window}"] == pytest.approx(np.log(9))
    assert [last["log_bid_lots"], last["log_ask_lots"]] == pytest.approx([np.log(31), np.log(11)])
    made.ticks[-4:, 1, 0], made.ticks[-2:, 1, 0] = 105, 103  # the mid: 100, then 102, then 101
    last = dict(zip(NAMES, day_features(made)[-1].tolist(), strict=True))
    assert last["move_ticks_0.5s"] == 1 and last["path_ticks_0.5s"] == 3


def test_a_mirrored_market_has_mirrored_features() -> None:
    made = sample.grid()
    high = 2 * int(made.ticks.max())
    ticks = np.where(made.ticks > 0, high - made.ticks, 0)[:, ::-1]
    swapped = replace(made, ticks=ticks, lots=made.lots[:, ::-1], buys=made.sells, sells=made.buys)
    features, others = day_features(made), day_features(swapped)
    np.testing.assert_allclose(mirrored(features)[LONGEST:], others[LONGEST:], rtol=0, atol=1e-9)
    assert not np.allclose(features[LONGEST:], others[LONGEST:])


def test_a_minute_after_an_empty_side_has_no_features() -> None:
    made = flat_grid(3 * LONGEST)
    made.ticks[700, 1, 0] = 0
    made.ticks[1500, 1, 0] = 99  # a locked book, as in an auction
    known = np.isfinite(day_features(made)).all(axis=1)
    expected = np.arange(3 * LONGEST) >= LONGEST
    expected[700 : 700 + LONGEST + 1] = expected[1500 : 1500 + LONGEST + 1] = False
    assert (known == expected).all()


def test_time_by_time_gives_the_bits_of_the_whole_day() -> None:
    made = replace(sample.grid(), ticks=sample.grid().ticks.copy())
    made.ticks[2000, 0] = 0  # an empty side on the way
    stream, whole = FeatureStream(), day_features(made)
    for row in range(4000):
        found = stream.push(made.ticks[row], made.lots[row], int(made.buys[row]), int(made.sells[row]))
        assert (found is None) == bool(np.isnan(whole[row]).any())
        assert found is None or found.tobytes() == whole[row].tobytes()
    stream.reset()
    again = [stream.push(made.ticks[row], made.lots[row], 0, 0) for row in range(5000, 5000 + LONGEST + 1)]
    assert again[:-1] == [None] * LONGEST and again[-1] is not None


def test_labels_by_hand() -> None:
    """The mid is 100 for 3 s, then 102; with the horizon 2 s, the later mid is the mean of the second second."""
    made = flat_grid(60)
    made.ticks[30:, 1, 0] = 105
    moves = later_moves(made, 2.0, int(made.time_ns[-1]))
    assert moves[:10].tolist() == [0] * 10 and moves[30:40].tolist() == [0] * 10
    assert moves[10:20].tolist() == pytest.approx([0.2 * count for count in range(1, 11)])
    assert moves[20:30].tolist() == [2] * 10
    assert np.isfinite(moves[:40]).all() and np.isnan(moves[40:]).all()
    assert np.isnan(later_moves(made, 2.0, int(made.time_ns[-3]))[38:]).all(), "no horizon ends after the hours"
    assert later_moves(made, 0.1, int(made.time_ns[-1]))[29] == 2
    past = past_moves(made, 2.0)
    assert np.isnan(past[:20]).all() and past[29:31].tolist() == [0, 2] and past[50] == 0
    made.ticks[25, 0, 0] = 0
    assert np.isnan(later_moves(made, 2.0, int(made.time_ns[-1]))[[5, 14, 25]]).all()
    assert np.isfinite(later_moves(made, 2.0, int(made.time_ns[-1]))[[4, 15, 26]]).all()


def test_classes() -> None:
    threshold = fit_threshold(np.array([0.0, 1, -2, 3, -4, 5, np.nan]))
    assert 1 < threshold < 2
    moves = np.array([-threshold - 0.1, -threshold, 0, threshold, threshold + 0.1, np.nan])
    assert classify(moves, threshold).tolist() == [DOWN, FLAT, FLAT, FLAT, UP, NO_LABEL]
