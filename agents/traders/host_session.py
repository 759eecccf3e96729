"""The session of a host: it sends commands again that a restarted exchange has not received."""

from collections import deque

from serl.clients.session import Session
from serl.exchange.records import Rows


class HostSession(Session):
    """A session whose rows without a report are unanswered commands from its next login on. Until then they are not, because each message of reports
    would be searched for them."""

    def __init__(self, name: str, token: str = "", **options: bool) -> None:
        super().__init__(name, token, **options)
        #: messages without a report, by the id of their last command, oldest first
        self._sent: deque[tuple[int, bytes]] = deque()

    def hello(self) -> bytes:
        """See Session."""
        self.unanswered.update(self._sent)
        return super().hello()

    def rows(self, rows: Rows) -> bytes:
        """See Session."""
        last_id, message = int(rows[-1]["command_id"]), super().rows(rows)
        self._sent.append((last_id, message))
        if not self.live:
            self.unanswered[last_id] = message
        return message

    def _new_rows(self, first: int, rows: Rows) -> list[Rows]:
        fresh = super()._new_rows(first, rows)
        answered_id = max((int(each["command_id"].max()) for each in fresh), default=0)
        while self._sent and self._sent[0][0] <= answered_id:
            self._sent.popleft()
        return fresh
