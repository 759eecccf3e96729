"""A copy of the events of a participant, or of everybody, as an operator gets it: asked for piece by piece, so that whoever
is slow or was away misses nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from serl.exchange.records import EVENT, Rows
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind


class DropCopy:
    """Follows the journal of one exchange. `sequence` is the last event looked at: kept, it is where another one goes on."""

    def __init__(self, ask: Request, token: str = "", participant: str = "", after: int = 0) -> None:
        self._ask, self._token, self._participant, self.sequence = ask, token, participant, after

    def next(self) -> Rows:
        """The EVENT rows of the next piece of the journal, shape (n,); n = 0 does not mean that there are no more (see `pieces`).

        ExchangeAway if nobody answers, Refused without an operator's token or where the journal does not have them.
        """
        self.sequence, data = self._ask(Kind.DROP_COPY, self._token, self._participant, self.sequence)[5]
        return np.frombuffer(data, EVENT)

    def pieces(self) -> Iterator[Rows]:
        """Pieces with at least one row, up to the last event of now; called again it goes on from there."""
        while True:
            before = self.sequence
            rows = self.next()
            if self.sequence == before:
                return
            if len(rows):
                yield rows


@contextmanager
def drop_copy(
    endpoint: str, *, token: str = "", participant: str = "", after: int = 0, curve: Path | None = None
) -> Iterator[DropCopy]:
    """A `DropCopy` for the time of a `with`: of a participant, or of everybody; events behind number `after`."""
    with request_socket(endpoint, "admin", curve) as ask:
        yield DropCopy(ask, token, participant, after)
