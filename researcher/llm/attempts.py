"""One call, asked again where that helps: rate limits, errors of the server, lost connections, answers that are none."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import openai

from serl.researcher.llm.answers import Answer, Token
from serl.researcher.llm.errors import EndpointAwayError, EndpointRefusedError
from serl.researcher.llm.settings import Endpoint
from serl.researcher.llm.usage import estimated_answer_tokens, estimated_prompt_tokens

_OWN = ("top_k", "min_p", "grammar", "structured_outputs")
_STATUS_PASSING = (408, 409, 425)


class Malformed(Exception):
    """A reply that is no chat completion."""


@dataclass(frozen=True)
class Reply:
    """An answer and what it took."""

    answer: Answer
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    """Whether the endpoint left out the counts, which are by length of text then."""


def connect(endpoint: Endpoint) -> openai.OpenAI:
    """A client that does not retry by itself."""
    return openai.OpenAI(base_url=endpoint.base_url, api_key=endpoint.key(), timeout=endpoint.timeout_s, max_retries=0)


def ask(
    connection: openai.OpenAI,
    endpoint: Endpoint,
    request: dict[str, Any],
    attempts: list[dict[str, Any]],
    sleep: Callable[[float], None] = time.sleep,
) -> Reply:
    """The reply to a request. `attempts` gets a row for each failure: its name, its text, the wait after it.

    Waits double from `backoff_s` on; a Retry-After of the endpoint counts, up to `backoff_s_max`. EndpointAwayError after `attempts_max`,
    EndpointRefusedError at once where asking again would not help.
    """
    for attempt in range(endpoint.attempts_max):
        try:
            return _reply(connection, request)
        except Exception as error:
            failure = _name(error)
            if failure is None:
                raise EndpointRefusedError(f"{endpoint.base_url} refuses {endpoint.model}: {_text(error)}") from None
            wait_s = min(_retry_after_s(error) or endpoint.backoff_s * 2.0**attempt, endpoint.backoff_s_max)
            last = attempt + 1 == endpoint.attempts_max
            attempts.append({"failure": failure, "text": _text(error), "wait_s": 0.0 if last else wait_s})
            if not last:
                sleep(wait_s)
    names = ", ".join(row["failure"] for row in attempts)
    raise EndpointAwayError(
        f"{endpoint.base_url} gave no answer in {len(attempts)} attempts ({names}; last: {attempts[-1]['text']}); "
        "is it running? raise attempts_max or backoff_s if it is only busy"
    )


def _name(error: Exception) -> str | None:
    """What a failure that may pass is called; None for one that will not. Errors that are not the endpoint's go on."""
    match error:
        case openai.RateLimitError():
            return None if error.code == "insufficient_quota" else "rate_limited"
        case openai.APIStatusError():
            if error.status_code < 400:
                return "malformed"
            return "server_error" if error.status_code >= 500 or error.status_code in _STATUS_PASSING else None
        case openai.APITimeoutError():
            return "timeout"
        case openai.APIConnectionError():
            return "connection"
        case Malformed() | openai.APIResponseValidationError():
            return "malformed"
    raise error


def _retry_after_s(error: Exception) -> float | None:
    if not isinstance(error, openai.APIStatusError):
        return None
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "")))
    except ValueError:
        return None


def _text(error: Exception) -> str:
    cause = f" ({error.__cause__})" if error.__cause__ and str(error.__cause__) else ""
    return f"{error}{cause}"[:500]


def _reply(connection: openai.OpenAI, request: dict[str, Any]) -> Reply:
    known = {name: value for name, value in request.items() if name not in _OWN}
    own = {name: request[name] for name in _OWN if name in request}
    try:
        raw = connection.chat.completions.with_raw_response.create(**known, extra_body=own)
        body: Any = raw.http_response.json()
    except ValueError as error:
        raise Malformed(f"the reply is no JSON: {error}") from None
    try:
        (choice, *_), usage = body["choices"], body.get("usage") or {}
        message = choice["message"]
        answer = Answer(
            str(message.get("content") or ""), str(choice.get("finish_reason") or "unknown"), _tokens(choice)
        )
        return _counted(request, answer, usage.get("prompt_tokens"), usage.get("completion_tokens"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(
            f"the reply is no chat completion ({type(error).__name__}: {error}): {str(body)[:200]}"
        ) from None


def _counted(request: dict[str, Any], answer: Answer, prompt: int | None, completion: int | None) -> Reply:
    """With the endpoint's counts, or estimates: a budget that counted nothing would never end."""
    return Reply(
        answer,
        int(prompt) if prompt else estimated_prompt_tokens(request),
        int(completion) if completion is not None else estimated_answer_tokens(answer),
        not prompt or completion is None,
    )


def _tokens(choice: dict[str, Any]) -> tuple[Token, ...]:
    rows = (choice.get("logprobs") or {}).get("content") or []
    return tuple(Token(str(row["token"]), float(row["logprob"]), row.get("id")) for row in rows)
