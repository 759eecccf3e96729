"""Days with the commands of all participants and of the exchange itself, as `serl record --accounts` writes them: with auctions and
halts, every kind of order, limits, fees and rules. Played again they give the same events."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import (
    CommandFlag,
    CommandKind,
    EventFlag,
    EventKind,
    Phase,
    Reason,
    Rows,
    Term,
)  # fmt: skip
from serl.exchange.renumber import renumber
from serl.history.day import Day, Reference
from serl.history.errors import ExportError
from serl.history.tape import HASH, Tape, public

EXCHANGE = "exchange"
"""Stands for the exchange itself, participant 0."""
LIMITS = ("qty_lots_max", "price_ticks_max", "orders_open_max", "levels_max", "participants_max")
"""Of the exchange, among the parameters of the day: what is accepted depends on them."""
PHASE_SIDE = 16
"""On the tape a phase is a print of its auction, with this and the phase in the place of the side."""
BLOCK_COMMANDS = 1 << 16


def kept(commands: Rows, events: Rows) -> Rows:
    """The commands that changed something, by the events that answered them: whatever was rejected is left out, so that a replay needs
    neither its limits nor who was an operator.

    Of two something stays: an order that used terms up is there with 0 lots, so that it is rejected again and the terms are gone; and a
    command with whose arrival other orders expired is a TIME.
    """
    sequence, is_rejection = commands["sequence"], events["kind"] == EventKind.REJECTED
    stale = events["reason"] == Reason.STALE_COMMAND_ID
    out = np.isin(sequence, events["command_sequence"][is_rejection])
    takes_terms = (commands["kind"] == CommandKind.NEW) & ((commands["flags"] & CommandFlag.TERMS) > 0)
    blank = out & takes_terms & ~np.isin(sequence, events["command_sequence"][is_rejection & stale])
    clock = out & ~blank & np.isin(sequence, events["command_sequence"][~is_rejection])
    rows = commands.copy()
    rows["qty_lots"][blank] = 0
    rows["kind"][clock], rows["command_id"][clock] = CommandKind.TIME, 0
    return rows[~out | blank | clock]


def from_midnight(commands: Rows, midnight_ns: int) -> None:
    """Turns exchange time into that of a day, that of a GTT order's end as well."""
    commands["time_ns"] -= midnight_ns
    ends = (commands["kind"] == CommandKind.TERM) & (commands["flags"] == Term.EXPIRE_NS)
    commands["price_ticks"][ends] = np.maximum(commands["price_ticks"][ends], midnight_ns) - midnight_ns


def renumbered(commands: Rows, own: int) -> None:
    """Makes participant `own`, the exchange itself, the first; those before it move up."""
    renumber(commands, lambda numbers: np.where(numbers == own, 0, numbers + (numbers < own)))


class AccountsTape(Tape):
    """The tape of a market with auctions: the public tape, both sides of what trades in an auction, and the phases.

    A phase that a symbol is in already is told only if an auction traded: an exchange that replays a day may have ended an interruption
    itself, when the day's own command comes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._phases: dict[int, int] = {}

    def update(self, events: Rows) -> None:
        """Takes EVENT rows in their order."""
        events = public(events)
        kind = events["kind"]
        auctioned = (kind == EventKind.FILL) & ((events["flags"] & EventFlag.AUCTION) > 0)
        events["flags"][auctioned] |= np.uint8(EventFlag.MAKER)
        phased = kind == EventKind.PHASED
        news = phased.copy()
        news[phased] = [self._is_news(event) for event in events[phased]]
        events["side"][news] = PHASE_SIDE + events["flags"][news]
        events["kind"][news] = EventKind.PRINT
        super().update(events)

    def _is_news(self, event: Any) -> bool:
        symbol, phase = int(event["symbol"]), int(event["flags"])
        before = self._phases.get(symbol, Phase.CONTINUOUS)
        self._phases[symbol] = phase
        return phase != before or bool(event["qty_lots"])


def market_of_accounts(day: Day) -> Market:
    """A fresh market in which the day's commands do what they did; everybody is an operator, since no refused command is in a day."""
    limits = {name: int(day.reference.parameters[name]) for name in LIMITS}
    limits["participants_max"] += 1  # the exchange itself, should it have given no command yet
    market = Market([symbol.name for symbol in day.reference.symbols], limits=MarketLimits(**limits))
    for participant in range(limits["participants_max"]):
        market.grant_operator(participant)
    return market


def events_of(day: Day) -> Iterator[Rows]:
    """All EVENT rows of the day, piece by piece."""
    market = market_of_accounts(day)
    for first in range(0, len(day), BLOCK_COMMANDS):
        yield market.submit(day.commands[first : first + BLOCK_COMMANDS])


def of_symbol(day: Day, name: str) -> tuple[Reference, int]:
    """Reference data with this symbol alone, and its number; ExportError if the day does not have it."""
    names = [symbol.name for symbol in day.reference.symbols]
    if name not in names:
        raise ExportError(f"--symbol: {name} is due, the day has {', '.join(names)}")
    number = names.index(name)
    return dataclasses.replace(day.reference, symbols=(day.reference.symbols[number],)), number


def published(day: Day, symbol: int | None = None) -> Iterator[Rows]:
    """The EVENT rows that everybody sees; of one symbol, which is the first then."""
    for events in events_of(day):
        events = public(events)
        if symbol is not None:
            events = events[events["symbol"] == symbol]
            events["symbol"] = 0
        yield events


def verify_accounts(day: Day) -> tuple[str, str]:
    """Tape hash (as recorded, of the day played through a market)."""
    tape = AccountsTape()
    for events in events_of(day):
        tape.update(events)
    return str(day.reference.parameters[HASH]), tape.hexdigest()
