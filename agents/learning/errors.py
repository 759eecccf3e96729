"""Errors of learning; each message says what was expected, what was found, and what to do."""

from serl.exchange.errors import SerlError


class LearningError(SerlError, RuntimeError):
    """Training cannot continue."""


class DivergedError(LearningError):
    """A number in training is not finite."""


class PolicyFileError(LearningError):
    """A file is not a policy or checkpoint of serl, or has an unsupported version."""


class DatasetError(LearningError):
    """A folder is not a dataset written by serl."""


class EvaluationFileError(LearningError):
    """A file is not the result of an evaluation."""


class NotExportableError(LearningError):
    """A network cannot be expressed as a list of known operations."""
