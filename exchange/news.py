"""News messages of an exchange about the world: their kinds, fields and limits (docs/news.md)."""

import math
import unicodedata
from enum import IntEnum
from typing import Any, NamedTuple

from serl.exchange.errors import ConfigError
from serl.exchange.wire import is_int

TOPIC = b"news/"
"""The topic of the feed on which all messages are published."""
FEED_KIND = 120
"""First element of a feed message on `news/`. It is not a `FeedKind`, because those are channels of a symbol."""
REPLY_MESSAGES_MAX = 32
"""Messages in a reply to NEWS."""
LIMIT = "news_bytes_max"
"""Name of the limit that an exchange with news has; exchanges of earlier versions have neither."""
VALUE_TICKS_MAX = 1 << 53
"""The largest absolute `value` of a message of kind `value`."""


class NewsKind(IntEnum):
    """The kind of a news message."""

    NEWS = 1
    FUNDAMENTAL = 2
    MACRO = 3
    VALUE = 4
    SIGNAL = 5


KIND_NAMES = tuple(kind.name.lower() for kind in NewsKind)


class News(NamedTuple):
    """A message about the world.

    Attributes:
        sequence: its number. Numbers begin at 1 and have no gaps; a restart continues them.
        time_ns: exchange time of its publication; in a day file, after midnight.
        kind: a `NewsKind`.
        symbol: name of the symbol that the message concerns, "" for none.
        headline: one line of text.
        body: more text, "" for none.
        value: for kind VALUE the value of the symbol in ticks, an integer; for other kinds a float, or None.
        source: the origin of the message.
    """

    sequence: int
    time_ns: int
    kind: int
    symbol: str
    headline: str
    body: str
    value: int | float | None
    source: str

    def to_json(self) -> dict[str, Any]:
        """The message as a JSON object, with the name of its kind."""
        return self._asdict() | {"kind": NewsKind(self.kind).name.lower()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "News":
        """The message of a JSON object. Raises KeyError, TypeError or ValueError for any other object."""
        sequence, time_ns = values["sequence"], values["time_ns"]
        if not (is_int(sequence) and is_int(time_ns)):
            raise ValueError(f"expected integers sequence and time_ns, got {sequence!r} and {time_ns!r}")
        fields = {name: values[name] for name in ("symbol", "headline", "body", "value", "source")}
        return checked_news(sequence, time_ns, kind_number(values["kind"]), **fields)


def kind_number(name: str) -> int:
    """The number of the kind with this name. Raises ConfigError if there is none."""
    if name not in KIND_NAMES:
        raise ConfigError(f"kind: expected one of {', '.join(KIND_NAMES)}, got {str(name)[:80]!r}")
    return int(NewsKind[name.upper()])


def checked_news(
    sequence: int, time_ns: int, kind: int, symbol: str, headline: str, body: str, value: Any, source: str
) -> News:
    """Creates a message with these fields. Raises a ConfigError that names the field unless they are valid together."""
    if kind not in tuple(NewsKind):
        raise ConfigError(f"kind: expected a number from 1 to {max(NewsKind)}, got {kind}")
    for name, text, allowed in (("headline", headline, ""), ("body", body, "\n\t"), ("source", source, "")):
        _check_text(name, text, allowed)
    if not isinstance(symbol, str):
        raise ConfigError(f"symbol: expected a name, or an empty text for none, got {symbol!r}")
    value = _value_in_ticks(symbol, value) if kind == NewsKind.VALUE else _number(value)
    if not headline and value is None:
        raise ConfigError("headline: expected a headline or a value, got neither; give one")
    return News(sequence, time_ns, kind, symbol, headline, body, value, source)


def text_bytes(headline: str, body: str, source: str) -> int:
    """The size of a message, as limited by `news_bytes_max`."""
    return len(headline.encode()) + len(body.encode()) + len(source.encode())


def _check_text(name: str, text: Any, allowed: str) -> None:
    if not isinstance(text, str):
        raise ConfigError(f"{name}: expected a text, got {text!r}")
    found = next((char for char in text if unicodedata.category(char) in ("Cc", "Cs") and char not in allowed), None)
    if found is not None:
        raise ConfigError(f"{name}: expected printable text, got the character {found!r}; remove it")


def _value_in_ticks(symbol: str, value: Any) -> int:
    if not symbol:
        raise ConfigError("symbol: expected the symbol whose value it is, got none; give one, or another kind")
    if not is_int(value) or abs(value) > VALUE_TICKS_MAX:
        raise ConfigError(f"value: expected an integer of ticks within +-2^53, got {str(value)[:80]}")
    return int(value)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    try:
        number = float(value) if is_int(value) or isinstance(value, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"value: expected a finite number or none, got {str(value)[:80]}")
    return number
