"""What a candidate is worth: validation, training, score."""

from collections.abc import Callable, Sequence
from pathlib import Path

from serl.researcher.candidates import Budget, Candidate, Result
from serl.researcher.inner.settings import Settings


def evaluate(candidate: Candidate, settings: Settings, budget: Budget, folder: Path) -> Result:
    """All stages of one candidate; its files are left in `folder`."""
    raise NotImplementedError


def evaluate_many(
    candidates: Sequence[Candidate], settings: Settings, budget: Budget, folder: Path, workers: int = 2,
    report: Callable[[Candidate, str], None] = lambda candidate, stage: None,
) -> list[Result]:  # fmt: skip
    """All stages of candidates, in their order, by successive halving; what is finished in `folder` is not done again."""
    raise NotImplementedError
