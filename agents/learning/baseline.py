"""What the rivals of PPO (OPD, HALOP-style, MacMic-style) share: whole windows side by side, the future of a window, rewards, files.

A rival works N parent orders of equally many decisions from beginning to end, without new episodes in between.
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
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.records import CHILD
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning import files
from serl.agents.learning.errors import DivergedError, LearningError
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

Floats = NDArray[np.float64]


class RivalConfig(BaseModel):
    """Settings that every rival has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(500_000, gt=0, description="environment steps in all")
    seed: int = Field(0, ge=0)
    threads: int = Field(1, gt=0, description="of PyTorch")


class Rival(Protocol):
    """A learner over one ExecutionVectorEnv."""

    steps: int
    """Environment steps so far, of all environments together."""

    def update(self) -> dict[str, Any]:
        """Works N orders and learns from them: statistics, `return` (mean PA in bps) and `episodes` among them. DivergedError."""

    def policy(self, facts: dict[str, Any]) -> RivalPolicy:
        """As of now."""


class RivalPolicy:
    """A learnt policy with the interface of `serl.agents.learning.policy.Policy`; no chance is in its actions."""

    kind: ClassVar[str]
    """Of its files."""

    def __init__(self, network: nn.Module, config: Any, interface: Interface, facts: dict[str, Any]) -> None:
        self.network, self.config, self.interface, self.facts = network, config, interface, facts
        self.name, self.modes = self.kind, (interface.actions,)

    @classmethod
    def of_file(cls, tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> Self:
        """From what `save` wrote."""
        raise AssertionError("each kind of policy reads its own files")

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See the Policy of execution; all orders begin together. LayoutMismatchError if the environment is of another layout."""
        self.interface.require(Interface.of(env))
        if np.all(env.accounts.parents["step"] == 0):
            self.clear(env.num_envs)
        return self.act(env, env.observe())

    def clear(self, count: int) -> None:
        """Forgets what was seen; `count` environments come next."""

    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """(N, k) actions in the environment's box."""
        raise AssertionError("each kind of policy acts in its own way")

    def save(self, path: Path) -> None:
        """Writes a file that holds all of it. PolicyFileError if that cannot be."""
        facts = {
            "settings": self.config.model_dump(mode="json"), "interface": dataclasses.asdict(self.interface),
            "versions": {name: version(name) for name in ("serl", "torch", "numpy")}, **self.facts,
        }  # fmt: skip
        files.write(path, self.kind, self.network.state_dict(), facts)


def require_mode(env: VectorEnv, mode: str, name: str) -> ExecutionVectorEnv:
    """The environment; ConfigError unless it is one of execution with that action mode and offsets in ticks."""
    if not isinstance(env, ExecutionVectorEnv):
        raise ConfigError(f"{name}: an execution environment is due, got {type(env).__name__}")
    if env.actions != mode:
        raise ConfigError(f"{name}: {mode!r} actions are due, got {env.actions!r}; set market.actions to {mode}")
    if mode != "market" and (env.offset_bps or env.offset_ticks % 1):
        raise ConfigError(
            f"{name}: offsets in whole ticks are due, got {env.offset_ticks} ticks and {env.offset_bps} bps; set market.offset_bps to 0"
        )
    return env


def window_steps(episodes: Rows) -> int:
    """Decisions of these parent orders; LearningError if they differ."""
    steps = np.unique(episodes["steps"])
    if len(steps) != 1:
        raise LearningError(f"parent orders of equally many decisions are due, got {steps.tolist()}")
    return int(steps[0])


@dataclasses.dataclass(frozen=True)
class Foresight:
    """What the market does in the windows of N parent orders if they are not there."""

    mids: Floats
    """(N, S + 1) ticks, at every decision and at the end; of an empty book the last one known."""
    vwaps: Floats
    """(N, S) ticks, of what is traded in each step; the mid before it where nothing is."""
    lots: Floats
    """(N, S) traded in each step."""

    def vwap(self) -> Floats:
        """(N,) of whole windows, ticks."""
        weights = self.lots + 1e-9
        result: Floats = (self.vwaps * weights).sum(1) / weights.sum(1)
        return result


def foresee(env: ExecutionVectorEnv, episodes: Rows) -> Foresight:
    """Runs the market of an environment through the windows of EPISODE rows (N,) without orders; reset the environment afterwards.

    This is what makes oracles possible in every market: bars, recorded books and replays are the same when they are run again,
    simulated ones as well, as the traders' seed is part of an episode. None of our impact is in it.
    """
    market, steps = env.market, window_steps(episodes)
    shape = (len(episodes), steps)
    middle, vwaps, lots = np.zeros((len(episodes), steps + 1)), np.zeros(shape), np.zeros(shape)
    market.reset(np.arange(market.count), episodes)
    middle[:, 0] = mids(market.frames)
    nothing = np.zeros(market.count, CHILD)
    for step in range(steps):
        market.step(nothing, episodes["start_ns"] + (step + 1) * episodes["interval_ns"])
        frames, now = market.frames, mids(market.frames)
        middle[:, step + 1] = np.where(np.isnan(now), middle[:, step], now)
        lots[:, step] = frames["traded_lots"]
        traded = frames["traded_lots"] > 0
        mean = frames["traded_notional"] / np.maximum(frames["traded_lots"], 1)
        vwaps[:, step] = np.where(traded, mean, middle[:, step])
    return Foresight(middle, vwaps, lots)


def gain_on_twap(sign: Any, qty: Any, fills: Rows, ahead_lots: Any, before: Any, after: Any) -> Floats:
    """(N,) bps of `qty` lots that a step gains on selling (buying) evenly at the mid.

    s [notional - lots m_t + (x - x_twap) (m_{t+1} - m_t)] / (m_t qty) with x - x_twap = `ahead_lots`, how much more than TWAP is left after
    the step. Over the steps this adds up to the gain on TWAP at mids (but for m_t in place of one mid below the line), and the
    move of what both still hold is not in it, which leaves much less noise than a price against the arrival.
    """
    gain = fills["notional"] - fills["lots"] * before + ahead_lots * (after - before)
    result: Floats = sign * gain / (before * np.maximum(qty, 1)) * 1e4
    return result


def require_finite(what: str, *values: Any) -> None:
    """DivergedError if one of them is not."""
    for one in values:
        if not np.isfinite(one).all():
            raise DivergedError(f"{what} is not finite; take smaller learning rates, or look at the market's prices")
