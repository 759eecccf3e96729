"""Counts which kinds of commands, events and reasons a stream produced, so that a test can assert that it covers the market."""

from collections import Counter
from enum import IntEnum

from serl.exchange.records import (
    CommandKind,
    EventKind,
    HaltReason,
    Phase,
    Reason,
    Rows,
    Rule,
    SelfTrade,
    Setting,
    Term,
)

COUNTED: tuple[type[IntEnum], ...] = (CommandKind, EventKind, Reason, Term, Phase, HaltReason, Setting, Rule, SelfTrade)


class Coverage:
    """Counts each member of each enumeration: kinds, reasons, phases and halts in events, the others in commands."""

    def __init__(self) -> None:
        self.seen: dict[type[IntEnum], Counter[int]] = {kind: Counter() for kind in COUNTED}

    def add(self, commands: Rows, events: Rows) -> None:
        """Counts commands and their events."""
        self.seen[CommandKind].update(commands["kind"].tolist())
        self.seen[EventKind].update(events["kind"].tolist())
        self.seen[Reason].update(events["reason"].tolist())
        self.seen[Phase].update(events["flags"][events["kind"] == EventKind.PHASED].tolist())
        self.seen[HaltReason].update(events["flags"][events["kind"] == EventKind.HALTED].tolist())
        terms, accounts = (commands[commands["kind"] == kind] for kind in (CommandKind.TERM, CommandKind.ACCOUNT))
        self.seen[Term].update(terms["flags"].tolist())
        self.seen[Setting].update(accounts["flags"].tolist())
        self.seen[Rule].update(commands["flags"][commands["kind"] == CommandKind.RULE].tolist())
        for rows, name in ((terms, Term.SELF_TRADE), (accounts, Setting.SELF_TRADE)):
            self.seen[SelfTrade].update(rows["price_ticks"][rows["flags"] == name].tolist())

    def missing(self, exceptions: set[IntEnum]) -> list[str]:
        """Members that never occurred, without the exceptions."""
        return [
            f"{kind.__name__}.{member.name}"
            for kind, seen in self.seen.items()
            for member in kind
            if not seen[member] and member not in [other for other in exceptions if type(other) is kind]
        ]
