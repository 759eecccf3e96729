"""One call with retries for rate limits, server errors, lost connections and malformed replies."""

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import openai

from serl.researcher.llm.answers import Answer, Token
from serl.researcher.llm.errors import EndpointRefusedError, EndpointUnreachableError
from serl.researcher.llm.settings import NO_KEY, Endpoint
from serl.researcher.llm.usage import estimate_answer_tokens, estimate_prompt_tokens

_EXTENSIONS = ("top_k", "min_p", "grammar", "structured_outputs")
_TRANSIENT_STATUS = (408, 409, 425)


class Malformed(Exception):
    """The reply is not a chat completion."""


class Broken(Exception):
    """The reply began but did not end. The first argument is the name of the failure."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


@dataclass(frozen=True)
class Reply:
    """An answer and its token counts."""

    answer: Answer
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    """Whether the counts are estimates because the endpoint reports none."""


REPLY_BYTES_MAX = 2**25
"""Maximum size of a reply; a long answer with log-probabilities has a few MB."""
EXPLANATION_BYTES_MAX = 2**16
"""Number of bytes that are read of the body of an error or a redirect."""
DOUBLINGS_MAX = 60
"""Number of times that a wait doubles, so that it stays a number however many attempts there are."""
REACH_S = 10.0
"""Seconds within which an endpoint must answer at all before a run starts."""

Ask = Callable[[dict[str, Any], list[dict[str, Any]]], Reply]
"""Returns a server's reply to a request. `ask_with_retries` describes what is appended to the list of attempts."""


def connect(endpoint: Endpoint) -> openai.OpenAI:
    """An OpenAI client without retries of its own, whose replies are limited in time and size.

    The HTTP library's own timeout applies to each read of a connection: a server that sends a byte now and then never exceeds it.
    """
    deadline = threading.local()  # a thread reads one reply at a time

    def read(original: Callable[..., bytes], size: int, timeout: float | None = None) -> bytes:
        left_s = deadline.end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"the reply did not end within {endpoint.timeout_s:g} s")
        return original(size, timeout=left_s)

    def trace(event: str, info: dict[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            stream = info["return_value"]
            stream.read = partial(read, stream.read)

    def begin(request: Any) -> None:
        deadline.end_s = time.monotonic() + endpoint.timeout_s
        request.extensions["trace"] = trace

    def limit(response: Any) -> None:
        deadline.end_s = time.monotonic() + endpoint.timeout_s
        response.iter_bytes = partial(_body, response, response.iter_bytes)

    http_client = openai.DefaultHttpxClient(event_hooks={"request": [begin], "response": [limit]})
    return openai.OpenAI(
        base_url=endpoint.base_url, api_key=endpoint.key(), timeout=endpoint.timeout_s, max_retries=0, http_client=http_client
    )  # fmt: skip


def require_reachable(endpoint: Endpoint) -> None:
    """Raises EndpointUnreachableError if nothing answers at the endpoint's address. Any answer will do, even a refusal to list models."""
    try:
        with connect(endpoint.model_copy(update={"timeout_s": REACH_S})).models.with_streaming_response.list():
            return
    except (openai.APIConnectionError, UnicodeError) as error:  # UnicodeError: the host name is too long to look up
        raise EndpointUnreachableError(
            f"{endpoint.base_url} does not answer ({error.__cause__ or error}); start the endpoint, or correct --url"
        ) from None
    except openai.OpenAIError:
        return


def answerer(endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> Ask:
    """Calls of an endpoint over one connection."""
    connection = connect(endpoint)
    return lambda request, attempts: ask_with_retries(connection, endpoint, request, attempts, sleep)


def ask_with_retries(
    connection: openai.OpenAI,
    endpoint: Endpoint,
    request: dict[str, Any],
    attempts: list[dict[str, Any]],
    sleep: Callable[[float], None] = time.sleep,
) -> Reply:
    """The reply to a request. Appends a row to `attempts` for each failure: name, text, wait.

    Waits start at `backoff_s` and double; Retry-After is respected up to `backoff_s_max`. Raises EndpointUnreachableError after `attempts_max`
    attempts, and EndpointRefusedError at once if a retry cannot help.
    """
    _require_compilable(request, endpoint)
    for attempt in range(endpoint.attempts_max):
        try:
            return _reply(connection, request)
        except Exception as error:
            failure, text = _failure_name(error), _text(error, connection.api_key)
            if failure is None:
                raise EndpointRefusedError(
                    f"{endpoint.base_url} refuses {endpoint.model}: {text}; correct base_url, model or the key ({endpoint.key_variable}), or list a "
                    "parameter that it rejects under omit"
                ) from None
            doubled_s = endpoint.backoff_s * 2.0 ** min(attempt, DOUBLINGS_MAX)
            wait_s = min(_retry_after_s(error) or doubled_s, endpoint.backoff_s_max)
            last = attempt + 1 == endpoint.attempts_max
            attempts.append({"failure": failure, "text": text, "wait_s": 0.0 if last else wait_s})
            if not last:
                sleep(wait_s)
    failures = Counter(row["failure"] for row in attempts)
    names = ", ".join(f"{count} x {name}" for name, count in failures.items())
    raise EndpointUnreachableError(
        f"{endpoint.base_url} did not answer in {len(attempts)} attempts ({names}; last: {attempts[-1]['text']}); "
        "check that it is running; if it is only busy, raise attempts_max or backoff_s"
    )


def _require_compilable(request: dict[str, Any], endpoint: Endpoint) -> None:
    """Raises EndpointRefusedError if llama.cpp would ignore the request's grammar, as it does without a word where llguidance cannot compile it."""
    grammar = request.get("grammar", "")
    if not grammar.startswith("%llguidance"):
        return
    from llguidance import LLMatcher

    if error := LLMatcher.validate_grammar(grammar):
        reason = " ".join(error.partition("\n   1 |")[0].split())
        raise EndpointRefusedError(
            f"{endpoint.base_url} would ignore the schema or grammar, which cannot be compiled: {reason}; correct it"
        )


def _failure_name(error: Exception) -> str | None:
    """Name of a transient failure, or None for a permanent one. Raises errors that the endpoint did not cause."""
    match error:
        case openai.RateLimitError():
            return None if error.code == "insufficient_quota" else "rate_limited"
        case openai.APIStatusError():
            if error.status_code < 400:
                return "malformed"
            return "server_error" if error.status_code >= 500 or error.status_code in _TRANSIENT_STATUS else None
        case openai.APITimeoutError() | TimeoutError():
            return "timeout"
        case openai.APIConnectionError():
            return "timeout" if isinstance(error.__cause__, TimeoutError) else "connection"
        case Broken():
            return error.name
        case Malformed() | openai.APIResponseValidationError():
            return "malformed"
    raise error


def _retry_after_s(error: Exception) -> float | None:
    """Seconds of a header Retry-After, which is a number or a date (RFC 9110); None if there is no valid one."""
    if not isinstance(error, openai.APIStatusError):
        return None
    header = error.response.headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return max(0.0, float(header))
    with contextlib.suppress(ValueError, TypeError):  # TypeError: no date, or one without a time zone
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    return None


def _text(error: Exception, key: str) -> str:
    """The text of an error on one line, without the key, which some endpoints repeat."""
    cause = f" ({error.__cause__})" if error.__cause__ and str(error.__cause__) else ""
    text = f"{error}{_body_text(error)}{cause}"
    text = text if key == NO_KEY else text.replace(key, "(the key)")
    # neither a terminal nor a database takes every character, as a lone surrogate
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:500]


def _body_text(error: Exception) -> str:
    """The body of a reply with an error status, if OpenAI's client leaves it out of its text because it has another form than OpenAI's errors."""
    if not isinstance(error, openai.APIStatusError) or not error.body or " - " in str(error):
        return ""
    return f" - {error.body}"


def _reply(connection: openai.OpenAI, request: dict[str, Any]) -> Reply:
    standard = {name: value for name, value in request.items() if name not in _EXTENSIONS}
    extensions = {name: request[name] for name in _EXTENSIONS if name in request}
    text = b""
    try:
        with connection.chat.completions.with_streaming_response.create(**standard, extra_body=extensions) as raw:
            text = raw.read()
        body: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"expected JSON, got {text[:200].decode(errors='replace')!r}: {error}") from None
    try:
        (choice, *_), usage = body["choices"], body.get("usage") or {}
        message = choice["message"]
        content = _text_of(message.get("content")) or _text_of(message.get("refusal"))
        answer = Answer(_without_reasoning(content), str(choice.get("finish_reason") or "unknown"), _tokens(choice))
        generated = estimate_answer_tokens(replace(answer, text=content))
        return _with_token_counts(
            request, answer, generated, usage.get("prompt_tokens"), usage.get("completion_tokens")
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Malformed(
            f"expected a chat completion, got another reply ({type(error).__name__}: {error}): {str(body)[:200]}"
        ) from None


def _body(response: Any, parts: Callable[..., Iterator[bytes]], *size: Any) -> Iterator[bytes]:
    """The body of a response. That of an error only explains its status, so whatever arrives of it in time will do."""
    if response.is_success:
        yield from _parts(parts(*size), REPLY_BYTES_MAX)
        return
    try:
        with contextlib.suppress(Broken, Malformed):
            yield from _parts(parts(*size), EXPLANATION_BYTES_MAX)
    finally:
        response.close()


def _parts(parts: Iterator[bytes], bytes_max: int) -> Iterator[bytes]:
    """The body of a response, as far as it arrives within the timeout."""
    size = 0
    try:
        for part in parts:
            size += len(part)
            if size > bytes_max:
                raise Malformed(f"expected a reply of at most {bytes_max:,} bytes, got more")
            yield part
    except Malformed:
        raise
    except Exception as error:  # from the HTTP library; OpenAI's client does not wrap it
        raise Broken("timeout" if "Timeout" in type(error).__name__ else "connection", "the reply broke off") from error


def _text_of(content: Any) -> str:
    """The text of a message's content, which may be a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return str(content or "")


def _without_reasoning(text: str) -> str:
    """The text after a model's reasoning, which some servers leave in the content between <think> and </think>. Some chat templates put <think> into
    the prompt. Empty if the reasoning did not end."""
    _, ended, rest = text.rpartition("</think>")
    if ended:
        return rest.lstrip()
    return "" if text.lstrip().startswith("<think>") else text


def _with_token_counts(
    request: dict[str, Any], answer: Answer, generated: int, prompt: int | None, completion: int | None
) -> Reply:
    """A reply with the endpoint's token counts, or with estimates (`generated` for its text and reasoning), so that every call counts against the
    budget."""
    if min(prompt or 0, completion or 0) < 0:
        raise ValueError(f"expected numbers of tokens from 0 on, got {prompt} and {completion}")
    return Reply(
        answer,
        int(prompt) if prompt else estimate_prompt_tokens(request),
        int(completion) if completion else generated,
        not (prompt and completion),
    )


def _tokens(choice: dict[str, Any]) -> tuple[Token, ...]:
    rows = (choice.get("logprobs") or {}).get("content") or []
    return tuple(Token(str(row["token"]), float(row["logprob"]), row.get("id")) for row in rows)
