"""What a policy sees and does: made for one environment, it works in every other that is alike."""

import dataclasses
from typing import Any

from gymnasium.vector import VectorEnv

from serl.agents.execution.environment.observation import Layout, Scales
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.errors import LayoutMismatchError


@dataclasses.dataclass(frozen=True)
class Interface:
    """What a policy sees and does; two that are equal are interchangeable."""

    names: tuple[str, ...]
    """One an observed number, in order."""
    scales: dict[str, float]
    """Units of the observations, fixed on training data."""
    actions: str
    """Action mode of the environment; `box` for other environments."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    offset_ticks: float = 0.0
    """What an offset of 1 means, and to these ticks come ..."""
    offset_bps: float = 0.0
    """... so many bps of the mid."""
    levels: int = 0
    """Price levels a side that are seen."""

    @classmethod
    def of(cls, env: VectorEnv) -> "Interface":
        """That of an environment; observations of environments that are not for execution have numbers for names."""
        env = env.unwrapped
        box = env.single_action_space
        low, high = tuple(map(float, box.low)), tuple(map(float, box.high))
        if not isinstance(env, ExecutionVectorEnv):
            names = tuple(f"observation_{place}" for place in range(env.single_observation_space.shape[0]))
            return cls(names, {}, "box", low, high)
        return cls(
            env.layout.names, dataclasses.asdict(env.observer.scales), env.actions, low, high,
            offset_ticks=env.offset_ticks, offset_bps=env.offset_bps, levels=env.layout.levels,
        )  # fmt: skip

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Interface":
        """The reverse of dataclasses.asdict, with lists for tuples."""
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**known)

    def require(self, other: "Interface", what: str = "the environment") -> None:
        """LayoutMismatchError unless `other` is the same; it says both sides of what differs."""
        theirs = dataclasses.asdict(other)
        differing = [
            f"{name}: the policy was made for {mine!r}, {what} has {theirs[name]!r}"
            for name, mine in dataclasses.asdict(self).items()
            if mine != theirs[name]
        ]
        if differing:
            raise LayoutMismatchError("; ".join(differing) + "; make the environment with the policy's layout")

    def settings(self) -> dict[str, Any]:
        """Those of an ExecutionVectorEnv that shows and takes this."""
        return {
            "actions": self.actions, "layout": Layout(self.levels), "scales": Scales(**self.scales),
            "offset_ticks": self.offset_ticks, "offset_bps": self.offset_bps,
        }  # fmt: skip
