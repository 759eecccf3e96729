"""The journal folder: command segments, event segments, snapshots, and the participants.

meta.json                      id, symbols, salt of the row checksums, epoch; meta-copy.json is the same
participants.json              names in the order of their numbers, operators, cancel_on_disconnect, deposited
commands-000000000001.rows     COMMAND rows from that sequence on: the source of truth
events-000000000001.rows       EVENT rows; regenerated from the commands if missing
events-....answers.npy         index of the commands that a finished segment's events answer (answers.py); regenerated if missing
news.jsonl                     messages about the world (news_log.py); not in the market
snapshot-000000000000.npz      the market after that command: a restart begins there

Every file has a check and the id of its journal; those of older versions lack the id and some checks.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from serl.exchange.config import RESERVED_ROWS, JournalConfig
from serl.exchange.errors import DiskFullError, JournalError
from serl.exchange.gateway.state import (
    APPENDED,
    EVENTS,
    EXECUTED,
    JOURNAL_FAILED,
    NEXT_SEQUENCE,
    ROWS_USABLE,
    SALT,
    GatewayState,
)  # fmt: skip
from serl.exchange.journal import snapshots
from serl.exchange.journal.commit import GroupCommit
from serl.exchange.journal.compress import is_due
from serl.exchange.journal.event_log import EventLog
from serl.exchange.journal.event_store import EventStore
from serl.exchange.journal.lock import lock_of
from serl.exchange.journal.meta import (
    cut_operators,
    note_limits,
    note_operators,
    open_meta,
    read_participants,
    write_meta,
)
from serl.exchange.journal.missed import MissedReports
from serl.exchange.journal.participants_file import ParticipantsFile
from serl.exchange.journal.retention import clean, delete_unfinished
from serl.exchange.journal.segment import Segment, first_sequence, no_space
from serl.exchange.journal.snapshots import SavedSnapshot, WaitingSnapshot
from serl.exchange.journal.stored import slice_after, stored_paths
from serl.exchange.log import log
from serl.exchange.records import COMMAND, EVENT, EventFlag, EventKind, Rows

TRADES_EVENTS_MAX = 1 << 17
"""Number of events searched for the last trades of a symbol; nobody can trade meanwhile: 6 ms."""


class Journal:
    """An open journal folder; only one exchange can use it at a time (file lock)."""

    def __init__(self, folder: Path, symbols: list[dict[str, str]], config: JournalConfig) -> None:
        self.folder = folder
        self.segment_rows = config.segment_rows
        self._config = config
        self._compressing: subprocess.Popen[bytes] | None = None
        self._uncompressed = False
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock_of(folder)
        try:
            self.meta = open_meta(folder, symbols)
            self.participants = read_participants(folder, self.id)
            self.meta["epoch"] += 1
            self.participants_file = ParticipantsFile(folder, self.id, self.participants, self._sync_commands)
        except BaseException:
            self.unlock()
            raise
        self.commands: Segment
        self.store = EventStore(folder, self.segment_rows, self.id)
        self.missed = MissedReports(self.store)
        self.is_full = False
        self._unsynced_segments: list[Segment] = []
        self._snapshot: WaitingSnapshot | None = None  # the newest one that is not saved yet
        self._wake = threading.Event()
        self._stopping = False
        self._flusher: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._group_commit: GroupCommit | None = None

    @property
    def id(self) -> str:
        """The id of the journal, stored in all of its files."""
        return str(self.meta["id"])

    @property
    def epoch(self) -> int:
        """The number of starts on this folder: 1 for the first start, then 2, 3 ..."""
        return int(self.meta["epoch"])

    @property
    def events(self) -> EventLog:
        """The current event log."""
        return self.store.current

    def start(self) -> None:
        """Writes the new epoch; until then nothing in the folder changes, so that a damaged journal stays as it is."""
        delete_unfinished(self.folder)
        self.save_participants()
        self._write_meta()

    def _write_meta(self) -> None:
        with no_space(self.folder):
            write_meta(self.folder, self.meta)

    def save_participants(self) -> None:
        """Saves the participants. Call it before their first command is journaled. Raises DiskFullError if there is no room."""
        self.participants_file.save()

    def request_save(self) -> int:
        """Saves the participants: in the background while the exchange serves, otherwise at once. Returns a number for `participants_file.is_saved`."""
        request = self.participants_file.request()
        if self._flusher is None:
            self.participants_file.save_requested()
        else:
            self._wake.set()
        return request

    def _sync_commands(self) -> None:
        for segment in (*self._unsynced_segments, self.commands):
            if segment.is_open:
                segment.sync()

    def note_limits(self, first: int, limits: dict[str, int], rules: int) -> None:
        """Notes the limits and the rules under which all new commands, from `first` on, are executed: a restart executes each command under its own."""
        changes = note_limits(self.meta, first, limits, rules), cut_operators(self.meta, first - 1)
        if any(changes):
            self._write_meta()

    def note_operators(self, last: int) -> None:
        """Notes the operators of the commands up to `last`, before they change. Raises DiskFullError if there is no room."""
        note_operators(self.meta, last, self.operators())
        self._write_meta()  # even if that is already noted: the disk may have been full then

    def operators(self) -> list[int]:
        """The numbers of the participants that are operators. Older journals do not store them."""
        return [number for number, entry in enumerate(self.participants) if entry.get("operator")]

    def segments(self, kind: str) -> list[Path]:
        """The segment files of "commands" or "events", oldest first."""
        return stored_paths(self.folder, kind)

    def create_commands(self, first: int) -> None:
        """Creates the current command segment, which starts with sequence `first`. Raises DiskFullError if there is no room."""
        path = self.folder / f"commands-{first:012d}.rows"
        self.commands = Segment.create(path, COMMAND, first, self.segment_rows, self.id)

    def set_usable(self, gateway: GatewayState) -> None:
        """Sets how many rows of the current command segment are for participants' commands: none while the disk is full."""
        gateway.counter[ROWS_USABLE] = 0 if self.is_full else max(0, self.commands.capacity - RESERVED_ROWS)

    def rotate_commands(self, gateway: GatewayState) -> None:
        """Starts a new command segment; every journaled command must have been executed. Without room raises DiskFullError and changes nothing."""
        counter = gateway.counter
        if counter[APPENDED] == 0:
            return  # it is a new one
        assert counter[EXECUTED] == counter[APPENDED], "the segment has commands that are not executed"
        finished = self.commands
        self.create_commands(int(counter[NEXT_SEQUENCE]))
        self._unsynced_segments.append(finished)
        counter[APPENDED] = counter[EXECUTED] = 0

    def rotate_events(self, gateway: GatewayState, next_sequence: int) -> None:
        """Starts a new event log; every event must have been reported and published."""
        self.store.rotate(gateway, next_sequence)
        self._wake.set()

    def write_events(self, gateway: GatewayState) -> None:
        """Writes every event so far to its file. Raises DiskFullError if there is no room."""
        self.store.write(int(gateway.counter[EVENTS]))

    def save_snapshot(self, make: Callable[[], SavedSnapshot], gateway: GatewayState) -> None:
        """Creates and writes a snapshot, after writing the events up to it, which a restart could not regenerate; in the background while
        the exchange serves. The commands up to it are synced first too: otherwise a power cut could leave a gap in the journal that the
        snapshot hides. If there is no room for it, restarts begin with an earlier snapshot."""
        self._snapshot = WaitingSnapshot(make, self.events, int(gateway.counter[EVENTS]), self.commands)
        if self._flusher is None:
            self._save_snapshot()
        else:
            self._wake.set()

    @property
    def is_saving_snapshot(self) -> bool:
        """Whether a snapshot is not saved yet."""
        return self._snapshot is not None

    def wait_for_snapshot(self) -> None:
        """Waits until the last snapshot is saved. Raises DiskFullError if there is no room for it, JournalError if the disk failed."""
        while self.is_saving_snapshot:
            self.raise_if_failed()
            time.sleep(0.001)
        if self.is_full:
            raise DiskFullError(f"{self.folder}: expected room for a snapshot, got a full disk; free some disk space")

    def _save_snapshot(self) -> None:
        while (waiting := self._snapshot) is not None:
            self.store.write_before(waiting.events, waiting.event_count)
            for segment in (*self._unsynced_segments, waiting.commands):
                if segment.is_open:
                    segment.sync()
            snapshots.save(self.folder, self.id, waiting.make())
            if self._snapshot is waiting:
                self._snapshot = None
            try:
                self.store.forget(clean(self.folder, self._config.retention))
            except OSError as error:  # trading goes on; the next snapshot tries again
                log("old_files_stay", f"{self.folder}: old files stay until the next snapshot ({error})")
            self._uncompressed = self._config.compress

    def _compress(self) -> None:
        """Starts a low-priority process that compresses the finished files, if the last such process has ended and a snapshot has been saved since it
        started."""
        if not self._uncompressed or (self._compressing is not None and self._compressing.poll() is None):
            return
        self._uncompressed = False
        if not is_due(self.folder):
            return
        program = [sys.executable, "-m", "serl", "journal", "compress", "--background", str(self.folder)]
        try:
            self._compressing = subprocess.Popen(program, stdout=subprocess.DEVNULL)
        except OSError as error:  # trading goes on
            log("old_files_stay", f"{self.folder}: old files stay uncompressed until the next snapshot ({error})")

    def set_full(self, full: bool, gateway: GatewayState) -> None:
        """Notes that the disk is full, or that it has room again, and logs that."""
        if full == self.is_full:
            return
        self.is_full = full
        self.set_usable(gateway)
        if full:
            text = "the disk is full: new orders are rejected, cancellations accepted, until there is room; free some disk space"
        else:
            text = "the disk has room again: new orders are accepted"
        log("disk_full" if full else "disk_has_room", f"{self.folder}: {text}")

    def wake(self) -> None:
        """Makes the thread of `start_flushing` run now."""
        self._wake.set()

    def start_flushing(self, interval_s: float, gateway: GatewayState, also: Callable[[], None] = lambda: None) -> None:
        """Starts a thread that writes event logs and syncs to the disk every `interval_s`, and each time calls `also`.

        After a failure the compiled loop accepts no message and sends no report: which data a failed sync left unwritten is unknown, and
        a later success would prove nothing, because the kernel marks the pages clean after a failed sync. A full disk is not such a
        failure: nothing is lost, and the next turn tries again.
        """

        def flush() -> None:
            try:
                self._flush(interval_s, gateway, also)
            except BaseException as error:  # whatever ended this thread, nothing more reaches the disk
                self._failure = error
                gateway.counter[JOURNAL_FAILED] = 1

        self._flusher = threading.Thread(target=flush, name="journal-flush", daemon=True)
        self._flusher.start()

    def _flush(self, interval_s: float, gateway: GatewayState, also: Callable[[], None]) -> None:
        next_sync = time.monotonic() + interval_s
        while not self._stopping:
            self._wake.wait(max(0.0, next_sync - time.monotonic()))
            self._wake.clear()
            also()
            try:
                self.participants_file.save_requested()
                self.store.write_finished()
                self._save_snapshot()
                self._compress()
                if time.monotonic() >= next_sync:
                    self._sync_finished()
            except DiskFullError:
                self._snapshot = None
                self.set_full(True, gateway)
            if time.monotonic() >= next_sync:
                self.commands.sync()
                next_sync = time.monotonic() + interval_s

    def start_committing(self, gateway: GatewayState) -> int:
        """From now on commands are executed only once they are on the disk. Returns the descriptor that becomes readable after each sync."""

        def failed(error: BaseException) -> None:
            self._failure = error

        self._group_commit = GroupCommit(gateway, lambda: self.commands, failed)
        return self._group_commit.wakes

    def commit(self, gateway: GatewayState) -> None:
        """Waits until every journaled command may be executed: with a group commit until all are on the disk."""
        if self._group_commit is not None:
            self._group_commit.commit(int(gateway.counter[NEXT_SEQUENCE]) - 1)

    def raise_if_failed(self) -> None:
        """Raises JournalError if the journal no longer reaches the disk."""
        if self._failure is not None:
            raise self._disk_error(self._failure) from self._failure

    @contextmanager
    def disk_errors(self) -> Iterator[None]:
        """Turns an OSError while the journal is written into a JournalError."""
        try:
            yield
        except OSError as error:
            raise self._disk_error(error) from error

    def _disk_error(self, error: BaseException) -> JournalError:
        reason = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        return JournalError(
            f"{self.folder}: expected the journal to reach the disk, got {reason}; the exchange stops and acknowledges nothing more. "
            "What it acknowledged since the last sync may not survive a power cut: check the disk, then start again on this folder"
        )

    def _sync_finished(self) -> None:
        while self._unsynced_segments:
            self._unsynced_segments.pop(0).close()
        self.store.sync_finished()

    def close(self, gateway: GatewayState) -> None:
        """Syncs everything and truncates the last segments to their rows."""
        self._stop_flushing()
        self.raise_if_failed()
        self.participants_file.save_requested()
        self.write_events(gateway)
        self._save_snapshot()
        self._sync_finished()
        self.commands.close(int(gateway.counter[APPENDED]))
        self.store.close()
        self.unlock()

    def abandon(self) -> None:
        """Closes without writing: after a failure, further writes could do harm. A restart recovers from the files as they are."""
        self._stop_flushing()
        self.unlock()

    def _stop_flushing(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._flusher is not None:
            self._flusher.join()
        if self._group_commit is not None:
            self._group_commit.stop()
            self._group_commit = None

    def unlock(self) -> None:
        """Releases the lock on the folder."""
        if self._compressing is not None:
            self._compressing.terminate()
            self._compressing.wait()
        self._lock.close()

    def set_salt(self, gateway: GatewayState) -> None:
        """Passes the salt of the row checksums to the compiled code."""
        gateway.counter[SALT] = self.meta["salt"]

    def newest_events(self, gateway: GatewayState) -> Iterator[Rows]:
        """The event rows in chunks, newest chunk first, each chunk oldest row first."""
        return self.store.newest(gateway)

    def events_after(self, sequence: int, limit: int, gateway: GatewayState) -> Rows | None:
        """Up to `limit` EVENT rows after a sequence number, in order; None if the first of them is no longer stored.

        Returns fewer at the end of a file. O(limit).
        """
        return self.store.after(sequence, limit, gateway)

    def commands_after(self, sequence: int, limit: int, gateway: GatewayState) -> Rows | None:
        """The executed COMMAND rows after a sequence number, like `events_after`."""
        for path in reversed(self.segments("commands")):
            index = sequence + 1 - first_sequence(path)
            if index >= 0:
                if path == self.commands.path:
                    return self.commands.rows[: gateway.counter[EXECUTED]][index : index + limit]
                return slice_after(path, COMMAND, sequence, limit)
        return None

    def answers(self, participant: int, command_id: int, gateway: GatewayState, limit: int = sys.maxsize) -> Rows:
        """The first events, up to `limit`, that answered a command of the participant, in order. Empty if it never arrived or they are no longer
        stored.

        O(log events + limit).
        """
        return self.store.answers(participant, command_id, gateway, limit)

    def trades(self, symbol: int, count: int, gateway: GatewayState) -> Rows:
        """The last `count` trades of a symbol as EVENT rows, oldest first; only those among the last `TRADES_EVENTS_MAX` events."""
        found: list[Rows] = []
        missing, unread = count, TRADES_EVENTS_MAX
        for rows in self.newest_events(gateway) if count > 0 else ():
            rows = rows[-unread:]
            trades = rows[(rows["symbol"] == symbol) & is_trade(rows)]
            found.append(trades[-missing:])
            missing, unread = missing - len(found[-1]), unread - len(rows)
            if missing == 0 or unread == 0:
                break
        return np.concatenate(found[::-1]) if found else np.zeros(0, EVENT)


def is_trade(rows: Rows) -> NDArray[np.bool_]:
    """Which EVENT rows are trades: the resting side of a match, or a PRINT. bool (n,)."""
    matched = (rows["kind"] == EventKind.FILL) & (rows["flags"] & EventFlag.MAKER > 0)
    trades: NDArray[np.bool_] = matched | (rows["kind"] == EventKind.PRINT)
    return trades
