"""What the exchange logs on stderr: plain text, or one JSON object a line (`serl exchange start --log json`)."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("serl.exchange")


def log(event: str, text: str, *, level: int = logging.WARNING, **fields: Any) -> None:
    """Logs a line. event: a name for programs, like `disk_full`; fields: the numbers and names in the text, for JSON."""
    LOGGER.log(level, text, extra={"event": event, "fields": fields})


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
