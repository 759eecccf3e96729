"""The results of an experiment on disk, so that an interrupted experiment can be continued."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serl.agents.experiments.experiment import Experiment
from serl.agents.pages.origin import versions
from serl.result_file import ResultFile

FILE = "runs.jsonl"
RunKey = tuple[str, int]
"""(arm, seed)"""
Results = dict[RunKey, Mapping[str, float]]
"""The measures of each run by name; NaN where there was nothing to measure."""


def to_json(values: Mapping[str, float]) -> dict[str, float | None]:
    """Measures with null instead of NaN."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _from_json(row: dict[str, Any]) -> tuple[RunKey, Mapping[str, float]]:
    values = {name: math.nan if value is None else value for name, value in row["values"].items()}
    return (row["arm"], row["seed"]), values


class RunFile:
    """FOLDER/runs.jsonl: the arms, then every run as it ends."""

    def __init__(self, folder: Path, experiment: Experiment, *, resume: bool) -> None:
        """Raises the errors of ResultFile. The seeds may differ from those in the file."""
        settings = {"versions": versions(), "arms": experiment.settings()}
        self._file = ResultFile(folder / FILE, settings, _from_json, resume=resume)
        self.path = self._file.path
        self.runs: Results = dict(self._file.results)

    def append(self, arm: str, seed: int, values: Mapping[str, float]) -> None:
        """Appends a run. Raises ResultFileError if it cannot be written."""
        self._file.append({"arm": arm, "seed": seed, "values": to_json(values)})

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
