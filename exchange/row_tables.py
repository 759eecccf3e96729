"""COMMAND and EVENT rows as tables, with names in place of numbers."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import (
    CommandFlag,
    CommandKind,
    EventFlag,
    EventKind,
    HaltReason,
    Phase,
    Reason,
    Rows,
    Rule,
    Setting,
    Side,
    Term,
    TimeInForce,
)  # fmt: skip
from serl.exchange.table import Names, Table, prices, times

C, E = CommandKind, EventKind
SYMBOLLESS_COMMANDS = (C.END_DAY, C.TIME, C.ACCOUNT, C.DEPOSIT)
SIDE_NAMES = tuple(side.name.lower() for side in Side)
CHANGES = (C.CANCEL, C.REDUCE, C.REPLACE)
"""Commands about an existing order; its side may be missing in them."""
SIDELESS_EVENTS = (E.MASS_CANCELLED, E.DAY_ENDED, E.HALTED, E.RESUMED, E.PHASED, E.SET)
COMMAND_DETAILS: dict[int, type[IntEnum]] = {
    C.TERM: Term, C.HALT: HaltReason, C.PHASE: Phase, C.ACCOUNT: Setting, C.RULE: Rule
}  # fmt: skip
"""The enumeration that the flags of these kinds belong to."""
EVENT_DETAILS: dict[int, type[IntEnum]] = {E.HALTED: HaltReason, E.PHASED: Phase}


class RowContext(NamedTuple):
    """Names, units and the date behind the numbers in rows."""

    symbols: Sequence[str]
    """Names by number."""
    tick_sizes: Sequence[str]
    """Decimals by the symbol's number."""
    date: str = ""
    """YYYY-MM-DD of times after midnight; empty: times are since 1970, or of a day without a date."""
    participants: Sequence[str] | None = None
    """Names by number; None: all rows are one participant's, and the table has no column for it."""


def command_table(rows: Rows, context: RowContext) -> Table:
    """COMMAND rows (n,) as a table: docs/tables.md, orders."""
    kind, flags = rows["kind"], np.where(rows["kind"] == C.NEW, rows["flags"], 0)
    symbol = np.where(np.isin(kind, SYMBOLLESS_COMMANDS), -1, rows["symbol"].astype(np.int32))
    ticks = np.where(np.isin(kind, (C.NEW, *CHANGES, C.PRINT)), rows["price_ticks"], 0)
    columns = _start(rows, context, symbol) | {
        "kind": Names.of_enum(kind, CommandKind),
        "side": Names.of(_command_sides(rows), SIDE_NAMES),
        "price": prices(ticks, context.tick_sizes, symbol),
    }
    columns |= {name: rows[name].copy() for name in ("price_ticks", "qty_lots")}
    columns["time_in_force"] = Names.of(np.where(kind == C.NEW, rows["time_in_force"].astype(np.int16), -1), [one.name.lower() for one in TimeInForce])  # fmt: skip
    columns |= {name: rows[name].copy() for name in ("command_id", "order_id")}
    for flag in (CommandFlag.POST_ONLY, CommandFlag.MARKET, CommandFlag.HIDDEN, CommandFlag.ALL_OR_NONE, CommandFlag.REDUCE_ONLY, CommandFlag.TO_LIMIT):  # fmt: skip
        columns[str(flag.name).lower()] = (flags & flag) > 0
    columns["detail"] = _details(rows, COMMAND_DETAILS)
    return Table(columns)


def event_table(rows: Rows, context: RowContext) -> Table:
    """EVENT rows (n,) as a table: docs/tables.md, events."""
    kind = rows["kind"]
    symbol = rows["symbol"].astype(np.int32)
    side = np.where(np.isin(kind, SIDELESS_EVENTS), -1, rows["side"].astype(np.int16))
    flags = np.where(np.isin(kind, list(EVENT_DETAILS)), 0, rows["flags"])
    columns = _start(rows, context, symbol) | {
        "command_sequence": rows["command_sequence"].copy(),
        "kind": Names.of_enum(kind, EventKind),
        "side": Names.of(side, SIDE_NAMES),
        "price": prices(rows["price_ticks"], context.tick_sizes, symbol),
    }
    columns |= {name: rows[name].copy() for name in ("price_ticks", "qty_lots", "leaves_lots")}
    columns["reason"] = Names.of_enum(rows["reason"], Reason, none=(Reason.NONE,))
    for flag in (EventFlag.MAKER, EventFlag.RESTING, EventFlag.HIDDEN, EventFlag.AUCTION):
        columns[str(flag.name).lower()] = (flags & flag) > 0
    columns |= {name: rows[name].copy() for name in ("order_id", "command_id", "order_number", "match_id")}
    columns["detail"] = _details(rows, EVENT_DETAILS)
    return Table(columns)


def _start(rows: Rows, context: RowContext, symbol: NDArray[Any]) -> dict[str, Any]:
    """The first columns, common to both tables."""
    time_ns = rows["time_ns"].copy()
    columns: dict[str, Any] = {"time": times(time_ns, context.date), "time_ns": time_ns, "sequence": rows["sequence"].copy()}  # fmt: skip
    if context.participants is not None:
        columns["participant"] = Names.of(rows["participant"].astype(np.int32), context.participants)
    columns["symbol"] = Names.of(symbol, context.symbols)
    return columns


def _command_sides(rows: Rows) -> NDArray[np.int16]:
    """The sides of COMMAND rows (n,): for a change that of its order, if the rows contain it; -1 where there is none."""
    kind = rows["kind"]
    sides = np.where(np.isin(kind, (C.NEW, C.PRINT)), rows["side"].astype(np.int16), np.int16(-1))
    new, change = kind == C.NEW, np.isin(kind, CHANGES)
    for participant in np.unique(rows["participant"][change]):
        orders = np.flatnonzero(new & (rows["participant"] == participant))
        changes = np.flatnonzero(change & (rows["participant"] == participant))
        found = find(rows["command_id"][orders], rows["order_id"][changes])
        sides[changes[found >= 0]] = sides[orders[found[found >= 0]]]
    return sides


def find(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first index (m,) in ids (n,) of each wanted id (m,); -1 for a missing id. Fast if the ids increase, as they mostly do."""
    if not len(ids):
        return np.full(len(wanted), -1)
    order = np.argsort(ids, kind="stable")
    places = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    return np.where(ids[places] == wanted, places, -1)


def _details(rows: Rows, details: dict[int, type[IntEnum]]) -> Names:
    """The names of the flags in operators' rows; none for other rows."""
    names: dict[str, int] = {}
    codes = np.full(len(rows), -1, np.int16)
    for kind, enum in details.items():
        lookup = np.full(256, -1, np.int16)
        for member in enum:
            lookup[member] = names.setdefault(member.name.lower(), len(names))
        own = rows["kind"] == kind
        codes[own] = lookup[rows["flags"][own]]
    return Names.of(codes, names)
