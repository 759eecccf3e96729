"""Interfaces between the parts of a session."""

from typing import Any, Protocol

from serl.gateways.fix.codec import Message


class Application(Protocol):
    """The application of a session: orders or drop copies."""

    def receive(self, message: Message) -> None:
        """Processes an application message with valid fields, in sequence. Records an `INBOUND` or leaves the number to the session."""

    def state(self) -> Any:
        """The state that survives a reset of the sequence numbers, for msgpack."""


class Owner(Protocol):
    """The connection of a session."""

    def flush(self) -> None:
        """Stores and sends everything pending."""

    async def drain(self) -> None:
        """Returns once the client has read most of what was written."""
