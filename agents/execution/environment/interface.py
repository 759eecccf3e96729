"""The observations and actions of a policy. It works in every environment that has the same ones."""

import dataclasses
from typing import Any

from gymnasium.vector import VectorEnv

from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.errors import LayoutMismatchError


@dataclasses.dataclass(frozen=True)
class Interface:
    """The observations and actions of a policy or an environment; equal ones are interchangeable."""

    names: tuple[str, ...]
    """Names of the observed numbers, in order."""
    scales: dict[str, float]
    """Units of the observations, fixed on training data."""
    actions: str
    """Action mode of the execution environment; `box` for other environments."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    offset_ticks: float = 0.0
    """An offset of 1 means this many ticks ..."""
    offset_bps: float = 0.0
    """... plus this many bps of the mid."""
    levels: int = 0
    """Observed price levels per side."""
    horizons_s: tuple[float, ...] = ()
    """Horizons of the observed forecasts."""
    forecaster: str = ""
    """Name of the forecaster that makes them."""

    @classmethod
    def from_env(cls, env: VectorEnv) -> "Interface":
        """The interface of an environment. In other than execution environments, observations are named by their index."""
        env = env.unwrapped
        box = env.single_action_space
        low, high = tuple(map(float, box.low)), tuple(map(float, box.high))
        if not isinstance(env, ExecutionVectorEnv):
            names = tuple(f"observation_{index}" for index in range(env.single_observation_space.shape[0]))
            return cls(names, {}, "box", low, high)
        return cls(
            env.layout.names, dataclasses.asdict(env.observer.scales), env.actions, low, high,
            offset_ticks=env.offset_ticks, offset_bps=env.offset_bps, levels=env.layout.levels,
            horizons_s=env.layout.horizons_s, forecaster=env.forecasts.name if env.forecasts else "",
        )  # fmt: skip

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Interface":
        """Builds an interface from the JSON of dataclasses.asdict, in which tuples are lists."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**fields)

    def require(self, other: "Interface", what: str = "the environment") -> None:
        """Raises LayoutMismatchError, which names all differences, unless `other` is equal."""
        theirs = dataclasses.asdict(other)
        differing = [
            f"{name}: expected {mine!r}, as the policy was trained with, got {theirs[name]!r} in {what}"
            for name, mine in dataclasses.asdict(self).items()
            if mine != theirs[name]
        ]
        if differing:
            units = ", scales=Scales(**policy.interface.scales)" if self.scales != other.scales else ""
            raise LayoutMismatchError(
                "; ".join(differing) + f"; build the environment with the settings of the policy{units}"
            )

    def settings(self) -> dict[str, Any]:
        """Settings of an ExecutionVectorEnv with these observations and actions."""
        left_out = tuple(name for name in Layout(self.levels).names if name not in self.names)
        return {
            "actions": self.actions, "layout": Layout(self.levels, left_out, self.horizons_s), "scales": Scales(**self.scales),
            "offset_ticks": self.offset_ticks, "offset_bps": self.offset_bps,
        }  # fmt: skip
