"""Days of everybody's commands, made without an exchange process."""

import numpy as np

from serl.exchange.history.accounts import EXCHANGE, LIMITS, AccountsTape, kept
from serl.exchange.history.day import Day, Reference, SymbolReference
from serl.exchange.history.tape import HASH
from serl.exchange.market import Market
from serl.exchange.records import Rows


def recorded(market: Market, parts: list[tuple[Rows, Rows]]) -> Day:
    """What `serl record --accounts` would have written of (commands, events)."""
    commands, events = (np.concatenate([part[side] for part in parts]) for side in range(2))
    commands["sequence"] = np.arange(1, len(commands) + 1)
    tape = AccountsTape()
    tape.update(events)
    rows = kept(commands, events)
    reference = Reference(
        symbols=tuple(SymbolReference(name) for name in market.names),
        date="2020-01-02",
        source="recorded",
        last_time_ns=int(rows[-1]["time_ns"]),
        parameters={HASH: tape.hexdigest(), **{name: getattr(market.limits, name) for name in LIMITS}},
        participants=(EXCHANGE, "alice", "bob"),
    )
    return Day(rows, rows["sequence"] - 1, reference)
