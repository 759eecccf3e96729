"""The interface of all execution policies, which map the state of an environment to the actions of its parent orders."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.exchange.errors import ConfigError

Floats = NDArray[np.float64]
SCHEDULE_MODES = ("market", "limit", "hybrid")
"""Action modes in which a schedule can send any quantity."""
NO_INTERFACE: Interface | None = None
"""The `interface` of a policy that works with any observations and actions."""


class Policy(Protocol):
    """Decides for N parent orders at once."""

    @property
    def name(self) -> str:
        """The name in tables and file names."""

    @property
    def modes(self) -> Sequence[str]:
        """The action modes of ExecutionVectorEnv that it supports, the default one first."""

    @property
    def interface(self) -> Interface | None:
        """The observations and actions that it needs; None if it works with any."""

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """(N, k) actions in the environment's mode. Raises ConfigError if the policy does not support the mode."""


def environment_settings(policy: Policy, mode: str) -> dict[str, Any]:
    """Settings of an ExecutionVectorEnv for a policy. Raises ConfigError if the policy does not support the action mode."""
    require_mode(policy, mode)
    return {"actions": mode} if policy.interface is None else policy.interface.settings()


def require_mode(policy: Policy, mode: str) -> None:
    """Raises ConfigError if a policy does not support an action mode."""
    if mode not in policy.modes:
        raise ConfigError(f"{policy.name}: expected action mode {' or '.join(policy.modes)}, got {mode!r}")


def lots_to_actions(env: ExecutionVectorEnv, take_lots: Any, rest_lots: Any) -> Floats:
    """(N, k) actions that take take_lots at once and rest rest_lots at the same-side touch. Mode `market` takes both, mode `limit` rests both."""
    remaining = np.maximum(env.accounts.parents["remaining_lots"], 1)
    take, rest = np.asarray(take_lots) / remaining, np.asarray(rest_lots) / remaining
    if env.actions == "market":
        return (take + rest)[:, None]
    at_touch = np.zeros_like(take)
    if env.actions == "limit":
        return np.stack((take + rest, at_touch), axis=1)
    return np.stack((take, rest, at_touch), axis=1)
