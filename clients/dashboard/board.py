"""What pages can be shown, and which of it a page has not seen: the newest state, however long ago it came last."""

import threading
from dataclasses import dataclass, field
from typing import Any

from serl.clients.dashboard.symbol import SymbolView

TRADES_A_FRAME = 60


@dataclass
class Cursor:
    """What a page has seen."""

    symbol: str = ""
    generation: int = -1
    book: tuple[object, ...] = ()
    trades: int = 0
    columns: int = 0
    traders: dict[str, Any] | None = None
    sections: dict[str, int] = field(default_factory=dict)

    def look_at(self, symbol: str) -> None:
        """From now on at another symbol, of which nothing was seen."""
        self.symbol, self.generation, self.book, self.trades, self.columns = symbol, -1, (), 0, 0
        self.traders = None


class Board:
    """The link writes it, pages read it; whoever does holds `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: grows whenever another process answers than before
        self.generation = 0
        self.views: dict[str, SymbolView] = {}
        #: symbols that a page has asked for
        self.wanted: set[str] = set()
        self._sections: dict[str, tuple[int, Any]] = {}

    def put(self, section: str, value: Any) -> None:
        """Keeps a part of the page that is sent whole whenever it has changed; a plain JSON value."""
        version, before = self._sections.get(section, (0, None))
        if value != before:
            self._sections[section] = (version + 1, value)

    def section(self, name: str) -> Any:
        """What was put there last; None if nothing was."""
        return self._sections.get(name, (0, None))[1]

    def frame(self, cursor: Cursor) -> dict[str, Any]:
        """What the page has not seen, which then counts as seen; empty if there is nothing."""
        found: dict[str, Any] = {}
        for name, (version, value) in self._sections.items():
            if cursor.sections.get(name) != version:
                cursor.sections[name] = version
                found[name] = value
        view = self.views.get(cursor.symbol)
        if view is None and self.views:
            cursor.look_at(next(iter(self.views)))
            view = self.views[cursor.symbol]
        if view is not None:
            self.wanted.add(view.name)
            found |= self._of(view, cursor)
        return found

    def _of(self, view: SymbolView, cursor: Cursor) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if cursor.generation != self.generation:
            cursor.look_at(view.name)
            cursor.generation = self.generation
            found["fresh"] = True
        if cursor.book != view.state:
            cursor.book = view.state
            found["book"] = view.ladder()
        trades = view.trades.since(cursor.trades, TRADES_A_FRAME)
        columns = view.columns.since(cursor.columns)
        cursor.trades, cursor.columns = view.trades.count, view.columns.count
        if trades:
            found["trades"] = trades
        if columns:
            found["columns"] = columns
        if view.traders is not cursor.traders:
            found["traders"] = cursor.traders = view.traders
        if found:
            found["symbol"] = view.name
        return found
