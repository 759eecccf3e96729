"""Small days defined command by command."""

import numpy as np

from serl.agents.realism.tape import SECOND_NS, Tape, build_tape
from serl.exchange.records import CommandKind, Rows, Side, TimeInForce, command
from serl.history.day import Day, Reference, SymbolReference

TEN_NS = 36_000 * SECOND_NS
MILLISECOND_NS = 10**6
BUY, SELL = int(Side.BUY), int(Side.SELL)


def new(side: int, price: int, lots: int, ms: float = 0, *, ioc: bool = False, symbol: int = 0) -> Rows:
    """An order `ms` milliseconds after 10:00."""
    tif = TimeInForce.IOC if ioc else TimeInForce.GTC
    return command(
        CommandKind.NEW, side=side, price_ticks=price, qty_lots=lots, time_in_force=tif, symbol=symbol,
        time_ns=TEN_NS + round(ms * MILLISECOND_NS),
    )  # fmt: skip


def change(kind: CommandKind, order: int, ms: float, *, lots: int = 0, price: int = 0, side: int = 0) -> Rows:
    """A command that refers to an earlier order."""
    return command(
        kind, order_id=order, qty_lots=lots, price_ticks=price, side=side, time_ns=TEN_NS + round(ms * MILLISECOND_NS)
    )


def day_of(*commands: Rows, opening: int = 0, rows: list[int] | None = None, symbols: tuple[str, ...] = ("TEST",),
           levels: int = 0, partial: bool = False) -> Day:  # fmt: skip
    """A day of these commands; the first `opening` are the opening book."""
    table = np.concatenate(commands)
    table["command_id"] = np.arange(1, len(table) + 1)
    places = rows or [*[-1] * opening, *range(len(table) - opening)]
    counts = {"refresh_adds": 0} if partial else {}
    reference = Reference(tuple(SymbolReference(name) for name in symbols), "", "test", levels=levels, counts=counts)
    return Day(table, np.array(places, np.int64), reference)


def five_messages() -> Tape:
    """Bid 99 x 10, 98 x 20; ask 101 x 10, 103 x 30; then two orders, a sweep, a cancellation and a reduction."""
    return build_tape(
        day_of(
            new(BUY, 99, 10, -1000), new(BUY, 98, 20, -1000), new(SELL, 101, 10, -1000), new(SELL, 103, 30, -1000),
            new(BUY, 100, 5, 0),  # inside the spread
            new(SELL, 101, 5, 1),  # joins the ask
            new(BUY, 103, 20, 1, ioc=True),  # takes 15 at 101 and 5 at 103
            change(CommandKind.CANCEL, 5, 4),  # the order of the first message
            change(CommandKind.REDUCE, 2, 1004, lots=5),  # of the opening book, second level
            opening=4, levels=2,
        )
    )  # fmt: skip


def generated(seed: int, levels: int = 5) -> Tape:
    """Half an hour of a generated day."""
    from serl.history.generate import generate_day

    return build_tape(generate_day(seed, start_ns=TEN_NS, end_ns=TEN_NS + 1800 * SECOND_NS), levels)
