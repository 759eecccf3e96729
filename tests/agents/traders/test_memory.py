"""A trader has the memory that its kind asks for, and no more."""

import ctypes

import pytest

from serl.agents.traders.errors import PopulationError, SimulationError
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.simulate import Simulation
from tests.agents.traders.trader_bench import population

SECOND_NS = 1_000_000_000


def with_forgetful(slot: float) -> Simulation:
    """Two traders with one number of memory each, the first of which uses number `slot`."""
    groups = [{"trader": "forgetful", "profile": {"slot": used}, "start_spread_s": 0} for used in (slot, 0.0)]
    return Simulation(population(*groups, modules=["tests.agents.traders.sample_traders"]), 1)


def memory_of(simulation: Simulation, trader_number: int) -> float:
    address = int(simulation.crowd.traders.agents["memory_address"][trader_number])
    return ctypes.c_double.from_address(address).value


@pytest.mark.parametrize("slot", [1, -1, 1_000_000_000])
def test_a_trader_that_uses_memory_which_it_does_not_have_is_named(slot: int) -> None:
    simulation = with_forgetful(slot)
    message = rf"trader 0 \(forgetful\): expected recall\(\) and remember\(\) below memory=1 .*, got {slot}; "
    with pytest.raises(SimulationError, match=message):
        simulation.advance(simulation.population.open_ns + 3 * SECOND_NS)
    assert (memory_of(simulation, 0), memory_of(simulation, 1)) == (0.0, 3.0)


def test_a_trader_keeps_what_it_remembers() -> None:
    simulation = with_forgetful(0)
    simulation.advance(simulation.population.open_ns + 3 * SECOND_NS)
    assert (memory_of(simulation, 0), memory_of(simulation, 1)) == (3.0, 3.0)


def test_names_of_own_kinds_cannot_replace_those_of_serl() -> None:
    with pytest.raises(PopulationError, match=r"trader 'momentum' of module .*: expected a new name"):
        trader("momentum", Profile)(lambda agent, profile, market, requests: None)
