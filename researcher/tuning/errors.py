"""What can be wrong with tuning."""

from serl.researcher.errors import ResearcherError


class TuningError(ResearcherError):
    """A model that cannot be tuned, or a state that does not fit."""


class StoppedError(TuningError):
    """The stop rule ended tuning: the policy has left the base model, or has lost its variety."""
