"""The session of an account on the exchange."""

from typing import Any

from serl.clients.session import Session


class AccountSession(Session):
    """A session that sends nothing again to an exchange with other symbols: their numbers mean others there."""

    def _welcome(self, message: list[Any]) -> None:
        instruments = self.instruments
        super()._welcome(message)
        if instruments and self.instruments != instruments:
            self.unanswered = {}
