"""Answers of a language model, and extraction of code or JSON from them."""

import ast
import json
import re
from dataclasses import dataclass
from typing import Any

from serl.researcher.llm.errors import Fault, UnusableAnswerError

_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[ \t]*\r?\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Token:
    """A token of an answer."""

    text: str
    logprob: float
    """Natural logarithm of its probability under the model, before any grammar or truncation."""
    id: int | None
    """Token id; only the embedded endpoint and llama.cpp report it."""


@dataclass(frozen=True)
class Answer:
    """One answer."""

    text: str
    finish: str
    """Finish reason of the endpoint: stop, length, ..."""
    tokens: tuple[Token, ...] = ()
    """Empty unless log-probabilities were requested."""

    @property
    def logprob(self) -> float:
        """Sum of the tokens' log-probabilities; 0 if none were requested."""
        return sum(token.logprob for token in self.tokens)


@dataclass(frozen=True)
class Answers:
    """The n answers to one request."""

    answers: tuple[Answer, ...]
    prompt_tokens: int
    """Prompt tokens of the calls that were made; an answer from the record costs nothing."""
    completion_tokens: int
    cost_usd: float
    cached: int
    """How many of the answers came from the record."""

    @property
    def texts(self) -> list[str]:
        """The texts alone."""
        return [answer.text for answer in self.answers]


def extract_code(answer: Answer) -> str:
    """The Python code of an answer: its longest fenced block, or all of it if it parses. UnusableAnswerError has the
    fault: empty, truncated, prose or syntax."""
    code = max(
        (body for language, body in _fenced_blocks(answer) if language in ("", "python", "py", "python3")),
        key=len,
        default="",
    )
    fenced = bool(code.strip())
    code = code if fenced else answer.text
    if answer.finish == "length" and answer.text.rstrip().endswith(code.rstrip()):
        raise _unusable(answer, "truncated", "the code is incomplete")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if not fenced and not re.search(r"^\s*(def|class|import|from) ", code, re.MULTILINE):
            raise _unusable(answer, "prose", "expected Python code in one ```python block, got none") from None
        raise _unusable(answer, "syntax", f"the code does not parse: {type(error).__name__}: {error}") from None
    if not tree.body or all(isinstance(node, ast.Expr) for node in tree.body):
        raise _unusable(answer, "prose", "expected Python code with a definition, got only expressions")
    return code


def extract_json(answer: Answer) -> Any:
    """The JSON of an answer: its fenced block, or the first object in its text. UnusableAnswerError as for code."""
    for language, body in _fenced_blocks(answer):
        if language in ("", "json"):
            return _parse_json(answer, body, whole=True)
    first = _OBJECT.search(answer.text) or re.search("{", answer.text)
    if not first:
        raise _unusable(answer, "prose", "expected a JSON object, got none")
    return _parse_json(answer, answer.text[first.start() :], whole=False)


def _fenced_blocks(answer: Answer) -> list[tuple[str, str]]:
    if not answer.text.strip():
        why = "" if answer.finish == "stop" else f" (finish reason {answer.finish})"
        raise _unusable(answer, "empty", f"the answer has no text{why}")
    return [(language.lower(), body) for language, body in _FENCE.findall(answer.text)]


def _parse_json(answer: Answer, text: str, whole: bool) -> Any:
    """The value of a text, after which there may be more unless it is the whole text."""
    try:
        return _JSON.decode(text) if whole else _JSON.raw_decode(text)[0]
    except (ValueError, RecursionError) as error:
        raise _unusable(answer, "syntax", f"the JSON does not parse: {error}") from None


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


_JSON = json.JSONDecoder(parse_constant=_reject_constant)
_OBJECT = re.compile(r'\{\s*"')
"""The start of an object with a name in it; prose may have other braces before."""


def _unusable(answer: Answer, fault: Fault, text: str) -> UnusableAnswerError:
    """The error for an answer. Truncation takes precedence over any other fault."""
    if answer.finish == "length":
        return UnusableAnswerError(
            "truncated", f"the answer was cut off at the token limit ({text}); answer more briefly"
        )
    return UnusableAnswerError(fault, text)
