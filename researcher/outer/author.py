"""Generate modules with a language model: request, validate, and send errors back for repair."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from serl.researcher.llm.answers import Answer, extract_code, extract_json
from serl.researcher.llm.client import Client
from serl.researcher.llm.edits import apply_edits, has_edits
from serl.researcher.llm.errors import EndpointRefusedError, EndpointUnreachableError, UnusableAnswerError
from serl.researcher.llm.requests import Message
from serl.researcher.llm.settings import Endpoint, Size
from serl.researcher.modules.contracts import Form, Kind, form_of
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer.prompts import repair_message
from serl.researcher.outer.records import Verdict
from serl.researcher.validation.findings import Report, Tally
from serl.researcher.validation.validate import validate

INSTRUCTION_CHARS_MAX = 300
TINY_PROMPT_TOKENS = 400
ERRORS_CHARS_MAX = 1200
"""Longest text of an answer's errors that is sent back to the model, in characters."""
SENTENCE_END = re.compile(r"[.!](?= |$)")
"""The end of a sentence, but not the point of a decimal number."""
INSTRUCTION_TEMPERATURE = 0.5
"""Modules are sampled at 1, as the policy gradient requires. Instructions do not train the model, and small models ramble at 1."""


@dataclass(frozen=True)
class Generation:
    """The result of generating one module."""

    text: str | None
    """The module; None if no answer contained a valid one."""
    verdicts: tuple[Verdict, ...]
    """One verdict per answer."""
    conversation: tuple[Message, ...]
    """The messages that the last answer replied to."""
    answer: dict[str, Any] | None
    """The last answer; None if the endpoint gave none."""


@dataclass
class Author:
    """Generates modules and instructions with a language model."""

    client: Client
    form: Form
    repairs_max: int
    max_tokens: int
    logprobs: bool
    """Whether to request answers with tokens and log-probabilities."""
    size: Size = "large"
    """The model's capability; see Endpoint."""
    context_tokens: int = 16_384
    temperature: float = 1.0
    """Of modules."""

    @property
    def model(self) -> str:
        """Name of the language model, with the hash of its adapter if it is tuned."""
        return self.client.endpoint.model

    @property
    def name(self) -> str:
        """Name of the language model, without its adapter."""
        return self.model.partition("+")[0]

    @property
    def prompt_tokens(self) -> int:
        """Longest prompt in tokens that leaves room for the answer and for one repair: the answer again, and its errors. Prompts of a tiny model
        are shorter still: it makes little use of a long prompt, and every update of its weights reads prompts again."""
        fitting = self.context_tokens - 2 * self.max_tokens - ERRORS_CHARS_MAX // 3
        return min(TINY_PROMPT_TOKENS, fitting) if self.size == "tiny" else fitting

    def use_endpoint(self, endpoint: Endpoint) -> None:
        """Switch to another endpoint, with the same record and budget."""
        before, self.client = self.client, Client(endpoint, self.client.budget, offline=self.client.offline)
        self.client.record = before.record

    def generate(self, kind: Kind, prompt: Sequence[Message], seed: int, base: str | None = None) -> Generation:
        """Generate a module, whole or as edits of `base`. Failures of the endpoint and faults of answers become verdicts. Raises BudgetSpentError
        and OfflineMissError."""
        conversation = asked = tuple(prompt)
        verdicts, answer = list[Verdict](), None
        for attempt in range(self.repairs_max + 1):
            try:
                answer = self._ask(kind, asked, seed + attempt)
            except (EndpointUnreachableError, EndpointRefusedError) as error:
                verdicts.append(self._endpoint_verdict(kind, attempt, error))
                break
            conversation = asked
            text, verdict = self._validate_answer(kind, answer, attempt, base)
            verdicts.append(verdict)
            if verdict.reason == "ok":
                return Generation(text, tuple(verdicts), conversation, asdict(answer))
            if attempt < self.repairs_max:
                reply = {"role": "assistant", "content": answer.text[:4000] or "(empty)"}
                errors, form = verdict.text[:ERRORS_CHARS_MAX], form_of(kind, self.form)
                asked = (*prompt, reply, repair_message(errors, form, edits=base is not None))
        return Generation(None, tuple(verdicts), conversation, asdict(answer) if answer else None)

    def _ask(self, kind: Kind, conversation: Sequence[Message], seed: int) -> Answer:
        schema = json_schema(kind) if form_of(kind, self.form) == "spec" else None
        asked = self.client.complete(
            conversation, schema=schema, temperature=self.temperature, seed=seed, max_tokens=self.max_tokens, logprobs=self.logprobs
        )  # fmt: skip
        return _storable(asked.answers[0])

    def _validate_answer(
        self, kind: Kind, answer: Answer, attempt: int, base: str | None
    ) -> tuple[str | None, Verdict]:
        form = form_of(kind, self.form)
        try:
            text = _module_text(answer, form, base)
        except UnusableAnswerError as error:
            return None, Verdict(kind, self.model, attempt, "answer", error.fault, str(error))
        return text, verdict_of(validate(kind, text, form), self.model, attempt)

    def _endpoint_verdict(self, kind: Kind | None, attempt: int, error: Exception) -> Verdict:
        reason = "unreachable" if isinstance(error, EndpointUnreachableError) else "refused"
        return Verdict(kind, self.model, attempt, "endpoint", reason, str(error))

    def generate_sentence(
        self, stage: str, kind: Kind | None, prompt: Sequence[Message], seed: int, known: set[str]
    ) -> tuple[str | None, Verdict]:
        """Generate an instruction or a note (the stage of the verdict): the first sentences of an answer, unless it is empty, truncated or
        known."""
        try:
            asked = self.client.complete(prompt, seed=seed, max_tokens=100, temperature=INSTRUCTION_TEMPERATURE)
            answer = _storable(asked.answers[0])
        except (EndpointUnreachableError, EndpointRefusedError) as error:
            return None, self._endpoint_verdict(kind, 0, error)
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
        return (text if fault == "ok" else None), Verdict(kind, self.model, 0, stage, fault, answer.text[:1000])


def _storable(answer: Answer) -> Answer:
    """The answer with a question mark for each lone surrogate, which neither a request nor a database can contain."""
    return replace(answer, text=answer.text.encode(errors="replace").decode())


def _module_text(answer: Answer, form: Form, base: str | None) -> str:
    if form == "spec":
        return json.dumps(extract_json(answer))
    # a model that was asked for edits may rewrite the module instead
    return extract_code(answer) if base is None or not has_edits(answer) else apply_edits(answer, base)


def _instruction_of(answer: Answer) -> str:
    """The complete sentences of an answer, up to INSTRUCTION_CHARS_MAX."""
    text = " ".join(answer.text.split()).removeprefix("Instruction:").removeprefix("Note:").strip(" '\"`*")
    if answer.finish != "length" and len(text) <= INSTRUCTION_CHARS_MAX:
        return text if text.endswith((".", "!")) or not text else f"{text}."
    ends = [match.end() for match in SENTENCE_END.finditer(text) if match.end() <= INSTRUCTION_CHARS_MAX]
    return text[: ends[-1]] if ends else text[:INSTRUCTION_CHARS_MAX].rstrip(".!")


def verdict_of(report: Report, model: str, attempt: int) -> Verdict:
    """The verdict on an answer from its validation report."""
    tally = Tally()
    tally.add(report)
    (row,) = tally.rows()
    return Verdict(report.kind, model, attempt, row["stage"], row["reason"], report.text)
