"""What a policy is: from what an execution environment shows to the actions of its parent orders."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.exchange.errors import ConfigError

Floats = NDArray[np.float64]
SCHEDULE_MODES = ("market", "limit", "hybrid")
"""Action modes in which any number of lots can be sent."""


class Policy(Protocol):
    """Decides for N parent orders at once."""

    @property
    def name(self) -> str:
        """For people and file names."""

    @property
    def modes(self) -> Sequence[str]:
        """The action modes of ExecutionVectorEnv that it can work in, the usual one first."""

    @property
    def interface(self) -> Interface | None:
        """What it must be shown; None if it can do with anything."""

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """(N, k) actions of the environment's mode; ConfigError if the policy cannot work in it."""


def environment_of(policy: Policy, mode: str) -> dict[str, Any]:
    """Settings of the ExecutionVectorEnv that a policy works in; ConfigError if it cannot work in an action mode."""
    check_mode(policy, mode)
    return {"actions": mode} if policy.interface is None else policy.interface.settings()


def check_mode(policy: Policy, mode: str) -> None:
    """ConfigError if a policy cannot work in an action mode."""
    if mode not in policy.modes:
        raise ConfigError(f"{policy.name}: works with {' or '.join(policy.modes)} actions, not with {mode!r}")


def lots_as_actions(env: ExecutionVectorEnv, take_lots: Any, rest_lots: Any) -> Floats:
    """(N, k) actions that trade take_lots at once and rest rest_lots at the own touch; in mode `market` all is taken, in `limit` all rests."""
    remaining = np.maximum(env.accounts.parents["remaining_lots"], 1)
    take, rest = np.asarray(take_lots) / remaining, np.asarray(rest_lots) / remaining
    if env.actions == "market":
        return (take + rest)[:, None]
    at_touch = np.zeros_like(take)
    if env.actions == "limit":
        return np.stack((take + rest, at_touch), axis=1)
    return np.stack((take, rest, at_touch), axis=1)
