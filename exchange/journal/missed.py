"""Reports that a participant missed while it was away: those in memory at once, older ones from the files.

A thread reads the files. They may be compressed, a second of trading may be a hundred thousand events, and nobody else should wait. It reads them
once for all who wait, newest first: after a fault that is everybody.
"""

import dataclasses
import threading
from collections.abc import Iterable

import numpy as np

from serl.exchange.gateway.state import GatewayState
from serl.exchange.journal.event_store import EventStore
from serl.exchange.records import EVENT, Rows

NOTHING: Rows = np.zeros(0, EVENT)
WAIT_S = 60.0
"""The thread looks this often for requests, also if nobody wakes it."""
PASS_MAX, KEPT_MAX = 8, 64
"""Searches of one pass through the files, and results that nobody has fetched: each may have as many rows as a login may be sent."""


class Search:
    """Looks for the reports of a participant after one, in blocks of events, the newest block first."""

    def __init__(self, participant: int, after: int, limit: int) -> None:
        self._participant, self._after, self._left = participant, after, limit
        self._found: list[Rows] = []
        #: the first report was found, or there are too many
        self.is_over = False

    def look(self, rows: Rows) -> None:
        """Looks in the next block, in which the oldest row is the first."""
        own = rows[rows["participant"] == self._participant]
        newer = own[own["report"] > self._after]
        self._found.append(newer)
        self._left -= len(newer)
        self.is_over = (
            self._left < 0 or len(newer) < len(own) or bool(len(newer) and newer[0]["report"] == self._after + 1)
        )

    @property
    def rows(self) -> Rows | None:
        """What was found, in order; None if there are more than the limit."""
        return None if self._left < 0 else np.concatenate([NOTHING, *self._found[::-1]])


@dataclasses.dataclass
class _Request:
    """What somebody waits for. `end`: rows before this event are looked for in files, or have been found."""

    search: Search
    end: int
    rows: Rows = dataclasses.field(default_factory=NOTHING.copy)
    is_done: bool = False
    is_gone: bool = False
    error: Exception | None = None


class MissedReports:
    """The missed reports of all participants who log in."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._requests: dict[tuple[int, int], _Request] = {}
        self._waiting: list[_Request] = []
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        #: changes when `find` may have found more
        self.searches_done = 0

    def find(self, participant: int, after: int, gateway: GatewayState, limit: int) -> tuple[bool, Rows | None]:
        """(whether the search is over, the participant's EVENT rows with report > after in order). None instead of rows if there are more than
        `limit`, or some are no longer stored. If it is not over, call it again. Raises what the files raise."""
        request = self._requests.get((participant, after))
        if request is None:
            return self._begin(participant, after, gateway, limit)
        if not request.is_done:
            return False, None
        if request.error is not None or request.is_gone:
            del self._requests[participant, after]
            if request.error is not None:
                raise request.error
            return True, None
        return self._continue(participant, after, request, gateway, limit)

    def _begin(self, participant: int, after: int, gateway: GatewayState, limit: int) -> tuple[bool, Rows | None]:
        search = Search(participant, after, limit)
        oldest = self._look_in_memory(search, gateway, 0)
        if search.is_over or oldest <= 1:
            return True, search.rows
        self._ask(_Request(Search(participant, after, limit), oldest), (participant, after))
        return False, None

    def _continue(
        self, participant: int, after: int, request: _Request, gateway: GatewayState, limit: int
    ) -> tuple[bool, Rows | None]:
        """With what the files had, and what is in memory; or from the files that were written meanwhile."""
        known = int(request.rows[-1]["report"]) if len(request.rows) else after
        search = Search(participant, known, limit - len(request.rows))
        oldest = self._look_in_memory(search, gateway, request.end)
        if oldest > request.end and not search.is_over:
            request.search, request.end, request.is_done = (
                Search(participant, known, limit - len(request.rows)),
                oldest,
                False,
            )
            self._ask(request, (participant, after))
            return False, None
        del self._requests[participant, after]
        found = search.rows
        return True, None if found is None else np.concatenate([request.rows, found])

    def _look_in_memory(self, search: Search, gateway: GatewayState, end: int) -> int:
        """Looks for a participant's reports from event `end` on. Returns the first event in memory."""
        oldest = 0
        for oldest, rows in self._store.in_memory(gateway):
            if search.is_over or oldest + len(rows) <= end:
                break
            _look(search, [rows[max(0, end - oldest) :]])
        return oldest

    def _ask(self, request: _Request, key: tuple[int, int]) -> None:
        self._requests[key] = request
        for old in [each for each, one in self._requests.items() if one.is_done][
            : max(0, len(self._requests) - KEPT_MAX)
        ]:
            del self._requests[old]  # who asks again begins anew
        with self._lock:
            self._waiting.append(request)
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-missed", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._wake.wait(WAIT_S)
            self._wake.clear()
            with self._lock:
                requests, self._waiting = self._waiting[:PASS_MAX], self._waiting[PASS_MAX:]
                if self._waiting:
                    self._wake.set()
            try:
                self._read(requests)
            except Exception as error:  # the loop raises it
                for request in requests:
                    request.error = error
            for request in requests:
                request.is_done = True
            self.searches_done += 1

    def _read(self, requests: list[_Request]) -> None:
        """Looks in the files for all of them."""
        left, oldest = list(requests), max(request.end for request in requests)
        for first, rows in self._store.in_files(oldest):
            oldest = first
            for request in left:
                if not request.search.is_over and first < request.end:
                    request.search.look(rows[: request.end - first])
            left = [request for request in left if not request.search.is_over]
            if not left:
                break
        for request in requests:
            found = request.search.rows
            request.is_gone = found is None or (not request.search.is_over and oldest > 1)
            if found is not None:
                request.rows = np.concatenate([request.rows, found])


def _look(search: Search, blocks: Iterable[Rows]) -> None:
    for rows in blocks:
        search.look(rows)
