"""Closed-form market makers, and the market parameters that they need, measured on simulated training days."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from serl.agents.making.environment import MakingVectorEnv
from serl.agents.realism.tape import SECOND_NS, Tape, build_tape
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import simulate
from serl.exchange.errors import ConfigError

DISTANCE_STEP_TICKS, TRADES_MIN = 0.5, 30
"""Trade rates are measured at multiples of this distance, where there are at least this many trades."""
VOLATILITY_LAG_S = 10


class Maker(Protocol):
    """Quotes for all environments at once."""

    @property
    def name(self) -> str:
        """For tables."""

    def offsets(self, env: MakingVectorEnv) -> Any:
        """(N, 2) distances of bid and ask from the mid, in ticks."""


@dataclasses.dataclass(frozen=True)
class MarketParameters:
    """The parameters of the formulas: the mid diffuses, and trades on each side reach a distance d from it at the rate A exp(-k d)."""

    volatility_ticks_per_root_s: float
    trades_per_s: float
    """A."""
    decay_per_tick: float
    """k."""

    @classmethod
    def measure(cls, population: str, seeds: Sequence[int], hours: tuple[int, int] | None = None) -> "MarketParameters":
        """Measures the parameters on days simulated without us. hours: ns after midnight, by default the whole day. Raises `ConfigError`."""
        config = load_population(population)
        start_ns, end_ns = hours or (config.open_ns + 600 * SECOND_NS, config.close_ns)
        tapes = [build_tape(simulate(config, seed, end_ns), 1).window(start_ns, end_ns) for seed in seeds]
        seconds = len(tapes) * (end_ns - start_ns) / SECOND_NS
        reached = np.concatenate([_distances(tape) for tape in tapes])
        distances = np.arange(DISTANCE_STEP_TICKS, max(reached.max(initial=0.0), 1.0) + 1e-9, DISTANCE_STEP_TICKS)
        counts = np.array([(reached >= distance).sum() for distance in distances])
        enough = counts >= TRADES_MIN
        if enough.sum() < 2:
            raise ConfigError(
                f"{population}: expected {TRADES_MIN} trades at two distances from the mid or more, got {counts[:2].tolist()}; use more seeds"
            )
        slope, intercept = np.polyfit(distances[enough], np.log(counts[enough] / (2 * seconds)), 1)
        changes = np.concatenate([_changes(tape, start_ns, end_ns) for tape in tapes])
        return cls(float(changes.std() / math.sqrt(VOLATILITY_LAG_S)), math.exp(intercept), float(max(1e-3, -slope)))


def _distances(tape: Tape) -> Any:
    """Distance of each trade's worst price from the mid before the trade, in ticks."""
    mid = tape.mid[:-1][tape.trades]
    found = np.abs(tape.price_ticks[tape.trades] - mid)
    return found[np.isfinite(found)]


def _changes(tape: Tape, start_ns: int, end_ns: int) -> Any:
    times = np.arange(start_ns, end_ns, VOLATILITY_LAG_S * SECOND_NS)
    mids = tape.mid[np.searchsorted(tape.time_ns, times)]
    changes = np.diff(mids)
    return changes[np.isfinite(changes)]


@dataclasses.dataclass(frozen=True)
class AvellanedaStoikov:
    """Avellaneda and Stoikov, High-frequency trading in a limit order book (2008): quotes around the reservation price
    mid - q γ σ² (T - t), at (γ σ² (T - t) + (2 / γ) ln(1 + γ / k)) / 2 on each side. q in quotes, γ per tick and quote."""

    parameters: MarketParameters
    risk_aversion: float
    name: str = "Avellaneda-Stoikov"

    def offsets(self, env: MakingVectorEnv) -> Any:
        """See `Maker`."""
        gamma, k = self.risk_aversion, self.parameters.decay_per_tick
        risk = gamma * self.parameters.volatility_ticks_per_root_s**2 * env.remaining_s
        half, shift = risk / 2 + math.log1p(gamma / k) / gamma, env.inventory * risk
        return np.stack([half + shift, half - shift], 1)


@dataclasses.dataclass(frozen=True)
class Glft:
    """Guéant, Lehalle and Fernandez-Tapia, Dealing with the inventory risk (2013), far from the end: distances
    ln(1 + γ / k) / γ + (1 ± 2 q) / 2 sqrt(σ² γ / (2 k A) (1 + γ / k)^(1 + k / γ)), + for bids."""

    parameters: MarketParameters
    risk_aversion: float
    name: str = "GLFT"

    def offsets(self, env: MakingVectorEnv) -> Any:
        """See `Maker`."""
        gamma, k, rate = self.risk_aversion, self.parameters.decay_per_tick, self.parameters.trades_per_s
        variance = self.parameters.volatility_ticks_per_root_s**2
        base = math.log1p(gamma / k) / gamma
        slope = math.sqrt(variance * gamma / (2 * k * rate) * (1 + gamma / k) ** (1 + k / gamma))
        inventory = env.inventory
        return np.stack([base + (1 + 2 * inventory) / 2 * slope, base + (1 - 2 * inventory) / 2 * slope], 1)


@dataclasses.dataclass(frozen=True)
class Symmetric:
    """Quotes the same constant distance on both sides."""

    distance_ticks: float

    @property
    def name(self) -> str:
        """The name, with the distance."""
        return f"symmetric, {self.distance_ticks:g} ticks"

    def offsets(self, env: MakingVectorEnv) -> Any:
        """See `Maker`."""
        return np.full((env.num_envs, 2), self.distance_ticks)


MAKERS = ("symmetric", "avellaneda-stoikov", "glft")


def make_maker(text: str, parameters: Callable[[], MarketParameters]) -> Maker:
    """Makes a maker from `symmetric:DISTANCE` in ticks, `avellaneda-stoikov:RISK` or `glft:RISK`, where RISK is γ per tick and quote. parameters:
    called only for the latter two. Raises ConfigError for anything else."""
    kind, _, number = text.partition(":")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if kind not in MAKERS or not 0 < value < math.inf:
        raise ConfigError(
            f"maker: expected one of {', '.join(MAKERS)} with a number above 0, like symmetric:1 or glft:0.01, got {text!r}"
        )
    if kind == "symmetric":
        return Symmetric(value)
    if kind == "glft":
        return Glft(parameters(), value, f"GLFT, γ = {value:g}")
    return AvellanedaStoikov(parameters(), value, f"Avellaneda-Stoikov, γ = {value:g}")
