"""The base class of all learning settings. Reading settings does not need PyTorch."""

from typing import Any, ClassVar

from pydantic import ConfigDict, ValidationInfo, model_validator

from serl.exchange.invalid import StrictSettings

SAVED = {"saved": True}
"""Validation context for settings that serl wrote itself: old names are read as the new ones."""


def check_latency(latency_us: float, interval_s: float) -> None:
    """Raises ValueError for a latency above the interval between two decisions, because a market that steps by decisions would silently cut it."""
    if round(latency_us * 1e3) > round(interval_s * 1e9):
        raise ValueError(
            f"expected latency_us of at most the {interval_s:g} s between two decisions, because commands arrive before the next one, got {latency_us:g}; "
            "set a longer interval or a shorter latency"
        )


class LearningSettings(StrictSettings):
    """Immutable settings that reject unknown names. A renamed setting raises an error that gives its new name."""

    model_config = ConfigDict(allow_inf_nan=False)

    renamed: ClassVar[dict[str, str]] = {}
    """Old name to new name."""

    @model_validator(mode="before")
    @classmethod
    def _replace_old_names(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, dict):
            return values
        old = [name for name in values if name in cls.renamed]
        if old and info.context != SAVED:
            raise ValueError(f"expected {cls.renamed[old[0]]}, got {old[0]}; use the new name")
        return {cls.renamed.get(name, name): value for name, value in values.items()}
