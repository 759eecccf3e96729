"""What the parts of a session expect of each other."""

from typing import Any, Protocol

from serl.gateways.fix.codec import Message


class Application(Protocol):
    """What a session carries: orders or drop copies."""

    def receive(self, message: Message) -> None:
        """An application message whose fields are right, in sequence. Records an `INBOUND` or leaves the number to the session."""

    def state(self) -> Any:
        """What a reset of the sequence numbers must not forget, for msgpack."""


class Owner(Protocol):
    """The connection of a session."""

    def flush(self) -> None:
        """Stores and sends what is there."""

    async def drain(self) -> None:
        """Returns once the client has read most of what was written."""
