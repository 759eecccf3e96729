"""Calls of the language model by many minds: concurrent in threads, once for equal requests, within budgets."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from serl.minds.config import BudgetConfig
from serl.minds.prompts import tokens_at_most
from serl.researcher.llm.answers import Answer
from serl.researcher.llm.client import Client
from serl.researcher.llm.errors import BudgetSpentError, LlmError
from serl.researcher.llm.record import key_of
from serl.researcher.llm.requests import Message, Sampling, request_of
from serl.researcher.llm.usage import estimate_prompt_tokens


class Ledger:
    """Spending of one budget: calls that were made, and reservations for calls in progress."""

    def __init__(self, whose: str, budget: BudgetConfig) -> None:
        self.whose, self._budget = whose, budget
        self.calls = self.prompt_tokens = self.completion_tokens = 0
        #: answers shared with an equal, earlier request of this run
        self.shared = 0
        self._reserved_tokens = 0

    @property
    def is_pending(self) -> bool:
        """Whether calls are in progress."""
        return self._reserved_tokens > 0

    def require(self, tokens: int) -> None:
        """Raises BudgetSpentError if a call that may take this many tokens could exceed the budget."""
        tokens_max, calls_max = self._budget.tokens_max, self._budget.calls_max
        spent = self.prompt_tokens + self.completion_tokens
        if calls_max is not None and self.calls >= calls_max:
            raise BudgetSpentError(f"{self.whose}: {self.calls:,} of {calls_max:,} calls are made; raise calls_max")
        if tokens_max is not None and spent + self._reserved_tokens + tokens > tokens_max:
            raise BudgetSpentError(
                f"{self.whose}: {spent:,} of {tokens_max:,} tokens are spent, the next call may take {tokens:,}; raise tokens_max"
            )

    def reserve(self, tokens: int) -> None:
        """Reserves tokens for a call that begins."""
        self.calls += 1
        self._reserved_tokens += tokens

    def settle(self, tokens: int, prompt_tokens: int, completion_tokens: int) -> None:
        """Replaces the reserved tokens with those that the call took; 0 for a failed call."""
        self._reserved_tokens -= tokens
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens


@dataclass(frozen=True)
class _Line:
    """An answer and its tokens."""

    answer: Answer
    prompt_tokens: int
    completion_tokens: int


class ModelCalls:
    """Asks a model on behalf of minds. An answer in the record of an earlier run counts as a call, so that a repeated run ends where that run did."""

    def __init__(
        self, client: Client, budget: BudgetConfig, *, temperature: float, answer_tokens: int, parallel: int
    ) -> None:  # fmt: skip
        self._client, self._temperature, self._answer_tokens, self._budget = client, temperature, answer_tokens, budget
        self.ledger = Ledger("all minds", budget)
        self._places = asyncio.Semaphore(parallel)
        self._asked: dict[str, asyncio.Future[_Line]] = {}
        #: set when the next call ends
        self._settled = asyncio.Event()

    @property
    def context_tokens(self) -> int:
        """Maximum length of a prompt and its answer together."""
        return self._client.endpoint.context_tokens

    @property
    def has_grammars(self) -> bool:
        """Whether the endpoint accepts any JSON schema, including alternatives at its root and multiples."""
        return self._client.endpoint.dialect == "embedded"

    async def ask(self, own: Ledger, messages: list[Message], schema: dict[str, Any], seed: int) -> Answer:
        """The model's answer. Raises BudgetSpentError, or another LlmError if the endpoint gives none."""
        sampling = Sampling(self._temperature, 1.0, seed, self._answer_tokens, False)
        request = request_of(self._client.endpoint, messages, sampling, schema, None)
        key = key_of(request, seed)
        tokens = self._tokens(key, request)
        while True:
            if (asked := self._asked.get(key)) is not None:
                own.shared += 1
                self.ledger.shared += 1
                return (await asyncio.shield(asked)).answer
            own.require(tokens)
            try:
                self.ledger.require(tokens)
                break
            except BudgetSpentError as error:
                if not self.ledger.is_pending:
                    self._record_unsent(key, request, str(error))
                    raise
                await self._settled.wait()  # a call in progress may take less than it reserved
        for ledger in (own, self.ledger):
            ledger.reserve(tokens)
        asked = self._asked[key] = asyncio.get_running_loop().create_future()
        prompt_tokens = completion_tokens = 0
        try:
            line = await self._complete(key, messages, schema, seed)
            prompt_tokens, completion_tokens = line.prompt_tokens, line.completion_tokens
        except BaseException as error:
            del self._asked[key]  # so that the next request asks again
            asked.set_exception(error if isinstance(error, Exception) else BudgetSpentError("the run was stopped"))
            asked.exception()  # marks the exception as retrieved, in case nobody else is waiting
            raise
        finally:
            for ledger in (own, self.ledger):
                ledger.settle(tokens, prompt_tokens, completion_tokens)
            self._settled.set()
            self._settled = asyncio.Event()
        asked.set_result(line)
        return line.answer

    def _tokens(self, key: str, request: dict[str, Any]) -> int:
        """The most tokens that a call may take; of one in the record, those that it took, so that all of them fit again in any order.

        Raises BudgetSpentError for a request that an earlier run did not send because the same common budget was spent: who asks first gets the last
        calls, and in a repeated run it must be the same minds.
        """
        record = self._client.record
        if (error := record.unsent(key, self._budget.model_dump())) is not None:
            raise BudgetSpentError(error)
        of_texts = sum(tokens_at_most(message["content"]) for message in request["messages"])
        tokens = max(estimate_prompt_tokens(request), of_texts) + self._answer_tokens
        known = record.find(key)
        return tokens if known is None else min(tokens, known["prompt_tokens"] + known["completion_tokens"])

    def _record_unsent(self, key: str, request: dict[str, Any], error: str) -> None:
        line = {"key": key, "time_ns": time.time_ns(), "request": request, "attempts": [], "error": error}
        with suppress(LlmError):  # without room on the disk
            self._client.record.add(line | {"budget": self._budget.model_dump()})

    async def _complete(self, key: str, messages: list[Message], schema: dict[str, Any], seed: int) -> _Line:
        async with self._places:
            answers = await in_thread(
                lambda: self._client.complete(
                    messages, schema=schema, temperature=self._temperature, seed=seed, max_tokens=self._answer_tokens
                )
            )
        recorded = self._client.record.find(key)
        assert recorded is not None, "the client records every answer"
        return _Line(answers.answers[0], recorded["prompt_tokens"], recorded["completion_tokens"])


async def in_thread(function: Callable[[], Any]) -> Any:
    """Runs a function in a daemon thread: an endpoint that does not answer must not hold up the end of the process."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def deliver(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the run may have ended meanwhile, which closes the loop
            loop.call_soon_threadsafe(deliver, result, failure)

    threading.Thread(target=run, name="model-call", daemon=True).start()
    return await done
