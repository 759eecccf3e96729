"""Events that minds read: news, fundamentals, macro figures and changes of the loan rate, each at a time of the exchange's clock.

A mind sees an event once the exchange's clock has reached its time. Minds get events through an `EventSource`: a file (`FileEvents`), the exchange's
news channel (`news_events.py`), or both (`MergedEvents`).
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from serl.exchange.config import time_of_day_ns
from serl.exchange.invalid import describe_invalid, text_like
from serl.minds.config import LOAN_RATE_MAX, SECOND_NS, TIME
from serl.minds.errors import MindsConfigError

FileKind = Literal["news", "fundamental", "macro", "loan_rate"]
EventKind = Literal["news", "fundamental", "macro", "loan_rate", "value", "forecast"]
DAY_NS = 86_400 * SECOND_NS


@dataclass(frozen=True)
class MarketEvent:
    """One event, at `time_ns` of the exchange's clock."""

    time_ns: int
    kind: EventKind
    text: str
    symbol: str = ""
    """The symbol that the event is about; "" for all symbols."""
    value: float | None = None
    """The event's figure: earnings, an index, the loan rate per year, or the symbol's value in money."""
    importance: float | None = None
    """Importance from 0 to 100, for the memory; None for that of the event's kind."""
    contradicts: bool = False
    """Whether an earlier event with the same time, kind and symbol has another value."""


class EventSource(Protocol):
    """The source of one mind's events."""

    async def new(self, time_ns: int) -> Sequence[MarketEvent]:
        """The events up to a time of the exchange's clock that no call has returned before, oldest first."""
        ...


class EventLine(BaseModel):
    """A line of a file of events."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: FileKind
    text: str = Field(min_length=1, max_length=2000)
    time: Annotated[str, text_like(TIME, "a time of the day, like 09:30 or 09:30:15")] | None = None
    day: int = Field(0, ge=0, le=366)
    after_s: float | None = Field(None, ge=0, le=366 * 86_400)
    symbol: str = ""
    value: float | None = Field(None, allow_inf_nan=False)
    importance: float | None = Field(None, ge=0, le=100)

    @model_validator(mode="after")
    def _has_one_time(self) -> "EventLine":
        if (self.time is None) == (self.after_s is None):
            given = "neither" if self.time is None else "both"
            raise ValueError(f"expected `time` or `after_s`, got {given}; give one of them")
        if self.time is not None:
            time_of_day_ns(self.time)
        if self.kind == "loan_rate" and not (self.value is not None and 0 <= self.value <= LOAN_RATE_MAX):
            raise ValueError(f"value: expected the rate per year of a loan_rate, like 0.05, got {self.value}; add it")
        return self

    def at(self, start_ns: int, midnight_ns: int) -> MarketEvent:
        """The event of this line in a run that starts at `start_ns`. midnight_ns: the start of the exchange's day."""
        if self.time is not None:
            time_ns = midnight_ns + self.day * DAY_NS + time_of_day_ns(self.time)
        else:
            time_ns = start_ns + round((self.after_s or 0.0) * SECOND_NS)
        return MarketEvent(time_ns, self.kind, self.text, self.symbol, self.value, self.importance)


def read_event_lines(path: Path, symbols: Collection[str]) -> list[EventLine]:
    """The lines of a JSONL file. symbols: those of the exchange. Raises MindsConfigError with the number of the first invalid line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MindsConfigError(f"{path}: expected a JSONL file of events, got none ({error}); check the path") from None
    lines = []
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: JSON may contain U+2028 and its like
        if not line.strip():
            continue
        try:
            event = EventLine.model_validate(json.loads(line))
        except ValidationError as error:
            raise MindsConfigError(f"{path}:{number}: {describe_invalid(error, EventLine, most=1)}") from None
        except (ValueError, RecursionError) as error:
            raise MindsConfigError(f"{path}:{number}: expected a JSON object, got {line[:60]!r} ({error})") from None
        if event.symbol and event.symbol not in symbols:
            raise MindsConfigError(
                f"{path}:{number}: expected a symbol of the exchange ({', '.join(symbols)}), got {event.symbol}; correct it"
            )
        lines.append(event)
    return lines


class FileEvents:
    """The events of a file, for one mind. Events with the same time stay in the order of the file."""

    def __init__(self, lines: Sequence[EventLine], start_ns: int, midnight_ns: int) -> None:
        self._events = sorted((line.at(start_ns, midnight_ns) for line in lines), key=lambda event: event.time_ns)

    async def new(self, time_ns: int) -> Sequence[MarketEvent]:
        """See `EventSource`."""
        count = sum(event.time_ns <= time_ns for event in self._events)
        found, self._events = self._events[:count], self._events[count:]
        return found


class MergedEvents:
    """The events of several sources in order of time. An event that a source learns late is returned late, and none is returned twice."""

    def __init__(self, sources: Sequence[EventSource]) -> None:
        self._sources = sources

    async def new(self, time_ns: int) -> Sequence[MarketEvent]:
        """See `EventSource`."""
        found = [event for source in self._sources for event in await source.new(time_ns)]
        return mark_contradictions(sorted(found, key=lambda event: event.time_ns))


def mark_contradictions(events: Sequence[MarketEvent]) -> list[MarketEvent]:
    """The same events, with `contradicts` set where an earlier event with the same time, kind and symbol has another value."""
    first_values: dict[tuple[int, str, str], float] = {}
    marked = []
    for event in events:
        first = event.value
        if event.value is not None:
            first = first_values.setdefault((event.time_ns, event.kind, event.symbol), event.value)
        marked.append(replace(event, contradicts=first != event.value))
    return marked
