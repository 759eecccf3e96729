"""An index of the events that answered each command, so that a duplicate sent much later needs no scan of the journal.

A participant's command ids only increase. The index therefore stores, for the end of each chunk of an event segment, each participant's last
answered command id; two binary searches find the segment and the chunk.
"""

import sys
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from serl.exchange.atomic_file import atomic_file
from serl.exchange.journal.segment import first_sequence, no_space
from serl.exchange.journal.stored import StoredRows, stored_rows
from serl.exchange.records import EVENT, Reason, Rows

CHUNK_ROWS = 4096
"""Event rows per chunk; one chunk is scanned per command. The index entry of a chunk takes 8 bytes per participant."""

OPEN_MAX = 16
"""Number of finished segments that stay open; the least recently used is closed first."""

Ids = NDArray[np.int64]
"""The last command id by participant number, 0 = none; participants past the end have none."""


def is_answer(rows: Rows) -> NDArray[np.bool_]:
    """Which EVENT rows answer a command. The rejection of a stale id does not: the id belongs to another command. bool (n,)."""
    answers: NDArray[np.bool_] = (rows["command_id"] > 0) & (rows["reason"] != Reason.STALE_COMMAND_ID)
    return answers


class SegmentAnswers:
    """The last command ids at the end of each chunk of one event segment, in memory until they are saved to a file beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.row_count = 0  # of a finished segment
        self.unwritten: Rows | None = None  # the rows of a finished segment while they are not in its file yet
        self._chunks: list[Ids] | None = []  # None: they are in the file

    @property
    def saved_path(self) -> Path:
        """The file with the saved index, beside the segment."""
        return self.path.with_suffix(".answers.npy")

    def delete_saved(self) -> None:
        """Deletes the saved index of a segment that is rewritten."""
        self.saved_path.unlink(missing_ok=True)

    def chunks(self) -> Sequence[Ids]:
        """The last command ids per chunk, read from the file if they are saved there."""
        chunks = self._chunks
        return list(np.load(self.saved_path)) if chunks is None else chunks

    def extend(self, rows: Rows) -> Sequence[Ids]:
        """Indexes the complete chunks of the segment's rows so far. Returns the last command ids per chunk."""
        assert self._chunks is not None, "a segment that was saved is finished"
        for start in range(len(self._chunks) * CHUNK_ROWS, len(rows) - CHUNK_ROWS + 1, CHUNK_ROWS):
            self._append(rows[start : start + CHUNK_ROWS])
        return self._chunks

    def _append(self, rows: Rows) -> None:
        assert self._chunks is not None
        self._chunks.append(_last_ids(rows, self._chunks[-1] if self._chunks else _NO_IDS))

    def finish(self, rows: Rows) -> None:
        """Indexes all rows of the segment, which is now complete."""
        indexed = len(self.extend(rows)) * CHUNK_ROWS
        if indexed < len(rows):
            self._append(rows[indexed:])
        self.row_count = len(rows)

    def save(self) -> None:
        """Saves the index to its file and frees the memory. The segment itself must be on the disk."""
        chunks = self.chunks()
        table = np.zeros((len(chunks), len(chunks[-1])), np.int64)
        for row, last in zip(table, chunks, strict=True):
            row[: len(last)] = last
        with no_space(self.saved_path), atomic_file(self.saved_path) as file:
            np.save(file, table)
        self._chunks = None

    def load(self) -> bool:
        """Loads the saved index of a finished segment. Returns False if there is none (after a crash, or from an older version) or it is damaged."""
        row_count = len(stored_rows(self.path, EVENT))
        try:
            saved = np.load(self.saved_path, mmap_mode="r")
        except (OSError, ValueError, EOFError):
            return False
        if saved.ndim != 2 or len(saved) * CHUNK_ROWS < row_count:
            return False
        self.row_count, self._chunks = row_count, None
        return True


class AnswerIndex:
    """The finished event segments of a journal, oldest first, and the last command ids at the end of each."""

    def __init__(self) -> None:
        self._segments: list[SegmentAnswers] = []
        self._last: list[Ids] = []
        self._map_segment = lru_cache(OPEN_MAX)(_map_segment)

    def add(self, segment: SegmentAnswers, unwritten: Rows | None = None) -> None:
        """Adds a finished segment. `unwritten`: its rows, while they are not in its file."""
        segment.unwritten = unwritten
        self._last.append(_merged(self._last[-1] if self._last else _NO_IDS, segment.chunks()[-1]))
        self._segments.append(segment)

    def forget(self, gone: Collection[int]) -> None:
        """Removes the oldest segments while their first events are in `gone`: their files have been deleted."""
        count = sum(1 for _ in takewhile(lambda segment: first_sequence(segment.path) in gone, self._segments))
        if count:
            del self._segments[:count], self._last[:count]
            self._map_segment.cache_clear()  # a mapped file would stay on the disk

    def answers(
        self, participant: int, command_id: int, newest: Rows, current: SegmentAnswers, limit: int = sys.maxsize
    ) -> Rows:
        """The first EVENT rows, up to `limit`, that answered a command, in order. Empty if there was no such command or they are no longer stored.

        `newest`: the rows of the current segment. O(log events + limit + CHUNK_ROWS).
        """
        found: list[Rows] = []
        for rows in self._chunks_from(participant, command_id, newest, current):
            own = (rows["participant"] == participant) & (rows["command_id"] == command_id)
            found.append(rows[own & is_answer(rows)])
            if sum(map(len, found)) >= limit:
                break
            # the events of one command are contiguous
            if not len(found[0]) or rows[-1]["command_sequence"] != found[0][0]["command_sequence"]:
                break
        return np.concatenate(found)[:limit] if found else np.zeros(0, EVENT)

    def _chunks_from(self, participant: int, command_id: int, newest: Rows, current: SegmentAnswers) -> Iterator[Rows]:
        """The rows of the chunks from the first one on that may contain the command."""
        first = _first_reaching(self._last, participant, command_id)
        rows: StoredRows
        chunks: Sequence[Ids]
        for index in range(first, len(self._segments) + 1):
            if index == len(self._segments):
                rows, chunks = newest, current.extend(newest)
            else:
                segment = self._segments[index]
                rows, chunks = (
                    self._map_segment(segment) if segment.unwritten is None else (segment.unwritten, segment.chunks())
                )
            first_chunk = _first_reaching(chunks, participant, command_id) if index == first else 0
            for start in range(first_chunk * CHUNK_ROWS, len(rows), CHUNK_ROWS):
                yield rows[start : start + CHUNK_ROWS]


_NO_IDS: Ids = np.zeros(0, np.int64)


def _last_ids(rows: Rows, before: Ids) -> Ids:
    """The last ids at the end of these rows, given those before them."""
    answers = np.flatnonzero(is_answer(rows))
    participants = rows["participant"][answers]
    last = np.zeros(int(participants.max(initial=0)) + 1, np.int64)
    np.maximum.at(last, participants, rows["command_id"][answers])
    return _merged(before, last)


def _merged(before: Ids, later: Ids) -> Ids:
    if len(before) < len(later):
        before, later = later, before
    merged = before.copy()
    np.maximum(merged[: len(later)], later, out=merged[: len(later)])
    return merged


def _first_reaching(lasts: Sequence[Ids], participant: int, command_id: int) -> int:
    """The first index at which the participant's last id is at least command_id."""
    return bisect_left(lasts, command_id, key=lambda last: int(last[participant]) if participant < len(last) else 0)


def _map_segment(segment: SegmentAnswers) -> tuple[StoredRows, Sequence[Ids]]:
    """The mapped rows of a finished segment and its index; no rows if the file is gone."""
    try:
        return stored_rows(segment.path, EVENT, segment.row_count), segment.chunks()
    except FileNotFoundError:
        return np.zeros(0, EVENT), []
