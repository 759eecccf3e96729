"""Small days and orders for the tests of execution markets."""

import numpy as np

from serl.agents.execution.answering.model import AnsweringDay
from serl.agents.execution.answering.record import record_history
from serl.agents.execution.environment.bars import BarDays
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.agents.impact_memory import REFERENCE_S, mean_memory, memory_weights
from serl.exchange.records import COMMAND, CommandKind, Rows, Side, TimeInForce
from serl.history.day import Day, Reference, SymbolReference

SECOND_NS = 1_000_000_000
BUY, SELL = int(Side.BUY), int(Side.SELL)
COLUMNS = ("time_ns", "kind", "side", "price_ticks", "qty_lots", "order_id")


def episode(day: int = 0, sign: int = 1, qty: int = 100, start: int = 0, interval: int = 10, steps: int = 3) -> Rows:
    """One EPISODE row; times in seconds."""
    return np.array([(day, sign, qty, start * SECOND_NS, interval * SECOND_NS, steps)], EPISODE)


def child(market: int = 0, limit: int = 0, price: int = 0) -> Rows:
    """One CHILD row."""
    return np.array([(market, limit, price)], CHILD)


def step(market: ExecutionMarket, sent: Rows, until: int) -> None:
    """Steps a market of one environment up to a time in seconds."""
    market.step(sent, np.array([until * SECOND_NS]))


def bars(*rows: tuple[float, ...]) -> BarDays:
    """One day of minutes: (open, high, low, close, price, volume) each."""
    return BarDays(60 * SECOND_NS * np.arange(len(rows)), 60 * SECOND_NS, np.array([rows], float))


def day(*rows: tuple[float, str, int, int, int, int], last: int = 100) -> Day:
    """A day of commands (seconds, NEW or CANCEL, side, ticks, lots, order); command ids are 1, 2, 3 ..."""
    commands = np.zeros(len(rows), COMMAND)
    for index, (time, kind, side, price, lots, order) in enumerate(rows):
        values = (round(time * SECOND_NS), int(CommandKind[kind]), side, price, lots, order)
        for name, value in zip(COLUMNS, values, strict=True):
            commands[name][index] = value
    commands["command_id"] = np.arange(1, len(rows) + 1)
    commands["time_in_force"] = np.where(commands["kind"] == CommandKind.NEW, int(TimeInForce.GTC), 0)
    reference = Reference((SymbolReference("X"),), "", "made", last_time_ns=last * SECOND_NS)
    return Day(commands, np.arange(len(rows)), reference)


TINY = day(
    (0, "NEW", BUY, 99, 50, 0),  # 1
    (0, "NEW", BUY, 98, 50, 0),
    (0, "NEW", SELL, 101, 50, 0),
    (0, "NEW", SELL, 102, 50, 0),
    (12, "NEW", BUY, 101, 70, 0),  # takes 50 at 101, rests 20 at 101
    (15, "NEW", SELL, 101, 20, 0),  # takes the 20
    (17, "NEW", SELL, 101, 30, 0),
    (25, "NEW", BUY, 102, 60, 0),  # takes 30 at 101, 30 at 102
    (60, "CANCEL", 0, 0, 0, 1),
)
"""A day whose fills can be computed by hand."""

QUOTE = ((0, "NEW", BUY, 990, 10**6, 0), (0, "NEW", SELL, 1000, 10**6, 0), (1, "NEW", BUY, 1000, 1000, 0))
DEEP = day(*QUOTE, last=9000)
"""A quote that never moves by itself."""


def gives_way(history: Day, coefficient: float) -> AnsweringDay:
    """coefficient: ticks per root of a lot that trades now."""
    weights = memory_weights()
    scaled = coefficient * mean_memory(weights, REFERENCE_S) ** 0.5
    return AnsweringDay(record_history(history.commands), (), 0.0, scaled, weights, 400)
