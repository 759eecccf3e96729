"""Settings of tuning."""

from typing import Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from serl.agents.learning.settings import SAVED
from serl.exchange.invalid import StrictSettings

_FORMER = ("baseline_decay",)
"""Settings that a saved run may hold and that have no effect now."""
LAYERS_BEFORE = None
"""`layers` of saved settings that lack it: those runs trained all layers."""

Method = Literal["policy_gradient", "preference", "supervised"]


class TuningConfig(StrictSettings):
    """LoRA, and how it learns from scores."""

    methods: tuple[Method, ...] = Field(
        ("policy_gradient",), min_length=1, description="what an update learns from; the losses of several are added"
    )
    rank: int = Field(16, gt=0)
    alpha: float = Field(32.0, gt=0)
    targets: tuple[str, ...] = Field(("q_proj", "v_proj"), min_length=1)
    layers: int | None = Field(10, gt=0, description="uppermost layers that are trained; null: all")
    norms: bool = Field(
        True, description="also train the scales of the norms; they are served in the base weights, not in the adapter"
    )
    estimator: Literal["reinforce", "straight_through"] = Field("reinforce", description="of the policy gradient")
    learning_rate: float = Field(1e-3, gt=0)
    gradient_norm_max: float = Field(1.0, gt=0)
    temperature: float = Field(1.0, gt=0, description="sampling temperature of the modules")
    weight_max: float = Field(2.0, gt=0, description="upper limit of importance weights")
    weight_min: float = Field(
        0.1, ge=0, description="lower limit of importance weights where the advantage is positive"
    )
    advantage_max: float = Field(3.0, gt=0, description="upper limit of |advantage|")
    kl_weight: float = Field(0.02, ge=0)
    entropy_weight: float = Field(0.0, ge=0)
    kl_max: float = Field(15.0, gt=0, description="nats per module; above, tuning stops")
    entropy_min: float = Field(0.05, ge=0, description="nats per module; below, tuning stops")
    replay_kept: int = Field(512, ge=0, description="earlier modules to learn from, the newest first")
    replay_share: float = Field(0.5, ge=0, le=1, description="share of earlier modules in an update")
    denoise: bool = Field(True, description="smooth scores over similar specifications before learning from them")
    winners: float = Field(0.25, gt=0, le=1, description="share of the best modules that supervised tuning imitates")
    preference_beta: float = Field(0.1, gt=0, description="temperature of the preference loss")
    pair_gap: float = Field(1.0, ge=0, description="smallest difference of a pair, in standard errors of a score")
    device: Literal["cpu", "cuda"] = Field("cpu", description="where PyTorch computes; cuda needs PyTorch's CUDA build")
    microbatch: int = Field(4, gt=0, description="modules per forward pass; a pair counts as two")
    seed: int = Field(0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _as_saved(cls, values: Any, info: ValidationInfo) -> Any:
        if info.context == SAVED and isinstance(values, dict):
            return {
                "layers": LAYERS_BEFORE,
                **{name: value for name, value in values.items() if name not in _FORMER},
            }
        return values
