"""What was traded on a day of history, and when parent orders may lie in it."""

from typing import Any

import numpy as np

from serl.agents.execution.environment.episodes import Hours
from serl.exchange.market import Market
from serl.exchange.records import EventFlag, EventKind
from serl.history.day import Day

SECOND_NS = 1_000_000_000
WARM_UP_S = 300
"""Of the day before its first parent order."""
HISTORY = 0
CHUNK_ROWS = 65_536


def traded(day: Day) -> tuple[Any, Any]:
    """(times in ns, lots) of every trade in the book of a day's first symbol; off-book prints are left out."""
    market = Market(len(day.reference.symbols))
    market.grant_operator(HISTORY)
    times, lots = [], []
    for at in range(0, len(day), CHUNK_ROWS):
        events = market.submit(day.commands[at : at + CHUNK_ROWS])
        told = (events["kind"] == EventKind.FILL) & (events["flags"] & EventFlag.MAKER != 0) & (events["symbol"] == 0)
        times.append(events["time_ns"][told])
        lots.append(events["qty_lots"][told])
    return np.concatenate(times), np.concatenate(lots)


def hours_of(day: Day, number: int = 0) -> Hours:
    """A whole day but its first minutes, as number `number` of a market's days."""
    start_ns, end_ns = day.reference.first_time_ns + WARM_UP_S * SECOND_NS, day.reference.last_time_ns
    times, lots = traded(day)
    volume = int(lots[(times >= start_ns) & (times < end_ns)].sum())
    return Hours(number, start_ns, end_ns, volume * SECOND_NS / (end_ns - start_ns))
