"""Planted bugs of the journal."""

import os
from typing import Any

from serl.exchange.core import Core
from serl.exchange.gateway.state import DURABLE, NEXT_SEQUENCE, SALT
from serl.exchange.journal import checks, commit, event_log, journal, segment, snapshots
from serl.exchange.journal.event_store import EventStore
from serl.exchange.journal.snapshots import SavedSnapshot
from serl.exchange.kernel.state import NEVER
from tests.sim.planting import bug, replaced


def _acknowledged_early(real: Any) -> Any:
    def init(self: Any, gateway: Any, *arguments: Any) -> None:
        real(self, gateway, *arguments)
        gateway.counter[DURABLE] = NEVER

    return init


def _sync_covers_later(real: Any) -> Any:
    def run(self: Any, sequence: int) -> None:
        real(self, sequence)
        self._gateway.counter[DURABLE] = self._gateway.counter[NEXT_SEQUENCE] - 1

    return run


def _failure_ignored(real: Any) -> Any:
    def sync(self: Any) -> None:
        try:
            real(self)
        except OSError:
            return

    return sync


def _another_salt(real: Any) -> Any:
    def set_salt(self: Any, gateway: Any) -> None:
        real(self, gateway)
        gateway.counter[SALT] += self.epoch

    return set_salt


def _save_off(commands: int, events: int) -> Any:
    def save(self: Core) -> None:
        sequences = self.command_sequence - commands, self.time_ns, self.event_sequence - events
        saved = SavedSnapshot(*sequences, self.market.snapshot())
        self.journal.save_snapshot(lambda: saved, self.gateway)

    return save


def _written_twice(real: Any) -> Any:
    def write(self: Any, count: int) -> None:
        if 0 < self.written < count and self.written % 3 == 0:
            self.rows[self.written : count] = self.rows[self.written - 1 : count - 1].copy()
        real(self, count)

    return write


def _swapped(real: Any) -> Any:
    def snapshot(self: Any) -> Any:
        taken = real(self)
        orders = taken.orders
        for index in range(len(orders) - 1):
            here, there = orders[index], orders[index + 1]
            if all(here[name] == there[name] for name in ("symbol", "side", "price_ticks")):
                orders[[index, index + 1]] = orders[[index + 1, index]]
                break
        return taken

    return snapshot


class _WithoutSync:
    """`os` whose fsync does nothing."""

    def __getattr__(self, name: str) -> Any:
        return (lambda descriptor: None) if name == "fsync" else getattr(os, name)


def _write_once(descriptor: int, data: Any, offset: int) -> None:
    os.pwrite(descriptor, data, offset)


def _close_unsynced(self: Any, rows: int | None = None) -> None:
    if rows is not None:
        os.ftruncate(self.file, segment.HEADER_BYTES + rows * self.dtype.itemsize)
        os.fsync(self.file)
    os.close(self.file)
    self.file = -1


def _save_events_only(self: Any) -> None:
    while (waiting := self._snapshot) is not None:
        self.store.write_before(waiting.events, waiting.event_count)
        snapshots.save(self.folder, self.id, waiting.make())
        if self._snapshot is waiting:
            self._snapshot = None


BUGS = {
    "acknowledged before the sync": bug(
        "with `batch`, commands are executed before they are on the disk",
        (commit.GroupCommit, "__init__", _acknowledged_early),
    ),
    "sync covers later rows": bug(
        "commands that arrive during a sync count as synced", (commit.GroupCommit, "commit", _sync_covers_later)
    ),
    "failed sync ignored": bug("a failed sync counts as one", (segment.Segment, "sync", _failure_ignored)),
    "damage cut off": bug(
        "rows from the first bad one on are dropped without a word",
        replaced(checks.CommandCheck, "damage", lambda self, *, last: ""),
    ),
    "salt not kept": bug(
        "the salt of the checks changes with each start", (journal.Journal, "set_salt", _another_salt)
    ),
    "snapshot one command early": bug(
        "a snapshot is numbered one command too low", replaced(Core, "save_snapshot", _save_off(1, 0))
    ),
    "snapshot one event early": bug(
        "a snapshot is numbered one event too low", replaced(Core, "save_snapshot", _save_off(0, 1))
    ),
    "event written twice": bug(
        "an event is written twice, over the next one", (event_log.EventLog, "write", _written_twice)
    ),
    "finished files never synced": bug(
        "a file of commands is closed without a sync", replaced(segment.Segment, "close", _close_unsynced)
    ),
    "names not synced": bug(
        "the folder is not synced after a rename", replaced(segment, "sync_folder", lambda folder: None)
    ),
    "header not synced": bug(
        "a file of events has its name before its header is on the disk",
        replaced(event_log, "os", _WithoutSync()),
        seam="found",
    ),
    "short write": bug(
        "a header whose write was cut short is not completed", replaced(segment, "write_all", _write_once), seam="found"
    ),
    "not written again": bug(
        "after a failed sync, the next process takes unwritten rows for written",
        replaced(segment.Segment, "write_again", lambda self, rows: None),
        seam="found",
    ),
    "commands after their snapshot": bug(
        "a snapshot is on the disk before its commands are",
        replaced(journal.Journal, "_save_snapshot", _save_events_only),
        seam="found",
    ),
    "snapshot before a sync": bug(
        "a snapshot has the number of commands that still wait for the disk, and are not in it",
        replaced(Core, "save_snapshot", _save_off(0, 0)),
        seam="found",
    ),
    "stale event files": bug(
        "files of events that are made again stay beside the new ones",
        replaced(EventStore, "delete_later", lambda self: None),
        seam="found",
    ),
}
SNAPSHOT_SWAP = _swapped
