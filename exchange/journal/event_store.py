"""The event logs of a journal: the current one, those waiting to be written, and the finished files."""

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from serl.exchange.errors import DiskFullError
from serl.exchange.gateway.state import EVENTS, REPORTED, GatewayState
from serl.exchange.journal.answers import AnswerIndex, SegmentAnswers
from serl.exchange.journal.checked_json import damaged
from serl.exchange.journal.event_log import EventLog
from serl.exchange.journal.inspect import events_are_intact
from serl.exchange.journal.segment import first_sequence, read_header
from serl.exchange.journal.stored import StoredRows, decompress, slice_after, stored_paths, stored_rows
from serl.exchange.records import EVENT, Rows

CHUNK_ROWS = 65_536
"""Event rows per chunk of a scan."""

UNWRITTEN_MAX = 4
"""Number of full event logs held in memory; beyond that, the market waits until they are written. While the disk is full there may be more."""

FREE_BUFFERS_MAX = 1
"""Number of buffers of written logs kept for the next ones; extra ones that a slow disk needed are dropped."""


def chunks(parts: Iterable[tuple[int, StoredRows]]) -> Iterator[tuple[int, Rows]]:
    """Splits parts (first sequence, rows), newest first, into chunks of up to `CHUNK_ROWS`, also newest first."""
    for first, rows in parts:
        for stop in range(len(rows), 0, -CHUNK_ROWS):
            start = max(0, stop - CHUNK_ROWS)
            yield first + start, rows[start:stop]


class EventStore:
    """The events of a journal, in segments of `segment_rows`."""

    def __init__(self, folder: Path, segment_rows: int, journal_id: str) -> None:
        self._folder, self._segment_rows, self._journal_id = folder, segment_rows, journal_id
        self.current: EventLog
        self._answers = AnswerIndex()
        self._unwritten: list[tuple[EventLog, int]] = []
        self._indexed = 0  # of the unwritten ones
        self._unsynced: list[EventLog] = []
        self._free_buffers: list[Rows] = []
        self._writing = threading.Lock()
        self._indexing = threading.Lock()

    def paths(self) -> list[Path]:
        """The event files, oldest first; the current log has one after its first write."""
        return stored_paths(self._folder, "events")

    def create(self, first: int) -> None:
        """Creates a new current log, which starts with event `first`."""
        rows = self._free_buffers.pop() if self._free_buffers else np.zeros(self._segment_rows, EVENT)
        self.current = EventLog(self._folder / f"events-{first:012d}.rows", first, rows, self._journal_id)

    def find(self, first: int) -> Path | None:
        """The file that contains event `first` or has room for it (a finished file only if `first` would be its next event). Raises JournalError if
        that file, whose rows before the event a restart keeps, or a later one is damaged."""
        for path in reversed(self.paths()):
            header = read_header(path, EVENT, self._journal_id)
            keep = first - header["first_sequence"]
            if 0 <= keep <= header.get("rows", header["capacity"]):
                # later rows may be unfinished after a power cut; they are generated again
                is_whole = header.get("rows") == keep
                if not (events_are_intact(path, header) if is_whole else len(stored_rows(path, EVENT)) >= keep):
                    raise damaged(path, f"its rows before event {first} fail their check")
                return path
        return None

    def open(self, first: int) -> int:
        """Opens the log that contains event `first`, or creates one. Returns the number of its rows before that event."""
        path = self.find(first)
        if path is None:
            self.create(first)
            return 0
        keep = first - first_sequence(path)
        if path.suffix == ".zrows":
            path = decompress(path, EVENT, self._journal_id)
        rows = np.zeros(max(keep, self._segment_rows), EVENT)
        self.current = EventLog.open(path, first - keep, rows, keep, self._journal_id)
        return keep

    def index_answers(self) -> None:
        """Builds or loads the answer index of the finished logs."""
        for path in self.paths():
            if first_sequence(path) >= self.current.first_sequence:
                break
            answers = SegmentAnswers(path)
            if not answers.load():
                rows = stored_rows(path, EVENT)[:]
                if not len(rows):  # damaged: a restart does not need it, and it answers nothing
                    continue
                answers.finish(rows)
                answers.save()
            self._answers.add(answers)

    def delete_later(self) -> None:
        """Deletes the files after the current log."""
        for path in self.paths():
            if first_sequence(path) > self.current.first_sequence:
                for file in (path, path.with_suffix(".zrows")):  # both exist if it was being compressed
                    file.unlink(missing_ok=True)
                SegmentAnswers(path).delete_saved()

    def rotate(self, gateway: GatewayState, next_sequence: int) -> None:
        """Starts a new log; every event must have been reported and published."""
        counter = gateway.counter
        assert counter[REPORTED] == counter[EVENTS], "the event log has events that are not reported"
        if len(self._unwritten) >= UNWRITTEN_MAX:
            with contextlib.suppress(DiskFullError):  # the exchange then takes only cancellations until there is room
                self.write_finished()  # the disk is too slow: the market waits for it
        self._unwritten.append((self.current, int(counter[EVENTS])))
        self.create(next_sequence)
        counter[EVENTS] = counter[REPORTED] = 0

    def write(self, count: int) -> None:
        """Writes every event so far, `count` of them in the current log. Raises DiskFullError if there is no room."""
        self.write_finished()
        with self._writing:
            self.current.write(count)

    def write_before(self, log: EventLog, count: int) -> None:
        """Writes and syncs the finished logs and the first `count` rows of `log`, the current one or one before it."""
        self.write_finished()
        with self._writing:
            log.write(count)
            for unsynced in self._unsynced:
                unsynced.sync()
            log.sync()

    def write_finished(self) -> None:
        """Writes the finished logs. Raises DiskFullError if there is no room: they stay in memory."""
        with self._writing:
            while self._unwritten:
                self._index_finished()  # including those that were finished meanwhile
                log, count = self._unwritten[0]
                log.write(count)
                with self._indexing:
                    log.answers.unwritten = None
                    self._unsynced.append(log)
                    self._unwritten.pop(0)
                    self._indexed -= 1
                    if len(self._free_buffers) < FREE_BUFFERS_MAX:
                        self._free_buffers.append(log.rows)

    def _index_finished(self) -> None:
        with self._indexing:
            for log, count in self._unwritten[self._indexed :]:
                log.answers.finish(log.rows[:count])
                self._answers.add(log.answers, log.rows[:count])
                self._indexed += 1

    def forget(self, deleted: list[Path]) -> None:
        """Forgets the answers in logs whose files have been deleted; ignores other files."""
        gone = {first_sequence(path) for path in deleted if path.name.startswith("events-")}
        with self._indexing:
            self._answers.forget(gone)

    def sync_finished(self) -> None:
        """Syncs and closes the written logs, and saves their answer indices. Raises DiskFullError if there is no room for an index."""
        while self._unsynced:
            log = self._unsynced[0]
            log.close()
            log.answers.save()
            self._unsynced.pop(0)

    def close(self) -> None:
        """Closes the current log."""
        self.current.close()

    def in_memory(self, gateway: GatewayState) -> list[tuple[int, Rows]]:
        """(first sequence, rows) of the logs in memory, newest first."""
        logs = [*self._unwritten, (self.current, int(gateway.counter[EVENTS]))]
        return [(log.first_sequence, log.rows[:count]) for log, count in reversed(logs)]

    def _parts(self, gateway: GatewayState) -> Iterator[tuple[int, StoredRows]]:
        """(first sequence, rows) of all logs, newest first. Rows in memory are valid until the next rotation."""
        oldest = 0
        rows: StoredRows
        for oldest, rows in self.in_memory(gateway):
            yield oldest, rows
        yield from self._files(oldest)

    def _files(self, before: int) -> Iterator[tuple[int, StoredRows]]:
        """(first sequence, rows) of the files that begin before an event, newest first. For any thread."""
        for path in reversed(self.paths()):
            first = first_sequence(path)
            if first < before:
                try:
                    rows = stored_rows(path, EVENT, self._rows_max(path))
                except FileNotFoundError:
                    return  # neither it nor the files before it are stored any longer
                yield first, rows

    def in_files(self, before: int) -> Iterator[tuple[int, Rows]]:
        """(first sequence, rows) of chunks of up to `CHUNK_ROWS` of the files that begin before an event, newest first. For any thread."""
        return chunks(self._files(before))

    def _rows_max(self, path: Path) -> int:
        """The number of rows in a file that `sync_finished` may currently be truncating; no limit for other files."""
        return next((log.written for log in tuple(self._unsynced) if log.path == path), sys.maxsize)

    def newest(self, gateway: GatewayState) -> Iterator[Rows]:
        """The event rows in chunks of up to `CHUNK_ROWS`, newest chunk first, each chunk oldest row first."""
        for _, rows in chunks(self._parts(gateway)):
            yield rows

    def after(self, sequence: int, limit: int, gateway: GatewayState) -> Rows | None:
        """Up to `limit` rows after a sequence number, in order; None if the first of them is no longer stored. Fewer at the end of a file."""
        memory = self.in_memory(gateway)
        for first, rows in memory:
            if sequence + 1 >= first:
                return rows[sequence + 1 - first :][:limit]
        for path in reversed(self.paths()):
            first = first_sequence(path)
            if first <= sequence + 1 and first < memory[-1][0]:
                return slice_after(path, EVENT, sequence, limit, self._rows_max(path))
        return None

    def answers(self, participant: int, command_id: int, gateway: GatewayState, limit: int = sys.maxsize) -> Rows:
        """The first events, up to `limit`, that answered a command, in order. Empty if it never arrived or they are no longer stored."""
        self._index_finished()
        newest: Rows = self.current.rows[: gateway.counter[EVENTS]]
        with self._indexing:
            return self._answers.answers(participant, command_id, newest, self.current.answers, limit)
