"""participants.json: saved in the background while the exchange serves, because a disk may take as long as ten thousand orders."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serl.exchange.errors import DiskFullError
from serl.exchange.journal.meta import participant_text, write_participants
from serl.exchange.journal.segment import no_space

EXCHANGE_NAME = "\u0000exchange"


class ParticipantsFile:
    """Saves the participants of a journal."""

    def __init__(
        self, folder: Path, journal_id: str, entries: list[dict[str, Any]], sync_commands: Callable[[], None]
    ) -> None:
        """entries: the participants in the order of their numbers, which may change. sync_commands: returns when all commands are on the disk."""
        self._folder, self._journal_id, self._entries, self._sync_commands = folder, journal_id, entries, sync_commands
        self._saving = threading.Lock()
        self._texts: list[tuple[dict[str, Any], str]] = []  # of the entries as they were saved last
        self._requested = self.requests_done = 0
        self._error: DiskFullError | None = None

    def save(self) -> None:
        """Saves the participants. Raises DiskFullError where there is no room."""
        with self._saving:
            self._save(self._entries)

    def request(self) -> int:
        """Notes that the participants have changed; `save_requested` saves them. Returns a number for `is_saved`."""
        self._requested += 1
        return self._requested

    def is_saved(self, request: int) -> bool:
        """Whether the participants are saved as they were at a request. Raises DiskFullError if there was no room for them."""
        if request > self.requests_done:
            return False
        if self._error is not None:
            raise self._error
        return True

    def save_requested(self) -> None:
        """Saves the participants if that was requested since the last time. Where one that was saved before has changed, the commands so far are saved
        first: a cancel on disconnect is on the disk before the file that says that it is not needed."""
        request = self._requested
        if request == self.requests_done:
            return
        with self._saving:
            entries = [dict(entry) for entry in self._entries]
            if self._has_changed_one(entries):  # a new name needs none, and each sync is in the way of orders
                self._sync_commands()
            try:
                self._save(entries)
                self._error = None
            except DiskFullError as error:
                self._error = error
        self.requests_done = request

    def _has_changed_one(self, entries: list[dict[str, Any]]) -> bool:
        """Whether one that was saved before, under the same name, has changed."""
        pairs = zip(entries, self._texts, strict=False)
        return any(entry != before and entry["name"] == before["name"] for entry, (before, _) in pairs)

    def _save(self, entries: list[dict[str, Any]]) -> None:
        """Only entries that have changed become text anew: `json` encodes all of a value in one go, for which the exchange's loop would wait."""
        known = self._texts + [({}, "")] * (len(entries) - len(self._texts))
        self._texts = [
            (before, text) if entry == before else (dict(entry), participant_text(entry))
            for entry, (before, text) in zip(entries, known, strict=False)
        ]
        with no_space(self._folder):
            write_participants(self._folder, self._journal_id, [text for _, text in self._texts])
