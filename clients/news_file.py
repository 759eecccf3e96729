"""Files of news: CSV with a header, or one JSON object a line."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from serl.exchange.config import time_of_day_ns
from serl.exchange.errors import ConfigError
from serl.exchange.news import News, NewsKind, checked_news, kind_number

DAY_NS, DAY_MAX = 86_400 * 10**9, 366
AT_ONCE = -1
"""`time_ns` of a message without a time."""
FIELDS = ("time", "day", "time_ns", "kind", "symbol", "headline", "body", "value", "source")
IGNORED = ("sequence",)
"""Columns that `serl news list` writes but the exchange does not take: it assigns its own numbers."""


def read_news_file(path: Path) -> list[News]:
    """Reads the messages of a file, in order of time, with times in ns after midnight or AT_ONCE, and the number 0. Raises a ConfigError that
    names the row."""
    messages: list[News] = []
    for row, values in _rows(path):
        try:
            messages.append(_message(values))
        except ConfigError as error:
            raise ConfigError(f"{path}, row {row}: {error}") from None
    timed = [message.time_ns != AT_ONCE for message in messages]
    if not messages:
        raise ConfigError(
            f"{path}: expected at least one message, got none; give a CSV file with a header or JSON lines"
        )
    if any(timed) and not all(timed):
        raise ConfigError(
            f"{path}: expected a time in each row or in none, got {sum(timed)} times in {len(timed)} rows; complete them"
        )
    return sorted(messages, key=lambda message: message.time_ns)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8, got another encoding ({error}); convert the file") from None
    if text.lstrip().startswith("{"):
        yield from _json_rows(path, text)
        return
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        names = list(rows.fieldnames or [])
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"{path}: expected each column once, got two of {', '.join(twice)[:80]}; leave one out")
        for row, values in enumerate(rows, 1):
            if None in values or None in values.values():
                raise ConfigError(
                    f"{path}, row {row}: expected as many cells as the header has; quote cells with commas"
                )
            yield row, {name: cell for name, cell in values.items() if cell != ""}
    except csv.Error as error:
        raise ConfigError(f"{path}: expected CSV with a header or JSON lines, got something else ({error})") from None


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for row, line in enumerate(text.rstrip().split("\n"), 1):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}, row {row}: expected a JSON object, got something else ({error})") from None
        if not isinstance(values, dict):
            raise ConfigError(f"{path}, row {row}: expected a JSON object, got {line[:80]}")
        yield row, values


def _message(values: dict[str, Any]) -> News:
    if unknown := values.keys() - {*FIELDS, *IGNORED}:
        raise ConfigError(f"expected the fields {', '.join(FIELDS)}, got {', '.join(sorted(map(str, unknown)))[:80]}")
    kind = kind_number(values.get("kind", "news"))
    symbol, headline, body, source = (values.get(name, "") for name in ("symbol", "headline", "body", "source"))
    return checked_news(0, _time_ns(values), kind, symbol, headline, body, _value(values.get("value"), kind), source)


def _time_ns(values: dict[str, Any]) -> int:
    """The time of a message in ns after midnight of the exchange's first day: from `time` (09:30 or 09:30:15) and `day` (0 is the first), or from `time_ns`."""
    if "time" in values and "time_ns" in values:
        raise ConfigError("expected time or time_ns, got both; leave one out")
    if "day" in values and "time" not in values:
        raise ConfigError("day: expected a time beside it, got none; add the time, like 09:30")
    if "time" in values:
        return _day(values.get("day", 0)) * DAY_NS + time_of_day_ns(str(values["time"]))
    if "time_ns" not in values:
        return AT_ONCE
    time_ns = _integer(values["time_ns"])
    if time_ns is None or not 0 <= time_ns < (DAY_MAX + 1) * DAY_NS:
        raise ConfigError(
            f"time_ns: expected nanoseconds after midnight of the first day, up to day {DAY_MAX}, got {str(values['time_ns'])[:80]!r}"
        )
    return time_ns


def _day(value: Any) -> int:
    day = _integer(value)
    if day is None or not 0 <= day <= DAY_MAX:
        raise ConfigError(f"day: expected a number from 0, the first day, to {DAY_MAX}, got {str(value)[:80]!r}")
    return day


def _integer(value: Any) -> int | None:
    """An integer, also from a CSV cell; None for any other value."""
    if isinstance(value, str):
        return int(value) if re.fullmatch("-?[0-9]{1,19}", value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _value(value: Any, kind: int) -> Any:
    """A value from JSON as it is, a CSV cell as a number."""
    if not isinstance(value, str):
        return value
    if kind == NewsKind.VALUE:
        return _integer(value) if _integer(value) is not None else value
    try:
        return float(value)
    except ValueError:
        return value
