"""Compile a specification to the function of its contract. This code is trusted, so the functions need no sandbox."""

from collections.abc import Callable
from typing import Any

import numpy as np

from serl.agents.execution.environment.layout import HISTORY_FEATURES, HISTORY_STEPS, Layout
from serl.agents.learning.rule import Rule, Term, Terms, input_names
from serl.agents.learning.team import Channels
from serl.researcher.modules.contracts import (
    AgentModule,
    CommunicateModule,
    Floats,
    ImagineModule,
    InterfaceModule,
    LearnerModule,
    MarketStatistics,
    ProfilesModule,
    RewardInputs,
    RewardModule,
)  # fmt: skip
from serl.researcher.modules.errors import ModuleError
from serl.researcher.modules.specs import (
    AgentSpec,
    CommunicateSpec,
    GroupSpec,
    ImagineSpec,
    InterfaceSpec,
    LearnerSpec,
    PolicySpec,
    ProfilesSpec,
    RewardSpec,
)

SHAPES: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda values: values,
    "square": np.square,
    "absolute": np.abs,
    "positive": lambda values: np.maximum(values, 0.0),
    "negative": lambda values: np.minimum(values, 0.0),
    "tanh": np.tanh,
}
BASES: dict[str, Callable[[RewardInputs], Floats]] = {
    "price_advantage": lambda step: step.gain_bps - step.last * step.vwap_bps,
    "shortfall": lambda step: step.gain_bps,
    "schedule": lambda step: step.decision_gain_bps + step.behind * step.move_bps,
    "none": lambda step: np.zeros_like(step.gain_bps),
}
NAMES = Layout().names
RULE_NAMES = input_names(NAMES)
PACES = {"slow": 4.0, "normal": 1.0, "fast": 0.25}
"""Factors on the mean time between a trader's wake-ups."""


def reward(spec: RewardSpec) -> RewardModule:
    """The base plus the sum of the terms."""

    def module(step: RewardInputs) -> Floats:
        total = BASES[spec.base](step)
        for term in spec.terms:
            value = SHAPES[term.shape](getattr(step, term.feature)) * (term.weight_percent / 100)
            value = value if term.times == "one" else value * getattr(step, term.times)
            total = total + (value * step.last if term.when == "last_step" else value)
        return total

    return module


def agent(spec: AgentSpec) -> AgentModule:
    """A shared trunk with a policy head and a value head; see networks.py."""

    def module(observation_dim: int, action_dim: int) -> Any:
        from serl.researcher.modules.networks import SpecNetwork  # importing PyTorch takes seconds

        return SpecNetwork(spec, observation_dim, action_dim)

    return module


def imagine(spec: ImagineSpec) -> ImagineModule:
    """Block bootstrap of the history."""

    def module(history: Floats, rng: np.random.Generator, n: int, horizon: int) -> Floats:
        block = min(spec.block_bars, len(history))
        starts = rng.integers(0, len(history) - block + 1, (n, -(-horizon // block)))
        places = (starts[..., None] + np.arange(block)).reshape(n, -1)[:, :horizon]
        drawn: Floats = history[places]
        mirror = np.where(rng.random((n, 1)) < spec.mirrored_percent / 100, -1.0, 1.0)
        moves = drawn[..., 0] * mirror * (spec.volatility_percent / 100) + spec.drift_bps / horizon
        ranges = drawn[..., 1] * (spec.volatility_percent / 100)
        return np.stack([moves, ranges, drawn[..., 2] * (spec.volume_percent / 100)], axis=-1)

    return module


def _group(spec: GroupSpec, statistics: MarketStatistics) -> dict[str, Any]:
    """A group of traders, scaled to the market's prices, sizes and volatility."""
    slower, lots = PACES[spec.pace], max(1, round(statistics.trade_lots))
    mid, volatility = statistics.mid_ticks, statistics.volatility_ticks_per_root_s
    profiles: dict[str, dict[str, Any]] = {
        "value": {"interval_s": 30 * slower, "mean_ticks": mid, "noise_variance_ticks2": max(1.0, statistics.spread_ticks**2)},
        "noise": {"interval_s": 60 * slower, "orders": 1_000_000},
        "momentum": {"interval_s": 30 * slower, "position_lots_max": 20 * lots},
        "imbalance": {"interval_s": 2 * slower, "order_lots": lots, "position_lots_max": 3 * lots},
        "informed": {"interval_s": 5 * slower, "order_lots_max": 2 * lots},
        "participation_maker": {"interval_s": 10 * slower, "first_spread_ticks": max(1.0, statistics.spread_ticks), "order_lots_min": lots},
        "avellaneda_stoikov": {"interval_s": slower, "order_lots": lots, "volatility_ticks_per_root_s": max(0.01, volatility)},
        "institutional": {"parent_lots": 20.0 * lots, "interval_s": 10 * slower},
    }  # fmt: skip
    return {"trader": spec.trader, "count": spec.count, "start_spread_s": 30.0, "profile": profiles[spec.trader]}


def profiles(spec: ProfilesSpec) -> ProfilesModule:
    """A population of the groups and one zero-intelligence trader."""

    def module(statistics: MarketStatistics, rng: np.random.Generator) -> dict[str, Any]:
        lots = max(1.0, statistics.trade_lots)
        volatility = statistics.volatility_ticks_per_root_s * spec.volatility_percent / 100
        first = {
            "trader": "zero_intelligence",
            "start_spread_s": 0.001,
            "profile": {
                "limit_lots": lots,
                "market_lots": lots,
                "market_per_s": max(0.01, statistics.trades_per_s / 2),
            },
        }
        return {
            "name": "imagined",
            "value": {"mean_ticks": statistics.mid_ticks, "volatility_ticks_per_root_s": volatility},
            "groups": [first, *(_group(group, statistics) for group in spec.groups)],
        }

    return module


def communicate(spec: CommunicateSpec, names: tuple[str, ...] = NAMES) -> CommunicateModule:
    """Message channels over observations named `names`. Received messages, which follow the observations, are ignored. ModuleError for a channel
    whose observation an interface leaves out."""
    channels = spec.channels
    if absent := [channel.observation for channel in channels if channel.observation not in names]:
        raise ModuleError(
            f"communicate: expected channels of what is observed, got {', '.join(absent)}; observe it, or leave the channel out"
        )
    return Channels(
        tuple(names.index(channel.observation) for channel in channels),
        tuple(float(channel.gain) for channel in channels), tuple(channel.squash for channel in channels),
    )  # fmt: skip


def policy(spec: PolicySpec, names: tuple[str, ...] = RULE_NAMES) -> Rule:
    """A rule over inputs named `names`."""
    terms = tuple(
        Term(term.output, names.index(term.observed), term.shape, term.weight_percent / 100) for term in spec.terms
    )
    return Terms(
        names, take=spec.take_percent / 100, rest=spec.rest_percent / 100, offset=spec.offset_percent / 100,
        late_share=spec.late_percent / 100, finish_share=spec.finish_percent / 100, terms=terms,
    )  # fmt: skip


def learner(spec: LearnerSpec) -> LearnerModule:
    """Settings of PPO and of the action distribution."""
    ppo = {
        "actor_learning_rate": float(spec.actor_rate), "critic_learning_rate": float(spec.critic_rate), "schedule": spec.rate_schedule,
        "gamma": float(spec.gamma), "gae_lambda": float(spec.gae_lambda), "entropy": float(spec.entropy), "clip": float(spec.clip),
        "epochs": spec.epochs, "rollout_steps": spec.rollout_steps, "minibatch": spec.minibatch, "reward_scale": float(spec.reward_scale),
    }  # fmt: skip
    return lambda: {"ppo": ppo, "network": {"actions": spec.distribution}, "steps_share": spec.stop_percent / 100}


def interface(spec: InterfaceSpec) -> InterfaceModule:
    """Settings of the market's actions and observations."""
    left_out = [f"{name}_{lag}" for name in HISTORY_FEATURES for lag in range(spec.history_steps, HISTORY_STEPS)]
    if spec.book == "no":
        left_out += ["bid_distance", "bid_lots", "ask_distance", "ask_lots"]
    if spec.flow == "no":
        left_out += ["volume", "signed", "gap"]
    if spec.queue == "no":
        left_out += ["resting", "ahead"]
    offsets = {"offset_ticks": float(spec.offset_ticks), "offset_bps": float(spec.offset_bps)}
    return lambda: {"actions": spec.actions, **offsets, "levels": spec.levels, "left_out": tuple(left_out)}


BUILDERS: dict[type[Any], Callable[[Any], Any]] = {
    RewardSpec: reward,
    AgentSpec: agent,
    ImagineSpec: imagine,
    ProfilesSpec: profiles,
    CommunicateSpec: communicate,
    PolicySpec: policy,
    LearnerSpec: learner,
    InterfaceSpec: interface,
}


def build(spec: Any) -> Any:
    """The function of a specification of any kind; ModuleError for anything else."""
    if type(spec) not in BUILDERS:
        raise ModuleError(f"expected a specification, got {type(spec).__name__}")
    return BUILDERS[type(spec)](spec)
