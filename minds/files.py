"""The files of a run: its decisions, row by row, and its statistics."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from types import TracebackType
from typing import Any

from serl.exchange.errors import UnwritableFileError
from serl.minds.anonymous import Disguise
from serl.minds.config import MindsConfig
from serl.minds.decision import Decision
from serl.minds.portfolio import Portfolio
from serl.minds.prompts import Observation
from serl.minds.schedule import Schedule

DECISIONS, STATISTICS, CALLS = "decisions.jsonl", "statistics.json", "calls.jsonl"
"""Names of the files in a run's folder."""


def start_row(config: MindsConfig, model: str, disguise: Disguise, schedule: Schedule) -> dict[str, object]:
    """The start of a run as a row."""
    return {
        "row": "start", "time_ns": schedule.start_ns, "midnight_ns": schedule.midnight_ns, "name": config.name,
        "model": model, "seed": config.seed, "forum": config.forum, "symbols": {shown: disguise.symbol(shown) for shown in disguise.names},
        "personas": [persona.model_dump(mode="json") for persona in config.personas],
    }  # fmt: skip


def decision_row(
    mind: str, persona: str, seen: Observation, decision: Decision | None, refused: str
) -> dict[str, object]:
    """A decision as a row: what the mind saw, owned and answered. decision is None for an unusable answer."""
    return {
        "row": "decision", "time_ns": seen.time_ns, "mind": mind, "persona": persona, "refused": refused,
        **({} if decision is None else decision.model_dump(mode="json")), **_owned(seen.portfolio),
        "events": [asdict(event) for event in seen.events], "outcomes": list(seen.outcomes),
        "memories": [item.text for item in seen.memories],
    }  # fmt: skip


def end_row(time_ns: int, mind: str, persona: str, portfolio: Portfolio, outcomes: Sequence[str]) -> dict[str, object]:
    """The end of a mind as a row."""
    row = {"row": "end", "time_ns": time_ns, "mind": mind, "persona": persona, **_owned(portfolio)}
    return row | {"outcomes": list(outcomes)}


def _owned(portfolio: Portfolio) -> dict[str, object]:
    return {
        "wealth": float(portfolio.wealth), "cash": float(portfolio.cash), "loan": float(portfolio.loan),
        "lots": dict(portfolio.lots),
    }  # fmt: skip


class DecisionFile:
    """A JSONL file of what the minds do, written as it happens. The first row replaces the files of an earlier run. Only one run at a time writes to it:
    UnwritableFileError for a second one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / DECISIONS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise UnwritableFileError(
                f"{self._path}: cannot be written ({error.strerror}); give another --output"
            ) from None
        try:
            flock(self._file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UnwritableFileError(
                f"{self._path}: another run is writing to it; wait for its end, or give another --output"
            ) from None
        self._has_lines = False

    def add(self, row: dict[str, object]) -> None:
        """Writes a row."""
        if not self._has_lines:
            self._file.truncate(0)
            self._path.with_name(STATISTICS).unlink(missing_ok=True)
            self._has_lines = True
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._file.flush()

    def __enter__(self) -> "DecisionFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def write_statistics(path: Path, statistics: dict[str, Any]) -> None:
    """Writes the statistics as JSON."""
    path.write_text(json.dumps(statistics, indent=1) + "\n", encoding="utf-8")
