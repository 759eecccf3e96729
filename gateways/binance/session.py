"""The session of an account on the exchange."""

from typing import Any

from serl.clients.errors import RequestRejected, refused_command
from serl.clients.session import Report, Session
from serl.exchange.records import EventFlag, EventKind, Reason


class AccountSession(Session):
    """A session that resends nothing to an exchange with other symbols, where the symbol numbers have other meanings."""

    def _welcome(self, message: list[Any]) -> None:
        instruments = self.instruments
        super()._welcome(message)
        if instruments and self.instruments != instruments:
            self.unanswered = {}

    def refused(self, refusal: RequestRejected) -> list[int]:
        """The commands of a message that the exchange refused: of the one with the command that the refusal names, which may be an order's term,
        otherwise of the oldest one without an answer."""
        first = refused_command(refusal)
        if not first and self.limits.get("feed_delayed"):
            return []  # the reports of the oldest ones may be on their way
        message = next((message for command_id, message in self.unanswered.items() if command_id >= first), None)
        return [command_id for command_id, other in self.unanswered.items() if other is message]


def ends_command(report: Report) -> bool:
    """Whether no more events of the report's command follow."""
    kind = report.kind
    if kind == EventKind.ACCEPTED:
        return bool(report.flags & EventFlag.RESTING)
    if kind == EventKind.FILL:
        return not report.leaves_lots
    if kind == EventKind.REDUCED:
        return report.reason == Reason.NONE
    return kind in (EventKind.RESTED, EventKind.CANCELLED)
