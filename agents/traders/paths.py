"""The values of a population's symbols."""

import numpy as np
from numpy.typing import NDArray

from serl.agents.traders.population import PopulationConfig


def value_paths(population: PopulationConfig, seed: int) -> NDArray[np.float64]:
    """(S, T) the value of each symbol in its ticks, on the population's grid; that of a basket is the sum of its members'."""
    duration_ns = population.close_ns - population.open_ns
    paths = np.stack(
        [
            value.path(seed, number, duration_ns, symbol.loading)
            for number, (symbol, value) in enumerate(zip(population.symbols, population.values, strict=True))
        ]
    )
    for number in range(len(paths)):
        if members := population.basket(number):
            paths[number] = sum(ticks * paths[member] for member, _, ticks in members)
    return paths
