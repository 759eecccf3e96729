"""What a mind may answer: one decision as JSON. The schema constrains models that support schemas; every answer is validated regardless."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serl.exchange.invalid import describe_invalid
from serl.minds.config import MONEY_MAX, NO_MONEY, TEXT_LENGTH_MAX
from serl.minds.errors import DecisionRefused
from serl.researcher.llm.answers import Answer, extract_json
from serl.researcher.llm.errors import UnusableAnswerError

INSIGHT_LENGTH_MAX = 300
SYMBOL_LENGTH_MAX = 80
"""Maximum length of a symbol's name. With a maximum, pydantic also checks that a text is valid Unicode."""
QUANTITY_MAX = 10**12
DIGITS_MAX = 40
Parsed = TypeVar("Parsed", bound=BaseModel)


class Decision(BaseModel):
    """An answer. Fields that an action does not need are ignored."""

    model_config = ConfigDict(frozen=True)

    reason: str = Field("", max_length=TEXT_LENGTH_MAX)
    action: Literal["buy", "sell", "cancel", "nothing", "borrow", "repay"]
    symbol: str = Field("", max_length=SYMBOL_LENGTH_MAX)
    order_type: Literal["limit", "market"] = "limit"
    price: Decimal = Field(NO_MONEY, ge=NO_MONEY, le=MONEY_MAX, max_digits=DIGITS_MAX, allow_inf_nan=False)
    quantity: int = Field(0, ge=0, le=QUANTITY_MAX)
    order_id: int = Field(0, ge=0, lt=1 << 63)
    amount: Decimal = Field(NO_MONEY, ge=NO_MONEY, le=MONEY_MAX, max_digits=DIGITS_MAX, allow_inf_nan=False)
    post: str = Field("", max_length=TEXT_LENGTH_MAX)


class Reflection(BaseModel):
    """An answer to a request to reflect."""

    model_config = ConfigDict(frozen=True)

    insight: str = Field(min_length=1, max_length=INSIGHT_LENGTH_MAX)
    importance: int = Field(60, ge=0, le=100)


def decision_schema(
    symbols: Sequence[str], quantity_max: int, *, forum: bool, loans: bool, text_length_max: int = TEXT_LENGTH_MAX
) -> dict[str, Any]:
    """The JSON schema of a decision. All fields are required, as OpenAI's strict mode demands.

    symbols: as the prompt shows them. text_length_max: of the reason and of the post.
    """
    actions = ["buy", "sell", "cancel", "nothing", *(["borrow", "repay"] if loans else [])]
    properties: dict[str, Any] = {
        "reason": {"type": "string", "maxLength": text_length_max},
        "action": {"enum": actions},
        "symbol": {"enum": list(symbols)},
        "order_type": {"enum": ["limit", "market"]},
        "price": {"type": "number", "minimum": 0, "maximum": 1_000_000},
        "quantity": {"type": "integer", "minimum": 0, "maximum": quantity_max},
        "order_id": {"type": "integer", "minimum": 0},
    }
    if loans:
        properties["amount"] = {"type": "number", "minimum": 0, "maximum": 1_000_000_000}
    if forum:
        properties["post"] = {"type": "string", "maxLength": text_length_max}
    return strict_object(properties)


def reflection_schema() -> dict[str, Any]:
    """The JSON schema of a reflection."""
    return strict_object(
        {
            "insight": {"type": "string", "minLength": 1, "maxLength": INSIGHT_LENGTH_MAX},
            "importance": {"type": "integer", "minimum": 0, "maximum": 100},
        }
    )


def strict_object(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def parse_decision(answer: Answer) -> Decision:
    """The decision of an answer. Raises DecisionRefused: empty, truncated, prose, syntax or schema."""
    return _parse(answer, Decision)


def parse_reflection(answer: Answer) -> Reflection:
    """The reflection of an answer; see `parse_decision`."""
    return _parse(answer, Reflection)


def _parse(answer: Answer, model: type[Parsed]) -> Parsed:
    try:
        return model.model_validate(extract_json(answer))
    except UnusableAnswerError as error:
        raise DecisionRefused(error.fault, f"{error}; answer with one JSON object") from None
    except ValidationError as error:
        raise DecisionRefused(
            "schema", f"your JSON is not a valid answer ({describe_invalid(error, model, most=1)})"[:400]
        ) from None
