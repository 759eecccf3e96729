"""The client of a language model: recorded, budgeted, replayable."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from serl.exchange.errors import ConfigError
from serl.researcher.llm.answers import Answer, Answers, Token
from serl.researcher.llm.errors import BudgetSpentError, LlmError, OfflineMissError
from serl.researcher.llm.record import Record, key_of
from serl.researcher.llm.requests import Message, Sampling, request_of
from serl.researcher.llm.settings import BudgetConfig, Endpoint
from serl.researcher.llm.usage import estimated_prompt_tokens


class Client:
    """Asks an endpoint, but never twice the same: what was recorded is answered from the record, and costs nothing.

    `record` is a JSONL file that is made or gone on with; its costs count against the budget, so that a resumed run has no new one.
    `offline` answers from the record alone.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        budget: BudgetConfig | None = None,
        record: Path | None = None,
        *,
        offline: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        budget = budget or BudgetConfig()
        free = not (endpoint.usd_per_million_prompt_tokens or endpoint.usd_per_million_completion_tokens)
        if budget.usd_max is not None and free:
            raise ConfigError(
                "usd_max: needs the prices of the endpoint; set usd_per_million_prompt_tokens and ..._completion_tokens"
            )
        self.endpoint, self.budget, self.offline = endpoint, budget, offline
        self.record = Record(record)
        self._sleep = sleep
        self._connection: Any = None

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
        """`n` answers to a conversation, under a JSON schema or a grammar (GBNF; llguidance where the endpoint has it) if one is given.

        Answer i is drawn with seed + i, in a call of its own, because not every endpoint has more than one choice. `top_p` 1 means the
        whole distribution, which the policy gradient needs. Errors: EndpointAwayError, EndpointRefusedError, BudgetSpentError, OfflineMissError.
        """
        sampling = Sampling(temperature, top_p, seed, max_tokens, logprobs)
        lines = []
        for index in range(n):
            drawn = replace(sampling, seed=sampling.seed + index)
            lines.append(self._line(request_of(self.endpoint, messages, drawn, schema, grammar)))
        made = [line for line, cached in lines if not cached]
        return Answers(
            tuple(_answer(line["answer"]) for line, _ in lines),
            sum(line["prompt_tokens"] for line in made),
            sum(line["completion_tokens"] for line in made),
            sum(line["cost_usd"] for line in made),
            len(lines) - len(made),
        )

    def _line(self, request: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """The line of the record for a request, and whether it was there."""
        key = key_of(request)
        if found := self.record.find(key):
            return found, True
        self._require_budget(request)  # first, so that a run that ended on its budget is replayed to the same end
        if self.offline:
            raise OfflineMissError(
                f"offline, and the record has no answer to request {key[:12]}; run it once without --offline"
            )
        return self._ask(key, request), False

    def _require_budget(self, request: dict[str, Any]) -> None:
        """A call may not start that could end beyond the budget: with its prompt, which is estimated, and the longest completion."""
        tokens_max, usd_max = self.budget.tokens_max, self.budget.usd_max
        prompt, completion = estimated_prompt_tokens(request), request[self.endpoint.token_limit]
        if tokens_max is not None and self.record.tokens + prompt + completion > tokens_max:
            raise BudgetSpentError(
                f"{self.record.tokens:,} of {tokens_max:,} tokens are spent, the next call may take {prompt + completion:,} "
                f"(about {prompt:,} of its prompt, up to {completion:,} of its answer); raise tokens_max"
            )
        next_usd = self.endpoint.cost_usd(prompt, completion)
        if usd_max is not None and self.record.usd + next_usd > usd_max:
            raise BudgetSpentError(
                f"{self.record.usd:.4f} of {usd_max:.4f} USD are spent, the next call may take {next_usd:.4f}; raise usd_max"
            )

    def _ask(self, key: str, request: dict[str, Any]) -> dict[str, Any]:
        from serl.researcher.llm.attempts import ask, connect

        self._connection = self._connection or connect(self.endpoint)
        attempts: list[dict[str, Any]] = []
        line = {"key": key, "time_ns": time.time_ns(), "request": request, "attempts": attempts}
        begun = time.perf_counter()
        try:
            reply = ask(self._connection, self.endpoint, request, attempts, self._sleep)
        except LlmError as error:
            self.record.add(line | {"error": f"{type(error).__name__}: {error}", "wall_s": time.perf_counter() - begun})
            raise
        line |= {
            **asdict(reply),
            "cost_usd": self.endpoint.cost_usd(reply.prompt_tokens, reply.completion_tokens),
            "wall_s": round(time.perf_counter() - begun, 4),
        }
        self.record.add(line)
        return line


class ReplayedClient(Client):
    """Answers as the embedded model of a run did, without the model: no server runs, no weights are read.

    After tuning, the model's name has the hash of its weights, so that it cannot be known without them. It is therefore taken from
    the record: each request is found by all but its model, and `endpoint.model` is the one that gave the last answer. OfflineMissError
    where the record has no answer.
    """

    def __init__(self, model: str, budget: BudgetConfig, record: Path) -> None:
        super().__init__(Endpoint(model=model, dialect="embedded"), budget, record, offline=True)
        self._models = {_without_model(line["request"]): line["request"]["model"] for line in self.record.answered}

    def _line(self, request: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        model = self._models.get(_without_model(request), request["model"])
        found = super()._line(request | {"model": model})
        self.endpoint = self.endpoint.model_copy(update={"model": model})
        return found


def _without_model(request: dict[str, Any]) -> str:
    return key_of({**request, "model": ""})


def _answer(row: dict[str, Any]) -> Answer:
    return Answer(row["text"], row["finish"], tuple(Token(**token) for token in row["tokens"]))
