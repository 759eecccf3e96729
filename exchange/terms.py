"""What can be said about an order besides price and quantity, by name; docs/orders.md, Terms."""

import dataclasses
from typing import Any

import numpy as np

from serl.exchange.integers import integer
from serl.exchange.records import COMMAND, CommandFlag, CommandKind, Peg, Rows, SelfTrade, Term, command


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """None and False: not said."""

    display_lots: int | None = None
    min_lots: int | None = None
    stop_ticks: int | None = None
    trail_ticks: int | None = None
    peg: Peg | None = None
    offset_ticks: int | None = None
    expire_ns: int | None = None
    link: int | None = None
    """order_id of the other of two that cancel each other."""
    self_trade: SelfTrade | None = None
    hidden: bool = False
    all_or_none: bool = False
    reduce_only: bool = False

    def given(self) -> list[tuple[Term, int]]:
        """The TERM commands that say it, in order of Term."""
        values = ((term, getattr(self, term.name.lower())) for term in Term)
        return [(term, integer(str(term.name).lower(), value)) for term, value in values if value is not None]

    @property
    def flags(self) -> int:
        """What the order's own flags say of it."""
        found = CommandFlag.TERMS if self.given() else CommandFlag.NONE
        for flag in (CommandFlag.HIDDEN, CommandFlag.ALL_OR_NONE, CommandFlag.REDUCE_ONLY):
            if getattr(self, str(flag.name).lower()):
                found |= flag
        return int(found)


NO_TERMS = Terms()


def order(command_id: int, terms: Terms = NO_TERMS, *, flags: int = 0, **fields: Any) -> Rows:
    """COMMAND rows of a new order: its terms under `command_id` and those that follow, then the NEW under the next one.

    fields are those of `records.command`; the order is named by `rows[-1]["command_id"]`.
    """
    both = {name: fields[name] for name in ("participant", "time_ns") if name in fields}
    rows = [
        command(CommandKind.TERM, command_id=command_id + place, flags=term, price_ticks=value, **both)
        for place, (term, value) in enumerate(terms.given())
    ]
    new = command(CommandKind.NEW, command_id=command_id + len(rows), flags=flags | terms.flags, **fields)
    return np.concatenate([*rows, new]) if rows else np.asarray(new, COMMAND)
