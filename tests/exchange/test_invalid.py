"""Invalid settings are described in serl's words."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from serl.exchange.invalid import StrictSettings, describe_invalid, text_like


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


class Rates(StrictSettings):
    per_s: float = 1.0
    seeds: int | list[int] = 1
    ticks: dict[int, Annotated[int, Field(gt=0)]] = Field({})
    is_on: bool = False
    either: bool | int = False
    anything: Any = None


@pytest.mark.parametrize(("name", "value"), [("per_s", True), ("seeds", [2, False]), ("ticks", {1: True})])
def test_a_truth_value_is_no_number(name: str, value: Any) -> None:
    """YAML reads `messages_per_s_max: yes` as true, which was a limit of one message a second."""
    with pytest.raises(ValidationError) as caught:
        Rates.model_validate({name: value})
    assert describe_invalid(caught.value, Rates) == f"{name}: expected a number, got {value!r}"


def test_truth_values_remain_where_they_belong() -> None:
    found = Rates.model_validate({"is_on": True, "either": True, "anything": [True], "ticks": {1: 2}, "seeds": [1]})
    assert (found.is_on, found.either, found.anything) == (True, True, [True])


def test_all_settings_refuse_truth_values_as_numbers() -> None:
    from serl.agents.learning.ppo_config import PPOConfig
    from serl.agents.traders.kinds.noise import NoiseProfile
    from serl.agents.traders.population import GroupConfig
    from serl.exchange.config import LimitsConfig

    for model, values in (
        (LimitsConfig, {"messages_per_s_max": True}),
        (GroupConfig, {"trader": "noise", "count": True}),
        (NoiseProfile, {next(iter(NoiseProfile.model_fields)): True}),
        (PPOConfig, {next(iter(PPOConfig.model_fields)): True}),
    ):
        with pytest.raises(ValidationError, match="expected a number, got True"):
            model.model_validate(values)
