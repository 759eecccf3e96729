"""The state that pages show. Each page receives the changes since its last frame, however long ago that was."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from serl.clients.dashboard.symbol import SymbolView

OPERATOR_SECTIONS = {"standings"}
"""Sections that only pages with the operator token receive: they show what participants must not know about each other."""
OPERATOR_S = 3.0
TRADES_A_FRAME = 60
"""Maximum number of trades sent at once to a page that has already shown the symbol; a new page gets all that are kept."""


@dataclass
class Cursor:
    """The state that a page has been sent so far."""

    #: whether the page has given the operator token
    operator: bool = False
    symbol: str = ""
    generation: int = -1
    book: tuple[object, ...] = ()
    trades: int = 0
    columns: int = 0
    candles: dict[int, tuple[int, int]] = field(default_factory=dict)
    traders: dict[str, Any] | None = None
    sections: dict[str, int] = field(default_factory=dict)

    def select(self, symbol: str) -> None:
        """Switches to another symbol, of which the page has received nothing yet."""
        self.symbol, self.generation, self.book, self.trades, self.columns = symbol, -1, (), 0, 0
        self.traders, self.candles = None, {}


class Board:
    """The state that pages show. The link writes it and pages read it, both while they hold `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: increases with each restart of the exchange
        self.generation = 0
        self.views: dict[str, SymbolView] = {}
        self._sections: dict[str, tuple[int, Any]] = {}
        self._operator_s = -OPERATOR_S

    def put(self, section: str, value: Any) -> None:
        """Sets a section of the page, a JSON value that is sent in full whenever it changes."""
        version, before = self._sections.get(section, (0, None))
        if value != before:
            self._sections[section] = (version + 1, value)

    def section(self, name: str) -> Any:
        """The value of a section; None if it was never set."""
        return self._sections.get(name, (0, None))[1]

    @property
    def has_operator(self) -> bool:
        """Whether a page with the operator token is open."""
        return time.monotonic() - self._operator_s < OPERATOR_S

    def frame(self, cursor: Cursor) -> dict[str, Any]:
        """Returns everything new for a page and advances its cursor; empty if nothing is new."""
        frame: dict[str, Any] = {}
        if cursor.operator:
            self._operator_s = time.monotonic()
        for name, (version, value) in self._sections.items():
            if name in OPERATOR_SECTIONS and not cursor.operator:
                continue
            if cursor.sections.get(name) != version:
                cursor.sections[name] = version
                frame[name] = value
        view = self.views.get(cursor.symbol)
        if view is None and self.views:
            cursor.select(next(iter(self.views)))
            view = self.views[cursor.symbol]
        if view is not None:
            frame |= self._symbol_frame(view, cursor)
        return frame

    def _symbol_frame(self, view: SymbolView, cursor: Cursor) -> dict[str, Any]:
        frame: dict[str, Any] = {}
        if cursor.generation != self.generation:
            cursor.select(view.name)
            cursor.generation = self.generation
            frame["fresh"] = True
        begins = not cursor.book
        if cursor.book != view.version:
            cursor.book = view.version
            frame["book"] = view.ladder()
        trades = view.trades.since(cursor.trades, None if begins else TRADES_A_FRAME)
        columns = view.columns.since(cursor.columns)
        cursor.trades, cursor.columns = view.trades.count, view.columns.count
        candles = view.candles.since(cursor.candles)
        cursor.candles = view.candles.counts
        if trades:
            frame["trades"] = trades
        if candles:
            frame["candles"] = candles
        if columns:
            frame["columns"] = columns
        if view.traders is not cursor.traders:
            frame["traders"] = cursor.traders = view.traders
        if frame:
            frame["symbol"] = view.name
        return frame
