"""The results of an experiment on disk: a line of JSON for each finished run, so that an interrupted experiment can be continued."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from serl.agents.experiments.errors import ExperimentError
from serl.agents.experiments.experiment import Experiment
from serl.agents.pages.origin import versions

FILE = "runs.jsonl"
RunKey = tuple[str, int]
"""(arm, seed)"""
Results = dict[RunKey, Mapping[str, float]]
"""The measures of each run by name; NaN where there was nothing to measure."""


def to_json(values: Mapping[str, float]) -> dict[str, float | None]:
    """Measures with null instead of NaN."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


class RunFile:
    """FOLDER/runs.jsonl: the settings, then every run as it ends. A line that a crash has cut off is forgotten."""

    def __init__(self, folder: Path, experiment: Experiment, *, resume: bool) -> None:
        """ExperimentError if the folder holds results and `resume` is false, holds none and it is true, or holds those of another
        experiment or version."""
        self.path = folder / FILE
        settings = {"versions": versions(), "arms": experiment.settings()}
        self.runs: Results = {}
        if not resume:
            self._create(settings)
        else:
            self._continue(settings)
        self._file: IO[bytes] = self.path.open("ab")

    def _create(self, settings: dict[str, Any]) -> None:
        if self.path.exists():
            raise ExperimentError(
                f"{self.path}: expected no results, got some; continue with --resume, or give another --output"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(_line(settings))
        except OSError as error:
            raise ExperimentError(
                f"{self.path}: expected a folder to write to, got {error.strerror}; give another --output"
            ) from None

    def _continue(self, settings: dict[str, Any]) -> None:
        if not self.path.exists():
            raise ExperimentError(f"{self.path}: expected results to continue, got none; leave --resume out")
        lines = self.path.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        if not whole:  # killed while it was created
            self.path.write_bytes(_line(settings))
            return
        try:
            before, *rows = [json.loads(line) for line in whole]
            differing = [name for name in settings if before[name] != settings[name]]
            self.runs = {
                (row["arm"], row["seed"]): {
                    name: math.nan if value is None else value for name, value in row["values"].items()
                }
                for row in rows
            }
        except (ValueError, KeyError, TypeError):
            raise ExperimentError(
                f"{self.path}: expected results of an experiment, got a damaged file; give another --output"
            ) from None
        if differing:
            raise ExperimentError(
                f"{self.path}: expected results of this experiment, got those of another ({', '.join(differing)} differ); give another --output"
            )
        if len(whole) < len(lines):
            with self.path.open("r+b") as file:
                file.truncate(sum(map(len, whole)))

    def append(self, arm: str, seed: int, values: Mapping[str, float]) -> None:
        """Keeps a run. ExperimentError if it cannot be written."""
        try:
            self._file.write(_line({"arm": arm, "seed": seed, "values": to_json(values)}))
            self._file.flush()
        except OSError as error:
            raise ExperimentError(
                f"{self.path}: expected to save a run, got {error.strerror}; free disk space, then continue with --resume"
            ) from None

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
