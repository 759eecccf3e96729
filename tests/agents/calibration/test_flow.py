"""The flow trader, and metaorders in its market."""

import numpy as np
import pytest

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.simulated_impact import START_S, measure_law, with_metaorder
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, tape_of
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import Simulation, simulate
from tests.agents.calibration.sample import OPEN_NS, flow

END_NS = OPEN_NS + 20 * MINUTE_NS


def test_the_book_keeps_both_sides_and_the_same_seed_gives_the_same_day() -> None:
    one, two, other = (simulate(flow(), seed, END_NS) for seed in (1, 1, 2))
    assert one.commands.tobytes() == two.commands.tobytes() != other.commands.tobytes()
    tape = tape_of(one)
    assert tape.two_sided[100:].mean() > 0.99
    assert one.reference.counts["requests_dropped"] == 0


def test_wide_spreads_attract_orders_inside() -> None:
    """With no order inside the spread it is wider than with many."""
    spreads = []
    for share in (0.02, 0.5):
        tape = tape_of(simulate(flow(inside_share=(share,) * 6), 1, END_NS))
        spreads.append(np.nanmean((tape.ask - tape.bid)[1:][tape.two_sided[1:]]))
    assert spreads[0] > 1.5 * spreads[1]


@pytest.mark.parametrize("side", [1, -1])
def test_a_metaorder_gets_what_it_wants_and_moves_the_price_its_way(side: int) -> None:
    population = with_metaorder(flow(), side, 2000, 0.3, 1.0)
    moved = []
    for seed in range(1, 5):
        days = []
        for config in (population, with_metaorder(flow(), side, 0, 0.3, 1.0)):
            simulation = Simulation(config, seed)
            simulation.advance(END_NS)
            days.append(simulation)
        assert days[0].crowd.traders.agents["position_lots"][-1] == side * 2000
        assert days[1].crowd.traders.agents["position_lots"][-1] == 0
        mids = [tape_of(day.day()).mid for day in days]
        moved.append(side * (np.nanmean(mids[0][-200:]) - np.nanmean(mids[1][-200:])))
    assert np.mean(moved) > 0


def test_markets_are_the_same_until_the_metaorder_and_act_at_the_same_times_after() -> None:
    with_it, without = (
        simulate(with_metaorder(flow(), 1, lots, 0.3, 1.0), 1, END_NS).commands for lots in (2000, 0)
    )  # fmt: skip
    start_ns = OPEN_NS + round(START_S * SECOND_NS)
    before = [rows[rows["time_ns"] < start_ns] for rows in (with_it, without)]
    assert len(before[0]) > 500 and before[0].tobytes() == before[1].tobytes()
    shared = np.isin(without["time_ns"], with_it["time_ns"]).mean()
    assert shared > 0.9


def test_the_law_is_fitted_to_runs_with_and_without() -> None:
    found = measure_law(_short(), [0.01, 0.1], [1, 2, 3], participation=0.3)
    assert len(found.runs) == 6 and found.law.runs == 3
    for run in found.runs:
        assert run.filled_lots >= 0.98 * run.lots == pytest.approx(0.98 * run.qty_share * found.day_lots, abs=1)
    long, short = (np.mean([run.duration_s for run in found.runs if run.qty_share == size]) for size in (0.1, 0.01))
    assert long > 4 * short
    assert found.day_sigma_ticks > 0 and found.schedule == "POV 0.3"


def test_a_metaorder_that_cannot_be_done_is_told() -> None:
    with pytest.raises(CalibrationError, match="by the close"):
        measure_law(_short(), [0.1, 0.9], [1], participation=0.05)


def _short() -> PopulationConfig:
    return flow().model_copy(update={"close": "10:30"})
