"""What all settings of learning have in common. PyTorch is not needed to read them."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

SAVED = {"saved": True}
"""Validation context of settings that serl wrote itself: those written under an old name are read under the new one."""


class LearningSettings(BaseModel):
    """Immutable settings without unknown names. A renamed setting raises an error that gives its new name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
