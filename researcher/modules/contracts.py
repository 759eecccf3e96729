"""The contracts: inputs and outputs of each kind of module. Generated code may import this file, and nothing else of serl.

All inputs and outputs are batches, for speed. `VERSION` increases with every change; modules of earlier versions still fit and mean the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

VERSION = 3
Floats = NDArray[np.float64]

Form = Literal["code", "spec"]
"""How a module is written: as Python, or as a JSON specification."""


class Kind(StrEnum):
    """The kind of a module."""

    REWARD = "reward"
    AGENT = "agent"
    IMAGINE = "imagine"
    PROFILES = "profiles"
    COMMUNICATE = "communicate"
    POLICY = "policy"
    LEARNER = "learner"
    INTERFACE = "interface"


SPEC_ONLY = (Kind.LEARNER, Kind.INTERFACE)
"""Kinds that are settings, so they cannot be code."""


def form_of(kind: Kind, form: Form) -> Form:
    """The form of a kind where modules are written in `form`; kinds that are settings are always specifications."""
    return "spec" if kind in SPEC_ONLY else form


MEMORY_SIZE = 4
"""Numbers that a reward module may carry from step to step of an order."""


@dataclass(frozen=True)
class RewardInputs:
    """One step of N parent orders; each field but `memory` is (n_envs,) float64, all are finite. bps are of the arrival mid, positive is good.

    The default reward is decision_gain_bps + behind * move_bps - c behind**2 - u unfilled: the cost of trading, and the market's moves on
    the quantity held above an even schedule."""

    sign: Floats
    """+1 sell, -1 buy."""
    step: Floats
    """Decisions made, this one included: 1 .. steps."""
    steps: Floats
    """Decisions in the window."""
    last: Floats
    """1 at the last step of an episode, else 0; what was left is then filled by force."""
    filled: Floats
    """Filled in this step, as a share of the parent order, 0 .. 1."""
    remaining: Floats
    """Not filled after this step, as a share of the parent order, 0 .. 1."""
    unfilled: Floats
    """What forced completion filled, as a share of the parent order; 0 before the last step."""
    behind: Floats
    """remaining - (1 - step / steps): above 0 when behind an even schedule."""
    participation: Floats
    """Lots filled in this step / (lots filled + lots traded by others), 0 .. 1."""
    gain_bps: Floats
    """Shortfall gained by this step's fills against the arrival mid, of the whole order; sums to the implementation shortfall."""
    price_bps: Floats
    """The mean price of this step's fills against the mid now, signed like a gain; 0 without fills."""
    drift_bps: Floats
    """The mid now against the arrival mid, signed like a gain."""
    vwap_bps: Floats
    """The market's VWAP since the start against the arrival mid, signed like a gain."""
    spread_bps: Floats
    """Ask - bid now; 0 of a one-sided book."""
    imbalance: Floats
    """(bid - ask lots) / (bid + ask lots) at the touch, -1 .. 1."""
    decision_gain_bps: Floats
    """Gained by this step's fills against the mid at the decision, after fees, of the whole order."""
    decision_price_bps: Floats
    """The mean price of this step's fills against the mid at the decision, signed like a gain; 0 without fills."""
    decision_drift_bps: Floats
    """The mid at the decision against the arrival mid, signed like a gain."""
    move_bps: Floats
    """The mid now against the mid at the decision, signed like a gain."""
    memory: Floats
    """(n_envs, 4): what the module returned, as the second of a pair, at the order's last step; 0 at an order's first step."""


RewardModule = Callable[[RewardInputs], Floats | tuple[Floats, Floats]]
"""reward(step) -> (n_envs,) finite rewards of the step, or a pair: the rewards, and the (n_envs, 4) memory for the order's next step."""

AgentModule = Callable[[int, int], Any]
"""build(observation_dim, action_dim) -> torch.nn.Module whose forward maps (batch, observation_dim) float32 to a pair:
(batch, action_dim) parameters of the action's distribution, and (batch,) values. Sequences come as larger batches."""

HISTORY_COLUMNS = ("return_bps", "range_bps", "volume_lots")
"""Columns of a bar: close to close, (high - low) / close, and the volume traded."""


ImagineModule = Callable[[Floats, np.random.Generator, int, int], Floats]
"""imagine(history (t, 3), rng, n, horizon) -> (n, horizon, 3) scenarios of what may come next, in HISTORY_COLUMNS; ranges and volumes are at
least 0."""


@dataclass(frozen=True)
class MarketStatistics:
    """Of the training days."""

    mid_ticks: float
    spread_ticks: float
    touch_lots: float
    """Mean lots of the best level of a side."""
    volume_lots_per_s: float
    trades_per_s: float
    trade_lots: float
    """Mean size."""
    volatility_ticks_per_root_s: float
    """Standard deviation of the mid's move in a second."""


ProfilesModule = Callable[[MarketStatistics, np.random.Generator], Mapping[str, Any]]
"""profiles(statistics, rng) -> a population: {"name": .., "groups": [{"trader": .., "count": .., "profile": {..}}]}."""

MESSAGE_MAX = 8
"""Most numbers in a message."""

CommunicateModule = Callable[[Floats], Floats]
"""communicate(observations (n_agents, d)) -> (n_agents, m) messages in [-1, 1], m from 1 to MESSAGE_MAX; the policies of the other agents see
them at their next decision. In code both are float32 torch tensors, and everything is done by operations on them, without conditions or loops over
numbers: messages are part of a policy, which is data, so the operations are traced."""

PolicyModule = Callable[[Any], Any]
"""decide(now) -> (n_envs, 3): the quantity to cross now and the quantity to rest, both in even slices (remaining quantity over remaining
decisions), and the offset of the resting order, -1 (towards the market) to 1 (away). `now` has a field for each observation and `steps_left`, each
(n_envs,). In code all are float32 torch tensors and everything is done by operations on them, as for messages."""

LearnerModule = Callable[[], Mapping[str, Any]]
"""Settings of training: the mappings `ppo` and `network`, and `steps_share`, the share of the steps after which training stops."""

InterfaceModule = Callable[[], Mapping[str, Any]]
"""Settings of the market: `actions` (mode), `offset_ticks` and `offset_bps` (range of the limit price), `levels`, `left_out` (observations)."""

SIGNATURES = {
    Kind.REWARD: ("reward", ("step",)),
    Kind.AGENT: ("build", ("observation_dim", "action_dim")),
    Kind.IMAGINE: ("imagine", ("history", "rng", "n", "horizon")),
    Kind.PROFILES: ("profiles", ("statistics", "rng")),
    Kind.COMMUNICATE: ("communicate", ("observations",)),
    Kind.POLICY: ("decide", ("now",)),
}
"""The function that each module in code defines, and its parameters."""
