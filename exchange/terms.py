"""Optional terms of an order, such as stop price or displayed quantity; docs/orders.md, Terms."""

import dataclasses
import operator
from typing import Any

import numpy as np

from serl.exchange.errors import ConfigError
from serl.exchange.integers import integer
from serl.exchange.records import COMMAND, CommandFlag, CommandKind, Peg, Rows, SelfTrade, Term, TimeInForce, command


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of an order; None and False mean unset."""

    display_lots: int | None = None
    min_lots: int | None = None
    stop_ticks: int | None = None
    trail_ticks: int | None = None
    peg: Peg | None = None
    offset_ticks: int | None = None
    expire_ns: int | None = None
    link: int | None = None
    """order_id of the other order of a one-cancels-other pair."""
    self_trade: SelfTrade | None = None
    touch_ticks: int | None = None
    update_link: int | None = None
    """order_id of the other order of a one-updates-other pair."""
    waits: int | None = None
    """1: the order is inactive until its parent, the order that names it as `child`, is filled."""
    child: int | None = None
    """order_id of an order that waits for this one."""
    hidden: bool = False
    all_or_none: bool = False
    reduce_only: bool = False
    to_limit: bool = False
    """Market-to-limit; only for an order without a price."""

    def items(self) -> list[tuple[Term, int]]:
        """The terms that are set, with their values as in TERM commands."""
        values = ((term, getattr(self, term.name.lower())) for term in Term)
        return [(term, integer(str(term.name).lower(), value)) for term, value in values if value is not None]

    @property
    def flags(self) -> int:
        """The flags of the NEW command."""
        flags = CommandFlag.TERMS if self.items() else CommandFlag.NONE
        for flag in (CommandFlag.HIDDEN, CommandFlag.ALL_OR_NONE, CommandFlag.REDUCE_ONLY, CommandFlag.TO_LIMIT):
            if getattr(self, str(flag.name).lower()):
                flags |= flag
        return int(flags)


NO_TERMS = Terms()


def check_terms(terms: Any) -> None:
    """Raises ConfigError unless `terms` is a `Terms`, for example if it is a dictionary."""
    if not isinstance(terms, Terms):
        raise ConfigError(f"terms: expected Terms, got {terms!r}; such as Terms(display_lots=10)")


def checked_time_in_force(value: Any) -> TimeInForce:
    """Returns a TimeInForce, which may be given by its number. Raises ConfigError for anything else."""
    try:
        return TimeInForce(-1 if isinstance(value, bool) else operator.index(value))
    except (TypeError, ValueError):
        raise ConfigError(f"time_in_force: expected a TimeInForce, got {value!r}; such as TimeInForce.IOC") from None


def order(command_id: int, terms: Terms = NO_TERMS, *, flags: int = 0, **fields: Any) -> Rows:
    """COMMAND rows of a new order: one TERM per term, numbered from `command_id` on, then the NEW.

    `fields` are those of `records.command`. The order id is `rows[-1]["command_id"]`.
    """
    return _with_terms(CommandKind.NEW, command_id, terms, flags=flags | terms.flags, **fields)


def replacement(command_id: int, terms: Terms, **fields: Any) -> Rows:
    """COMMAND rows of a REPLACE that changes terms of an order: one TERM per term, numbered from `command_id` on, then the REPLACE."""
    return _with_terms(CommandKind.REPLACE, command_id, terms, flags=int(CommandFlag.TERMS), **fields)


def _with_terms(kind: int, command_id: int, terms: Terms, **fields: Any) -> Rows:
    shared = {name: fields[name] for name in ("participant", "time_ns") if name in fields}
    items = terms.items()
    last = command(kind, command_id=integer("command_id", command_id + len(items)), **fields)
    rows = [
        command(CommandKind.TERM, command_id=command_id + offset, flags=term, price_ticks=value, **shared)
        for offset, (term, value) in enumerate(items)
    ]
    return np.concatenate([*rows, last]) if rows else np.asarray(last, COMMAND)
