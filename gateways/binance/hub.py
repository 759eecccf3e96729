"""Streams and their listeners."""

import json
from collections.abc import Callable
from typing import Any, Protocol


class Listener(Protocol):
    """A WebSocket connection to the market streams."""

    def event(self, stream: str, text: str) -> None:
        """Receives an event of a stream, as JSON."""


class Hub:
    """The listeners of each stream. Events are encoded once for all of them."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[Listener]] = {}
        #: called with the name of a stream that gets another listener, or loses its last one (False)
        self.on_change: Callable[[str, bool], None] = lambda stream, wanted: None

    @property
    def streams(self) -> list[str]:
        """The streams with listeners."""
        return list(self._listeners)

    def wants(self, stream: str) -> bool:
        """Whether a stream has listeners."""
        return stream in self._listeners

    def listen(self, stream: str, listener: Listener) -> None:
        """Adds a listener."""
        self._listeners.setdefault(stream, set()).add(listener)
        self.on_change(stream, True)

    def leave(self, stream: str, listener: Listener) -> None:
        """Removes a listener."""
        found = self._listeners.get(stream)
        if found is not None:
            found.discard(listener)
            if not found:
                del self._listeners[stream]
                self.on_change(stream, False)

    def publish(self, stream: str, event: Any) -> None:
        """Sends an event to all listeners of a stream."""
        listeners = self._listeners.get(stream)
        if listeners:
            text = encode(event)
            for listener in list(listeners):
                listener.event(stream, text)


def encode(value: Any) -> str:
    """Encodes a value as JSON in Binance's form."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"))
