"""Protocols of the market that the schedule and the bands act on: the journaled market of an exchange, or a market in process."""

from collections.abc import Iterator
from typing import Protocol

from serl.exchange.market import Market
from serl.exchange.records import Rows


class EventReader(Protocol):
    """Reads the events of a venue, at least those of trades and phases."""

    def newest(self) -> Iterator[Rows]:
        """The EVENT rows so far in chunks, newest chunk first, each chunk oldest row first."""

    def new(self) -> list[Rows]:
        """The EVENT rows since the last call, or since the reader was created, oldest first."""


class Venue(Protocol):
    """A market with a time that executes the commands of a schedule."""

    market: Market

    @property
    def time_ns(self) -> int:
        """Exchange time of the last command."""

    @property
    def event_sequence(self) -> int:
        """A number that grows with every command that has events."""

    def submit(self, rows: Rows) -> None:
        """Executes COMMAND rows."""

    def read_events(self) -> EventReader:
        """A reader that starts at the next event."""
