"""What can be wrong with learning; each text says what was expected, what came and what to do."""

from serl.exchange.errors import SerlError


class LearningError(SerlError, RuntimeError):
    """Learning that cannot go on."""


class DivergedError(LearningError):
    """A number that is not finite turned up in training."""


class PolicyFileError(LearningError):
    """A file that holds no policy or checkpoint of ours, or one of another version."""


class NotExportableError(LearningError):
    """A network that cannot be written down as a list of known operations."""
