"""A symbol of a population: its name and what distinguishes it from the others."""

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from serl.exchange.invalid import StrictSettings


def _positive(text: str) -> str:
    if not re.fullmatch(r"\d*\.?\d+", text) or not text.strip("0."):
        raise ValueError(f"expected a positive decimal number like '0.01', got {text!r}")
    return text


TickSize = Annotated[str, AfterValidator(_positive)]
"""A tick size in money, as text."""


class SymbolConfig(StrictSettings):
    """A symbol; in YAML its name, or a mapping if it has its own settings."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: str
    tick_size: TickSize | None = Field(None, description="by default the population's")
    value: dict[str, Any] = Field({}, description="settings that differ from the population's value")
    loading: float = Field(0.0, ge=-1, le=1, description="loading of its value on the factor that all symbols share")
    follows: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(
        {},
        description="ticks that its value moves for a tick of other values; its own path is the distance between them",
    )
    basket: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="lots of other symbols in a lot of this one; its value is the sum of theirs"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @model_serializer(mode="wrap")
    def _as_written(self, dump: SerializerFunctionWrapHandler) -> Any:
        settings = {key: value for key, value in dump(self).items() if value != type(self).model_fields[key].default}
        return self.name if settings.keys() == {"name"} else settings
