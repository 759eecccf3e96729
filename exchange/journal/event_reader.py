"""Reads trades and phases from the journal's events as they happen."""

from collections.abc import Callable, Iterator

from serl.exchange.gateway.state import EVENTS, GatewayState
from serl.exchange.journal.journal import Journal, is_trade
from serl.exchange.records import EventKind, Rows


class JournalReader:
    """See `serl.exchange.venue.EventReader`."""

    def __init__(self, journal: Journal, gateway: GatewayState, before_rotation: list[Callable[[], None]]) -> None:
        """before_rotation: functions called before the journal begins a new event file."""
        self._journal, self._gateway = journal, gateway
        self._log, self._rows_read = journal.events, int(gateway.counter[EVENTS])
        self._rest: list[Rows] = []
        before_rotation.append(self._keep_rest)

    def newest(self) -> Iterator[Rows]:
        """See EventReader."""
        return self._journal.newest_events(self._gateway)

    def new(self) -> list[Rows]:
        """See EventReader."""
        rest, self._rest = self._rest, []
        if self._log is not self._journal.events:
            self._log, self._rows_read = self._journal.events, 0
        start, self._rows_read = self._rows_read, int(self._gateway.counter[EVENTS])
        return [*rest, self._log.rows[start : self._rows_read]]

    def _keep_rest(self) -> None:
        parts = self.new()
        self._rest = [rows[is_trade(rows) | (rows["kind"] == EventKind.PHASED)] for rows in parts]
