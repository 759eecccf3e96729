"""What can be wrong with the sandbox; each text says what was expected, what came and what to do."""

from serl.exchange.errors import SerlError


class SandboxUnavailableError(SerlError, RuntimeError):
    """Untrusted code cannot be confined here, so it is not run at all."""


class ReturnedError(SerlError, ValueError):
    """What a job left in its folder is not what was due; nothing of it was used."""
