"""The fundamental values of a population's symbols."""

import numpy as np
from numpy.typing import NDArray

from serl.agents.traders.population import PopulationConfig


def value_paths(population: PopulationConfig, seed: int) -> NDArray[np.float64]:
    """(S, T) the value of each symbol in its ticks, on the population's grid.

    A value V that follows others, V_j, is the value of its own settings plus Σ r_j (V_j - their mean). If its own value reverts, they are
    cointegrated, and V - Σ r_j V_j is an Ornstein-Uhlenbeck process (Engle and Granger, Co-integration and error correction, 1987). The value of a
    basket is the weighted sum of its members' values.
    """
    duration_ns = population.close_ns - population.open_ns
    paths = np.stack(
        [
            value.path(seed, number, duration_ns, symbol.loading)
            for number, (symbol, value) in enumerate(zip(population.symbols, population.values, strict=True))
        ]
    )
    values = population.values
    for number in range(len(paths)):
        if followed := population.followed(number):
            moves = sum(ratio * (paths[other] - values[other].mean_ticks) for other, ratio in followed)
            paths[number] = np.maximum(1.0, paths[number] + moves)
    for number in range(len(paths)):
        if members := population.basket(number):
            paths[number] = sum(ticks * paths[member] for member, _, ticks in members)
    return paths
