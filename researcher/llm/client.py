"""A client for language models with a record of calls, a budget and replay."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serl.exchange.errors import ConfigError
from serl.researcher.llm.answers import Answer, Answers, Token
from serl.researcher.llm.errors import BudgetSpentError, LlmError, OfflineMissError
from serl.researcher.llm.record import Record, key_of
from serl.researcher.llm.requests import Message, Sampling, request_of
from serl.researcher.llm.settings import BudgetConfig, Endpoint
from serl.researcher.llm.usage import estimate_prompt_tokens

if TYPE_CHECKING:
    from serl.researcher.llm.attempts import Ask


class Client:
    """Calls an endpoint. A request that is already in the record is answered from it at no cost.

    `record` is a JSONL file, created if missing; its costs count against the budget, also after a restart. With `offline`, only the record answers.
    `others`: more servers of the same model; each call goes to the server with the fewest calls in progress. `servers` answer instead of the
    endpoint and the others (see `Ask` in attempts.py).
    """

    def __init__(
        self,
        endpoint: Endpoint,
        budget: BudgetConfig | None = None,
        record: Path | None = None,
        *,
        offline: bool = False,
        others: Sequence[Endpoint] = (),
        servers: Sequence["Ask"] = (),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        budget = budget or BudgetConfig()
        priced = endpoint.usd_per_million_prompt_tokens or endpoint.usd_per_million_completion_tokens
        if budget.usd_max is not None and not priced and endpoint.dialect != "embedded":  # which runs on this machine
            raise ConfigError(
                f"usd_max: expected the prices of {endpoint.model}; set usd_per_million_prompt_tokens and usd_per_million_completion_tokens of its "
                "endpoint (0.000001, if it is free)"
            )
        self.endpoint, self.budget, self.offline = endpoint, budget, offline
        self.record = Record(record)
        self._sleep = sleep
        self._others = tuple(others)
        self._servers: list[Ask | None] = [*servers] or [None] * (1 + len(self._others))
        self._under_way = [0] * len(self._servers)
        self._lock = threading.Lock()

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        grammar: str | None = None,
        n: int = 1,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        max_tokens: int = 512,
        logprobs: bool = False,
    ) -> Answers:
        """`n` answers to a conversation, constrained by a JSON schema or a grammar (GBNF, or llguidance if the endpoint supports it) if given.

        Answer i has seed + i and a call of its own, because not every endpoint returns several choices. `top_p` 1 samples the
        full distribution, which the policy gradient needs. Raises EndpointUnreachableError, EndpointRefusedError, BudgetSpentError or OfflineMissError.
        """
        sampling = Sampling(temperature, top_p, seed, max_tokens, logprobs)
        lines = []
        for index in range(n):
            seeded = replace(sampling, seed=sampling.seed + index)
            lines.append(self._line(request_of(self.endpoint, messages, seeded, schema, grammar), seeded.seed))
        made = [line for line, cached in lines if not cached]
        return Answers(
            tuple(_answer(line["answer"]) for line, _ in lines),
            sum(line["prompt_tokens"] for line in made),
            sum(line["completion_tokens"] for line in made),
            sum(line["cost_usd"] for line in made),
            len(lines) - len(made),
        )

    def _line(self, request: dict[str, Any], seed: int) -> tuple[dict[str, Any], bool]:
        """(answer, tokens and cost of a request, whether it was already recorded)."""
        key = key_of(request, seed)
        if found := self.record.find(key):
            return found, True
        with self._within_budget(
            request
        ):  # before the offline check, so that a replayed run stops at its budget as the original did
            if self.offline:
                raise OfflineMissError(
                    f"offline, and the record has no answer to request {key[:12]}; run once without --offline to record it"
                )
            return self._ask(key, request), False

    def _within_budget(self, request: dict[str, Any]) -> AbstractContextManager[None]:
        """Reserves the estimated prompt and the longest completion of a call. Raises BudgetSpentError if the call could exceed the budget."""
        tokens_max, usd_max, spent = self.budget.tokens_max, self.budget.usd_max, self.record
        prompt, completion = estimate_prompt_tokens(request), request[self.endpoint.token_limit]
        next_usd = self.endpoint.cost_usd(prompt, completion)

        def require(tokens: int, usd: float) -> None:
            if tokens_max is not None and tokens > tokens_max:
                raise BudgetSpentError(
                    f"{spent.tokens:,} of {tokens_max:,} tokens are spent, the next call may take {prompt + completion:,} "
                    f"(about {prompt:,} for its prompt, up to {completion:,} for its answer); raise tokens_max"
                )
            if usd_max is not None and usd > usd_max:
                raise BudgetSpentError(
                    f"{spent.usd:.4f} of {usd_max:.4f} USD are spent, the next call may take {next_usd:.4f}; raise usd_max"
                )

        return self.record.reserved(prompt + completion, next_usd, require)

    def _ask(self, key: str, request: dict[str, Any]) -> dict[str, Any]:
        attempts: list[dict[str, Any]] = []
        line = {"key": key, "time_ns": time.time_ns(), "request": request, "attempts": attempts}
        began = time.perf_counter()
        try:
            with self._least_busy() as ask:
                reply = ask(request, attempts)
        except LlmError as error:
            self.record.add(line | {"error": f"{type(error).__name__}: {error}", "wall_s": time.perf_counter() - began})
            raise
        line |= {
            **asdict(reply),
            "cost_usd": self.endpoint.cost_usd(reply.prompt_tokens, reply.completion_tokens),
            "wall_s": round(time.perf_counter() - began, 4),
        }
        self.record.add(line)
        return line

    @contextmanager
    def _least_busy(self) -> "Iterator[Ask]":
        """The server with the fewest calls in progress."""
        from serl.researcher.llm.attempts import answerer

        with self._lock:
            number = self._under_way.index(min(self._under_way))
            self._under_way[number] += 1
            ask = self._servers[number]
            if ask is None:
                ask = self._servers[number] = answerer((self.endpoint, *self._others)[number], self._sleep)
        try:
            yield ask
        finally:
            with self._lock:
                self._under_way[number] -= 1


class ReplayedClient(Client):
    """Replays the answers of a run's embedded model from its record, without a server or weights.

    The name of a tuned model contains the hash of its weights, which a replay does not have. Requests are therefore looked up without
    the model's name, and `endpoint.model` is the model of the last recorded answer. Raises OfflineMissError if the record has no answer.
    """

    def __init__(self, model: str, budget: BudgetConfig, record: Path) -> None:
        super().__init__(Endpoint(model=model, dialect="embedded"), budget, record, offline=True)
        self._models = {_without_model(request): request["model"] for request in self.record.requests()}

    def _line(self, request: dict[str, Any], seed: int) -> tuple[dict[str, Any], bool]:
        model = self._models.get(_without_model(request), request["model"])
        found = super()._line(request | {"model": model}, seed)
        self.endpoint = self.endpoint.model_copy(update={"model": model})
        return found


def _without_model(request: dict[str, Any]) -> str:
    return key_of({**request, "model": ""}, 0)


def _answer(row: dict[str, Any]) -> Answer:
    return Answer(row["text"], row["finish"], tuple(Token(**token) for token in row["tokens"]))
