"""A run of the researcher as tables, read from its database, also while the run is in progress. docs/tables.md lists the columns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.table import Column, Names, Table
from serl.researcher.browse.runs import overview

PAIRED = ("difference_bps", "difference_low_bps", "difference_high_bps")
SCORES = (*PAIRED, "pa_bps", "low_bps", "high_bps", "twap_bps")


def candidates(folder: Path | str) -> Table:
    """A row for each candidate of a run, by iteration and slot. Scores are NaN for candidates without one.

    RunError if the folder has no run, or if the run cannot be read; `iterations` raises the same.
    """
    rows = overview(Path(folder))["candidates"]
    joined: list[dict[str, Any]] = [
        row | {"kinds": "+".join(row["kinds"]), "parents": " ".join(f"{one}/{slot}" for one, slot in row["parents"])}
        for row in rows
    ]
    return Table(
        _integers(rows, ("iteration", "slot"))
        | _names(joined, ("key", "stage", "reason", "kinds", "parents"))
        | _floats(rows, (*SCORES, "seeds"))
    )


def iterations(folder: Path | str) -> Table:
    """A row for each finished iteration of a run: the scores of its best candidate, and of the best so far."""
    rows = overview(Path(folder))["iterations"]
    scores = (*SCORES, "best_so_far_bps", "ema_bps", "change_bps", "seconds")
    return Table(_integers(rows, ("iteration",)) | _names(rows, ("model",)) | _floats(rows, scores))


def _integers(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Column]:
    return {name: np.array([row[name] for row in rows], np.int64) for name in names}


def _floats(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Column]:
    """The columns of these names as floats, with NaN for None."""
    return {name: np.array([row[name] for row in rows], np.float64) for name in names}


def _names(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Column]:
    return {name: Names.encode(row[name] for row in rows) for name in names}
