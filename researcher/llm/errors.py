"""What can be wrong with language models and their answers."""

from typing import Literal

from serl.researcher.errors import ResearcherError


class LlmError(ResearcherError):
    """A language model that gives no answer."""


class EndpointAwayError(LlmError):
    """The endpoint did not answer, or only with errors that pass; it was asked as often as its settings allow."""


class EndpointRefusedError(LlmError):
    """The endpoint will not answer this request, however often it is asked (key, model, parameters, quota)."""


class BudgetSpentError(LlmError):
    """The next call could cost more tokens or money than is left."""


class OfflineMissError(LlmError):
    """Offline, and the answer to this request was never recorded."""


class ModelFileError(LlmError):
    """A model that is not there, or whose file is not the one that was pinned."""


class ModelServerError(LlmError):
    """The embedded endpoint does not start, or has ended by itself."""


Fault = Literal["empty", "truncated", "prose", "syntax"]


class UnusableAnswerError(LlmError):
    """An answer that holds not what was asked for; `fault` names it, and the text is fit to be sent back to the model."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(f"{fault}: {text}")
        self.fault: Fault = fault
