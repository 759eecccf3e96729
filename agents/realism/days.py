"""Loads days and cuts windows, as given on the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import MINUTE_NS, Tape, build_tape, check_levels
from serl.exchange.config import RECORDED_HOURS, time_of_day_ns, time_of_day_text
from serl.extras import require_day_files
from serl.history.day import Day, read_day


def load_day(path: Path) -> Day:
    """Loads a day file, or imports a LOBSTER zip file, folder or message file. Raises MissingPackageError without the extra `history`."""
    require_day_files()
    from serl.history.importing import import_day

    is_file = path.is_file() and path.suffix not in (".zip", ".csv")
    return read_day(path) if is_file else import_day(path)


def parse_window(text: str, option: str = "window") -> tuple[int, int]:
    """Parses '13:00-16:00' as (start, end) in ns after midnight, which may exceed a day (23:30-24:30). Raises RealismError unless it ends after it
    starts, and ConfigError for an invalid time of day. option: name in the errors."""
    start, dash, end = text.partition("-")
    if not dash:
        raise RealismError(f"{option}: expected FROM-TO, got {text!r}; give e.g. 13:00-16:00")
    start_ns, end_ns = (time_of_day_ns(each, option, RECORDED_HOURS) for each in (start, end))
    if end_ns <= start_ns:
        raise RealismError(f"{option}: expected FROM-TO with FROM before TO, got {text!r}; give e.g. 13:00-16:00")
    return start_ns, end_ns


def window_text(window: tuple[int, int]) -> str:
    """Formats (start, end) in ns after midnight as '13:00:00-16:00:00'."""
    return "-".join(map(time_of_day_text, window))


@dataclass(frozen=True)
class DayWindow:
    """A window of a day, and its source."""

    name: str
    """Name of the file."""
    origin: str
    """The day's source: files with their sha256, or the parameters of a generated day."""
    tape: Tape
    """Tape of the window."""
    start_ns: int
    end_ns: int

    @property
    def window(self) -> str:
        """The window as FROM-TO."""
        return window_text((self.start_ns, self.end_ns))

    def halves(self) -> tuple["DayWindow", "DayWindow"]:
        """The two halves in time."""
        middle_ns = (self.start_ns + self.end_ns) // 2
        first, second = self.tape.halves(self.start_ns, self.end_ns)
        return (
            DayWindow(f"{self.name}, first half", self.origin, first, self.start_ns, middle_ns),
            DayWindow(f"{self.name}, second half", self.origin, second, middle_ns, self.end_ns),
        )

    def to_json(self) -> dict[str, Any]:
        """The window's source and size."""
        tape = self.tape
        return {
            "name": self.name,
            "origin": self.origin,
            "symbol": tape.symbol,
            "window": self.window,
            "levels": tape.levels,
            "messages": len(tape),
            "trades": int(tape.trades.sum()),
        }


def cut_window(day: Day, name: str, window: tuple[int, int] | None, levels: int, symbol: str | None) -> DayWindow:
    """Builds a day's tape and cuts a window (None: the whole day), without the minutes before the day's first message and after its last. Raises the
    errors of check_levels, build_tape and Tape.window."""
    try:
        check_levels(day, levels)
    except RealismError as error:
        raise RealismError(f"{name}: {error}") from None
    tape = build_tape(day, levels, symbol)
    first, last = tape.span()
    start_ns, end_ns = first // MINUTE_NS * MINUTE_NS, -(-last // MINUTE_NS) * MINUTE_NS
    if window is None:
        window = start_ns, end_ns
    part = tape.window(*window)
    return DayWindow(name, day_origin(day), part, max(window[0], start_ns), min(window[1], end_ns))


def day_origin(day: Day) -> str:
    """The source of a day: files with their sha256, or its parameters."""
    files = ", ".join(f"{file.name} sha256 {file.sha256[:16]}" for file in day.reference.files)
    return files or f"{day.reference.source} {day.reference.parameters}"
