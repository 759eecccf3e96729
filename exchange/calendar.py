"""The calendar of all symbols in order of time: phases, batch auctions, the end of the day."""

import heapq
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from itertools import count
from typing import NamedTuple
from zoneinfo import ZoneInfo

from serl.exchange.clock import DAY_NS
from serl.exchange.config import ExchangeConfig, time_of_day_ns
from serl.exchange.kernel.state import NEVER
from serl.exchange.records import ALL_SYMBOLS, CommandKind, Phase

SECOND_NS = 1_000_000_000


class ScheduledCommand(NamedTuple):
    """A command that the exchange issues itself."""

    time_ns: int
    symbol: int
    kind: CommandKind
    phase: Phase = Phase.CONTINUOUS


class Calendar:
    """The entries of each symbol's day: every day on a live clock, once on any other. They begin with yesterday's, because yesterday's last
    phase applies until today's first entry."""

    def __init__(self, config: ExchangeConfig, now_ns: int) -> None:
        self._config = config
        zone = ZoneInfo(config.time_zone) if config.clock.kind == "live" else None
        streams = []
        for number, symbol in enumerate(config.symbols):
            for entry in symbol.day:
                times = daily_times_ns(now_ns, time_of_day_ns(entry.at), zone)
                streams.append(_phases(times, number, Phase[entry.phase.upper()]))
            if symbol.auction_every_s:
                streams.append(_auctions(now_ns, round(symbol.auction_every_s * SECOND_NS), number))
        closings = [
            daily_times_ns(now_ns, time_of_day_ns(entry.at), zone)
            for symbol in config.symbols
            for entry in symbol.day
            if entry.phase == "closed"
        ]
        if closings:  # each day's latest: as summer time begins, not always that with the latest local time
            streams.append(_day_ends(map(max, zip(*closings, strict=False))))
        self._scheduled = heapq.merge(*streams)
        self._next = next(self._scheduled, None)

    def __deepcopy__(self, memo: object) -> "Calendar":
        """A calendar with the same commands ahead. Do not call it while only some of the commands of one time have been popped."""
        return self.after(self.next_ns - 1)

    def after(self, time_ns: int) -> "Calendar":
        """A calendar that contains only the commands after a time."""
        other = self.around(time_ns)
        for _ in other.pop_until(time_ns):
            pass
        return other

    def around(self, time_ns: int) -> "Calendar":
        """A calendar as of a start at another time: its first entries are those of the day before."""
        return Calendar(self._config, time_ns)

    @property
    def next_ns(self) -> int:
        """When the next command is due; NEVER if there is none."""
        return NEVER if self._next is None else self._next.time_ns

    def pop(self) -> ScheduledCommand:
        """Removes and returns the next command."""
        assert self._next is not None, "the calendar is empty"
        scheduled, self._next = self._next, next(self._scheduled, None)
        return scheduled

    def pop_until(self, time_ns: int) -> Iterator[ScheduledCommand]:
        """Removes and yields every command due up to a time."""
        while self.next_ns <= time_ns:
            yield self.pop()


def daily_times_ns(now_ns: int, of_day_ns: int, zone: ZoneInfo | None) -> Iterator[int]:
    """The local time `of_day_ns` after midnight in a time zone, yesterday, today and on each following day, in nanoseconds since 1970. A time
    that the start of summer time skips is read as winter time; if the end of summer time repeats a time, the first counts. Without a zone there
    is only one day, which starts at 0, and the day before it."""
    if zone is None:
        return iter([of_day_ns - DAY_NS, of_day_ns])
    seconds, fraction_ns = divmod(of_day_ns, SECOND_NS)
    midnight = datetime.combine(datetime.fromtimestamp(now_ns // SECOND_NS, zone), time())
    local_times = (midnight + timedelta(days=day, seconds=seconds) for day in count(-1))
    return (int(local.replace(tzinfo=zone).timestamp()) * SECOND_NS + fraction_ns for local in local_times)


def _phases(times_ns: Iterator[int], symbol: int, phase: Phase) -> Iterator[ScheduledCommand]:
    return (ScheduledCommand(time_ns, symbol, CommandKind.PHASE, phase) for time_ns in times_ns)


def _day_ends(times_ns: Iterator[int]) -> Iterator[ScheduledCommand]:
    """END_DAY commands; they sort after the phases of the same time, so that a closing auction comes first."""
    return (ScheduledCommand(time_ns, ALL_SYMBOLS, CommandKind.END_DAY) for time_ns in times_ns)


def _auctions(now_ns: int, every_ns: int, symbol: int) -> Iterator[ScheduledCommand]:
    return (
        ScheduledCommand(time_ns, symbol, CommandKind.UNCROSS)
        for time_ns in count((now_ns // every_ns + 1) * every_ns, every_ns)
    )
