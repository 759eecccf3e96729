"""Recovers facts about the participants of a damaged file from the rest of a journal: how many there were, and which were operators."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.journal import snapshots
from serl.exchange.journal.participants_file import EXCHANGE_NAME
from serl.exchange.journal.segment import first_sequence
from serl.exchange.journal.stored import stored_rows
from serl.exchange.records import EVENT, CommandKind, EventKind, Reason, Rows, Setting

OPERATOR_KINDS = [kind for kind in CommandKind if kind >= CommandKind.END_DAY]


def count_participants(rows: Rows, snapshot: Path | None, journal_id: str) -> int:
    """How many participant numbers are in use: in COMMAND rows, in accounts that the exchange has set, and in a snapshot."""
    accounts = rows[_is_of_exchange(rows) & np.isin(rows["kind"], [CommandKind.ACCOUNT, CommandKind.DEPOSIT])]
    saved = snapshots.load(snapshot, journal_id) if snapshot is not None else None
    used = 0 if saved is None else len(saved.market.report)
    return max(used, *(int(part.max()) + 1 for part in (rows["participant"], accounts["order_id"]) if len(part)), 0)


def lost_entries(first: int, count: int, rows: Rows, replayed: Rows, events: Iterable[Path]) -> list[dict[str, Any]]:
    """The entries of the participants first..count-1. rows: all COMMAND rows; replayed: those that a restart executes again, which are
    answered in the files `events`.

    Participants that sent an operator's command there were operators, unless an event says that it was not permitted.
    """
    exchange = np.unique(rows["participant"][_is_of_exchange(rows)]).tolist()
    sent = replayed[_needs_operator(replayed)]
    permitted = sent[~np.isin(sent["sequence"], _denied(sent, events))]
    operators = {*permitted["participant"].tolist(), *exchange}
    names = {number: EXCHANGE_NAME for number in exchange if len(exchange) == 1}
    return [
        {"name": names.get(number, f"lost-{number}"), "cancel_on_disconnect": False, "operator": number in operators}
        for number in range(first, count)
    ]


def _needs_operator(rows: Rows) -> NDArray[np.bool_]:
    own = (rows["kind"] == CommandKind.ACCOUNT) & (rows["flags"] == Setting.SELF_TRADE)
    own &= rows["order_id"] == rows["participant"]  # its own self-trade prevention, which anybody may set
    needs: NDArray[np.bool_] = np.isin(rows["kind"], OPERATOR_KINDS) & ~own
    return needs


def _is_of_exchange(rows: Rows) -> NDArray[np.bool_]:
    """Which rows the exchange itself sent as an operator: clients' rows have command ids."""
    own: NDArray[np.bool_] = np.isin(rows["kind"], OPERATOR_KINDS) & (rows["command_id"] == 0)
    return own


def _denied(sent: Rows, paths: Iterable[Path]) -> NDArray[np.int64]:
    """The sequences of COMMAND rows that were not permitted."""
    denied = np.zeros(0, np.int64)
    for path in sorted(paths, key=first_sequence, reverse=True) if len(sent) else ():
        events = stored_rows(path, EVENT)[:]
        found = (events["kind"] == EventKind.REJECTED) & (events["reason"] == Reason.NOT_PERMITTED)
        denied = np.append(denied, events["command_sequence"][found])
        if len(events) and events["command_sequence"][0] < sent["sequence"][0]:
            break  # the files before it answer earlier commands
    return denied
