"""EVENT rows as objects with names."""

from collections.abc import Sequence
from typing import NamedTuple

from serl.exchange.records import EVENT, EventFlag, EventKind, Reason, Rows, Side

SIDES = {int(side): side for side in Side}


class Event(NamedTuple):
    """An EVENT row; docs/orders.md says what each kind means."""

    kind: EventKind
    symbol: str | None  # None: all symbols
    participant: int
    order_id: int
    command_id: int  # 0: not an answer to a command of this participant
    side: Side | int  # an int if the command had an invalid side
    price_ticks: int
    qty_lots: int
    leaves_lots: int
    reason: Reason
    flags: EventFlag
    match_id: int
    order_number: int
    report: int
    sequence: int
    command_sequence: int
    time_ns: int


def decode(rows: Rows, names: Sequence[str]) -> list[Event]:
    """Converts EVENT rows to events. `names`: the names of the symbols."""
    assert EVENT.names is not None
    columns = {name: rows[name].tolist() for name in EVENT.names}
    columns["kind"] = map(EventKind, columns["kind"])
    columns["symbol"] = [names[number] if number < len(names) else None for number in columns["symbol"]]
    columns["side"] = [SIDES.get(side, side) for side in columns["side"]]
    columns["reason"], columns["flags"] = map(Reason, columns["reason"]), map(EventFlag, columns["flags"])
    return [Event(*values) for values in zip(*(columns[name] for name in Event._fields), strict=True)]
