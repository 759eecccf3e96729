"""One parent order as a `gymnasium.Env`, for libraries that know no vector environments.

`gymnasium.make("serl.agents.execution.environment.single:serl/Execution-v0", day="amzn.day")` makes one over a day file.
"""

from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from serl.agents.execution.environment.episodes import RandomOrders
from serl.agents.execution.environment.hours import hours_of
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.exchange.errors import ConfigError
from serl.history.day import read_day


class ExecutionEnv(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """A view of a vector environment of one. Every action is in [-1, 1], as most libraries like it: shares are (action + 1) / 2.

    An episode terminates with its parent order, whose remaining time is in the observation; it is never truncated. The last step's info
    has `results`, see Accounts.results. ConfigError if the vector environment has more than one parent order.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, vector: ExecutionVectorEnv) -> None:
        if vector.num_envs != 1:
            raise ConfigError(f"a vector environment of one parent order is due, got one of {vector.num_envs}")
        self.vector = vector
        self.observation_space = vector.single_observation_space
        self._low = vector.single_action_space.low
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, vector.single_action_space.shape)
        self._next: Any = None  # the observation of an episode that has begun already

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The next episode; a seed determines it and all that follow. Options as of ExecutionVectorEnv."""
        super().reset(seed=seed)
        if seed is None and not options and self._next is not None:
            observation = self._next
        else:
            observation = self.vector.reset(seed=seed, options=options)[0][0]
        self._next = None
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One decision."""
        low = self._low
        scaled = low + (np.asarray(action, np.float64) + 1) / 2 * (1 - low)
        observations, rewards, done, _, info = self.vector.step(scaled[None, :])
        if not done[0]:
            return observations[0], float(rewards[0]), False, False, {}
        self._next = observations[0]
        results = {name: float(values[0]) for name, values in info["results"].items()}
        return info["final_obs"][0], float(rewards[0]), True, False, {"results": results}


def make(day: Path | str, actions: str = "market", latency_ns: int = 1_000_000, **orders: float) -> ExecutionEnv:
    """An environment over one day file, all of its day; `orders` are fields of RandomOrders."""
    history = read_day(Path(day))
    sampler = RandomOrders([hours_of(history)], **orders)
    return ExecutionEnv(ExecutionVectorEnv(ReplayMarket([history], 1, latency_ns=latency_ns), sampler, actions=actions))


gymnasium.register("serl/Execution-v0", entry_point=make)
