"""When minds decide: times of the exchange's clock, and how a session waits for them on each kind of clock."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from serl.clients.asynchronous import AsyncExchange
from serl.exchange.config import time_of_day_text
from serl.exchange.wire import Kind
from serl.minds.config import SECOND_NS, MindsConfig
from serl.minds.errors import MindsError
from serl.minds.events import DAY_NS

POLL_S = 0.2
"""Longest time between two readings of a live or scaled clock, which may be set or paused."""


@dataclass(frozen=True)
class Schedule:
    """The times of a run, in ns of the exchange's clock."""

    start_ns: int
    end_ns: int
    spans: tuple[tuple[int, int], ...]
    """Start (a decision time) and end (exclusive) of each day."""
    interval_ns: int
    midnight_ns: int

    def times(self, every: int) -> Iterator[int]:
        """The decision times of a persona that decides at every n-th time, n = `every`."""
        for start_ns, end_ns in self.spans:
            yield from range(start_ns, end_ns, every * self.interval_ns)

    def is_open(self, time_ns: int) -> bool:
        """Whether a time is within the hours of a day."""
        return any(start_ns <= time_ns < end_ns for start_ns, end_ns in self.spans)


def schedule_of(config: MindsConfig, now_ns: int, midnight_ns: int, *, lockstep: bool) -> Schedule:
    """The schedule of a run that begins now. Raises MindsError if its hours are over or, in lockstep, if they have already begun."""
    interval_ns = config.interval_ns
    if config.duration_s is not None:
        start_ns = now_ns + interval_ns
        end_ns = start_ns + round(config.duration_s * SECOND_NS)
        return Schedule(start_ns, end_ns, ((start_ns, end_ns),), interval_ns, midnight_ns)
    open_ns, close_ns = config.span_ns
    days = [midnight_ns + day * DAY_NS for day in range(config.days)]
    spans = tuple((day_ns + open_ns, day_ns + close_ns) for day_ns in days)
    start_ns, end_ns = spans[0][0], spans[-1][1]
    if now_ns >= end_ns or (lockstep and now_ns > start_ns):
        now, begin = time_of_day_text((now_ns - midnight_ns) % DAY_NS), time_of_day_text(open_ns)
        state, fresh = ("begun", "") if lockstep else ("ended", f" with --clock-start {begin}")
        raise MindsError(
            f"hours: expected hours that have not {state}, got {config.hours} ({config.days} day{'s' if config.days > 1 else ''}) at {now}; give later "
            f"ones, or start a fresh exchange{fresh}"
        )
    return Schedule(start_ns, end_ns, spans, interval_ns, midnight_ns)


async def exchange_time_ns(client: AsyncExchange) -> int:
    """The exchange's time, queried from the exchange: an estimate could be ahead of it and show events too early."""
    clock = (await client.ask(Kind.INFO))[5][2]
    return int(clock[2])


async def wait_until(client: AsyncExchange, time_ns: int) -> int:
    """Waits until the exchange's clock has reached a time; returns the clock's time then. In lockstep, promises to send nothing before."""
    if client.core.lockstep:
        return (await client.turn(time_ns)).time_ns
    while (now_ns := await exchange_time_ns(client)) < time_ns:
        speed = float(client.session.clock[1]) or 1.0
        await asyncio.sleep(min(POLL_S, max((time_ns - now_ns) / SECOND_NS / speed, 0.001)))
    return now_ns
