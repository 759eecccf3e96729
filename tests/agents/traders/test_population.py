"""Populations: those that come with serl keep a market going, invalid ones are refused with a reason."""

from pathlib import Path

import numpy as np
import pytest

from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import load_population
from serl.agents.traders.registry import BUILT_IN, load_kind
from serl.agents.traders.simulate import Simulation
from serl.agents.traders.trader_api import SECOND_NS
from tests.agents.traders.trader_bench import ZERO, population

NAMES = (
    "amzn",
    "small",
    "rmsc04",
    "liquid",
    "stressed",
    "hawkes",
    "thin",
    "trending",
    "spoofed",
    "informed",
    "closing",
)
SPREAD_MEDIAN_MAX, SPREAD_P99_MAX = {"amzn": 20, "rmsc04": 5, "stressed": 5}, {"amzn": 50, "rmsc04": 30, "stressed": 30}
OFF_MEDIAN_MAX = {"amzn": 0.02}
"""Maximum median distance from the value: without value traders the price drifts, by about .8 % in a day of AMZN."""
EVERY_S = 5


@pytest.mark.parametrize("name", [*NAMES, *(pytest.param(each, marks=pytest.mark.long) for each in ("basket", "pair"))])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_whole_day_stays_two_sided_and_near_its_value(name: str, seed: int) -> None:
    config = load_population(name)
    simulation = Simulation(config, seed)
    best = []
    for time_ns in range(config.open_ns + EVERY_S * SECOND_NS, config.close_ns + 1, EVERY_S * SECOND_NS):
        simulation.advance(time_ns)
        best.append(simulation.market.state.best[0].copy())
    bid, ask = np.array(best).T
    two_sided = (bid > 0) & (ask > 0)
    assert two_sided.mean() > 0.99
    spread = (ask - bid)[two_sided]
    assert spread.min() > 0
    assert np.median(spread) <= SPREAD_MEDIAN_MAX.get(name, 2)
    assert np.percentile(spread, 99) <= SPREAD_P99_MAX.get(name, 6)
    value = simulation.crowd.traders.value[0][EVERY_S::EVERY_S][: len(bid)][two_sided]
    off = np.abs((bid + ask)[two_sided] / 2 - value) / value
    assert np.median(off) < OFF_MEDIAN_MAX.get(name, 0.002)
    assert np.percentile(off, 99) < 0.05
    simulation.market.validate()
    counts = simulation.day().reference.counts
    assert counts["requests_dropped"] == counts["empty_side_bid"] == counts["empty_side_ask"] == 0


def test_every_kind_is_there_and_says_what_it_does() -> None:
    for name in BUILT_IN:
        made = load_kind(name)
        assert made.name == name
        made.profile()
        for field, info in made.profile.model_fields.items():
            bounds = [item for item in info.metadata if hasattr(item, "ge") or hasattr(item, "gt")]
            assert bounds or isinstance(info.default, (str, tuple)), f"{name}.{field} has no range"


def write(folder: Path, text: str) -> Path:
    path = folder / "some.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [", "expected YAML, got"),
        ("- 1", "expected a mapping with name and groups, got list"),
        ("name: a", "groups: expected a value, got none"),
        ("{name: a b, groups: [{trader: noise}]}", "name: expected 1 to 64 letters, digits, '.', '_' or '-', not dots alone, got 'a b'"),
        ("{name: a, groups: []}", "groups: expected at least 1 item, got []"),
        ("{name: a, groups: [{trader: noise, count: 0}]}", "groups.0.count: expected a number greater than or equal to 1, got 0"),
        ("{name: a, groups: [{trader: noise, profile: {interval_s: -3}}]}",
         "'noise': interval_s: expected a number greater than 0, got -3"),
        ("{name: a, groups: [{trader: noise, profile: {colour: 3}}]}", "colour: expected one of "),
        ("{name: a, groups: [{trader: noise, symbol: 1}]}", "groups.0.symbol: expected 0 to 0, got 1"),
        ("{name: a, open: '16:00', close: '09:30', groups: [{trader: noise}]}", "close: expected a time after open (16:00), got 09:30"),
        ("{name: a, modules: [no.such], groups: [{trader: noise}]}", "modules: expected modules that can be imported, got 'no.such'"),
        ("{name: a, modules: [.such], groups: [{trader: noise}]}", "modules: expected modules that can be imported, got '.such'"),
        ("{name: a, modules: [''], groups: [{trader: noise}]}", "modules: expected modules that can be imported, got ''"),
        ("{name: a, tick_size: '0.00', groups: [{trader: noise}]}", "tick_size: expected a positive decimal number like '0.01', got '0.00'"),
        ("{name: a, value: {mean_ticks: .inf}, groups: [{trader: noise}]}", "value.mean_ticks: expected a finite number, got inf"),
        ("{name: a, value: {step_s: 1e-9}, groups: [{trader: noise}]}", "step_s: expected a number greater than or equal to 0.001"),
        ("{name: a, value: {shocks_per_h: 1e30}, groups: [{trader: noise}]}", "shocks_per_h: expected a number less than or equal to 3600000"),
        ("{name: a, groups: [{trader: noise, start_s: .inf}]}", "groups.0.start_s: expected a finite number, got inf"),
        ("{name: a, symbols: [A, {name: B, basket: {A: .inf}}], groups: [{trader: noise}]}", "basket.A: expected a finite number, got inf"),
        ("{name: a, groups: [{trader: noise, profile: {interval_s: .inf}}]}", "'noise': interval_s: expected a finite number, got inf"),
        ("{name: a, groups: [{trader: momentum, profile: {short_looks: 60}}]}", "expected short_looks of at most long_looks (50), got 60"),
        ("{name: a, groups: [{trader: zero_intelligence, profile: {cancel_per_s: [-1" + ", 1" * 29 + "]}}]}",
         "cancel_per_s.0: expected a number greater than or equal to 0, got -1"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_a_reason(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PopulationError) as caught:
        load_population(write(tmp_path, text))
    assert message in str(caught.value)


def test_the_error_of_an_unknown_trader_lists_the_known_ones() -> None:
    with pytest.raises(PopulationError, match=r"expected a trader of .*, got 'martian'") as caught:
        population({"trader": "martian"})
    assert all(name in str(caught.value) for name in BUILT_IN)


def test_unreadable_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "some.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PopulationError, match=r"some\.yaml: expected YAML, got unacceptable character"):
        load_population(tmp_path / "some.yaml")
    with pytest.raises(
        PopulationError,
        match="expected a YAML file or one of amzn, basket, closing, hawkes, informed, liquid, pair, rmsc04, small, spoofed, stressed, thin, trending, got neither",
    ):
        load_population("nowhere.yaml")


def test_an_explosive_hawkes_flow_is_refused_with_its_radius() -> None:
    branching = [0.0] * 36
    branching[0] = 1.25
    with pytest.raises(PopulationError, match=r"branching: .*expected a spectral radius below 1.*got 1\.250"):
        population({"trader": "hawkes", "profile": {"branching": branching}})
    branching[0] = -0.5
    with pytest.raises(PopulationError, match=r"branching.* expected a number greater than or equal to 0, got -0\.5"):
        population({"trader": "hawkes", "profile": {"branching": branching}})
    with pytest.raises(PopulationError, match="base_per_s: expected at least 6 items"):
        population({"trader": "hawkes", "profile": {"base_per_s": [1.0]}})


def test_a_population_that_empties_the_book() -> None:
    """With market sellers only, the market survives and the day reports an empty side."""
    seller = {"trader": "institutional", "count": 50, "start_spread_s": 60, "profile": {
        "buy_share": 0.0, "parent_lots": 1e6, "parent_lots_max": 10**8, "slice_lots_max": 10**6, "duration_s": 60, "interval_s": 0.1,
    }}  # fmt: skip
    maker = {"trader": "participation_maker", "profile": {"interval_s": 3000}}
    config = population(maker, seller)
    simulation = Simulation(config, 1)
    simulation.advance(config.open_ns + 120 * SECOND_NS)
    simulation.market.validate()
    counts = simulation.day().reference.counts
    assert counts["empty_side_bid"] == 1 and counts["empty_side_ask"] == 0
    alone = Simulation(population({"trader": "noise", "count": 20}), 1)
    alone.advance(alone.population.close_ns)
    assert alone.day().reference.counts["empty_side_bid"] == 1
    assert len(alone.commands) == 0


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64])
def test_seeds_are_those_of_the_generators(seed: int) -> None:
    """From 2^63 on different seeds had the same value, because NumPy makes floats of them; from 2^64 on they were a traceback."""
    with pytest.raises(PopulationError, match=f"seed: expected 0 or more and less than 2\\^63, got {seed}"):
        Simulation(population(ZERO), seed)
