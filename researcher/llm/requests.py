"""Chat completion requests in the dialect of an endpoint."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from serl.exchange.errors import ConfigError
from serl.researcher.llm.settings import Dialect, Endpoint

Message = dict[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of an answer."""

    temperature: float
    top_p: float
    """1 samples the full distribution: the endpoint's default truncation is switched off."""
    seed: int
    max_tokens: int
    logprobs: bool


def grammar_of(schema: dict[str, Any]) -> str:
    """A JSON schema as a grammar of llguidance. It enforces the bounds of numbers and lengths, and the whitespace of json.dumps, without which small
    models fill pages with blanks."""
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return f"%llguidance {{}}\nstart: %json {json.dumps({**schema, 'x-guidance': layout})}"


def request_of(
    endpoint: Endpoint,
    messages: Sequence[Message],
    sampling: Sampling,
    schema: dict[str, Any] | None,
    grammar: str | None,
) -> dict[str, Any]:
    """The body of a chat completion request for one answer. ConfigError if the dialect does not support grammars."""
    drawn = {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": sampling.seed}
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [dict(message) for message in messages],
        endpoint.token_limit: sampling.max_tokens,
        **{name: value for name, value in drawn.items() if name not in endpoint.omit},
    }
    if sampling.logprobs:
        body["logprobs"] = True
    constraint = _constraint(endpoint.dialect, schema, grammar)
    sent = {name: value for name, value in constraint.items() if name not in endpoint.omit}
    return body | _full_distribution(endpoint.dialect, sampling.top_p) | sent


def _full_distribution(dialect: Dialect, top_p: float) -> dict[str, Any]:
    """Switch off llama.cpp's default truncation (top_k 40, min_p 0.05)."""
    return {"top_k": 0, "min_p": 0.0} if dialect in ("llama.cpp", "embedded") and top_p == 1.0 else {}


def _constraint(dialect: Dialect, schema: dict[str, Any] | None, grammar: str | None) -> dict[str, Any]:
    if schema is not None and grammar is not None:
        raise ConfigError("expected a schema or a grammar, got both")
    if schema is not None and dialect == "embedded":
        # with response_format the server strips code fences, so the tokens would not match the text
        return {"grammar": grammar_of(schema)}
    if schema is not None:
        named = {"name": "answer", "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if grammar is None:
        return {}
    if dialect == "openai":
        raise ConfigError("grammar: not supported by the dialect openai; use a schema instead")
    return {"structured_outputs": {"grammar": grammar}} if dialect == "vllm" else {"grammar": grammar}
