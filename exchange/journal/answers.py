"""Where the events that answered a command lie, so that a command sent again long afterwards costs no scan of the journal.

The command ids of a participant grow from command to command. So it is enough to know, by the end of each chunk of an event
segment, the last one that each participant was answered: two binary searches find the segment and the chunk.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from serl.exchange.journal.segment import read_rows
from serl.exchange.records import EVENT, Reason, Rows

CHUNK_ROWS = 4096
"""Event rows that are scanned for one command. Knowing a chunk takes 8 bytes for each participant."""

OPEN_MAX = 16
"""Finished segments that stay open, of those last looked into."""

Ids = NDArray[np.int64]
"""The last command id of each participant by its number, 0 = none; those behind the end have none."""


def is_answer(rows: Rows) -> NDArray[np.bool_]:
    """Which EVENT rows answer a command. The rejection of a stale id does not: that id is another command's. bool (n,)."""
    answers: NDArray[np.bool_] = (rows["command_id"] > 0) & (rows["reason"] != Reason.STALE_COMMAND_ID)
    return answers


class SegmentAnswers:
    """The last command ids by the end of each chunk of one event segment; in memory, and in a file beside it once it is saved."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.row_count = 0  # of a finished segment
        self._chunks: list[Ids] | None = []  # None: in the file

    @property
    def saved_path(self) -> Path:
        """The file beside the segment."""
        return self.path.with_suffix(".answers.npy")

    def delete_saved(self) -> None:
        """Removes what was saved of a segment that is written anew."""
        self.saved_path.unlink(missing_ok=True)

    def chunks(self) -> Sequence[Ids]:
        """The table; read, where it is saved."""
        chunks = self._chunks
        return list(np.load(self.saved_path)) if chunks is None else chunks

    def extend(self, rows: Rows) -> Sequence[Ids]:
        """Takes in the chunks of the segment's rows so far that are whole, each of them once; the table."""
        assert self._chunks is not None, "a segment that was saved is finished"
        for start in range(len(self._chunks) * CHUNK_ROWS, len(rows) - CHUNK_ROWS + 1, CHUNK_ROWS):
            self._append(rows[start : start + CHUNK_ROWS])
        return self._chunks

    def _append(self, rows: Rows) -> None:
        assert self._chunks is not None
        self._chunks.append(_last_ids(rows, self._chunks[-1] if self._chunks else _NO_IDS))

    def finish(self, rows: Rows) -> None:
        """Takes in all rows of the segment, which gets no more."""
        whole = len(self.extend(rows)) * CHUNK_ROWS
        if whole < len(rows):
            self._append(rows[whole:])
        self.row_count = len(rows)

    def save(self) -> None:
        """Writes the table to its file and lets go of the memory. The segment itself must be on the disk."""
        chunks = self.chunks()
        table = np.zeros((len(chunks), len(chunks[-1])), np.int64)
        for row, last in zip(table, chunks, strict=True):
            row[: len(last)] = last
        temporary = self.saved_path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            np.save(file, table)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.saved_path)
        self._chunks = None

    def load(self) -> bool:
        """Goes on with what was saved of a finished segment; False if nothing was: by an older version, or before a crash."""
        row_count = len(read_rows(self.path, EVENT))
        if not self.saved_path.exists() or len(np.load(self.saved_path, mmap_mode="r")) * CHUNK_ROWS < row_count:
            return False
        self.row_count, self._chunks = row_count, None
        return True


class AnswerIndex:
    """The finished event segments of a journal, oldest first, and the last command ids by the end of each."""

    def __init__(self) -> None:
        self._segments: list[SegmentAnswers] = []
        self._last: list[Ids] = []
        self._opened: Callable[[SegmentAnswers], tuple[Rows, Sequence[Ids]]] = lru_cache(OPEN_MAX)(_opened)

    def add(self, segment: SegmentAnswers) -> None:
        """Another segment is finished."""
        self._last.append(_merged(self._last[-1] if self._last else _NO_IDS, segment.chunks()[-1]))
        self._segments.append(segment)

    def answers(self, participant: int, command_id: int, newest: Rows, current: SegmentAnswers) -> Rows:
        """The EVENT rows that answered a command, in order; none if there was no such command or they are not kept.

        `newest`: the rows of the current segment. O(log events + rows of the answer + CHUNK_ROWS).
        """
        found: list[Rows] = []
        for rows in self._chunks_from(participant, command_id, newest, current):
            own = (rows["participant"] == participant) & (rows["command_id"] == command_id)
            found.append(rows[own & is_answer(rows)])
            # what one command does is reported without a gap
            if not len(found[0]) or rows[-1]["command_sequence"] != found[0][0]["command_sequence"]:
                break
        return np.concatenate(found) if found else np.zeros(0, EVENT)

    def _chunks_from(self, participant: int, command_id: int, newest: Rows, current: SegmentAnswers) -> Iterator[Rows]:
        """The rows from the first chunk on in which the command may be, chunk by chunk."""
        first = _find(self._last, participant, command_id)
        for index in range(first, len(self._segments) + 1):
            if index == len(self._segments):
                rows, chunks = newest, current.extend(newest)
            else:
                rows, chunks = self._opened(self._segments[index])
            place = _find(chunks, participant, command_id) if index == first else 0
            for start in range(place * CHUNK_ROWS, len(rows), CHUNK_ROWS):
                yield rows[start : start + CHUNK_ROWS]


_NO_IDS: Ids = np.zeros(0, np.int64)


def _last_ids(rows: Rows, before: Ids) -> Ids:
    """The last ids by the end of these rows, whose predecessors left `before`."""
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


def _find(lasts: Sequence[Ids], participant: int, command_id: int) -> int:
    """The first of them in which a participant had come to a command."""
    return bisect_left(lasts, command_id, key=lambda last: int(last[participant]) if participant < len(last) else 0)


def _opened(segment: SegmentAnswers) -> tuple[Rows, Sequence[Ids]]:
    """The rows of a finished segment, mapped, and its table; no rows where the file is gone."""
    if not segment.path.exists():
        return np.zeros(0, EVENT), []
    return np.asarray(read_rows(segment.path, EVENT))[: segment.row_count], segment.chunks()
