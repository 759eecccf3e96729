"""Invalid settings are described in serl's words."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from serl.exchange.invalid import describe_invalid, text_like


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lots: int = Field(1, gt=0)
    name: str = "a"

    @field_validator("name")
    @classmethod
    def _check(cls, name: str) -> str:
        if name == "b":
            raise ValueError("expected another name")
        return name


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    parts: list[Part] = []
    named: dict[str, Part] | None = None
    login: Part = Part()
    ratio: float = Field(0.5, le=1)
    word: Annotated[str, text_like("[a-z]+", "lower-case letters")] = "a"
    pair: tuple[int, ...] = Field((1, 2), min_length=2)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"parts": [{"lots": 0}]}, "parts.0.lots: expected a number greater than 0, got 0"),
        ({"parts": [{"lots": "x"}]}, "parts.0.lots: expected a valid integer, got 'x'"),
        ({"parts": [{"name": "b"}]}, "parts.0.name: expected another name, got 'b'"),
        ({"parts": [{"lot": 1}]}, "parts.0.lot: expected one of lots, name, got an unknown name"),
        ({"parts": ["a"]}, "parts.0: expected a valid dictionary, like {name: value}, got 'a'"),
        ({"named": {"x": {"lot": 1}}}, "named.x.lot: expected one of lots, name, got an unknown name"),
        ({"rate": 1}, "rate: expected one of parts, named, login, ratio, word, pair, got an unknown name"),
        ({"login": {"lots": 0}}, "login.lots: expected a number greater than 0"),
        ({"word": "A b"}, "word: expected lower-case letters, got 'A b'"),
        ({"word": "a\n"}, r"word: expected lower-case letters, got 'a\n'"),
        ({"pair": [1]}, "pair: expected at least 2 items, got [1]"),
        ({"ratio": 2, "parts": 3}, "parts: expected a valid list, got 3; ratio: expected a number less than or equal to 1, got 2"),
    ],
)  # fmt: skip
def test_descriptions(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(values)
    assert describe_invalid(caught.value, Whole, secret={"login"}) == text
