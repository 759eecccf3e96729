"""Anonymous prompts: symbols are called S1, S2, ... and days are counted from the start, so that a model cannot recognise history."""

import datetime
import re
from collections.abc import Mapping, Sequence

from serl.exchange.config import time_of_day_text
from serl.minds.events import DAY_NS

_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")


class Disguise:
    """Names and times as prompts show them. With `active` off, they are shown as they are."""

    def __init__(
        self, symbols: Sequence[str], aliases: Mapping[str, Sequence[str]], midnight_ns: int,
        first_date: datetime.date | None = None, *, active: bool,
    ) -> None:  # fmt: skip
        """midnight_ns: start of the exchange's day. first_date: date of that day; by default the clock's date, if the clock shows one."""
        self.active, self._midnight_ns = active, midnight_ns
        days = round(midnight_ns / DAY_NS)
        clock_date = datetime.date(1970, 1, 1) + datetime.timedelta(days=days) if days else None
        self._first_date = first_date or clock_date
        self._shown = {symbol: f"S{number}" if active else symbol for number, symbol in enumerate(symbols, 1)}
        self._symbols = {shown: symbol for symbol, shown in self._shown.items()}
        #: symbols of one letter are left out, because they would also match words
        words = {symbol: symbol for symbol in symbols if len(symbol) > 1}
        words |= {alias: symbol for symbol, names in aliases.items() for alias in names if symbol in self._shown}
        longest_first = sorted(words, key=len, reverse=True)
        #: by matching group, not by text: a text that matches ignoring case need not be equal in lower case (the dotless i of Turkish)
        self._replacements = [self._shown[words[word]] for word in longest_first]
        groups = "|".join(f"({re.escape(word)})" for word in longest_first)
        self._pattern = re.compile(rf"(?<!\w)(?:{groups})(?!\w)", re.IGNORECASE) if words else None

    @property
    def names(self) -> list[str]:
        """The symbols as prompts show them."""
        return list(self._symbols)

    def shown(self, symbol: str) -> str:
        """A symbol's name in prompts. Events may be about a symbol that the minds do not trade."""
        return self._shown.get(symbol, "another symbol" if self.active else symbol)

    def symbol(self, shown: str) -> str | None:
        """The symbol with this name in an answer; None if there is none."""
        return self._symbols.get(shown)

    def text(self, text: str) -> str:
        """A text with symbols and their aliases replaced, and dates (2008-09-15) counted from the start."""
        if not self.active:
            return text
        if self._pattern is not None:
            text = self._pattern.sub(self._replacement, text)
        return _ISO_DATE.sub(self._relative_day, text)

    def _replacement(self, found: re.Match[str]) -> str:
        assert found.lastindex is not None, "each word is a group"
        return self._replacements[found.lastindex - 1]

    def _relative_day(self, found: re.Match[str]) -> str:
        try:
            date = datetime.date(*map(int, found.groups()))
        except ValueError:
            return found.group()
        return "another day" if self._first_date is None else f"day {(date - self._first_date).days + 1}"

    def time(self, time_ns: int) -> str:
        """A time of the exchange's clock as text: day 1, 10:30:00; or 2026-03-02 10:30:00 if names are shown as they are."""
        day, in_day_ns = divmod(time_ns - self._midnight_ns, DAY_NS)
        clock = time_of_day_text(in_day_ns)
        if self.active or self._first_date is None:
            return f"day {day + 1}, {clock}"
        return f"{self._first_date + datetime.timedelta(days=day)} {clock}"
