"""Vector environments side by side as one, so that every batch holds samples of each in a fixed share."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from serl.agents.execution.environment.interface import Interface


class Joined(VectorEnv):  # type: ignore[misc]
    """The environments of `parts`, in order; LayoutMismatchError unless all show and take what the first does. No episode of a part may
    be cut off. `unwrapped` is the first part, whose interface it has."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, parts: Sequence[VectorEnv]) -> None:
        for part in parts[1:]:
            Interface.of(parts[0]).require(Interface.of(part), "a further part")
        self.parts = parts
        self.num_envs = sum(part.num_envs for part in parts)
        self._ends = np.cumsum([part.num_envs for part in parts])[:-1]
        self.single_action_space = parts[0].single_action_space
        self.single_observation_space = parts[0].single_observation_space
        batch = gymnasium.vector.utils.batch_space
        self.action_space = batch(self.single_action_space, self.num_envs)
        self.observation_space = batch(self.single_observation_space, self.num_envs)

    @property
    def unwrapped(self) -> VectorEnv:
        """The first part."""
        return self.parts[0].unwrapped

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """New episodes everywhere; every part has a seed of its own."""
        seeds = [None] * len(self.parts)
        if seed is not None:
            seeds = np.random.SeedSequence(seed).generate_state(len(self.parts)).tolist()
        seen = [part.reset(seed=own)[0] for part, own in zip(self.parts, seeds, strict=True)]
        return np.concatenate(seen), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of all; info is empty."""
        shares = np.split(np.asarray(actions), self._ends)
        steps = [part.step(share)[:4] for part, share in zip(self.parts, shares, strict=True)]
        seen, rewards, ended, truncated = (np.concatenate(values) for values in zip(*steps, strict=True))
        return seen, rewards, ended, truncated, {}
