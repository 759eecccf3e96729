"""participants.json: saved in the background while the exchange serves, because a disk may take as long as ten thousand orders."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serl.exchange.errors import DiskFullError
from serl.exchange.journal.meta import participant_text, write_participants
from serl.exchange.journal.segment import no_space

EXCHANGE_NAME = "\u0000exchange"
Encoded = tuple[dict[str, Any], str]
"""A participant and its text."""


class ParticipantsFile:
    """Saves the participants of a journal."""

    def __init__(
        self, folder: Path, journal_id: str, entries: list[dict[str, Any]], sync_commands: Callable[[], None]
    ) -> None:
        """entries: the participants in the order of their numbers; the list may change. sync_commands: returns once all commands are on the disk."""
        self._folder, self._journal_id, self._entries, self._sync_commands = folder, journal_id, entries, sync_commands
        self._saving = threading.Lock()
        self._saved: list[Encoded] = []
        self._requested = self.requests_done = 0
        self._error: DiskFullError | None = None

    def save(self) -> None:
        """Saves the participants. Raises DiskFullError if there is no room."""
        with self._saving:
            self._save(self._encoded())

    def request(self) -> int:
        """Notes that the participants have changed; `save_requested` saves them. Returns a number for `is_saved`."""
        self._requested += 1
        return self._requested

    def is_saved(self, request: int) -> bool:
        """Whether the participants, as of a request, have been saved. Raises DiskFullError if there was no room for them."""
        if request > self.requests_done:
            return False
        if self._error is not None:
            raise self._error
        return True

    def save_requested(self) -> None:
        """Saves the participants if that has been requested since the last time. If an already saved one has changed, syncs the commands so far first:
        a cancel on disconnect must be on the disk before the file that says that it is no longer needed."""
        request = self._requested
        if request == self.requests_done:
            return
        with self._saving:
            encoded = self._encoded()
            if self._has_changed_one(encoded):  # a new name needs no sync, and each sync delays orders
                self._sync_commands()
            try:
                self._save(encoded)
                self._error = None
            except DiskFullError as error:
                self._error = error
        self.requests_done = request

    def _encoded(self) -> list[Encoded]:
        """The participants as they are now. Encodes only those that differ from the saved ones: `json` encodes a whole value in one go, and the
        exchange's loop would wait for that."""
        entries = [dict(entry) for entry in self._entries]
        known = self._saved + [({}, "")] * (len(entries) - len(self._saved))
        return [
            before if entry == before[0] else (entry, participant_text(entry))
            for entry, before in zip(entries, known, strict=False)
        ]

    def _has_changed_one(self, encoded: list[Encoded]) -> bool:
        """Whether a participant that was already saved under the same name has changed."""
        pairs = zip(encoded, self._saved, strict=False)
        return any(after is not before and after[0]["name"] == before[0]["name"] for after, before in pairs)

    def _save(self, encoded: list[Encoded]) -> None:
        with no_space(self._folder):
            write_participants(self._folder, self._journal_id, [text for _, text in encoded])
        self._saved = encoded
