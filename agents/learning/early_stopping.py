"""Early stopping: chooses the stopping time of a training run on validation orders, because PPO on few days keeps improving on those days long
after it has become worse on others.

At every checkpoint the current policy works the same validation orders, except while only the critic learns. The run keeps the best
policy so far and ends after `patience` checkpoints in a row that are not better.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic import Field
from torch import Tensor

from serl.agents.execution.data import VALIDATION
from serl.agents.learning.environments import Scenario
from serl.agents.learning.fitted_rules import undisturbed_score
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.policy import Policy
from serl.agents.learning.settings import LearningSettings
from serl.agents.learning.sources import Books, open_source


class StoppingConfig(LearningSettings):
    """Settings of early stopping."""

    orders: int = Field(4000, gt=0, description="validation orders, the same at every checkpoint")
    seed: int = Field(1_000_003, ge=0, description="of these orders")
    patience: int = Field(10, gt=0, description="checkpoints without a better one after which training ends")


class EarlyStopping:
    """Keeps the best weights. In a checkpoint, `state` is the JSON and `weights` are the tensors."""

    def __init__(self, config: StoppingConfig, score: Callable[[], float]) -> None:
        """score: returns the mean PA in bps of the current policy on the validation orders."""
        self._config, self._score = config, score
        self.best_bps = self.last_bps = -np.inf
        self.best_steps, self.scored_steps, self.worse = 0, -1, 0
        self.weights: dict[str, Tensor] = {}

    @property
    def finished(self) -> bool:
        """Whether training should end."""
        return self.worse >= self._config.patience

    def at_checkpoint(self, steps: int, weights: dict[str, Tensor]) -> None:
        """Scores the policy after `steps` steps, once: a resumed run begins with the checkpoint at which it ended."""
        if steps == self.scored_steps:
            return
        self.scored_steps, self.last_bps = steps, self._score()
        self.worse += 1
        if self.last_bps > self.best_bps:
            self.best_bps, self.best_steps, self.worse = self.last_bps, steps, 0
            self.weights = {name: tensor.clone() for name, tensor in weights.items()}

    @property
    def state(self) -> dict[str, Any]:
        """JSON for `restore`."""
        names = ("best_bps", "last_bps", "best_steps", "scored_steps", "worse")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Restores the state and the weights of a checkpoint."""
        for name, value in state.items():
            setattr(self, name, value)
        self.weights = weights


def validation_scorer(market: MarketConfig, config: StoppingConfig) -> Callable[[Policy], float]:
    """Returns a function that scores a policy: mean PA in bps on the validation orders of a market, as `serl evaluate` measures it. Raises
    ConfigError if training hours of the settings share time with them."""
    scenario = _validation_scenario(market, config.orders)
    episodes = scenario.sampler.sample(np.random.Generator(np.random.PCG64(config.seed)), config.orders)
    advantages = undisturbed_score(scenario, episodes)
    return lambda policy: float(np.nanmean(advantages(policy, policy.modes[0])))


def _validation_scenario(market: MarketConfig, orders: int) -> Scenario:
    """The validation part. Hours in the settings are training hours: other simulated days may use the same hours, the same recorded day may not."""
    changes = {"part": VALIDATION, "environments": min(market.environments, orders)}
    validation = with_overrides(market, changes)
    if market.hours is None or market.kind == "dynamic":
        return Scenario(validation)
    training = open_source(market)
    assert isinstance(training, Books), "bars have no hours in their settings"
    training.hours(VALIDATION)  # refuses those that share time with the training hours
    return Scenario(validation.model_copy(update={"hours": None}), training.days)
