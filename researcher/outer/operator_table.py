"""The report's table of operators and models, and what each of them made."""

import math
from statistics import fmean
from typing import Any

from serl.researcher.outer.bandit import Arm
from serl.researcher.outer.database import Database
from serl.researcher.outer.past_results import PastResults

AFTER_ALL = 1 << 40
"""An iteration number after all others."""


def operator_table(database: Database) -> list[dict[str, Any]]:
    """A row for each operator and model: attempts, candidates from them, candidates with a score, the mean paired difference to the best candidate
    at that time with its standard error over candidates, and how many beat it by more than two standard errors. Empty for older runs."""
    past = PastResults(database, AFTER_ALL)
    tried: dict[Arm, list[bool]] = {}
    for row in database.rows("SELECT operator, model, used FROM attempts ORDER BY iteration, slot, number"):
        tried.setdefault(Arm(row["operator"], row["model"]), []).append(bool(row["used"]))
    gains = past.gains()
    return [_row(arm, used, [gain for gain in gains.get(arm, []) if gain]) for arm, used in sorted(tried.items())]


def _row(arm: Arm, used: list[bool], gains: list[Any]) -> dict[str, Any]:
    values = [gain.mean_bps for gain in gains]
    mean = fmean(values) if values else None
    spread = (
        math.sqrt(sum((value - fmean(values)) ** 2 for value in values) / (len(values) - 1))
        if len(values) > 1
        else None
    )
    return {
        "operator": arm.operator, "model": arm.model or "none", "attempts": len(used), "candidates": sum(used), "compared": len(values),
        "mean_difference_bps": mean, "standard_error_bps": None if spread is None else spread / math.sqrt(len(values)),
        "clearly_better": sum(gain.mean_bps > 2 * gain.error_bps for gain in gains),
    }  # fmt: skip
