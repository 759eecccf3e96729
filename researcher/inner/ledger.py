"""The ledger of a race on disk: its rounds, each written before it begins, so that a killed race continues where it stopped."""

import json
from collections.abc import Sequence
from pathlib import Path

from serl.exchange.atomic_file import write_json
from serl.researcher.inner.race import Ticket


class Ledger:
    """The rounds of the race between these candidates. Another set of candidates begins a new race."""

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        self._path, self._keys = path, list(keys)
        self._rounds: list[list[Ticket]] = []
        self.ended = False
        found = json.loads(path.read_text()) if path.exists() else {}
        if found.get("keys") == self._keys:
            self._rounds = [[Ticket(*each) for each in tickets] for tickets in found["rounds"]]
            self.ended = found["ended"]

    @property
    def last(self) -> list[Ticket]:
        """The tickets of the last round, which may be unfinished; empty before the first."""
        return self._rounds[-1] if self._rounds else []

    @property
    def spent(self) -> float:
        """The cost of all rounds."""
        return sum(each.cost for tickets in self._rounds for each in tickets)

    def add(self, tickets: Sequence[Ticket]) -> None:
        """Record a round; an empty round ends the race."""
        if tickets:
            self._rounds.append(list(tickets))
        else:
            self.ended = True
        write_json(self._path, {"keys": self._keys, "rounds": self._rounds, "ended": self.ended})
