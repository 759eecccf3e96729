"""Answers of a language model, and how code or JSON is taken out of them."""

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
    """Natural logarithm of its probability under the model itself, without grammar or truncation."""
    id: int | None
    """In the model's vocabulary; only the embedded endpoint and llama.cpp say it."""


@dataclass(frozen=True)
class Answer:
    """One answer."""

    text: str
    finish: str
    """Why it ended, in the words of the endpoint: stop, length..."""
    tokens: tuple[Token, ...] = ()
    """Empty unless log-probabilities were asked for."""

    @property
    def logprob(self) -> float:
        """Sum of the tokens' log-probabilities; 0 where none were asked for."""
        return sum(token.logprob for token in self.tokens)


@dataclass(frozen=True)
class Answers:
    """The n answers to one request."""

    answers: tuple[Answer, ...]
    prompt_tokens: int
    """Of calls that were made; an answer from the record costs nothing."""
    completion_tokens: int
    cost_usd: float
    cached: int
    """How many of the answers came from the record."""

    @property
    def texts(self) -> list[str]:
        """The texts alone."""
        return [answer.text for answer in self.answers]


def extract_code(answer: Answer) -> str:
    """The Python code of an answer: its longest fenced block, or all of it if it parses. UnusableAnswerError says what was
    wrong: empty, truncated, prose, syntax."""
    code = max(
        (body for language, body in _fenced(answer) if language in ("", "python", "py", "python3")), key=len, default=""
    )
    fenced = bool(code.strip())
    code = code if fenced else answer.text
    if answer.finish == "length" and answer.text.rstrip().endswith(code.rstrip()):
        raise _unusable(answer, "truncated", "the code has no end")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if not fenced and not re.search(r"^\s*(def|class|import|from) ", code, re.MULTILINE):
            raise _unusable(
                answer, "prose", "Python code in one ```python block is due, the answer holds none"
            ) from None
        raise _unusable(answer, "syntax", f"the code does not parse: {type(error).__name__}: {error}") from None
    if not tree.body or all(isinstance(node, ast.Expr) for node in tree.body):
        raise _unusable(answer, "prose", "Python code with a definition is due, the answer only holds expressions")
    return code


def extract_json(answer: Answer) -> Any:
    """The JSON of an answer: a fenced block, or what lies between its first and last brace. UnusableAnswerError as above."""
    for language, body in _fenced(answer):
        if language in ("", "json"):
            return _parsed(answer, body)
    first, last = answer.text.find("{"), answer.text.rfind("}")
    if first < 0:
        raise _unusable(answer, "prose", "a JSON object is due, the answer holds none")
    return _parsed(answer, answer.text[first : last + 1] if last > first else answer.text[first:])


def _fenced(answer: Answer) -> list[tuple[str, str]]:
    if not answer.text.strip():
        raise _unusable(answer, "empty", "the answer has no text")
    return [(language.lower(), body) for language, body in _FENCE.findall(answer.text)]


def _parsed(answer: Answer, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        raise _unusable(answer, "syntax", f"the JSON does not parse: {error}") from None


def _not_json(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _unusable(answer: Answer, fault: Fault, text: str) -> UnusableAnswerError:
    """An answer that was cut off is told so, whatever else is wrong with it."""
    if answer.finish == "length":
        return UnusableAnswerError("truncated", f"it was cut off at the limit of tokens ({text}); answer shorter")
    return UnusableAnswerError(fault, text)
