"""The fundamental value: exogenous, the same for all traders, and determined for the whole day by the seed."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from serl.exchange.compiling import compiled
from serl.exchange.invalid import StrictSettings

SECOND_NS = 1_000_000_000
_FIRST_STREAM = 1_000_003
"""Random number stream of symbol 0; the streams of other symbols follow."""
_FACTOR_STREAM = _FIRST_STREAM - 1


class ValueConfig(StrictSettings):
    """Mean-reverting value with sparse shocks (the oracle of ABIDES; Byrd, Hybinette, Balch 2019)."""

    model_config = ConfigDict(allow_inf_nan=False)

    mean_ticks: float = Field(100_000, gt=0, description="long-run mean, and value at the open")
    reversion_per_s: float = Field(1.67e-7, ge=0, description="rate of mean reversion")
    volatility_ticks_per_root_s: float = Field(1.6, ge=0, description="of the diffusion")
    shocks_per_h: float = Field(0.0, ge=0, le=3.6e6, description="Poisson rate of large shocks")
    shock_ticks: float = Field(0.0, ge=0, description="standard deviation of a large shock")
    step_s: float = Field(1.0, ge=1e-3, description="step of the time grid")

    def path(self, seed: int, symbol: int, duration_ns: int, loading: float = 0.0) -> NDArray[np.float64]:
        """The value at 0, step, 2 step ... to the end; exact Ornstein-Uhlenbeck steps, never below one tick.

        Values of a seed share a factor: the standard normal step of symbol i is z_i = β_i f + sqrt(1 - β_i²) e_i, with its loading β_i, the
        factor's step f and its own step e_i (the single-index model of Sharpe, A simplified model for portfolio analysis, 1963). With equal
        reversion, the diffusion steps of i and j have the correlation β_i β_j. Each symbol has its own shocks.
        """
        count = int(duration_ns / (self.step_s * SECOND_NS)) + 2
        random = np.random.Generator(np.random.Philox(key=[seed, _FIRST_STREAM + symbol]))
        decay = math.exp(-self.reversion_per_s * self.step_s)
        variance = self.step_s if decay == 1.0 else (1 - decay**2) / (2 * self.reversion_per_s)
        normals = random.standard_normal(count)
        if loading:
            factor = np.random.Generator(np.random.Philox(key=[seed, _FACTOR_STREAM])).standard_normal(count)
            normals = loading * factor + math.sqrt(1.0 - loading**2) * normals
        moves: Any = normals * self.volatility_ticks_per_root_s * math.sqrt(variance)
        shocks = random.poisson(self.shocks_per_h * self.step_s / 3600, count)
        moves += np.sqrt(shocks) * random.standard_normal(count) * self.shock_ticks
        moves[0] = 0.0
        _revert(moves, decay)
        return np.maximum(1.0, moves + self.mean_ticks)


@compiled
def _revert(moves: Any, decay: float) -> None:
    """Accumulates moves into distances from the mean, in place."""
    for index in range(1, moves.size):
        moves[index] += moves[index - 1] * decay
