"""Costs of execution in a population and in the day that it is fitted to."""

from pathlib import Path

import numpy as np
import pytest

from serl.agents.calibration.costs import COSTS, day_costs, day_orders, population_costs
from serl.agents.execution.answering.model import NONE
from serl.agents.realism.tape import HOUR_NS
from serl.history.importing import import_day
from tests.agents.calibration.sample import HELD_OUT, flow, poisson_day

SAMPLE = (
    Path(__file__).resolve().parents[4] / "shared" / "data" / "lobster" / "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"
)


def test_orders_come_in_pairs_that_differ_by_their_side() -> None:
    orders = day_orders(poisson_day(), *HELD_OUT, pairs=5).sample([3, 4])
    assert len(orders) == 20 and orders["sign"].tolist() == [1, -1] * 10
    for name in ("day", "start_ns", "qty_lots"):
        assert np.array_equal(orders[name][::2], orders[name][1::2])
    assert orders["start_ns"].min() >= HELD_OUT[0] and set(orders["day"]) == {3, 4}
    assert (orders["start_ns"] + orders["steps"] * orders["interval_ns"]).max() <= HELD_OUT[1]


def test_few_blocks_give_no_interval() -> None:
    """Half an hour has three blocks of ten minutes: draws from them lie between the smallest and the largest."""
    start_ns = HELD_OUT[0]
    orders = day_orders(poisson_day(), start_ns, start_ns + HOUR_NS // 2, pairs=2)
    found = population_costs(flow(), range(1), orders)
    assert found.clusters < 5 and np.isfinite(found.values).all()
    assert all(np.isnan(one.low) for one in found.estimates.values())
    assert found.to_json()["passive - TWAP"]["interval"] is None


@pytest.mark.long
def test_a_day_and_a_population_are_measured_alike() -> None:
    orders = day_orders(poisson_day(), *HELD_OUT, pairs=2)
    day, simulated = day_costs([poisson_day()], *HELD_OUT), population_costs(flow(), range(5), orders)
    for found in (day, simulated):
        assert np.isfinite(found.values).all() and len(found.values) == len(COSTS)
    assert (simulated.orders, simulated.clusters, day.clusters) == (20, 5, 3)
    assert all(one.low <= one.value <= one.high for one in simulated.estimates.values())
    assert all(one.interval is None for one in day.estimates.values())


@pytest.mark.long
@pytest.mark.skipif(not SAMPLE.is_file(), reason="the LOBSTER sample files are not in ../shared/data/lobster")
def test_the_replayed_day_of_amzn() -> None:
    """The numbers of an independent measurement: -.2, -.4 and +.15 bps."""
    passive, touch, mid = day_costs([import_day(SAMPLE)], 13 * HOUR_NS, 16 * HOUR_NS, NONE).estimates.values()
    assert passive.low < 0.5 and passive.high > -0.5
    assert -0.55 < touch.low < touch.high < -0.3
    assert 0.0 < mid.low < 0.15 < mid.high
