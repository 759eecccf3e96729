"""Shared code of the baselines (OPD, HALOP-style, MacMic-style): settings, policies and their files, foresight for oracles, rewards.

A baseline works N parent orders with the same number of decisions from start to end; no environment starts a new episode before all have
finished.
"""

from __future__ import annotations

import dataclasses
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.records import CHILD
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning import files
from serl.agents.learning.checkpoint import Learner
from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.settings import LearningSettings
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.ranges import SEED_MAX

Floats = NDArray[np.float64]


class BaselineConfig(LearningSettings):
    """Common settings of all baselines."""

    steps: int = Field(500_000, gt=0, description="total environment steps")
    seed: int = Field(0, ge=0, le=SEED_MAX)
    threads: int = Field(1, gt=0, description="PyTorch threads")


class Baseline(Learner, Protocol):
    """A learner in one ExecutionVectorEnv. `steps` counts those of all environments."""

    def update(self) -> dict[str, Any]:
        """Works N orders and learns from them. Returns statistics with `return` (mean PA in bps) and `episodes`. Raises DivergedError for numbers
        that are not finite."""

    def policy(self, metadata: dict[str, Any]) -> BaselinePolicy:
        """The current policy."""


class BaselinePolicy:
    """A deterministic trained policy with the interface of `serl.agents.learning.policy.Policy`."""

    kind: ClassVar[str]
    """Kind of its policy files."""

    def __init__(self, network: nn.Module, config: Any, interface: Interface, metadata: dict[str, Any]) -> None:
        self.network, self.config, self.interface, self.metadata = network, config, interface, metadata
        self.name, self.modes = self.kind, (interface.actions,)

    @classmethod
    def from_file(cls, tensors: dict[str, torch.Tensor], metadata: dict[str, Any]) -> Self:
        """Builds the policy from the content of a file that `save` wrote."""
        raise AssertionError("subclasses read their own files")

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See execution's Policy. All orders must start together. Raises LayoutMismatchError if the environment has another layout."""
        self.interface.require(Interface.from_env(env))
        if np.all(env.accounts.parents["step"] == 0):
            self.reset(env.num_envs)
        return self.act(env, env.observe())

    def reset(self, count: int) -> None:
        """Clears the memory, for `count` environments."""

    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """(N, k) actions in the environment's box."""
        raise AssertionError("subclasses choose the actions")

    def save(self, path: Path) -> None:
        """Writes the whole policy to a file."""
        metadata = {
            "settings": self.config.model_dump(mode="json"), "interface": dataclasses.asdict(self.interface),
            "versions": {name: version(name) for name in ("serl", "torch", "numpy")}, **self.metadata,
        }  # fmt: skip
        files.write(path, self.kind, self.network.state_dict(), metadata)


def require_execution_env(env: VectorEnv, mode: str, name: str) -> ExecutionVectorEnv:
    """Returns the environment as an ExecutionVectorEnv. Raises ConfigError unless it is one with this action mode and offsets in whole ticks."""
    if not isinstance(env, ExecutionVectorEnv):
        raise ConfigError(f"{name}: expected an execution environment, got {type(env).__name__}")
    if env.actions != mode:
        raise ConfigError(f"{name}: expected {mode!r} actions, got {env.actions!r}; set market.actions to {mode}")
    if mode != "market" and (env.offset_bps or env.offset_ticks % 1):
        raise ConfigError(
            f"{name}: expected offsets in whole ticks, got {env.offset_ticks} ticks and {env.offset_bps} bps; set market.offset_bps to 0"
        )
    return env


def decisions_per_order(episodes: Rows) -> int:
    """The number of decisions of each parent order. Raises LearningError if it differs between orders."""
    steps = np.unique(episodes["steps"])
    if len(steps) != 1:
        raise LearningError(f"expected parent orders with the same number of decisions, got {steps.tolist()}")
    return int(steps[0])


@dataclasses.dataclass(frozen=True)
class Foresight:
    """The market in the windows of N parent orders if these are not traded."""

    mids: Floats
    """(N, S + 1) mids in ticks at every decision and at the end; the last known mid where the book is empty."""
    vwaps: Floats
    """(N, S) VWAPs in ticks of the trades in each step; the mid at its start where there are none."""
    lots: Floats
    """(N, S) lots traded in each step."""

    def vwap(self) -> Floats:
        """(N,) VWAP of the whole windows, ticks."""
        weights = self.lots + 1e-9
        result: Floats = (self.vwaps * weights).sum(1) / weights.sum(1)
        return result


def oracle_foresight(env: ExecutionVectorEnv, episodes: Rows) -> Foresight:
    """Runs the market of an environment through the windows of (N,) EPISODE rows without our orders. Reset the environment afterwards.

    This makes oracles possible in every market: bars, recorded books and replays repeat exactly, and so do simulated markets, because an episode
    contains the traders' seed. The foresight excludes our own market impact.
    """
    market, steps = env.market, decisions_per_order(episodes)
    shape = (len(episodes), steps)
    mid, vwaps, lots = np.zeros((len(episodes), steps + 1)), np.zeros(shape), np.zeros(shape)
    market.reset(np.arange(market.count), episodes)
    mid[:, 0] = mids(market.frames)
    no_children = np.zeros(market.count, CHILD)
    for step in range(steps):
        market.step(no_children, episodes["start_ns"] + (step + 1) * episodes["interval_ns"])
        frames, now = market.frames, mids(market.frames)
        mid[:, step + 1] = np.where(np.isnan(now), mid[:, step], now)
        lots[:, step] = frames["traded_lots"]
        traded = frames["traded_lots"] > 0
        mean = frames["traded_notional"] / np.maximum(frames["traded_lots"], 1)
        vwaps[:, step] = np.where(traded, mean, mid[:, step])
    return Foresight(mid, vwaps, lots)


def gain_on_twap(sign: Any, qty: Any, fills: Rows, excess_lots: Any, before: Any, after: Any) -> Floats:
    """(N,) gains of a step over selling (buying) evenly at the mid, in bps of `qty` lots.

    s [notional - lots m_t + (x - x_twap) (m_{t+1} - m_t)] / (m_t qty), where x - x_twap = `excess_lots` is how much more than with a TWAP is left
    after the step. Summed over the steps, this is the gain over a TWAP at the mids (except that the denominator has m_t instead of a fixed
    mid). The market move on what both still hold cancels, so the reward has much less noise than a price relative to the arrival mid.
    """
    gain = fills["notional"] - fills["lots"] * before + excess_lots * (after - before)
    result: Floats = sign * gain / (before * np.maximum(qty, 1)) * 1e4
    return result


def require_finite(what: str, *values: Any) -> None:
    """Raises DivergedError if any of the values is not finite."""
    for value in values:
        if not np.isfinite(value).all():
            raise DivergedError(f"{what} is not finite; use smaller learning rates, or check the market's prices")
