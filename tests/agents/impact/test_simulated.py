"""Metaorders in a simulated market."""

import numpy as np
import pytest

from serl.agents.impact.errors import ImpactError
from serl.agents.impact.simulated import START_S, measure_simulated_impact, with_metaorder
from serl.agents.impact.validity_simulated import simulated_responses
from serl.agents.realism.scores import last_before
from serl.agents.realism.tape import MINUTE_NS, SECOND_NS, build_tape
from serl.agents.traders.population import PopulationConfig, check_population
from serl.agents.traders.simulate import Simulation, simulate
from tests.agents.calibration.sample import OPEN_NS, flow

END_NS = OPEN_NS + 20 * MINUTE_NS


@pytest.mark.parametrize("side", [1, -1])
def test_a_metaorder_is_filled_and_moves_the_price_its_way(side: int) -> None:
    population = with_metaorder(flow(), side, 1500, 0.3, 1.0)
    moved = []
    for seed in range(1, 5):
        days = []
        for config in (population, with_metaorder(flow(), side, 0, 0.3, 1.0)):
            simulation = Simulation(config, seed)
            simulation.advance(END_NS)
            days.append(simulation)
        assert days[0].crowd.traders.agents["position_lots"][-1] == side * 1500
        assert days[1].crowd.traders.agents["position_lots"][-1] == 0
        mids = [build_tape(day.day()).mid for day in days]
        moved.append(side * (np.nanmean(mids[0][-200:]) - np.nanmean(mids[1][-200:])))
    assert np.mean(moved) > 0


def test_markets_are_identical_before_the_metaorder_and_alike_after_it() -> None:
    """Both have the same random numbers, so their mids differ less than those of two seeds."""
    with_it, without, other = (
        simulate(with_metaorder(flow(), 1, lots, 0.3, 1.0), seed, END_NS) for lots, seed in ((2000, 1), (0, 1), (0, 2))
    )
    start_ns = OPEN_NS + round(START_S * SECOND_NS)
    before = [day.commands[day.commands["time_ns"] < start_ns] for day in (with_it, without)]
    assert len(before[0]) > 500 and before[0].tobytes() == before[1].tobytes()
    grid_ns = np.arange(start_ns, END_NS, SECOND_NS)
    mids = [last_before(tape.time_ns, tape.mid[1:], grid_ns) for tape in map(build_tape, (with_it, without, other))]
    assert np.nanstd(mids[0] - mids[1]) < 0.7 * np.nanstd(mids[2] - mids[1])


def test_the_law_is_fitted_to_runs_with_and_without_the_metaorder() -> None:
    found = measure_simulated_impact(_short(), [0.01, 0.1], [1, 2, 3], participation=0.3)
    assert len(found.runs) == 6 and found.law.runs == 3
    for run in found.runs:
        assert run.filled_lots >= 0.98 * run.lots == pytest.approx(0.98 * run.qty_share * found.day_lots, abs=1)
    long, short = (np.mean([run.duration_s for run in found.runs if run.qty_share == size]) for size in (0.1, 0.01))
    assert long > 4 * short
    assert found.day_sigma_ticks > 0 and found.schedule == "POV 0.3"


def test_a_metaorder_that_is_not_filled_by_the_close_is_an_error() -> None:
    with pytest.raises(ImpactError, match="by the close"):
        measure_simulated_impact(_short(), [0.1, 0.9], [1], participation=0.05)


def test_a_metaorder_is_sent_in_whole_multiples_of_the_lot() -> None:
    """Its orders of other quantities were rejected, so `impact --simulated` ended and `--validity` gave an impact of 0."""
    lots = flow().model_dump() | {"market": {"lot_multiple": 10}, "close": "10:05"}
    lots["groups"] = [{"trader": "zero_intelligence", "latency_us": 1.0, "profile": {"limit_lots": 10}}]
    population = check_population(lots, "lots")
    found = measure_simulated_impact(population, [0.033, 0.2], [1, 2, 3], participation=0.5)
    assert all(run.lots % 10 == 0 and run.filled_lots == run.lots for run in found.runs)
    assert (simulated_responses(population, [0.3, 1.0], range(1, 6), 60.0).filled > 0.9).all()


def _short() -> PopulationConfig:
    return flow().model_copy(update={"close": "10:30"})
