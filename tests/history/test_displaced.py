"""A replayed history continues as if nobody else had traded, and the book decides (docs/history.md)."""

from pathlib import Path

from serl.exchange.records import CommandKind, EventFlag, EventKind, Reason, Rows, Side, TimeInForce, command
from serl.history.day import Day
from serl.history.verify import market_of
from tests.history.sample import Book, imported
from tests.history.test_lobster_rules import NO_CHANGE

ASKS = [(101, 10), (103, 10)]
OTHERS = 2
"""The other participant."""


def day_of(folder: Path) -> Day:
    """A bid of 5 at 100 is executed for 3, and the rest is cancelled."""
    five: Book = (ASKS, [(100, 5), (99, 10)])
    two: Book = (ASKS, [(100, 2), (99, 10)])
    day, result = imported(
        folder,
        NO_CHANGE,
        ((1, 8, 5, 100, 1), five),
        ((4, 8, 3, 100, 1), two),
        ((3, 8, 2, 100, 1), (ASKS, [(99, 10), (97, 10)])),
    )
    assert result.differing == 0
    return day


def replay_with(day: Day, others: Rows) -> list[Rows]:
    """Replays the day with `others` submitted after row 1; returns the events of rows 2 and 3."""
    market, commands = market_of(day)
    market.submit(commands[day.rows <= 1])
    others["participant"] = OTHERS
    market.submit(others)
    return [market.submit(commands[day.rows == row]) for row in (2, 3)]


def test_without_its_maker_an_execution_has_no_effect_and_its_cancel_is_rejected(tmp_path: Path) -> None:
    took = command(
        CommandKind.NEW, side=Side.SELL, qty_lots=5, price_ticks=100, time_in_force=TimeInForce.IOC, command_id=1
    )
    execution, cancel = replay_with(day_of(tmp_path), took)
    assert execution["kind"].tolist() == [EventKind.ACCEPTED, EventKind.CANCELLED]
    assert execution["reason"][1] == Reason.IOC_REMAINDER
    assert cancel["kind"].tolist() == [EventKind.REJECTED]
    assert cancel["reason"][0] == Reason.UNKNOWN_ORDER


def test_order_behind_the_queue_does_not_disturb_history(tmp_path: Path) -> None:
    behind = command(CommandKind.NEW, side=Side.BUY, qty_lots=3, price_ticks=100, command_id=1)
    execution, cancel = replay_with(day_of(tmp_path), behind)
    assert execution["kind"].tolist() == [EventKind.ACCEPTED, EventKind.FILL, EventKind.FILL]
    assert OTHERS not in execution["participant"]
    assert cancel["kind"].tolist() == [EventKind.CANCELLED] and cancel["qty_lots"][0] == 2


def test_better_order_takes_the_execution_and_the_displaced_maker_stays_in_the_queue(tmp_path: Path) -> None:
    """History executes 3 of 10 at 99; our order, 2 at 100, is ahead."""
    day, _ = imported(tmp_path, NO_CHANGE, NO_CHANGE, ((4, 70, 3, 99, 1), (ASKS, [(99, 7), (97, 10)])), NO_CHANGE)
    ours = command(CommandKind.NEW, side=Side.BUY, qty_lots=2, price_ticks=100, command_id=1)
    execution, _ = replay_with(day, ours)
    fills = execution[(execution["kind"] == EventKind.FILL) & (execution["flags"] == EventFlag.MAKER)]
    assert fills["participant"].tolist()[0] == OTHERS and fills["price_ticks"].tolist() == [100, 99]
    assert fills["qty_lots"].tolist() == [2, 1], "the rest comes from history's maker, which keeps 9 instead of 7"
    assert fills["leaves_lots"].tolist() == [0, 9]
