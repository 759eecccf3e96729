"""What the exchange logs on stderr: plain text, or one JSON object a line (`serl exchange start --log json`)."""

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("serl.exchange")


def log(event: str, text: str, *, level: int = logging.WARNING, **fields: Any) -> None:
    """Logs a line. event: a machine-readable name, like `disk_full`; fields: the numbers and names in the text, for JSON."""
    LOGGER.log(level, text, extra={"event": event, "fields": fields})


def without_repeats(report: Callable[[str], None]) -> Callable[[str], None]:
    """`report` for what is tried again and again: leaves out a text that repeats the last one."""
    last = ""

    def report_new(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            report(text)

    return report_new


LINES_MAX = 10
"""Maximum number of lines that a `LineLimit` admits in PERIOD_S."""
PERIOD_S = 10.0


class LineLimit:
    """Admits only a few lines of a kind, however often unauthenticated clients cause them; the next line says how many were omitted."""

    def __init__(self) -> None:
        self._period_s = 0.0
        self._lines = self._omitted = 0

    def admit(self) -> int:
        """Returns how many lines were omitted before this one; -1: omit this one too."""
        now_s = time.monotonic()
        if now_s - self._period_s >= PERIOD_S:
            self._period_s, self._lines = now_s, 0
        if self._lines == LINES_MAX:
            self._omitted += 1
            return -1
        self._lines += 1
        omitted, self._omitted = self._omitted, 0
        return omitted

    def limit(self, text: str) -> str:
        """The line to log, with the number of lines omitted before it; "" to log nothing."""
        omitted = self.admit()
        return "" if omitted < 0 else with_omitted(text, omitted)


def with_omitted(text: str, omitted: int) -> str:
    """A line with the number of lines omitted before it."""
    return f"{text} ({omitted} more were not logged)" if omitted else text


class JsonFormatter(logging.Formatter):
    """A JSON object: time (UTC), level, event, text, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        values = {"time": time, "level": record.levelname.lower(), "event": getattr(record, "event", "")}
        return json.dumps(values | {"text": record.getMessage()} | getattr(record, "fields", {}))


def log_to_stderr(form: str) -> None:
    """Sets the format of the process's log: "text" or "json". JSON includes the start and the stop; with text they are printed on stdout."""
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonFormatter())
    LOGGER.handlers = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO if form == "json" else logging.WARNING)
