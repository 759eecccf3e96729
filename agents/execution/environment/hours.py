"""The trades of a historical day, and the hours that parent orders must be within."""

from typing import Any

import numpy as np

from serl.agents.execution.environment.episodes import Hours
from serl.exchange.market import Market
from serl.exchange.records import CommandKind, EventFlag, EventKind, Rows, Rule
from serl.history.day import Day
from serl.history.limits import limits_for

SECOND_NS = 1_000_000_000
WARM_UP_S = 300
"""Time between the start of a day and its first parent order."""
HISTORY = 0
CHUNK_ROWS = 65_536


def day_trades(day: Day) -> tuple[Any, Any]:
    """(times in ns, lots) of every trade in the book of a day's first symbol, off-book prints excluded."""
    market = Market(len(day.reference.symbols), limits=limits_for([day.commands]))
    market.grant_operator(HISTORY)
    times, lots = [], []
    for first in range(0, len(day), CHUNK_ROWS):
        events = market.submit(day.commands[first : first + CHUNK_ROWS])
        traded = (events["kind"] == EventKind.FILL) & (events["flags"] & EventFlag.MAKER != 0) & (events["symbol"] == 0)
        times.append(events["time_ns"][traded])
        lots.append(events["qty_lots"][traded])
    return np.concatenate(times), np.concatenate(lots)


def lot_multiple(commands: Rows) -> int:
    """The lots that orders in the first symbol of a day's commands must be a multiple of."""
    rules = commands[(commands["kind"] == CommandKind.RULE) & (commands["symbol"] == 0)]
    return int(rules["price_ticks"][rules["flags"] == Rule.LOT].max(initial=1))


def trading_hours(day: Day, number: int = 0) -> Hours:
    """The hours of a whole day except its first WARM_UP_S seconds, as day `number` of a market."""
    start_ns, end_ns = day.reference.first_time_ns + WARM_UP_S * SECOND_NS, day.reference.last_time_ns
    times, lots = day_trades(day)
    volume = int(lots[(times >= start_ns) & (times < end_ns)].sum())
    return Hours(number, start_ns, end_ns, volume * SECOND_NS / (end_ns - start_ns), lot_multiple(day.commands))
