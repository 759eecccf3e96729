"""The rows of a journal as tables, also while its exchange runs. docs/tables.md lists their columns."""

from pathlib import Path

import numpy as np

from serl.exchange.journal.inspect import find_meta
from serl.exchange.journal.meta import read_participants
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.records import COMMAND, EVENT, Rows
from serl.exchange.row_tables import RowContext, command_table, event_table
from serl.exchange.table import Table


def journal_orders(folder: Path | str) -> Table:
    """The commands that participants sent: a row for each one that the journal still has.

    Raises JournalError, like journal_events, if the folder has no journal or it is damaged.
    """
    return command_table(_rows(Path(folder), "commands", COMMAND), _context(Path(folder)))


def journal_events(folder: Path | str) -> Table:
    """The events caused by the commands: a row for each one that the journal still has."""
    return event_table(_rows(Path(folder), "events", EVENT), _context(Path(folder)))


def _context(folder: Path) -> RowContext:
    """The context of the rows. The name of the exchange's own participant lacks its first character, which prevents others from logging in under it."""
    meta = find_meta(folder)
    participants = read_participants(folder, str(meta.get("id", "")))
    names = [symbol["name"] for symbol in meta["symbols"]], [symbol["tick_size"] for symbol in meta["symbols"]]
    return RowContext(*names, participants=[str(one["name"]).removeprefix("\0") for one in participants])


def _rows(folder: Path, kind: str, dtype: "np.dtype[np.void]") -> Rows:
    """All rows of one kind of file, in order, without those of a file that an exchange deletes meanwhile."""
    find_meta(folder)
    parts = [np.zeros(0, dtype)]
    for path in stored_paths(folder, kind):
        try:
            rows = stored_rows(path, dtype)
        except FileNotFoundError:
            continue
        parts.append(rows[: len(rows)])
    return np.concatenate(parts)
