"""The session of an account on the exchange."""

from typing import Any

from serl.clients.errors import RequestRejected, refused_command
from serl.clients.session import Session


class AccountSession(Session):
    """A session that sends nothing again to an exchange with other symbols: their numbers mean others there."""

    def _welcome(self, message: list[Any]) -> None:
        instruments = self.instruments
        super()._welcome(message)
        if instruments and self.instruments != instruments:
            self.unanswered = {}

    def refused(self, refusal: RequestRejected) -> list[int]:
        """The commands of a message that the exchange refused: of the one with the command that it names, which may be an order's term, else
        of the oldest without an answer."""
        first = refused_command(refusal)
        if not first and self.limits.get("feed_delayed"):
            return []  # the reports of the oldest ones may be on their way
        message = next((message for command_id, message in self.unanswered.items() if command_id >= first), None)
        return [command_id for command_id, other in self.unanswered.items() if other is message]
