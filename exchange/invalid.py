"""Describes invalid settings as `setting: expected X, got Y`, from pydantic's errors."""

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Annotated, Any, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

SHOWN_MAX = 200
"""Maximum number of characters shown of a value."""
COMPARISONS = ("greater", "less")


def text_like(pattern: str, expected: str) -> AfterValidator:
    """Validates that a text matches a pattern, which errors describe in words."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


ASSET_NAME = r"[A-Za-z0-9._-]{1,32}"
AssetName = Annotated[str, text_like(ASSET_NAME, "1 to 32 letters, digits, '.', '_' or '-'")]
"""A name of a symbol or of an asset."""
FileName = Annotated[
    str, text_like(r"(?!\.+$)[A-Za-z0-9._-]{1,64}", "1 to 64 letters, digits, '.', '_' or '-', not dots alone")
]
"""A name that is also part of the names of files."""


class StrictSettings(BaseModel):
    """Immutable settings. Rejects unknown names, and truth values in place of numbers: YAML reads `yes` and `on` as true, which pydantic takes for 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: Any, info: ValidationInfo) -> Any:
        if _has_truth_value(value):
            kinds = _types_in(cls.model_fields[str(info.field_name)].annotation)
            if bool not in kinds and kinds & {int, float, Decimal}:
                raise ValueError(f"expected a number, got {value!r:.{SHOWN_MAX}}")
        return value


def _has_truth_value(value: Any) -> bool:
    parts = list(value.values()) if isinstance(value, dict) else value
    return any(isinstance(part, bool) for part in (parts if isinstance(parts, (list, tuple)) else [parts]))


def _types_in(annotation: Any) -> set[Any]:
    """An annotation and the types of the values in it, as int and list[int] of `int | list[int]`."""
    parts = get_args(annotation)[1:] if get_origin(annotation) is dict else get_args(annotation)
    return {annotation}.union(*map(_types_in, parts))


def describe_invalid(
    error: ValidationError,
    model: type[BaseModel] | None = None,
    *,
    at: str = "",
    most: int = 5,
    secret: Collection[str] = (),
) -> str:
    """Describes up to `most` invalid settings in one line. model: the model that was validated, whose allowed names are suggested for an unknown one;
    at: its place in a file; secret: sections of the settings whose values are not shown."""
    return "; ".join(_describe(item, model, at, secret) for item in error.errors()[:most])


def _describe(item: Any, model: type[BaseModel] | None, at: str, secret: Collection[str]) -> str:
    place, kind = item["loc"], item["type"]
    got = f", got {item['input']!r:.{SHOWN_MAX}}" if place and place[0] not in secret else ""
    if kind == "value_error":  # raised by serl
        text = str(item["ctx"]["error"])
        text += "" if "got " in text else got
    elif kind == "missing":
        text = "expected a value, got none"
    elif kind == "extra_forbidden":
        names = ", ".join(allowed_names(model, place[:-1]))
        text = f"expected {f'one of {names}' if names else 'a name that exists'}, got an unknown name"
    else:
        text = _expected(item["msg"]) + got
    where = ".".join(map(str, (at, *place) if at else place))
    return f"{where}: {text}" if where else text


def _expected(message: str) -> str:
    """Rewrites a pydantic message as an expectation: "Input should be greater than 0" becomes "expected a number greater than 0"."""
    if counted := re.fullmatch(r"\w+ should have (.*? (?:item|character)s?)( after .*)?", message):
        return f"expected {counted[1]}"
    found = re.fullmatch(r"Input should be (.*?)(, unable to parse .*)?", message, re.DOTALL)
    if found is None:
        return message
    words = re.sub(r"(a valid dictionary) or instance of \w+", r"\1, like {name: value}", found[1])
    return f"expected {'a number ' if words.startswith(COMPARISONS) else ''}{words}"


def is_set(settings: Any, place: Sequence[str | int]) -> bool:
    """Whether nested settings include the one at a place, or what contains it as a whole."""
    for part in place:
        if not isinstance(settings, dict):
            return settings is not None
        settings = settings.get(part)
    return settings is not None


def allowed_names(model: type[BaseModel] | None, place: Sequence[str | int]) -> list[str]:
    """Names of the settings at a place in a model, through lists, maps and optional parts; [] if they depend on the value there."""
    for part in place:
        if model is None:
            return []
        if part in model.model_fields:
            models = _models_in(model.model_fields[str(part)].annotation)
            model = models[0] if len(models) == 1 else None
    return list(model.model_fields) if model is not None else []


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
