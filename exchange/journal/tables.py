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
    """What participants sent: a row for each command that the journal still has.

    JournalError if the folder has no journal, or it is damaged; so does journal_events.
    """
    return command_table(_rows(Path(folder), "commands", COMMAND), _context(Path(folder)))


def journal_events(folder: Path | str) -> Table:
    """What came of it: a row for each event that the journal still has."""
    return event_table(_rows(Path(folder), "events", EVENT), _context(Path(folder)))


def _context(folder: Path) -> RowContext:
    """Of the exchange's own participant the name is without its first character, which keeps others from its login."""
    meta = find_meta(folder)
    participants = read_participants(folder, str(meta.get("id", "")))
    names = [symbol["name"] for symbol in meta["symbols"]], [symbol["tick_size"] for symbol in meta["symbols"]]
    return RowContext(*names, participants=[str(one["name"]).removeprefix("\0") for one in participants])


def _rows(folder: Path, kind: str, dtype: "np.dtype[np.void]") -> Rows:
    """All rows of a kind of file, in order; those of a file that an exchange deletes meanwhile are gone."""
    find_meta(folder)
    parts = [np.zeros(0, dtype)]
    for path in stored_paths(folder, kind):
        try:
            rows = stored_rows(path, dtype)
        except FileNotFoundError:
            continue
        parts.append(rows[: len(rows)])
    return np.concatenate(parts)
