"""Errors of language models and their answers."""

from typing import Literal

from serl.researcher.errors import ResearcherError


class LlmError(ResearcherError):
    """A language model gives no answer."""


class EndpointUnreachableError(LlmError):
    """The endpoint did not answer within `attempts_max` attempts, or only with transient errors."""


class EndpointRefusedError(LlmError):
    """The endpoint rejects this request, and a retry would not help (key, model, parameters, quota)."""


class BudgetSpentError(LlmError):
    """The next call could exceed the budget of tokens or money."""


class OfflineMissError(LlmError):
    """Offline, and the record has no answer to this request."""


class ModelFileError(LlmError):
    """A model file is missing, or does not match the pinned hash."""


class ModelServerError(LlmError):
    """The embedded server does not start, or has exited."""


Fault = Literal["empty", "truncated", "prose", "syntax", "edit"]


class UnusableAnswerError(LlmError):
    """An answer does not contain what was requested. `fault` says why; the text can be sent back to the model."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(f"{fault}: {text}")
        self.fault: Fault = fault
