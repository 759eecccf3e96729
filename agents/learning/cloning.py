"""Behaviour cloning of the better episodes of a dataset ("%BC" of Chen et al. 2021, Decision Transformer, arXiv 2106.01345, section 5.1).

The share of episodes with the highest returns is imitated: a policy network learns their actions by least squares. The error is that of the action
that the policy will take, its distribution's central one. A tenth of the orders is held out: training ends after `patience` epochs without a smaller
error on them, and keeps the best weights. Decisions after an order is filled do not count.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from serl.agents.learning.adam import Adam
from serl.agents.learning.errors import DatasetError
from serl.agents.learning.minari_files import Episodes
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.policy import Policy
from serl.agents.learning.settings import LearningSettings
from serl.ranges import SEED_MAX

HELD_OUT = 10
"""One in this many orders is held out."""


class CloneConfig(LearningSettings):
    """Settings of behaviour cloning."""

    best: float = Field(0.2, gt=0, le=1, description="share of the episodes to imitate, those with the highest returns")
    epochs: int = Field(100, gt=0, description="at most")
    patience: int = Field(10, gt=0, description="epochs without a smaller held-out error, after which training ends")
    minibatch: int = Field(64, gt=0)
    learning_rate: float = Field(1e-3, gt=0)
    seed: int = Field(0, ge=0, le=SEED_MAX, description="of weights, minibatches and held-out orders")
    threads: int = Field(1, gt=0, description="PyTorch threads")


def best_episodes(returns: Any, share: float) -> Any:
    """Indices of the episodes with the highest returns, at least one. returns: (n,)."""
    count = max(1, round(share * len(returns)))
    return np.sort(np.argsort(-returns, kind="stable")[:count])


def clone(
    episodes: Episodes, config: CloneConfig, network: NetworkConfig | None = None,
    report: Callable[[int, float], None] = lambda epoch, error: None,
) -> Policy:  # fmt: skip
    """Trains a policy that imitates the best episodes. Calls `report` after each epoch with its number and the held-out mean square error. Raises
    DatasetError unless the data are from the training part, or if there are too few orders to hold some out."""
    if episodes.about["part"] != "train":
        raise DatasetError(
            f"expected a dataset of the training part, got {episodes.about['part']}; a policy must not learn from what it is evaluated on"
        )
    torch.set_num_threads(config.threads)
    network = network or NetworkConfig()
    random = np.random.Generator(np.random.PCG64(config.seed))
    chosen = best_episodes(episodes.returns, config.best)
    used = np.flatnonzero(np.isin(episodes.episode, chosen))
    held = _held_out(episodes.order[episodes.episode[used]], random)
    interface = episodes.interface
    low, high = np.array(interface.low), np.array(interface.high)
    observations = torch.from_numpy(episodes.observations[used])
    wanted = torch.from_numpy(
        (low + (episodes.actions[used].astype(np.float64) + 1) / 2 * (high - low)).astype(np.float32)
    )
    actor = ActorCritic(network, len(interface.names), low, high, config.seed)
    actor.start_at_zero()
    best, epochs, error = _fit(actor, observations, wanted, held, config, random, report)
    actor.load_state_dict(best)
    metadata = {
        "name": "clone", "seed": config.seed, "steps": epochs * int((~held).sum()), "data": episodes.about["data"],
        "cloned": {
            **config.model_dump(), "episodes": len(chosen), "of_episodes": len(episodes.returns), "held_out_error": error,
            "policies": episodes.about["policies"],
        },
    }  # fmt: skip
    return Policy(actor, interface, metadata)


def _held_out(orders: Any, random: np.random.Generator) -> Any:
    """(n,) whether each decision is held out: all decisions of an order, or none. orders: (n,) order of each decision."""
    numbers = np.unique(orders)
    if len(numbers) < 2:
        raise DatasetError(
            f"expected episodes of at least 2 orders, got {len(numbers)}; export more, or clone a larger share"
        )
    count = max(1, len(numbers) // HELD_OUT)
    return np.isin(orders, random.permutation(numbers)[:count])


def _error(actor: ActorCritic, observations: Tensor, wanted: Tensor) -> Tensor:
    outputs = actor.actor(observations)
    taken = actor.distribution.actions(actor.distribution.mode(outputs, actor.log_std))
    return (taken - wanted).square().mean()


def _fit(
    actor: ActorCritic, observations: Tensor, wanted: Tensor, held: Any, config: CloneConfig, random: np.random.Generator,
    report: Callable[[int, float], None],
) -> tuple[dict[str, Tensor], int, float]:  # fmt: skip
    """Returns the best weights, the number of epochs, and the held-out error of the best weights."""
    adam = Adam(actor.vector, actor.gradient, actor.group_sizes)
    taught, checked = np.flatnonzero(~held), torch.from_numpy(np.flatnonzero(held))
    best, best_error, since, epoch = actor.state_dict(), float("inf"), 0, 0
    while epoch < config.epochs and since < config.patience:
        for rows in np.array_split(random.permutation(taught), max(1, len(taught) // config.minibatch)):
            picked = torch.from_numpy(rows)
            _error(actor, observations[picked], wanted[picked]).backward()
            adam.step([config.learning_rate, 0.0])
        with torch.inference_mode():
            error = float(_error(actor, observations[checked], wanted[checked]))
        epoch, since = epoch + 1, since + 1
        if error < best_error:
            best = {name: tensor.clone() for name, tensor in actor.state_dict().items()}
            best_error, since = error, 0
        report(epoch, error)
    return best, epoch, best_error
