"""Drop copy: the events of one participant or of all, for an operator.

It reads the exchange's journal in batches, on request, so a slow or restarted reader misses nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from serl.clients.errors import RequestRejected
from serl.exchange.records import EVENT, Rows
from serl.exchange.request import Request, request_socket
from serl.exchange.wire import Kind

SEQUENCE = (EVENT.names or ()).index("sequence")


class DropCopy:
    """Reads the journal that an exchange has at the first request. `sequence` is the number of the last event examined: resume with `after=sequence`."""

    def __init__(self, ask: Request, token: str = "", participant: str = "", after: int = 0) -> None:
        self._ask, self._token, self._participant, self.sequence = ask, token, participant, after
        self.journal = ""
        """The journal's id, from the first reply on."""

    def next_batch(self) -> Rows:
        """Returns EVENT rows from the next part of the journal, shape (n,). An empty batch does not mean the end (see `batches`).

        Raises `ExchangeUnreachable`, and `RequestRejected` without an operator's token, if the journal no longer has these events, or if the exchange
        was restarted with another one.
        """
        self.sequence, rows = self._events_after(self._participant, self.sequence)
        return rows

    def _events_after(self, participant: str, after: int) -> tuple[int, Rows]:
        last, data, self.journal = self._ask(Kind.DROP_COPY, self._token, participant, after, self.journal)[5]
        return last, np.frombuffer(data, EVENT)

    def continue_after(self, event: tuple[int, ...]) -> None:
        """Continues after an event that was read earlier, the values of its row. Raises `RequestRejected` if another event of the journal has its number,
        or none."""
        number = event[SEQUENCE]
        _, rows = self._events_after("", number - 1)
        if not len(rows) or rows[0].item() != event:
            raise RequestRejected(
                "replay_gone",
                f"expected the journal with the event {number} that was read last, got another journal; read this one from its first event, into another file",
            )
        self.sequence = number

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
