"""What can be wrong in the inner loop; each text says what was expected, what came and what to do."""

from serl.researcher.errors import ResearcherError


class ScoreError(ResearcherError):
    """A score that could not be measured; it says nothing about the candidate."""
