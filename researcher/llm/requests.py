"""Requests in the dialect of an endpoint."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from serl.exchange.errors import ConfigError
from serl.researcher.errors import require_researcher
from serl.researcher.llm.settings import Dialect, Endpoint

_SPACE = re.compile(r"^space ::= .*$", re.MULTILINE)

Message = dict[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn."""

    temperature: float
    top_p: float
    """1: from the whole distribution; endpoints that truncate by default are told not to."""
    seed: int
    max_tokens: int
    logprobs: bool


def grammar_of(schema: dict[str, Any]) -> str:
    """The GBNF grammar of a JSON schema, as llama.cpp derives it, but for blanks: at most one, because small models fill pages with them.

    It does not bound numbers: use enum or integers.
    """
    require_researcher("xllamacpp")
    from xllamacpp import json_schema_to_grammar

    return _SPACE.sub('space ::= " "?', str(json_schema_to_grammar(schema)))


def request_of(
    endpoint: Endpoint,
    messages: Sequence[Message],
    sampling: Sampling,
    schema: dict[str, Any] | None,
    grammar: str | None,
) -> dict[str, Any]:
    """The body of a chat completion with one answer. ConfigError if the endpoint's dialect has no grammars."""
    drawn = {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": sampling.seed}
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [dict(message) for message in messages],
        "max_tokens": sampling.max_tokens,
        **{name: value for name, value in drawn.items() if name not in endpoint.omit},
    }
    if sampling.logprobs:
        body["logprobs"] = True
    return body | _whole_distribution(endpoint.dialect, sampling.top_p) | _constraint(endpoint.dialect, schema, grammar)


def _whole_distribution(dialect: Dialect, top_p: float) -> dict[str, Any]:
    """llama.cpp keeps the 40 best tokens and those above a twentieth of the best unless told otherwise."""
    return {"top_k": 0, "min_p": 0.0} if dialect == "llama.cpp" and top_p == 1.0 else {}


def _constraint(dialect: Dialect, schema: dict[str, Any] | None, grammar: str | None) -> dict[str, Any]:
    if schema is not None and grammar is not None:
        raise ConfigError("schema and grammar: one of both is due, got both")
    if dialect == "llama.cpp" and (schema is not None or grammar is not None):
        # the grammar of the schema itself: with response_format the server strips code fences, and tokens miss the text
        return {"grammar": grammar if schema is None else grammar_of(schema)}
    if schema is not None:
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema, "strict": True},
            }
        }
    if grammar is None:
        return {}
    if dialect == "vllm":
        return {"structured_outputs": {"grammar": grammar}}
    raise ConfigError("grammar: an endpoint of dialect llama.cpp or vllm is due, got openai; give a schema instead")
