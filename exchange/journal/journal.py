"""The journal folder: command segments, event segments, snapshots, and the participants.

meta.json                      symbols, salt of the row checksums, epoch
participants.json              names in the order of their numbers, operators, cancel_on_disconnect
commands-000000000001.rows     COMMAND rows from that sequence on: the source of truth
events-000000000001.rows       EVENT rows; regenerated from the commands where missing
events-....answers.npy         index of the commands that a finished segment's events answer (answers.py); regenerated where missing
snapshot-000000000000.npz      the market after that command: where a restart begins
"""

import fcntl
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from serl.exchange.atomic_file import write_json
from serl.exchange.errors import JournalError
from serl.exchange.gateway.state import (
    APPENDED,
    EVENTS,
    EXECUTED,
    JOURNAL_FAILED,
    NEXT_SEQUENCE,
    REPORTED,
    SALT,
    GatewayState,
)  # fmt: skip
from serl.exchange.journal.answers import AnswerIndex, SegmentAnswers
from serl.exchange.journal.commit import GroupCommit
from serl.exchange.journal.event_log import EventLog
from serl.exchange.journal.segment import Segment, read_header, read_rows
from serl.exchange.records import COMMAND, EVENT, EventFlag, EventKind, Rows

FORMAT = 1
CHUNK_ROWS = 65_536
"""Event rows per chunk of a scan."""

UNWRITTEN_MAX = 4
"""Full event segments held in memory; beyond that, the market waits until they are written."""


class Journal:
    """An open journal folder; one exchange at a time (held by a file lock)."""

    def __init__(self, folder: Path, symbols: list[dict[str, str]], segment_rows: int) -> None:
        self.folder = folder
        self.segment_rows = segment_rows
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(folder)
        try:
            self.meta = self._open_meta(symbols)
            self.participants: list[dict[str, Any]] = _read_json(folder / "participants.json", [])
        except BaseException:
            self.unlock()
            raise
        self.commands: Segment
        self.events: EventLog
        self._unsynced_segments: list[Segment] = []
        self._answers = AnswerIndex()
        self._unwritten: list[tuple[EventLog, int]] = []
        self._unsynced_logs: list[EventLog] = []
        self._free_buffers: list[Rows] = []
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._flusher: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._group_commit: GroupCommit | None = None

    def _open_meta(self, symbols: list[dict[str, str]]) -> dict[str, Any]:
        path = self.folder / "meta.json"
        fresh = {"format": FORMAT, "symbols": symbols, "salt": secrets.randbits(62), "epoch": 0}
        meta: dict[str, Any] = _read_json(path, fresh)
        if meta["format"] != FORMAT:
            raise JournalError(
                f"{path}: expected format {FORMAT}, got {meta['format']}; use the version of serl that wrote it"
            )
        if meta["symbols"] != symbols:
            names = [symbol["name"] for symbol in meta["symbols"]]
            raise JournalError(
                f"{self.folder}: expected the symbols {names} and tick sizes that it was written with, got "
                f"{[symbol['name'] for symbol in symbols]}; start with the same symbols or with another folder"
            )
        meta["epoch"] += 1
        write_json(path, meta, indent=1)
        return meta

    @property
    def epoch(self) -> int:
        """1 for the first start on this folder, then 2, 3 ..."""
        return int(self.meta["epoch"])

    def save_participants(self) -> None:
        """Saves the participants. Must run before their first command is journaled."""
        write_json(self.folder / "participants.json", self.participants, indent=1)

    def segments(self, kind: str) -> list[Path]:
        """The segment files of "commands" or "events", oldest first."""
        return sorted(self.folder.glob(f"{kind}-*.rows"))

    def create_commands(self, first_sequence: int) -> None:
        """Creates the current command segment, which starts with this sequence."""
        path = self.folder / f"commands-{first_sequence:012d}.rows"
        self.commands = Segment.create(path, COMMAND, first_sequence, self.segment_rows)

    def create_events(self, first_sequence: int) -> None:
        """Creates the current event log, which starts with this sequence."""
        path = self.folder / f"events-{first_sequence:012d}.rows"
        self.events = EventLog.create(path, first_sequence, self._event_rows())

    def open_events(self, path: Path, first_sequence: int, keep: int) -> None:
        """Opens an existing event log as the current one, to append after its first `keep` rows."""
        rows = np.zeros(max(keep, self.segment_rows), EVENT)
        self.events = EventLog.open(path, first_sequence, rows, keep)

    def index_answers(self) -> None:
        """Builds or loads the answer index of the event segments before the current one."""
        for path in self.segments("events"):
            if path >= self.events.path:
                break
            answers = SegmentAnswers(path)
            if not answers.load():
                rows = read_rows(path, EVENT)
                answers.finish(rows[: _count_written(rows, read_header(path, EVENT)["first_sequence"])])
                answers.save()
            self._answers.add(answers)

    def _event_rows(self) -> Rows:
        return self._free_buffers.pop() if self._free_buffers else np.zeros(self.segment_rows, EVENT)

    def rotate_commands(self, gateway: GatewayState) -> None:
        """Starts a new command segment; every journaled command must be executed."""
        counter = gateway.counter
        assert counter[EXECUTED] == counter[APPENDED], "the segment has commands that are not executed"
        self._unsynced_segments.append(self.commands)
        self.create_commands(int(counter[NEXT_SEQUENCE]))
        counter[APPENDED] = counter[EXECUTED] = 0

    def rotate_events(self, gateway: GatewayState, next_sequence: int) -> None:
        """Starts a new event log; every event must be reported and published."""
        counter = gateway.counter
        assert counter[REPORTED] == counter[EVENTS], "the event log has events that are not reported"
        if len(self._unwritten) >= UNWRITTEN_MAX:
            self.write_events(gateway)  # the disk is too slow: the market waits for it
        self._unwritten.append((self.events, int(counter[EVENTS])))
        self.create_events(next_sequence)
        counter[EVENTS] = counter[REPORTED] = 0
        self._wake.set()

    def write_events(self, gateway: GatewayState) -> None:
        """Writes every event so far to its file."""
        self._write_finished()
        with self._writing:
            self.events.write(int(gateway.counter[EVENTS]))

    def _write_finished(self) -> None:
        with self._writing:
            while self._unwritten:
                log, count = self._unwritten[0]
                log.write(count)
                log.answers.finish(log.rows[:count])
                self._answers.add(log.answers)
                self._free_buffers.append(log.rows)
                self._unsynced_logs.append(log)
                self._unwritten.pop(0)

    def start_flushing(self, interval_s: float, gateway: GatewayState) -> None:
        """Starts a thread that writes event logs and syncs to the disk every `interval_s`.

        After one failure, the compiled loop accepts no message and sends no report: what a failed sync left unwritten is unknown, and
        a later success would not prove anything, because the kernel marks the pages clean after a failed sync.
        """

        def flush() -> None:
            try:
                self._flush(interval_s)
            except BaseException as error:  # whatever ended this thread, nothing more reaches the disk
                self._failure = error
                gateway.counter[JOURNAL_FAILED] = 1

        self._flusher = threading.Thread(target=flush, name="journal-flush", daemon=True)
        self._flusher.start()

    def _flush(self, interval_s: float) -> None:
        next_sync = time.monotonic() + interval_s
        while not self._stopping:
            self._wake.wait(max(0.0, next_sync - time.monotonic()))
            self._wake.clear()
            self._write_finished()
            if time.monotonic() >= next_sync:
                self._sync_finished()
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
        while self._unsynced_logs:
            log = self._unsynced_logs.pop(0)
            log.close()
            log.answers.save()

    def close(self, gateway: GatewayState) -> None:
        """Syncs everything and truncates the last segments to their rows."""
        self._stop_flushing()
        self.raise_if_failed()
        self.write_events(gateway)
        self._sync_finished()
        self.commands.close(int(gateway.counter[APPENDED]))
        self.events.close()
        self.unlock()

    def abandon(self) -> None:
        """Closes without writing: after a failure more writes could do harm. A restart recovers from the files as they are."""
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
        self._lock.close()

    def set_salt(self, gateway: GatewayState) -> None:
        """Passes the salt of the row checksums to the compiled code."""
        gateway.counter[SALT] = self.meta["salt"]

    def newest_events(self, gateway: GatewayState) -> Iterator[Rows]:
        """The event rows in chunks of up to `CHUNK_ROWS`, newest chunk first, each chunk oldest row first."""
        self._write_finished()
        for path in reversed(self.segments("events")):
            if path == self.events.path:
                rows: Rows = self.events.rows[: gateway.counter[EVENTS]]
            else:
                rows = read_rows(path, EVENT)
                rows = rows[: _count_written(rows, read_header(path, EVENT)["first_sequence"])]
            for stop in range(len(rows), 0, -CHUNK_ROWS):
                yield rows[max(0, stop - CHUNK_ROWS) : stop]

    def events_after(self, sequence: int, limit: int, gateway: GatewayState) -> Rows | None:
        """Up to `limit` EVENT rows after a sequence number, in order; None if the first of them is no longer stored.

        Returns fewer at the end of a file. O(limit).
        """
        self._write_finished()
        return self._rows_after(
            "events", self.events.path, self.events.rows[: gateway.counter[EVENTS]], sequence, limit
        )

    def commands_after(self, sequence: int, limit: int, gateway: GatewayState) -> Rows | None:
        """The executed COMMAND rows after a sequence number, like `events_after`."""
        executed = self.commands.rows[: gateway.counter[EXECUTED]]
        return self._rows_after("commands", self.commands.path, executed, sequence, limit)

    def _rows_after(self, kind: str, current: Path, newest: Rows, sequence: int, limit: int) -> Rows | None:
        """`newest`: the rows of the segment at `current`, which is still being written."""
        for path in reversed(self.segments(kind)):
            index = sequence + 1 - int(path.stem.partition("-")[2])
            if index >= 0:
                if path == current:
                    return newest[index : index + limit]
                rows = read_rows(path, newest.dtype)[index : index + limit]
                return rows[: _count_written(rows, sequence + 1)] if len(rows) else None
        return None

    def reports(self, participant: int, after: int, gateway: GatewayState, limit: int) -> Rows | None:
        """The participant's EVENT rows with report > after, in order; None if there are more than `limit`.

        O(events since report `after`).
        """
        found: list[Rows] = []
        total = 0
        for rows in self.newest_events(gateway):
            own = rows[rows["participant"] == participant]
            newer = own[own["report"] > after]
            found.append(newer)
            total += len(newer)
            if total > limit:
                return None
            if len(newer) < len(own) or (len(newer) and newer[0]["report"] == after + 1):
                break
        return np.concatenate(found[::-1]) if found else np.zeros(0, EVENT)

    def answers(self, participant: int, command_id: int, gateway: GatewayState) -> Rows:
        """The events that answered a command of the participant, in order; none if it never arrived or they are no longer stored.

        O(log events + events of the answer).
        """
        self._write_finished()
        newest: Rows = self.events.rows[: gateway.counter[EVENTS]]
        return self._answers.answers(participant, command_id, newest, self.events.answers)

    def trades(self, symbol: int, count: int, gateway: GatewayState) -> Rows:
        """The last `count` trades of a symbol as EVENT rows, oldest first."""
        found: list[Rows] = []
        missing = count
        for rows in self.newest_events(gateway):
            if missing <= 0:
                break
            trades = rows[(rows["symbol"] == symbol) & is_trade(rows)]
            found.append(trades[-missing:])
            missing -= len(found[-1])
        return np.concatenate(found[::-1]) if found else np.zeros(0, EVENT)


def is_trade(rows: Rows) -> NDArray[np.bool_]:
    """Which EVENT rows are trades: the resting side of a match, or a PRINT. bool (n,)."""
    matched = (rows["kind"] == EventKind.FILL) & (rows["flags"] & EventFlag.MAKER > 0)
    trades: NDArray[np.bool_] = matched | (rows["kind"] == EventKind.PRINT)
    return trades


def _count_written(rows: Rows, first_sequence: int) -> int:
    """The number of written rows of an event segment, whose sequences have no gap."""
    expected = first_sequence + np.arange(len(rows))
    wrong = np.flatnonzero(rows["sequence"] != expected)
    return int(wrong[0]) if len(wrong) else len(rows)


def _lock(folder: Path) -> BinaryIO:
    file = (folder / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise JournalError(f"{folder}: another exchange uses this journal; stop it or choose another folder") from None
    return file


def _read_json(path: Path, default: Any) -> Any:
    if not path.exists():
        return default
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise JournalError(f"{path}: expected JSON, got something else ({error}); restore it from a copy") from None
