"""Replays a day through a market in process and compares its book with the source's after every source row."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import allocating, allocating_inner
from serl.exchange.kernel.commands import DONE, EVENTS_FULL, execute_batch
from serl.exchange.kernel.levels import levels
from serl.exchange.market import Market
from serl.exchange.records import EVENT, LEVEL, EventKind, Rows
from serl.history.day import Day, SourceFile
from serl.history.errors import ExportError, SourceError
from serl.history.limits import limits_for
from serl.history.source import source_file
from serl.history.tape import HASH, Tape, public_view

REJECTED = int(EventKind.REJECTED)
EVENT_ROWS = 4096
BLOCK_COMMANDS = 1 << 16
HISTORY = 1
"""Number of the participant that sends history's commands."""


@dataclass(frozen=True)
class Difference:
    """A source row after which the book differs from the source's."""

    row: int
    """Row number, from 1 as in the source file."""
    expected: tuple[tuple[tuple[int, int], ...], ...]
    """(bids, asks) of the source: (price_ticks, qty_lots), best first."""
    actual: tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True)
class VerifyResult:
    """The result of a comparison."""

    rows: int
    """Source rows compared, on every level of both sides."""
    differing: int
    first_difference: Difference | None
    rejected: int
    """Commands that the market rejected; 0 if nobody else trades."""
    commands: int
    unexplained: int
    """The reader's count of level changes that no message and no level coming into view explains."""
    seconds: float


def market_of(day: Day) -> tuple[Market, Rows]:
    """A new market with the day's symbols, and the day's commands as those of participant 1, who is also its operator."""
    market = Market([symbol.name for symbol in day.reference.symbols], limits=limits_for([day.commands]))
    market.grant_operator(HISTORY)
    commands = day.commands.copy()
    commands["participant"] = HISTORY
    commands["sequence"] = np.arange(1, len(commands) + 1)
    return market, commands


def exportable_events(market: Market, commands: Rows) -> Rows:
    """Submits commands; returns their public events. Raises `ExportError` for an auction."""
    events = market.submit(commands)
    if (events["kind"] == EventKind.PHASED).any():
        raise ExportError(
            "expected a day of continuous trading, got phases or auctions; record with --accounts to export them"
        )
    return public_view(events)


@allocating_inner
def _differs(
    state: Any, side: int, view_ticks: NDArray[np.int64], view_lots: NDArray[np.int64], out: Any
) -> bool:  # fmt: skip
    """Whether a side of the book differs from what the source shows of it."""
    count = levels(state, 0, side, out)
    for level in range(view_ticks.size):
        shown = level < count
        if view_ticks[level] != (out[level].price_ticks if shown else 0):
            return True
        if view_lots[level] != (out[level].qty_lots if shown else 0):
            return True
    return False


@allocating_inner
def _rejections(events: Any, count: int) -> int:
    total = 0
    for index in range(count):
        total += events[index].kind == REJECTED
    return total


@allocating
def _replay(
    state: Any, commands: Any, rows: NDArray[np.int64], view_ticks: NDArray[np.int64], view_lots: NDArray[np.int64],
    view_rows: NDArray[np.int64], events: Any, out: Any, at: NDArray[np.int64], stop_at_difference: bool,
) -> int:  # fmt: skip
    """Continues from at = [view, command, rejected, differing]; returns DONE or GROW."""
    while at[0] < view_ticks.shape[0]:
        stop = at[1]
        while stop < rows.size and rows[stop] <= view_rows[at[0]]:
            stop += 1
        while at[1] < stop:
            at[1], count, status = execute_batch(state, commands, at[1], stop, events, 0)
            at[2] += _rejections(events, count)
            if status != DONE and status != EVENTS_FULL:
                return int(status)
        view = at[0]
        if _differs(state, 0, view_ticks[view, 0], view_lots[view, 0], out) or _differs(
            state, 1, view_ticks[view, 1], view_lots[view, 1], out
        ):
            at[3] += 1
            if stop_at_difference:
                return DONE
        at[0] += 1
    return DONE


def verify(
    day: Day, view_ticks: NDArray[np.int64], view_lots: NDArray[np.int64], view_rows: NDArray[np.int64] | None = None
) -> VerifyResult:
    """Compares the books after the source rows `view_rows`, by default every row. Views are as from `serl.history.lobster_day.book_view`."""
    started_s = time.perf_counter()
    views = (view_ticks, view_lots, np.arange(len(view_ticks)) if view_rows is None else view_rows)
    at = np.zeros(4, np.int64)
    _run(day, *views, at, False)
    seconds = time.perf_counter() - started_s
    first = _first_difference(day, *views) if at[3] else None
    unexplained = day.reference.counts.get("unexplained", 0)
    return VerifyResult(len(view_ticks), int(at[3]), first, int(at[2]), len(day), unexplained, seconds)


def verify_tape(day: Day) -> tuple[str, str]:
    """Tape hashes of a recorded day: (as recorded, from its replay). Raises `SourceError` if the day is not a recording."""
    if HASH not in day.reference.parameters:
        _require_files(day)
        raise SourceError(
            f"expected a day of `serl record`, got one from {day.reference.source}; give the source that it was imported from"
        )
    market, commands = market_of(day)
    tape = Tape()
    for first in range(0, len(commands), BLOCK_COMMANDS):
        tape.update(market.submit(commands[first : first + BLOCK_COMMANDS]))
    return str(day.reference.parameters[HASH]), tape.hexdigest()


def verify_source(day: Day, path: Path | str) -> VerifyResult:
    """Compares with the LOBSTER files or depth diffs that the day was imported from. Raises `SourceError` for another source."""
    from serl.history.depth import depth_view  # the readers need an optional package
    from serl.history.importing import DEPTH, LOBSTER, detect_format
    from serl.history.lobster import read_lobster
    from serl.history.lobster_day import book_view

    _require_files(day)
    path = Path(path)
    source_format = detect_format(path)
    if source_format not in (LOBSTER, DEPTH):
        raise SourceError(
            f"{path}: expected LOBSTER files or Binance depth, which contain the book, got {source_format.name}, which cannot be verified"
        )
    if source_format is DEPTH:
        _check_files(day, path, (source_file(path),))
        return verify(day, *depth_view(path, day.reference.symbols[0]))
    source = read_lobster(path)
    _check_files(day, path, source.files)
    return verify(day, *book_view(source))


def _require_files(day: Day) -> None:
    if not day.reference.files:
        raise SourceError(
            f"expected a day that was imported from a file, got a {day.reference.source} one; it has no source to verify it against"
        )


def _check_files(day: Day, path: Path, files: tuple[SourceFile, ...]) -> None:
    if sorted(file.sha256 for file in files) != sorted(file.sha256 for file in day.reference.files):
        imported = ", ".join(file.name for file in day.reference.files)
        raise SourceError(f"{path}: expected the source of the day, {imported}, got other contents; give that source")


def _run(
    day: Day, view_ticks: NDArray[np.int64], view_lots: NDArray[np.int64], view_rows: NDArray[np.int64], at: NDArray[np.int64],
    stop: bool,
) -> Market:  # fmt: skip
    market, commands = market_of(day)
    events, out = np.zeros(EVENT_ROWS, EVENT), np.zeros(view_ticks.shape[2], LEVEL)
    while _replay(market.state, commands, day.rows, view_ticks, view_lots, view_rows, events, out, at, stop) != DONE:
        market.grow()
    return market


def _first_difference(
    day: Day, view_ticks: NDArray[np.int64], view_lots: NDArray[np.int64], view_rows: NDArray[np.int64]
) -> Difference:
    at = np.zeros(4, np.int64)
    market = _run(day, view_ticks, view_lots, view_rows, at, True)
    view = int(at[0])
    actual = tuple(
        tuple((int(level["price_ticks"]), int(level["qty_lots"])) for level in side)
        for side in market.book(0, view_ticks.shape[2])
    )
    expected = tuple(
        tuple((int(p), int(q)) for p, q in zip(view_ticks[view, side], view_lots[view, side], strict=True) if p)
        for side in range(2)
    )
    return Difference(int(view_rows[view]) + 1, expected, actual)
