"""What a stream of commands has made happen, for tests that would prove little if half of the market had stood still."""

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
    """How often each member of each enumeration was seen: kinds, reasons, phases and halts in events, the others in commands."""

    def __init__(self) -> None:
        self.seen: dict[type[IntEnum], Counter[int]] = {kind: Counter() for kind in COUNTED}

    def add(self, commands: Rows, events: Rows) -> None:
        """Commands, and the events of them."""
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

    def missing(self, but: set[IntEnum]) -> list[str]:
        """Members that were never seen, but for some."""
        return [
            f"{kind.__name__}.{member.name}"
            for kind, seen in self.seen.items()
            for member in kind
            if not seen[member] and member not in [other for other in but if type(other) is kind]
        ]
