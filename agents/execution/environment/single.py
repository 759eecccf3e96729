"""A vector environment of size one as a `gymnasium.Env`, for libraries without vector environments. `serl.environments` makes them by name."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from serl.agents.execution.environment.vector import ExecutionVectorEnv, shaped
from serl.exchange.errors import ConfigError


class SingleEnv(gymnasium.Env[Any, Any]):
    """A single-environment view of a vector environment. Continuous actions are scaled to [-1, 1], as most libraries expect; discrete ones are unchanged.

    An episode terminates at the end of its window and is never truncated; the remaining time is part of the observation. The info of the last step
    has `results`. Raises ConfigError if the vector environment has more than one environment.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, vector: VectorEnv) -> None:
        if vector.num_envs != 1:
            raise ConfigError(f"expected a vector environment of one, got one of {vector.num_envs}")
        self.vector = vector
        self.observation_space = vector.single_observation_space
        self.action_space, self._low = vector.single_action_space, None
        if isinstance(vector.single_action_space, gymnasium.spaces.Box):
            self._low = vector.single_action_space.low
            self.action_space = gymnasium.spaces.Box(-1.0, 1.0, vector.single_action_space.shape)
        self._next: Any = None  # first observation of the next episode, if it has already started

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts the next episode. A seed determines it and all that follow. Options are those of the vector environment."""
        super().reset(seed=seed)
        if seed is None and not options and self._next is not None:
            observation = self._next
        else:
            observation = self.vector.reset(seed=seed, options=options)[0][0]
        self._next = None
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Executes one decision. Raises ConfigError for an action of another shape."""
        low, scaled = self._low, np.asarray(action)
        if low is not None:
            scaled = low + (shaped(action, low.shape) + 1) / 2 * (1 - low)
        observations, rewards, done, _, info = self.vector.step(scaled[None])
        if not done[0]:
            return observations[0], float(rewards[0]), False, False, {}
        self._next = observations[0]
        results = {name: float(values[0]) for name, values in info["results"].items()}
        return info["final_obs"][0], float(rewards[0]), True, False, {"results": results}


class ExecutionEnv(SingleEnv):
    """Works one parent order at a time; shares are (action + 1) / 2. `results` are those of Accounts.results."""

    vector: ExecutionVectorEnv
