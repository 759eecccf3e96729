"""A toy execution environment in numpy alone: N inventories are sold over some steps at quadratic cost.

Reward of selling q (share of the order): q s - cost q^2, s a signal in [-1, 1] that is observed and redrawn each step. The rest is
sold in the last step. Without the signal the best schedule is q = 1 / steps.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv


class ToyExecution(VectorEnv):
    """See the module. Observations: time left, inventory, signal, 1, and noise up to `size` numbers; actions: share of the rest."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self, count: int, *, steps: int = 8, cost: float = 4.0, size: int = 8, truncates: bool = False
    ) -> None:
        self.num_envs, self._steps, self._cost, self._truncates = count, steps, cost, truncates
        self.single_observation_space = gymnasium.spaces.Box(-10, 10, (size,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, count)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, count)
        self._inventory, self._left = np.ones(count), np.full(count, steps)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """New episodes; the seed determines all that follow."""
        super().reset(seed=seed)
        self._inventory[:], self._left[:] = 1, self._steps
        return self._observe(), {}

    def _observe(self) -> Any:
        seen = self.np_random.uniform(-1, 1, (self.num_envs, self.single_observation_space.shape[0]))
        self._signal = seen[:, 2].copy()
        seen[:, 0], seen[:, 1], seen[:, 3] = self._left / self._steps, self._inventory, 1
        return seen.astype(np.float32)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Sell; an episode ends after `steps` steps."""
        sold = np.clip(actions[:, 0], 0, 1) * self._inventory
        sold = np.where(self._left == 1, self._inventory, sold)
        rewards = sold * self._signal - self._cost * sold**2
        self._inventory -= sold
        self._left -= 1
        done = self._left == 0
        info: dict[str, Any] = {}
        if np.any(done):
            info = {"final_obs": self._observe()}
            self._inventory[done], self._left[done] = 1, self._steps
        nothing = np.zeros(self.num_envs, bool)
        terminated, truncated = (nothing, done) if self._truncates else (done, nothing)
        return self._observe(), rewards, terminated, truncated, info
