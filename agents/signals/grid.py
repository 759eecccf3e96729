"""The book and the trades of a day every 100 ms, from replays of the day."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.agents.realism.tape import history_market, symbol_commands
from serl.agents.signals.errors import SignalError
from serl.exchange.records import EventFlag, EventKind, Rows
from serl.history.book_rows import book_rows
from serl.history.day import Day, SymbolReference

STEP_NS = 100_000_000
STEP_S = 0.1
LEVELS = 5
"""Number of levels per side that forecasts see."""
BLOCK_COMMANDS = 1 << 16
FILL_COLUMNS = ("time_ns", "side", "price_ticks", "qty_lots", "order_number")

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bools = NDArray[np.bool_]


class Fills(NamedTuple):
    """k fills of resting orders in the book, in order of time, without prints and auctions."""

    time_ns: Ints
    side: Ints
    """Side of the resting order."""
    price_ticks: Ints
    qty_lots: Ints
    order_number: Ints
    """Number of the resting order; orders that arrived later, or lost their place in the queue later, have higher numbers."""


class Flow(NamedTuple):
    """What happened in the book between n times."""

    fills: Fills
    last_number: Ints
    """[n] highest order number up to each time."""


@dataclass(frozen=True)
class Grid:
    """n times, STEP_NS apart. The book at a time is the book after everything that happened up to and at this time."""

    reference: SymbolReference
    time_ns: Ints
    """[n] after midnight, multiples of STEP_NS."""
    ticks: Ints
    """[n, side (bids first), LEVELS] prices, best first; 0 = no level."""
    lots: Ints
    """[n, side, LEVELS]"""
    buys: Ints
    """[n] lots that buyers took since the time before."""
    sells: Ints
    """[n] lots that sellers took since the time before."""
    flow: Flow
    """The flow between the times."""

    @property
    def symbol(self) -> str:
        """Name of the symbol."""
        return self.reference.name


def build_grid(day: Day, symbol: str | None = None) -> Grid:
    """Replays one symbol of a day (None: its first). Raises NoSuchSymbol if the day does not have it."""
    name, commands, _ = symbol_commands(day, symbol)
    reference = next(one for one in day.reference.symbols if one.name == name)
    first, last = (int(commands["time_ns"][place]) if len(commands) else 0 for place in (0, -1))
    times = np.arange(-(-first // STEP_NS), -(-last // STEP_NS) + 1, dtype=np.int64) * STEP_NS
    rows = book_rows(history_market(commands), commands, LEVELS, 0, times)
    flow = read_flow(commands, times)
    buys, sells = taken_lots(flow.fills, times)
    return Grid(
        reference, times, np.ascontiguousarray(rows.ticks.transpose(2, 0, 1)),
        np.ascontiguousarray(rows.lots.transpose(2, 0, 1)), buys, sells, flow,
    )  # fmt: skip


def check_different(day: Day, seen: set[bytes], name: str) -> None:
    """Adds the content of a day to those seen. Raises SignalError, which names the day, if it is one of them: its samples would count twice, and
    intervals would be too narrow."""
    content = day.digest()
    if content in seen:
        raise SignalError(f"{name}: expected different days, got one for the second time; leave it out")
    seen.add(content)


def check_sizes(first: Grid, other: Grid, name: str) -> None:
    """Raises SignalError, which names the other day, if its ticks or lots are of another size: features and labels count in them."""
    one, another = first.reference, other.reference
    if one.differing_size(another):
        raise SignalError(
            f"{name}: expected a tick size of {one.tick_size} and a lot size of {one.lot_size} as on the first day, got {another.tick_size} "
            f"and {another.lot_size}; give days of one size together"
        )


def read_flow(commands: Rows, times_ns: Ints) -> Flow:
    """The fills of all commands, and the order numbers up to and at each time."""
    market, parts = history_market(commands), []
    last_number = np.zeros(len(times_ns) + 1, np.int64)
    for first in range(0, len(commands), BLOCK_COMMANDS):
        events = market.submit(commands[first : first + BLOCK_COMMANDS])
        np.maximum.at(last_number, np.searchsorted(times_ns, events["time_ns"]), events["order_number"])
        flags = events["flags"]
        fills = events[
            (events["kind"] == EventKind.FILL) & (flags & EventFlag.MAKER > 0) & (flags & EventFlag.AUCTION == 0)
        ]
        parts.append(np.stack([fills[name].astype(np.int64) for name in FILL_COLUMNS]))
    columns = np.concatenate(parts, axis=1) if parts else np.zeros((len(FILL_COLUMNS), 0), np.int64)
    return Flow(Fills(*columns), np.maximum.accumulate(last_number)[:-1])


def taken_lots(fills: Fills, times_ns: Ints) -> tuple[Ints, Ints]:
    """[n] each: lots that buyers and sellers took in the book after the previous time, up to and at each time."""
    taken = np.zeros((2, len(times_ns)), np.int64)
    np.add.at(taken, (1 - fills.side, np.searchsorted(times_ns, fills.time_ns)), fills.qty_lots)
    return taken[0], taken[1]
