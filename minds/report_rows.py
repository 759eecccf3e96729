"""The files of a run as its report reads them: rows of `decisions.jsonl`, and the statistics once the run has ended."""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serl.exchange.config import time_of_day_text
from serl.exchange.invalid import describe_invalid
from serl.minds.config import PersonaConfig
from serl.minds.errors import MindsError
from serl.minds.events import DAY_NS, EventKind
from serl.minds.files import DECISIONS, STATISTICS

Text = Annotated[str, Field(max_length=20_000)]
"""With a maximum length, pydantic also refuses text that is not valid Unicode."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    time_ns: int


class StartRow(_Row):
    """The first row: the run."""

    row: Literal["start"]
    midnight_ns: int
    name: Text
    model: Text
    seed: int
    forum: bool
    symbols: dict[Text, Text] = Field(description="the exchange's names, by those of the prompts")
    personas: tuple[PersonaConfig, ...]


class EventOfRow(_Row):
    """An event that a mind read."""

    kind: EventKind
    text: Text
    symbol: Text
    value: float | None


class MindRow(_Row):
    """What a mind saw, owned and answered at a decision; or the lesson of a reflection; or what the mind owned at the end."""

    row: Literal["decision", "lesson", "end"]
    mind: Text
    persona: Text
    wealth: float | None = None
    cash: float = 0.0
    loan: float = 0.0
    lots: dict[Text, int] = {}
    outcomes: tuple[Text, ...] = ()
    refused: Text = ""
    action: Text = ""
    symbol: Text = ""
    order_type: Text = ""
    price: Text = ""
    quantity: int = 0
    order_id: int = 0
    amount: Text = ""
    reason: Text = ""
    post: Text = ""
    events: tuple[EventOfRow, ...] = ()
    memories: tuple[Text, ...] = ()
    lesson: Text = ""


@dataclass(frozen=True)
class RunFiles:
    """A run that has ended or is in progress."""

    start: StartRow
    rows: Sequence[MindRow]
    statistics: dict[str, Any] | None
    """None while the run is in progress, or if it was killed."""

    def of_mind(self) -> dict[str, list[MindRow]]:
        """The rows of each mind, in the order of the personas."""
        order = {persona.name: number for number, persona in enumerate(self.start.personas)}
        found: dict[str, list[MindRow]] = {}
        for row in sorted(self.rows, key=lambda row: order.get(row.persona, len(order))):
            found.setdefault(row.mind, []).append(row)
        return found

    def events(self) -> list[EventOfRow]:
        """Each event that a mind read, oldest first."""
        found = dict.fromkeys(event for row in self.rows for event in row.events)
        return sorted(found, key=lambda event: event.time_ns)

    def time(self, time_ns: int) -> str:
        """A time of the exchange's clock as text, with the day if the run has several."""
        day, in_day_ns = divmod(time_ns - self.start.midnight_ns, DAY_NS)
        clock = time_of_day_text(in_day_ns)
        return f"day {day + 1}, {clock}" if self._has_days or day else clock

    @cached_property
    def _has_days(self) -> bool:
        return any(row.time_ns - self.start.midnight_ns >= DAY_NS for row in self.rows)


def read_run(folder: Path) -> RunFiles:
    """The files of a run's folder; an incomplete last row is left out. Raises MindsError."""
    path = folder / DECISIONS
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MindsError(
            f"{path}: expected the decisions of a run, got none ({error}); give the folder that serl minds start wrote"
        ) from None
    rows = _rows(path, text[: text.rfind("\n") + 1])
    start = next(rows, None)
    if not isinstance(start, StartRow):
        raise MindsError(f"{path}: expected a run's start in the first row, got none; run the minds again")
    return RunFiles(start, [row for row in rows if isinstance(row, MindRow)], _statistics(folder / STATISTICS))


def _rows(path: Path, text: str) -> Iterator[StartRow | MindRow]:
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            values = json.loads(line)
            kind: type[StartRow | MindRow] = StartRow if number == 1 else MindRow
            yield kind.model_validate(values)
        except ValidationError as error:
            raise MindsError(
                f"{path}:{number}: expected a row of this version of serl, got another ({describe_invalid(error, most=1)}); run the minds again"
            ) from None
        except (ValueError, RecursionError) as error:
            raise MindsError(f"{path}:{number}: expected a JSON object, got {line[:60]!r} ({error})") from None


def _statistics(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and isinstance(found.get("minds"), list):
            return found
    except (OSError, ValueError, RecursionError):
        pass
    raise MindsError(f"{path}: expected the statistics of a run, got another file; run the minds again")


def visible(text: str) -> str:
    """A model's text without invisible characters and characters that change the direction of text; spaces replace them."""
    return "".join(" " if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") else char for char in text)
