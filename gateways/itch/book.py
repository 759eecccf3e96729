"""The book that a consumer of the stream has so far, rebuilt from the stream itself."""

from typing import Any

from serl.gateways.soup.packets import HEAD_BYTES
from serl.gateways.soup.stream import StreamLog
from serl.history.itch.messages import decode


class KnownBook:
    """Open orders and trading states, as of the last `update`.

    Attributes:
        shares: shares of each order, by its number.
        locate: stock locate of each order.
        quotes: (side, price) of each order, as published.
        states: (trading state, reason) by stock locate, where published.
    """

    def __init__(self, log: StreamLog) -> None:
        self._log, self._next = log, 1
        self.shares: dict[int, int] = {}
        self.locate: dict[int, int] = {}
        self.quotes: dict[int, tuple[str, int]] = {}
        self.states: dict[int, tuple[str, str]] = {}

    def update(self) -> None:
        """Applies the messages added to the stream since the last call; after the start that may be millions, which take seconds. Any thread may
        call it while nothing is added."""
        for block in self._log.blocks(self._next):
            at = 0
            while at < len(block):
                end = at + 2 + (block[at] << 8 | block[at + 1])
                if block[at + HEAD_BYTES] in b"AUECXDH":
                    self._apply(decode(block[at + HEAD_BYTES : end]))
                at = end
        self._next = self._log.count + 1

    def _apply(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "H":
            self.states[message["locate"]] = message["state"], message["reason"]
        elif kind == "A":
            self._add(message["order"], message["side"], message)
        elif kind in "DU":
            side = self._remove(message["order"])
            if kind == "U":
                self._add(message["new_order"], side, message)
        else:
            self.shares[message["order"]] -= message["shares"]
            if not self.shares[message["order"]]:
                self._remove(message["order"])

    def _add(self, order: int, side: str, message: dict[str, Any]) -> None:
        self.shares[order], self.locate[order] = message["shares"], message["locate"]
        self.quotes[order] = side, message["price"]

    def _remove(self, order: int) -> str:
        del self.shares[order], self.locate[order]
        return self.quotes.pop(order)[0]
