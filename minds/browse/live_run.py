"""The state of a run of minds, read from the file of decisions while it is written. Nothing is written here."""

import json
import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from serl.clients.dashboard.json_lines import JsonLines
from serl.exchange.config import time_of_day_text
from serl.minds.events import DAY_NS
from serl.minds.files import DECISIONS, STATISTICS
from serl.minds.report import action_text
from serl.minds.report_rows import MindRow, StartRow, visible

LATEST, KEPT_OF_MIND = 100, 50
"""Decisions of all minds together, and of each mind, that the page can show."""
POINTS_MAX = 1000
"""Maximum number of points in a persona's curve; beyond it, every other point is dropped."""
SECOND_NS = 1_000_000_000


@dataclass
class _Mind:
    """The state of one mind, as the page shows it."""

    persona: str
    rows: deque[MindRow] = field(default_factory=lambda: deque(maxlen=KEPT_OF_MIND))
    decisions: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    first_wealth: float | None = None
    last: MindRow | None = None
    """The last row that contains the mind's wealth."""


class LiveRun:
    """The run in a folder. The run need not exist yet, and another may replace it. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines = JsonLines(folder / DECISIONS)
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._start: StartRow | None = None
        self._minds: dict[str, _Mind] = {}
        self._latest: deque[MindRow] = deque(maxlen=LATEST)
        self._curves: dict[str, list[tuple[float, float]]] = {}
        #: (first wealth, wealth now) by persona, as in `_wealth`, kept from row to row: a sum over all minds for each row would take minutes
        self._sums: dict[str, tuple[float, float]] = {}
        self._problem = ""
        self._read = 0

    def overview(self) -> dict[str, Any]:
        """What the page shows, except for single minds. `problem` says what is wrong; the other figures are present regardless."""
        with self._lock:
            self._update()
            start = self._start
            problem = self._problem or self._lines.problem
            if start is None:
                return {
                    "problem": problem
                    or f"{self._lines.path}: no decisions yet; start the minds with: serl minds start --output {self._folder}"
                }
            return {
                "problem": problem,
                "name": visible(start.name), "model": visible(start.model),
                "ended": (self._folder / STATISTICS).exists(),
                "decisions": sum(mind.decisions for mind in self._minds.values()),
                "renamed": {shown: name for shown, name in start.symbols.items() if shown != name},
                "personas": [self._persona(persona.name) for persona in start.personas],
                "minds": [self._mind(name, mind) for name, mind in self._minds.items()],
                "latest": [self._decision(row) for row in reversed(self._latest)],
                "curves": {persona.name: self._curves[persona.name] for persona in start.personas if persona.name in self._curves},
            }  # fmt: skip

    def mind(self, name: str) -> dict[str, Any] | None:
        """The last decisions of a mind, newest first; None if there is no such mind."""
        with self._lock:
            self._update()
            mind = self._minds.get(name)
            if mind is None:
                return None
            return self._mind(name, mind) | {"rows": [self._decision(row) | _seen(row) for row in reversed(mind.rows)]}

    def tag(self) -> str:
        """A tag that changes whenever the run writes. Reads the new lines first, so that lines read later change the tag too."""
        with self._lock:
            self._update()
        found = []
        for name in (DECISIONS, STATISTICS):
            try:
                status = (self._folder / name).stat()
                found.append(f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}")
            except OSError:
                found.append("none")
        with self._lock:
            return "-".join([*found, f"{self._read:x}"])

    def _update(self) -> None:
        """Reads all new lines."""
        while True:
            restarted, lines = self._lines.read_new()
            if restarted:
                self._reset()
            if not lines:
                return
            self._read += len(lines)
            self._apply(lines)

    def _apply(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            try:
                values = json.loads(line)
                if self._start is None:
                    self._start = StartRow.model_validate(values)
                else:
                    self._add(MindRow.model_validate(values))
            except (ValidationError, ValueError, RecursionError):
                self._problem = f"{self._lines.path}: expected a row of this version of serl, got {visible(line[:80].decode(errors='replace'))!r}"

    def _add(self, row: MindRow) -> None:
        mind = self._minds.setdefault(row.mind, _Mind(row.persona))
        mind.rows.append(row)
        self._latest.append(row)
        if row.row == "decision":
            mind.decisions += 1
            mind.refused.update([row.refused] if row.refused else [])
        if row.wealth is None:
            return
        first, last = self._sums.get(row.persona, (0.0, 0.0))
        if mind.last is None:
            mind.first_wealth = row.wealth
            first += row.wealth
        else:
            last -= mind.last.wealth or 0.0
        last += row.wealth
        self._sums[row.persona], mind.last = (first, last), row
        if first > 0:
            curve = self._curves.setdefault(row.persona, [])
            point = (row.time_ns / SECOND_NS, last / first - 1)
            if curve and curve[-1][0] >= point[0]:
                curve[-1] = (curve[-1][0], point[1])
            else:
                curve.append(point)
            if len(curve) > POINTS_MAX:
                del curve[1:-1:2]

    def _wealth(self, persona: str) -> tuple[float, float]:
        """(first wealth, wealth now) summed over all minds of a persona."""
        known = [mind for mind in self._minds.values() if mind.persona == persona and mind.last is not None]
        return (
            sum(mind.first_wealth or 0.0 for mind in known),
            sum(mind.last.wealth or 0.0 for mind in known if mind.last is not None),
        )

    def _persona(self, name: str) -> dict[str, Any]:
        minds = [mind for mind in self._minds.values() if mind.persona == name]
        first, last = self._wealth(name)
        return {
            "persona": visible(name), "minds": len(minds), "decisions": sum(mind.decisions for mind in minds),
            "refused": sum(mind.refused.total() for mind in minds), "wealth": last, "return": last / first - 1 if first > 0 else None,
        }  # fmt: skip

    def _mind(self, name: str, mind: _Mind) -> dict[str, Any]:
        last = mind.last
        first = mind.first_wealth
        return {
            "mind": visible(name), "persona": visible(mind.persona), "decisions": mind.decisions, "refused": dict(mind.refused),
            "wealth": None if last is None else last.wealth, "cash": None if last is None else last.cash,
            "loan": 0.0 if last is None else last.loan, "lots": {} if last is None else last.lots,
            "return": last.wealth / first - 1 if last is not None and last.wealth is not None and first and first > 0 else None,
        }  # fmt: skip

    def _decision(self, row: MindRow) -> dict[str, Any]:
        assert self._start is not None
        action = action_text(row, self._start.symbols) if row.row == "decision" else row.row
        return {
            "time": self._time(row.time_ns), "mind": visible(row.mind), "kind": row.row, "action": visible(action), "side": row.action,
            "refused": visible(row.refused), "why": visible(row.lesson or row.reason), "post": visible(row.post),
        }  # fmt: skip

    def _time(self, time_ns: int) -> str:
        assert self._start is not None
        day, in_day_ns = divmod(time_ns - self._start.midnight_ns, DAY_NS)
        return f"day {day + 1}, {time_of_day_text(in_day_ns)}" if day else time_of_day_text(in_day_ns)


def _seen(row: MindRow) -> dict[str, Any]:
    """What a mind saw and owned at a decision."""
    return {
        "events": [visible(f"{event.kind.replace('_', ' ')}: {event.text}") for event in row.events],
        "outcomes": [visible(text) for text in row.outcomes],
        "memories": [visible(text) for text in row.memories],
        "wealth": row.wealth, "cash": row.cash, "loan": row.loan, "lots": row.lots,
    }  # fmt: skip
