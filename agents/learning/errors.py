"""What can be wrong with learning; each text says what was expected, what came and what to do."""

from importlib.util import find_spec

from serl.exchange.errors import SerlError


class LearningError(SerlError, RuntimeError):
    """Learning that cannot go on."""


class DivergedError(LearningError):
    """A number that is not finite turned up in training."""


class PolicyFileError(LearningError):
    """A file that holds no policy or checkpoint of ours, or one of another version."""


class NotExportableError(LearningError):
    """A network that cannot be written down as a list of known operations."""


class MissingLearningError(LearningError):
    """What learning needs is not installed."""


def require_learning() -> None:
    """MissingLearningError unless PyTorch, safetensors and TensorBoard are installed."""
    missing = [name for name in ("torch", "safetensors", "tensorboard") if find_spec(name) is None]
    if missing:
        raise MissingLearningError(
            f"{', '.join(missing)}: not installed; install it with: pip install 'serl[learning]'"
        )
