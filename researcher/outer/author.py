"""Modules as a language model writes them: asked for, validated, given back with their errors, at most so many times."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from serl.researcher.llm.answers import Answer, extract_code, extract_json
from serl.researcher.llm.client import Client
from serl.researcher.llm.errors import EndpointAwayError, EndpointRefusedError, UnusableAnswerError
from serl.researcher.llm.requests import Message
from serl.researcher.llm.settings import Endpoint
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer.prompts import repair
from serl.researcher.outer.records import Verdict
from serl.researcher.validation.findings import Report, Tally
from serl.researcher.validation.validate import validate

INSTRUCTION_CHARS_MAX = 300
INSTRUCTION_TEMPERATURE = 0.5
"""Modules are drawn at 1, where the policy gradient learns; instructions are not learnt from, and small models ramble at 1."""


@dataclass(frozen=True)
class Written:
    """What came of a request."""

    text: str | None
    """The module; None if no answer held a valid one."""
    verdicts: tuple[Verdict, ...]
    """Of each answer."""
    conversation: tuple[Message, ...]
    """That the last answer answered."""
    answer: dict[str, Any] | None
    """The last answer; None if there was none."""


@dataclass
class Author:
    """Writes modules and instructions."""

    client: Client
    form: Form
    repairs_max: int
    max_tokens: int
    logprobs: bool
    """Whether answers come with their tokens."""

    @property
    def model(self) -> str:
        """Name of the model that is asked."""
        return self.client.endpoint.model

    def move_to(self, endpoint: Endpoint) -> None:
        """Asks another endpoint from here on, with the same record and budget."""
        before, self.client = self.client, Client(endpoint, self.client.budget, offline=self.client.offline)
        self.client.record = before.record

    def write(self, kind: Kind, prompt: Sequence[Message], seed: int) -> Written:
        """A module. What the endpoint or an answer does wrong is in the verdicts; BudgetSpentError and OfflineMissError are raised."""
        said, verdicts, answer = tuple(prompt), list[Verdict](), None
        for attempt in range(self.repairs_max + 1):
            try:
                answer = self._ask(kind, said, seed + attempt)
            except (EndpointAwayError, EndpointRefusedError) as error:
                verdicts.append(self._away(kind, attempt, error))
                break
            text, verdict = self._judged(kind, answer, attempt)
            verdicts.append(verdict)
            if verdict.reason == "ok":
                return Written(text, tuple(verdicts), said, asdict(answer))
            if attempt < self.repairs_max:
                given = {"role": "assistant", "content": answer.text[:4000] or "(empty)"}
                said = (*prompt, given, repair(verdict.text, self.form))
        return Written(None, tuple(verdicts), said, asdict(answer) if answer else None)

    def _ask(self, kind: Kind, said: Sequence[Message], seed: int) -> Answer:
        schema = json_schema(kind) if self.form == "spec" else None
        asked = self.client.complete(said, schema=schema, seed=seed, max_tokens=self.max_tokens, logprobs=self.logprobs)
        return asked.answers[0]

    def _judged(self, kind: Kind, answer: Answer, attempt: int) -> tuple[str | None, Verdict]:
        try:
            text = json.dumps(extract_json(answer)) if self.form == "spec" else extract_code(answer)
        except UnusableAnswerError as error:
            return None, Verdict(kind, self.model, attempt, "answer", error.fault, str(error))
        return text, verdict_of(validate(kind, text, self.form), self.model, attempt)

    def _away(self, kind: Kind | None, attempt: int, error: Exception) -> Verdict:
        reason = "away" if isinstance(error, EndpointAwayError) else "refused"
        return Verdict(kind, self.model, attempt, "endpoint", reason, str(error))

    def instruct(self, kind: Kind, prompt: Sequence[Message], seed: int, known: set[str]) -> tuple[str | None, Verdict]:
        """An instruction: the first lines of an answer that is neither empty nor known."""
        try:
            answer = self.client.complete(
                prompt, seed=seed, max_tokens=100, temperature=INSTRUCTION_TEMPERATURE
            ).answers[0]
        except (EndpointAwayError, EndpointRefusedError) as error:
            return None, self._away(kind, 0, error)
        text = _instruction_of(answer)
        fault = (
            "empty"
            if len(text) < 10
            else "truncated"
            if not text.endswith((".", "!"))
            else "known"
            if text in known
            else "ok"
        )
        return (text if fault == "ok" else None), Verdict(kind, self.model, 0, "instruction", fault, answer.text[:1000])


def _instruction_of(answer: Answer) -> str:
    """The sentences that an answer has whole, up to a length."""
    text = " ".join(answer.text.split()).removeprefix("Instruction:").strip(" '\"`*")
    if answer.finish != "length" and len(text) <= INSTRUCTION_CHARS_MAX:
        return text if text.endswith((".", "!")) or not text else f"{text}."
    cut = text[:INSTRUCTION_CHARS_MAX]
    return cut[: cut.rfind(".") + 1] or cut


def verdict_of(report: Report, model: str, attempt: int) -> Verdict:
    """A report of validation, in the words in which it is counted."""
    tally = Tally()
    tally.add(report)
    (row,) = tally.rows()
    return Verdict(report.kind, model, attempt, row["stage"], row["reason"], report.text)
