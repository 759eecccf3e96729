"""A symbol's book with Binance's update ids, and the differences between two of its states."""

from typing import Any

from serl.clients.book import L2Book

Change = tuple[int, int]
"""(side, price_ticks) of a level that may have changed."""


class DepthBook(L2Book):
    """The displayed book.

    Attributes:
        watchers: sets that collect the levels that change.
        update_id: that of the last change; increases even if the exchange begins a new journal.
    """

    def __init__(self) -> None:
        super().__init__()
        self.watchers: list[set[Change]] = []
        self._offset = 0
        self._update_id = 0

    @property
    def update_id(self) -> int:
        """Binance's lastUpdateId: the exchange's number of the last event that the book includes."""
        return self._update_id

    def id_at(self, sequence: int) -> int:
        """The update id of the book once it includes an event, which it may not have received yet."""
        return max(self._update_id, sequence + self._offset)

    def apply(self, message: list[Any]) -> bool:
        """See L2Book."""
        changed = super().apply(message)
        if changed:
            self._update_id = self.sequence + self._offset
        return changed

    def apply_snapshot(self, reply: list[Any]) -> None:
        """See L2Book. Levels that differ from the previous book count as changed."""
        sequence = int(reply[3])
        if sequence + self._offset < self._update_id:
            self._offset = self._update_id + 1 - sequence
        self._update_id = sequence + self._offset
        super().apply_snapshot(reply)
        self._update_id = self.sequence + self._offset

    def _load(self, result: Any) -> None:
        before = [dict(side) for side in self._sides]
        super()._load(result)
        for number, (old, new) in enumerate(zip(before, self._sides, strict=True)):
            self._note({(number, price) for price in old.keys() | new.keys() if old.get(price) != new.get(price)})

    def _change(self, items: list[Any]) -> None:
        super()._change(items)
        if self.watchers:
            self._note({(side, price) for side, price, _, _ in items if self.knows(side, price)})

    def _note(self, changes: set[Change]) -> None:
        for watcher in self.watchers:
            watcher |= changes

    def qty_lots(self, side: int, price_ticks: int) -> int:
        """The displayed quantity at a price, 0 for none."""
        return self._sides[side].get(price_ticks, (0, 0))[0]


class DepthDiff:
    """The changes of a book since they were last taken, as depthUpdate events without gaps."""

    def __init__(self, book: DepthBook) -> None:
        self._book = book
        self._changed: set[Change] = set()
        self._taken_id = book.update_id
        book.watchers.append(self._changed)

    def take(self) -> tuple[int, int, list[tuple[int, int]], list[tuple[int, int]]] | None:
        """(first update id, last update id, bids, asks), sides as (price_ticks, qty_lots); None if nothing changed."""
        book = self._book
        if not self._changed or book.needs_snapshot:
            return None
        sides: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        for side, price in sorted(self._changed):
            sides[side].append((price, book.qty_lots(side, price)))
        self._changed.clear()
        first, self._taken_id = self._taken_id + 1, book.update_id
        return first, self._taken_id, sides[0][::-1], sides[1]

    def stop(self) -> None:
        """Stops collecting changes."""
        self._book.watchers[:] = [each for each in self._book.watchers if each is not self._changed]
