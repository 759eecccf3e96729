"""Applies CoinAPI's updates of levels (Level 2), where the exchange shows no orders. Rows with the same time are one message."""

from serl.history.coinapi_rows import ADD, DELETE, MATCH, SET, Row, Steps
from serl.history.level_book import TRADE_COUNTS, Level, LevelWriter
from serl.history.order_writer import OPENING_ROW, InvalidOrder, require_raisable, require_tradable
from serl.history.source import Sink
from serl.history.stream_book import COUNT_NAMES as BOOK_COUNT_NAMES

COUNT_NAMES = ("levels", "levels_crossed", *TRADE_COUNTS, "sizes_beyond_open", "times_raised")


class CoinApiLevels:
    """The levels of a file. Updates raise `InvalidOrder`."""

    def __init__(self, sink: Sink, steps: Steps) -> None:
        self.steps = steps
        self._counts = dict.fromkeys(COUNT_NAMES, 0)
        self._writer = LevelWriter(sink)
        self._units: tuple[dict[int, int], dict[int, int]] = ({}, {})
        """[side][price_ticks] exact size of the level."""
        self._pending: list[Level] = []
        self._row = self._last_ns = 0

    def stamp(self, number: int, time_ns: int) -> None:
        """Sets the number and the time after midnight of the next row."""
        require_raisable(time_ns, self._last_ns)
        self._counts["times_raised"] += time_ns < self._last_ns
        if time_ns > self._last_ns or (self._row == OPENING_ROW) != (number == OPENING_ROW):
            self._set_levels()
        self._row, self._last_ns = number, max(time_ns, self._last_ns)
        self._writer.stamp(number, self._last_ns)

    def update(self, row: Row) -> None:
        """Applies a row."""
        ticks = self._ticks(row)
        now = self._units[row.side].get(ticks, 0)
        if row.kind == DELETE:
            self._change(row.side, ticks, 0)
        elif row.kind == SET:
            self._change(row.side, ticks, row.size_units)
        elif row.kind == ADD:
            self._change(row.side, ticks, now + row.size_units)
        else:
            self._counts["sizes_beyond_open"] += row.size_units > now
            if row.kind == MATCH and row.size_units:
                self._trade(row, ticks)
            self._change(row.side, ticks, max(0, now - row.size_units))

    def enter(self, row: Row) -> None:
        """Enters a level of a snapshot."""
        self._change(row.side, self._ticks(row), row.size_units)

    def remove_others(self, snapshot: list[Row]) -> None:
        """Removes the levels that are not in a snapshot."""
        kept = {(row.side, self._ticks(row)) for row in snapshot}
        for side, levels in enumerate(self._units):
            for ticks in [ticks for ticks in levels if (side, ticks) not in kept]:
                self._change(side, ticks, 0)

    def finish(self) -> None:
        """Writes the last commands."""
        self._set_levels()
        self._writer.finish()

    @property
    def times_ns(self) -> tuple[int, int]:
        """Times of the first command and of the last row."""
        return self._writer.first_time_ns, self._last_ns

    def counts(self) -> dict[str, int]:
        """How often each rule applied."""
        return dict(zip(BOOK_COUNT_NAMES, self._writer.book.counts.tolist(), strict=True)) | self._counts

    def _ticks(self, row: Row) -> int:
        if row.order_id:
            raise InvalidOrder("no order_id, as in the rows above")
        return self.steps.ticks(row)

    def _change(self, side: int, ticks: int, units: int) -> None:
        lots = self.steps.lots(units)
        require_tradable(ticks, max(lots, 1))
        if units:
            self._units[side][ticks] = units
        else:
            self._units[side].pop(ticks, None)
        self._writer.source.change(side, ticks, lots)
        self._pending.append((side, ticks, lots))
        self._counts["levels"] += 1

    def _trade(self, row: Row, ticks: int) -> None:
        """Sends an order of the other side, which takes lots from the level."""
        self._set_levels()
        lots = self.steps.lots(row.size_units)
        require_tradable(ticks, lots)
        self._writer.trade(self._counts, row.side, ticks, lots)

    def _set_levels(self) -> None:
        """Sets the market's levels to those of a message. Levels of the other side that these lock or cross are out of date, and are removed."""
        if not self._pending:
            return
        stale = self._writer.source.uncross(self._pending[-1][0])
        for side, ticks, _ in stale:
            self._units[side].pop(ticks, None)
        self._counts["levels_crossed"] += len(stale)
        self._writer.set_levels(self._pending + stale)
        self._pending = []
