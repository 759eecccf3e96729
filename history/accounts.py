"""Days with the commands of all participants and of the exchange itself (`serl record --accounts`): with auctions, halts, every order
type, limits, fees and rules. Their replay produces the same events."""

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
from serl.history.tape import HASH, Tape, public_view

EXCHANGE = "exchange"
"""Name of the exchange itself, participant 0."""
LIMITS = ("qty_lots_max", "price_ticks_max", "orders_open_max", "levels_max", "participants_max", "display_divisor_max")
"""Limits of the exchange that decide what it accepts, stored as parameters of the day. Older days lack the last one, because older exchanges
had no such limit."""
PHASE_SIDE = 16
"""On the tape a phase is a PRINT of its auction, with this number plus the phase as its side."""
BLOCK_COMMANDS = 1 << 16


def effective_commands(commands: Rows, events: Rows) -> Rows:
    """The commands that had an effect, judged by their events. Rejected commands are dropped, so a replay needs neither the participants'
    limits nor their operator rights.

    Two exceptions: a rejected order that consumed terms stays, with 0 lots, so that it consumes them again; and a rejected command whose
    arrival made other orders expire becomes a TIME.
    """
    sequence, is_rejection = commands["sequence"], events["kind"] == EventKind.REJECTED
    stale = events["reason"] == Reason.STALE_COMMAND_ID
    rejected = np.isin(sequence, events["command_sequence"][is_rejection])
    orders = np.isin(commands["kind"], (CommandKind.NEW, CommandKind.REPLACE))
    has_terms = orders & ((commands["flags"] & CommandFlag.TERMS) > 0)
    blank = rejected & has_terms & ~np.isin(sequence, events["command_sequence"][is_rejection & stale])
    clock = rejected & ~blank & np.isin(sequence, events["command_sequence"][~is_rejection])
    rows = commands.copy()
    rows["qty_lots"][blank] = 0
    rows["kind"][clock], rows["command_id"][clock] = CommandKind.TIME, 0
    return rows[~rejected | blank | clock]


def to_time_of_day(commands: Rows, midnight_ns: int) -> None:
    """Converts exchange time to time after midnight, including the expiry of GTT orders."""
    commands["time_ns"] -= midnight_ns
    expiries = (commands["kind"] == CommandKind.TERM) & (commands["flags"] == Term.EXPIRE_NS)
    commands["price_ticks"][expiries] = np.maximum(commands["price_ticks"][expiries], midnight_ns) - midnight_ns


def put_exchange_first(commands: Rows, exchange: int) -> None:
    """Renumbers participants so that `exchange`, the number of the exchange itself, becomes 0."""
    renumber(commands, lambda numbers: np.where(numbers == exchange, 0, numbers + (numbers < exchange)))


class AccountsTape(Tape):
    """The tape of a market with auctions: the public tape, both sides of auction trades, and the phases.

    A phase that the symbol is already in is on the tape only if an auction traded: an exchange that replays a day may end an interruption
    itself before the day's own command does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._phases: dict[int, int] = {}

    def update(self, events: Rows) -> None:
        """Adds EVENT rows, which must come in order."""
        events = public_view(events)
        kind = events["kind"]
        auctioned = (kind == EventKind.FILL) & ((events["flags"] & EventFlag.AUCTION) > 0)
        events["flags"][auctioned] |= np.uint8(EventFlag.MAKER)
        phased = kind == EventKind.PHASED
        changes = phased.copy()
        changes[phased] = [self._is_new_phase(event) for event in events[phased]]
        events["side"][changes] = PHASE_SIDE + events["flags"][changes]
        events["kind"][changes] = EventKind.PRINT
        super().update(events)

    def _is_new_phase(self, event: Any) -> bool:
        symbol, phase = int(event["symbol"]), int(event["flags"])
        before = self._phases.get(symbol, Phase.CONTINUOUS)
        self._phases[symbol] = phase
        return phase != before or bool(event["qty_lots"])


def market_of_accounts(day: Day) -> Market:
    """A new market in which the day's commands have the same effect. Every participant is an operator: a day has no rejected commands."""
    limits = {"display_divisor_max": 0} | {
        name: int(day.reference.parameters[name]) for name in LIMITS if name in day.reference.parameters
    }
    limits["participants_max"] += 1  # the exchange itself, if it has sent no command yet
    market = Market([symbol.name for symbol in day.reference.symbols], limits=MarketLimits(**limits))
    for participant in range(limits["participants_max"]):
        market.grant_operator(participant)
    return market


def events_of(day: Day) -> Iterator[Rows]:
    """All EVENT rows of the day's replay, block by block."""
    market = market_of_accounts(day)
    for first in range(0, len(day), BLOCK_COMMANDS):
        yield market.submit(day.commands[first : first + BLOCK_COMMANDS])


def single_symbol_reference(day: Day, name: str) -> tuple[Reference, int]:
    """(reference data with only this symbol, the symbol's number). Raises `ExportError`."""
    names = [symbol.name for symbol in day.reference.symbols]
    if name not in names:
        raise ExportError(f"--symbol: expected one of {', '.join(names)}, got {name}")
    number = names.index(name)
    return dataclasses.replace(day.reference, symbols=(day.reference.symbols[number],)), number


def public_events(day: Day, symbol: int | None = None) -> Iterator[Rows]:
    """The public EVENT rows of the day's replay. symbol: only rows of this symbol, which is renumbered to 0."""
    for events in events_of(day):
        events = public_view(events)
        if symbol is not None:
            events = events[events["symbol"] == symbol]
            events["symbol"] = 0
        yield events


def verify_accounts(day: Day) -> tuple[str, str]:
    """Tape hashes of a day: (as recorded, from its replay through a market)."""
    tape = AccountsTape()
    for events in events_of(day):
        tape.update(events)
    return str(day.reference.parameters[HASH]), tape.hexdigest()
