"""The exchange's side of a FIX session: reports one by one, refusals as values, and what is missing after a login."""

import re
from typing import Any, NamedTuple

import msgpack

from serl.clients.session import Report, Session
from serl.exchange.wire import Kind

_REFUSED = re.compile(r"command (\d+) was not accepted")
_ERROR = bytes([0x93, Kind.ERROR])


class Refusal(NamedTuple):
    """An ERROR of the exchange: the command (0: unknown) was not accepted."""

    code: str
    text: str
    command_id: int


class ReportSession(Session):
    """A session that keeps no orders of its own: the gateway does. `receive` returns refusals instead of raising them."""

    def __init__(self, name: str, token: str = "", **options: bool) -> None:
        super().__init__(name, token, **options)
        #: of orders with terms: the first command id of their message, and their own
        self.first_ids: dict[int, int] = {}
        #: the last command that the exchange had at the login
        self.last_command_id = 0
        #: reports are missing: the exchange started with another journal, or stores them no longer
        self.gap = False

    def receive(self, data: bytes) -> list[Any]:
        """See `Session.receive`."""
        if self.live and data.startswith(_ERROR):
            _, code, text = msgpack.unpackb(data)
            if code != "not_logged_in":
                return [self._refusal(code, text)]
        return super().receive(data)

    def _refusal(self, code: str, text: str) -> Refusal:
        found = _REFUSED.search(text)
        command_id = int(found[1]) if found else 0
        command_id = self.first_ids.pop(command_id, command_id)
        self.unanswered.pop(command_id, None)
        return Refusal(code, text, command_id)

    def apply(self, report: Report) -> None:
        """Only notes that a command is answered."""
        if report.command_id:
            self.unanswered.pop(report.command_id, None)

    def _welcome(self, message: list[Any]) -> None:
        before, next_report = self.last_report, message[4]
        super()._welcome(message)
        self.last_command_id = message[5]
        if before >= 0 and next_report != before + 1:
            self.gap = True
            self.last_report = next_report - 1
