"""What the exchange logs on stderr: plain text, or one JSON object a line (`serl exchange start --log json`)."""

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("serl.exchange")


def log(event: str, text: str, *, level: int = logging.WARNING, **fields: Any) -> None:
    """Logs a line. event: a name for programs, like `disk_full`; fields: the numbers and names in the text, for JSON."""
    LOGGER.log(level, text, extra={"event": event, "fields": fields})


LINES_MAX = 10
"""Lines of a `LineLimit` in PERIOD_S."""
PERIOD_S = 10.0


class LineLimit:
    """Lets few lines of a kind through, however often strangers cause them; the next line says how many were left out."""

    def __init__(self) -> None:
        self._period_s = 0.0
        self._lines = self._omitted = 0

    def admit(self) -> int:
        """How many lines were left out before this one; -1: leave this one out too."""
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
        """The line to log, with what was left out before; "": none."""
        omitted = self.admit()
        return "" if omitted < 0 else with_omitted(text, omitted)


def with_omitted(text: str, omitted: int) -> str:
    """A line, with how many were left out before it."""
    return f"{text} ({omitted} more were not logged)" if omitted else text


class JsonFormatter(logging.Formatter):
    """A JSON object: time (UTC), level, event, text, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        values = {"time": time, "level": record.levelname.lower(), "event": getattr(record, "event", "")}
        return json.dumps(values | {"text": record.getMessage()} | getattr(record, "fields", {}))


def log_to_stderr(form: str) -> None:
    """Sets the form of the process's log: "text" or "json". JSON includes the start and the stop; with text they are printed on stdout."""
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonFormatter())
    LOGGER.handlers = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO if form == "json" else logging.WARNING)
