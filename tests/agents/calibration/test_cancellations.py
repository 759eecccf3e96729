"""Which orders are cancelled, measured on tapes whose answer is known."""

import numpy as np
import pytest

from serl.agents.calibration.cancellations import cancel_edges, cancel_odds, touch_cancel_odds
from serl.agents.realism.messages import CANCEL, LIMIT, MARKET
from serl.agents.realism.tape import SECOND_NS, Tape, build_tape
from serl.agents.traders.flow_tables import (
    AGE_LOG_S_MIN,
    AGE_STEP,
    CANCEL_AGES,
    CANCEL_SIZES,
    DISTANCE_BANDS,
    TOUCH_STATES,
)
from serl.agents.traders.simulate import simulate
from serl.exchange.records import Side
from tests.agents.calibration.sample import CANCEL_PER_S, TRAIN, flow, poisson_day

BUY, SELL = int(Side.BUY), int(Side.SELL)
EDGES = np.array([0.0, 2.0, 5.0, 10.0])
LOTS = np.array([10.0, 100.0, 200.0, 300.0])
TOUCH = np.array([10.0, 20.0, 50.0, 100.0, 200.0, 400.0])
SMALL, LARGE = 0, 4


def step(age_s: float) -> int:
    return int((np.log(age_s) - AGE_LOG_S_MIN) / AGE_STEP)


def tape(*messages: tuple[float, int, int, int, int, float]) -> Tape:
    """(time in s, kind, side, price, lots, arrival in s); the book is 100 to 110 all the time."""
    columns = list(zip(*messages, strict=True))
    count = len(messages)
    ticks = np.tile(np.array([[100, 90], [110, 120]]), (count + 1, 1, 1))
    return Tape(
        "A", (np.array(columns[0]) * SECOND_NS).astype(np.int64), np.array(columns[1], np.int8), np.array(columns[2], np.int8),
        np.array(columns[3]), np.array(columns[4]), (np.array(columns[5]) * SECOND_NS).astype(np.int64), np.ones(count, bool),
        ticks, np.full_like(ticks, 10),
    )  # fmt: skip


@pytest.mark.long
def test_a_cancellation_counts_all_orders_of_its_side_of_the_touch() -> None:
    arrivals = [(0.0, LIMIT, BUY, 100, 5, -1), (10.0, LIMIT, BUY, 100, 5, -1), (10.5, LIMIT, SELL, 115, 5, -1)]
    odds = cancel_odds([tape(*arrivals, (11.0, CANCEL, BUY, 100, 5, 10.0))], EDGES, LOTS, TOUCH).orders
    mean = (1 + 1) / (2 + 1)
    young, old = (1 + mean) / 2, mean / 2
    assert odds[0, step(1.0), SMALL] == (1 + young) / 2, "cancelled: one of one of this age and size"
    assert odds[0, step(11.0), SMALL] == old / 2, "it was there, and was not cancelled"
    assert odds[0, step(1.0), LARGE] == young and odds[0, step(11.0), LARGE] == old, "no such order: as at any size"
    assert (odds[1:] == 1.0).all(), "the order behind the touch is not compared with it"


def test_orders_that_traded_are_no_longer_there() -> None:
    arrivals = [(0.0, LIMIT, BUY, 100, 5, -1), (10.0, LIMIT, BUY, 100, 5, -1)]
    after = (11.0, CANCEL, BUY, 100, 5, 10.0)
    partly = cancel_odds([tape(*arrivals, (10.5, MARKET, SELL, 100, 3, -1), after)], EDGES, LOTS, TOUCH).orders
    filled = cancel_odds([tape(*arrivals, (10.5, MARKET, SELL, 100, 5, -1), after)], EDGES, LOTS, TOUCH).orders
    assert partly[0, step(11.0), SMALL] == (2 / 3) / 2 / 2 and filled[0, step(11.0), SMALL] == 1.0, (
        "the first order of the queue trades"
    )


def test_a_reduction_counts_the_order_with_the_size_that_it_had() -> None:
    arrivals = [(0.0, LIMIT, BUY, 100, 500, -1), (1.0, LIMIT, BUY, 100, 5, -1)]
    odds = cancel_odds([tape(*arrivals, (10.0, CANCEL, BUY, 100, 3, 0.0))], EDGES, LOTS, TOUCH).orders
    assert odds[0, step(10.0), LARGE] > odds[0, step(9.0), SMALL]


def test_orders_from_before_the_window_are_not_compared() -> None:
    odds = cancel_odds(
        [tape((0.0, LIMIT, BUY, 100, 5, -1), (1.0, CANCEL, BUY, 100, 5, -1.0))], EDGES, LOTS, TOUCH
    ).orders
    assert (odds == 1.0).all()


def test_bands_are_quarters_of_the_distances() -> None:
    assert cancel_edges(np.arange(1.0, 6.0)).tolist() == [0, 2, 3, 4]
    assert cancel_edges(np.zeros(0)).tolist() == [0, 1, 2, 3]


def test_cancellations_at_random_do_not_depend_on_the_age() -> None:
    """Zero intelligence cancels each order at the same rate, whatever its age: odds are level, up to chance."""
    window = build_tape(poisson_day(), 10).window(*TRAIN)
    behind = cancel_odds([window], np.array([0.0, 1.0, 2.0, 3.0]), LOTS * 1e6, TOUCH).orders[
        1:4, step(0.3) : step(30.0), SMALL
    ]
    assert len(set(CANCEL_PER_S[:6])) == 1
    assert np.abs(behind / behind.mean() - 1).max() < 0.35, behind


@pytest.mark.long
def test_the_flow_cancels_by_the_odds_that_it_is_given() -> None:
    """Young orders ten times as often: measured again, they are."""
    odds = np.where(np.arange(CANCEL_AGES) < step(2.0), 10.0, 1.0)
    population = flow(cancel_odds=np.tile(np.repeat(odds, CANCEL_SIZES), DISTANCE_BANDS).tolist(), cancel_lean=0.0)
    window = build_tape(simulate(population, 1, TRAIN[1]), 10).window(*TRAIN)
    found = cancel_odds([window], EDGES, LOTS, TOUCH).orders
    young, old = found[1:, step(0.3) : step(2.0)].mean(), found[1:, step(2.0) + 1 : step(60.0)].mean()
    assert 5 < young / old < 20


def test_large_orders_stay_where_the_odds_say_so() -> None:
    """The book then has more lots on each level, of the same orders."""
    small_first = np.tile([50.0, 50.0, 1.0, 1.0, 1.0], DISTANCE_BANDS * CANCEL_AGES).tolist()
    lots = []
    for odds in (np.ones(DISTANCE_BANDS * CANCEL_AGES * CANCEL_SIZES).tolist(), small_first):
        population = flow(
            cancel_odds=odds, cancel_edges_lots=(50.0, 150.0, 300.0, 600.0), cancel_lean=0.0, restoring=0.1
        )
        window = build_tape(simulate(population, 1, TRAIN[1]), 10).window(*TRAIN)
        lots.append(window.book_lots[1:, :, 1:].mean())
    assert lots[1] > 1.2 * lots[0]


PILES = (2.0, 2.0, 1.0, 1.0, 0.5, 0.2, 0.2)


def test_piles_at_the_touch_stay_where_their_factors_say_so() -> None:
    """Measured again they are as given; a flow without them measures ones, up to chance. The last state is rare."""
    found = []
    for factors in ((1.0,) * TOUCH_STATES, PILES):
        population = flow(pile_odds=factors, touch_edges_lots=tuple(TOUCH), cancel_lean=0.0)
        window = build_tape(simulate(population, 1, TRAIN[1]), 10).window(*TRAIN)
        known = cancel_odds([window], EDGES, LOTS, TOUCH).piles
        found.append(known[:6] / known[2:4].mean())
    assert np.allclose(found[0], 1.0, atol=0.2), found
    assert np.allclose(found[1], PILES[:6], rtol=0.4), found


def test_cancellations_are_at_the_touches_that_have_the_odds() -> None:
    found = []
    for odds in ((1.0,) * TOUCH_STATES, PILES):
        population = flow(touch_cancel_odds=odds, touch_edges_lots=tuple(TOUCH), cancel_lean=0.0)
        window = build_tape(simulate(population, 1, TRAIN[1]), 10).window(*TRAIN)
        known = touch_cancel_odds([window], TOUCH)
        found.append(known[5] / known[0])
    assert found[1] < 0.5 < 0.9 < found[0], found
