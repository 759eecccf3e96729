"""What a topic of the feed tells: a snapshot, then messages, and a new snapshot after each gap in the sequence numbers."""

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

BUFFERED_MAX = 100_000
"""Messages buffered until a snapshot arrives; beyond that the oldest are dropped, and another snapshot is needed."""


class FeedState(ABC):
    """Applies feed messages [kind, epoch, previous, sequence, time_ns, items] by the rule of docs/protocol.md.

    Attributes:
        needs_snapshot: whether messages are missing, so that `apply_snapshot` is due.
        sequence: number of the last event that it includes.
        gaps: how often messages were missing.
    """

    def __init__(self) -> None:
        self.needs_snapshot = True
        self.epoch = -1
        self.sequence = -1
        self.time_ns = 0
        self.gaps = 0
        self._buffered: deque[list[Any]] = deque(maxlen=BUFFERED_MAX)
        self._buffered_before = 0  # how many of them had arrived before the next snapshot was requested

    def apply(self, message: list[Any]) -> bool:
        """Applies a feed message; True if it was the next one. A gap sets `needs_snapshot`."""
        if self.needs_snapshot:
            self._buffered.append(message)
            return False
        _, epoch, previous, sequence, time_ns, items = message
        if epoch == self.epoch and sequence <= self.sequence:
            return False
        if epoch != self.epoch or previous > self.sequence:
            self.needs_snapshot = True
            self.gaps += 1
            self._buffered.append(message)
            return False
        self._change(items)
        self.sequence, self.time_ns = sequence, time_ns
        return True

    def note_epoch(self, epoch: int) -> None:
        """Notes the epoch of a TIME message: after a restart of the exchange the state may be wrong although its topic has had no message since."""
        if epoch != self.epoch:
            self.distrust()

    def distrust(self) -> None:
        """Marks it as needing a snapshot: the exchange may have been restarted, perhaps without its journal and so in the same epoch."""
        if not self.needs_snapshot:
            self.needs_snapshot = True
            self.gaps += 1
            self._buffered.clear()

    def apply_snapshot(self, reply: list[Any]) -> None:
        """Loads a snapshot reply [kind, request, epoch, sequence, time_ns, result], then applies the messages buffered since it was requested.

        Earlier ones are in the snapshot, or of an exchange that has been restarted without its journal, in the same epoch, and would be a gap
        behind every snapshot.
        """
        _, _, self.epoch, self.sequence, self.time_ns, result = reply
        self.needs_snapshot = False
        self._load(result)
        buffered = list(self._buffered)[self._buffered_before :]
        self._buffered.clear()
        for message in buffered:
            if message[1] == self.epoch:
                self.apply(message)
        self._buffered_before = len(self._buffered)

    @abstractmethod
    def _change(self, items: list[Any]) -> None:
        """Applies the items of a message."""

    @abstractmethod
    def _load(self, result: Any) -> None:
        """Replaces the state with the result of a snapshot."""
