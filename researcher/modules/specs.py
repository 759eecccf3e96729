"""Specifications: modules as JSON made of choices, for language models too small to write code.

Every number is a choice from a list: grammars can enforce lists, but not bounds. `json_schema` constrains decoding.
"""

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.errors import SpecError

TERMS_MAX, LAYERS_MAX, GROUPS_MAX, CHANNELS_MAX = 4, 3, 6, 4


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Feature = Literal[
    "filled", "remaining", "unfilled", "behind", "participation", "gain_bps", "price_bps", "drift_bps", "vwap_bps", "spread_bps",
    "imbalance", "decision_gain_bps", "decision_price_bps", "decision_drift_bps", "move_bps",
]  # fmt: skip
Factor = Literal[
    "one", "filled", "remaining", "unfilled", "behind", "participation", "drift_bps", "vwap_bps", "spread_bps", "imbalance", "move_bps",
]  # fmt: skip
Percent = Literal[-500, -200, -100, -50, -20, -10, -5, -2, -1, 1, 2, 5, 10, 20, 50, 100, 200, 500]


class RewardTerm(_Spec):
    """weight_percent / 100 x shape(feature) x times, at every step or at the last."""

    feature: Feature
    shape: Literal["linear", "square", "absolute", "positive", "negative", "tanh"]
    times: Factor = "one"
    weight_percent: Percent
    when: Literal["every_step", "last_step"]


class RewardSpec(_Spec):
    """The advantage over even slices at the mid (or over the market's VWAP, or the shortfall, or nothing) and a few terms."""

    base: Literal["price_advantage", "shortfall", "none", "schedule"]
    terms: Annotated[list[RewardTerm], Field(min_length=1, max_length=TERMS_MAX)]


Width = Literal[16, 32, 64, 128]


class AgentSpec(_Spec):
    """Layers of the network."""

    trunk: Annotated[list[Width], Field(max_length=LAYERS_MAX, description="layers that policy and value share")]
    policy: Annotated[list[Width], Field(max_length=LAYERS_MAX)]
    value: Annotated[list[Width], Field(max_length=LAYERS_MAX)]
    activation: Literal["tanh", "relu", "silu", "gelu"]
    normalise: Literal["none", "layer"]
    residual: Literal["no", "yes"]


class ImagineSpec(_Spec):
    """Blocks of the past, drawn with replacement (Künsch 1989), and changed."""

    block_bars: Literal[1, 2, 5, 10, 20, 50]
    volatility_percent: Literal[50, 75, 100, 125, 150, 200]
    volume_percent: Literal[50, 75, 100, 125, 150, 200]
    drift_bps: Literal[-5, -2, -1, 0, 1, 2, 5]
    mirrored_percent: Literal[0, 25, 50]


class GroupSpec(_Spec):
    """Some traders of a kind."""

    trader: Literal[
        "value",
        "noise",
        "momentum",
        "imbalance",
        "informed",
        "participation_maker",
        "avellaneda_stoikov",
        "institutional",
    ]
    count: Literal[1, 2, 5, 10, 20, 50, 100]
    pace: Literal["slow", "normal", "fast"]


class ProfilesSpec(_Spec):
    """Who trades, beside the one zero-intelligence trader that keeps every market going."""

    groups: Annotated[list[GroupSpec], Field(min_length=1, max_length=GROUPS_MAX)]
    volatility_percent: Literal[50, 75, 100, 150, 200]


class Channel(_Spec):
    """gain x an observed number, squashed into [-1, 1]."""

    observation: Literal[
        "inventory", "behind_schedule", "time_left", "resting", "drift", "spread", "imbalance", "return_0", "signed_0"
    ]
    gain: Literal[-5, -2, -1, 1, 2, 5]
    squash: Literal["tanh", "sign", "clip"]


class CommunicateSpec(_Spec):
    """A number of the message a channel."""

    channels: Annotated[list[Channel], Field(min_length=1, max_length=CHANNELS_MAX)]


class PolicyTerm(_Spec):
    """weight_percent / 100 x shape(observed), in even slices or in offsets; what is signed like a price is positive in the order's favour."""

    output: Literal["take", "rest", "offset"]
    observed: Literal[
        "behind_schedule", "time_left", "resting", "ahead", "drift", "spread", "imbalance", "return_0", "return_1", "volume_0",
        "signed_0", "gap_0",
    ]  # fmt: skip
    shape: Literal["linear", "positive", "negative", "tanh", "square"]
    weight_percent: Percent


class PolicySpec(_Spec):
    """What crosses the book and what rests at each decision, in percent of an even slice; what is late by more than late_percent of the order
    crosses too, and in the last finish_percent of the window even slices cross."""

    take_percent: Literal[0, 10, 25, 50, 75, 100, 150]
    rest_percent: Literal[0, 50, 100, 200, 400, 800, 3000]
    offset_percent: Literal[-100, -50, -20, 0, 20, 50, 100]
    late_percent: Literal[0, 2, 5, 10, 20, 50, 100]
    finish_percent: Literal[0, 2, 5, 10, 20, 30, 50]
    terms: Annotated[list[PolicyTerm], Field(max_length=TERMS_MAX)]


class LearnerSpec(_Spec):
    """How the policy learns, by proximal policy optimisation. Rates are those of Adam; stop_percent of the steps are done."""

    actor_rate: Literal["3e-5", "1e-4", "3e-4", "1e-3"]
    critic_rate: Literal["1e-4", "3e-4", "1e-3", "3e-3"]
    rate_schedule: Literal["constant", "linear"]
    gamma: Literal["0.9", "0.97", "0.99", "1"]
    gae_lambda: Literal["0.5", "0.8", "0.9", "0.95", "1"]
    entropy: Literal["0", "0.0003", "0.001", "0.003", "0.01"]
    clip: Literal["0.1", "0.2", "0.3"]
    epochs: Literal[2, 5, 10, 20]
    rollout_steps: Literal[30, 60, 120]
    minibatch: Literal[240, 480, 960, 1920, 3840]
    reward_scale: Literal["0.05", "0.1", "0.2", "0.5", "1"]
    distribution: Literal["beta", "squashed", "gaussian"]
    stop_percent: Literal[10, 25, 50, 75, 100]


Choice = Literal["no", "yes"]


class InterfaceSpec(_Spec):
    """What the policy may do: take at once (market), rest (limit), both (hybrid), both in even slices (paced); a resting order lies up to
    offset_ticks + offset_bps from the touch. And what it observes: levels of the book, the flow and returns of past steps, its own queue."""

    actions: Literal["market", "limit", "hybrid", "paced"]
    offset_ticks: Literal[0, 1, 2, 5, 10, 20]
    offset_bps: Literal[0, 1, 2, 5, 10, 20]
    levels: Literal[1, 2, 3, 5, 10]
    book: Choice
    history_steps: Literal[0, 1, 2, 3, 5]
    flow: Choice
    queue: Choice


SPECS: dict[Kind, type[_Spec]] = {
    Kind.REWARD: RewardSpec,
    Kind.AGENT: AgentSpec,
    Kind.IMAGINE: ImagineSpec,
    Kind.PROFILES: ProfilesSpec,
    Kind.COMMUNICATE: CommunicateSpec,
    Kind.POLICY: PolicySpec,
    Kind.LEARNER: LearnerSpec,
    Kind.INTERFACE: InterfaceSpec,
}


@cache
def json_schema(kind: Kind) -> dict[str, Any]:
    """The JSON schema of a kind, for grammar-constrained decoding. Fields that older specifications lack are required of new ones."""
    schema = SPECS[kind].model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        part["required"] = list(part["properties"])
        for field in part["properties"].values():
            field.pop("default", None)
    return schema


def parse(kind: Kind, text: str) -> _Spec:
    """Parse a specification. SpecError lists up to five violations of the schema."""
    try:
        return SPECS[kind].model_validate_json(text)
    except ValidationError as error:
        violations = [
            f"{'.'.join(map(str, item['loc'])) or 'the text'}: {item['msg']}, got {str(item['input'])[:80]!r}"
            for item in error.errors()[:5]
        ]
        raise SpecError(f"the specification: {'; '.join(violations)}") from None
