"""Drop copy: the events of one participant or of all, for an operator.

It reads the exchange's journal in batches, on request, so a slow or restarted reader misses nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from serl.exchange.records import EVENT, Rows
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind


class DropCopy:
    """Reads the journal of one exchange. `sequence` is the number of the last event examined: resume with `after=sequence`."""

    def __init__(self, ask: Request, token: str = "", participant: str = "", after: int = 0) -> None:
        self._ask, self._token, self._participant, self.sequence = ask, token, participant, after

    def next_batch(self) -> Rows:
        """Returns EVENT rows from the next part of the journal, shape (n,). An empty batch does not mean the end (see `batches`).

        Raises `ExchangeUnreachable`, and `RequestRejected` without an operator's token or if the journal no longer has these events.
        """
        self.sequence, data = self._ask(Kind.DROP_COPY, self._token, self._participant, self.sequence)[5]
        return np.frombuffer(data, EVENT)

    def batches(self) -> Iterator[Rows]:
        """Non-empty batches up to the journal's current end; call it again to continue from there."""
        while True:
            before = self.sequence
            rows = self.next_batch()
            if self.sequence == before:
                return
            if len(rows):
                yield rows


@contextmanager
def drop_copy(
    endpoint: str, *, token: str = "", participant: str = "", after: int = 0, curve: Path | None = None
) -> Iterator[DropCopy]:
    """Opens a `DropCopy` of a participant ("": of all), starting after event number `after`."""
    with request_socket(endpoint, "admin", curve) as ask:
        yield DropCopy(ask, token, participant, after)
