"""Finds the reports that a participant missed while it was away: those in memory at once, older ones in the files.

A thread reads the files: they may be compressed, a second of trading may be a hundred thousand events, and nobody else should wait. It reads them
once for all who are waiting, newest first: after a fault that is everybody.
"""

import dataclasses
import threading

import numpy as np

from serl.exchange.gateway.state import GatewayState
from serl.exchange.journal.event_store import EventStore, chunks
from serl.exchange.journal.unreadable import log_unreadable
from serl.exchange.records import EVENT, Rows

NOTHING: Rows = np.zeros(0, EVENT)
WAIT_S = 60.0
"""The thread checks for requests this often even if nobody wakes it."""
PASS_MAX, KEPT_MAX = 8, 64
"""Maximum number of searches in one pass through the files, and of unfetched results: each may have as many rows as a login may be sent."""
LABEL = "missed reports"


class Search:
    """Looks for the reports of a participant after report `after`, in blocks of events, the newest block first."""

    def __init__(self, participant: int, after: int, limit: int) -> None:
        self._participant, self._after, self._left = participant, after, limit
        self._found: list[Rows] = []
        #: whether the first report has been found, or there are too many
        self.is_over = False

    def look(self, rows: Rows) -> None:
        """Searches the next block, whose rows are oldest first."""
        own = rows["participant"] == self._participant
        is_newer = own & (rows["report"] > self._after)
        words = rows.view(np.int64).reshape(len(rows), -1)[
            is_newer
        ]  # numpy copies structured rows several times slower
        newer = words.reshape(-1).view(EVENT)
        self._found.append(newer)
        self._left -= len(newer)
        has_older = len(newer) < int(np.count_nonzero(own))
        self.is_over = self._left < 0 or has_older or bool(len(newer) and newer[0]["report"] == self._after + 1)

    @property
    def rows(self) -> Rows | None:
        """The reports found, in order; None if there are more than the limit."""
        if self._left < 0:
            return None
        words = [found.view(np.int64) for found in (NOTHING, *self._found[::-1])]
        return np.concatenate(words).view(EVENT)


@dataclasses.dataclass
class _Request:
    """A search that a participant waits for. The events before event `begin` have been searched, and the thread, until it is done, searches those
    before `end`; `rows` are the reports found in them."""

    participant: int
    after: int
    limit: int
    begin: int = 0
    end: int = 0
    rows: Rows = dataclasses.field(default_factory=NOTHING.copy)
    is_done: bool = True
    is_gone: bool = False
    is_cancelled: bool = False

    def search(self) -> Search:
        """A search for the reports that have not been found yet."""
        known = int(self.rows[-1]["report"]) if len(self.rows) else self.after
        return Search(self.participant, known, self.limit - len(self.rows))


class MissedReports:
    """The missed reports of all participants that log in, with one search for each."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._requests: dict[int, _Request] = {}  # by participant
        self._waiting: list[_Request] = []
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        #: changes when `find` may have found more
        self.searches_done = 0

    def find(self, participant: int, after: int, gateway: GatewayState, limit: int) -> tuple[bool, Rows | None]:
        """(whether the search is over, the participant's EVENT rows with report > after in order, at least one). None instead of rows if there are more
        than `limit`, or some are no longer stored or cannot be read. If the search is not over, call it again or `forget` it."""
        request = self._requests.get(participant)
        if request is None or request.after != after:
            self.forget(participant)
            request = _Request(participant, after, limit)
        self._requests.pop(participant, None)
        if request.is_gone:
            return True, None
        if request.is_done:
            search = request.search()
            oldest = self._look_in_memory(search, gateway, request.end)
            if search.is_over or oldest <= max(1, request.end):
                found = search.rows
                if found is not None and len(request.rows):
                    found = np.concatenate([request.rows, found])
                return True, None if found is None else _unbroken(found, after)
            request.begin, request.end = request.end, oldest
            self._ask(request)
        self._requests[participant] = request
        return False, None

    def forget(self, participant: int) -> None:
        """Ends the search for a participant, because nobody waits for it any longer."""
        if (request := self._requests.pop(participant, None)) is not None:
            request.is_cancelled = True

    def _look_in_memory(self, search: Search, gateway: GatewayState, end: int) -> int:
        """Looks in memory for a participant's reports from event `end` on. Returns the first event in memory."""
        memory = self._store.in_memory(gateway)
        for first, rows in chunks(memory):
            if search.is_over or first + len(rows) <= end:
                break
            search.look(rows[max(0, end - first) :])
        return memory[-1][0]

    def _ask(self, request: _Request) -> None:
        done = [participant for participant, one in self._requests.items() if one.is_done]
        for participant in done[: max(0, len(done) - KEPT_MAX)]:
            del self._requests[participant]  # a later request starts again
        request.is_done = False
        with self._lock:  # requests that have already waited come first: otherwise new files would outrun them
            self._waiting.insert(0 if request.begin else len(self._waiting), request)
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-missed", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._wake.wait(WAIT_S)
            self._wake.clear()
            with self._lock:
                wanted = [one for one in self._waiting if not one.is_cancelled]
                requests, self._waiting = wanted[:PASS_MAX], wanted[PASS_MAX:]
                if self._waiting:
                    self._wake.set()
            if not requests:
                continue
            try:
                self._read(requests)
            except Exception as error:  # a damaged file or no descriptor must end neither a session nor the exchange
                log_unreadable(LABEL, error)
                for request in requests:
                    request.is_gone = True
            for request in requests:
                request.is_done = True
            self.searches_done += 1

    def _read(self, requests: list[_Request]) -> None:
        """Searches the files for all requests, each between its `begin` and `end`."""
        searches = [(request, request.search()) for request in requests]
        left, oldest = searches, max(request.end for request in requests)
        for first, rows in self._store.in_files(oldest):
            oldest = first
            for request, search in left:
                if first < request.end:
                    search.look(rows[max(0, request.begin - first) : request.end - first])
            left = [(request, search) for request, search in left if not search.is_over and first > request.begin]
            if not left:
                break
        for request, search in searches:
            found = search.rows
            request.is_gone = found is None or (not search.is_over and oldest > max(1, request.begin))
            if found is not None:
                request.rows = np.concatenate([request.rows, found])


def _unbroken(rows: Rows, after: int) -> Rows | None:
    """The rows if they are all reports after number `after` without a gap: a file may be missing between others, as in a repaired journal."""
    return rows if len(rows) and int(rows[-1]["report"]) - after == len(rows) else None
