"""Candles of one symbol, from its trades: seconds and minutes are stored, and every other interval is built from minutes."""

from bisect import bisect_left
from datetime import UTC, datetime

SECOND_MS, MINUTE_MS, DAY_MS = 1_000, 60_000, 86_400_000
SECONDS_KEPT, MINUTES_KEPT = 7_200, 20_160
"""Two hours of seconds; two weeks of minutes."""
WEEK_START_MS = 4 * DAY_MS
"""Weeks begin on Monday; 1970-01-01 was a Thursday."""
FIXED_MS = {
    "1s": SECOND_MS, "1m": MINUTE_MS, "3m": 3 * MINUTE_MS, "5m": 5 * MINUTE_MS, "15m": 15 * MINUTE_MS, "30m": 30 * MINUTE_MS,
    "1h": 60 * MINUTE_MS, "2h": 120 * MINUTE_MS, "4h": 240 * MINUTE_MS, "6h": 360 * MINUTE_MS, "8h": 480 * MINUTE_MS,
    "12h": 720 * MINUTE_MS, "1d": DAY_MS, "3d": 3 * DAY_MS, "1w": 7 * DAY_MS,
}  # fmt: skip
INTERVALS = (*FIXED_MS, "1M")


class Bar:
    """Open, high, low, close in ticks; volumes in lots and in ticks x lots, also of the takers' purchases alone; the ids of the trades."""

    __slots__ = (
        "amount",
        "close",
        "count",
        "first_id",
        "high",
        "last_id",
        "lots",
        "low",
        "open",
        "open_ms",
        "taker_amount",
        "taker_lots",
    )

    def __init__(self, open_ms: int, price_ticks: int) -> None:
        self.open_ms = open_ms
        self.open = self.high = self.low = self.close = price_ticks
        self.lots = self.amount = self.count = self.taker_lots = self.taker_amount = 0
        self.first_id = self.last_id = -1

    def add(self, match_id: int, price_ticks: int, qty_lots: int, taker_buys: bool) -> None:
        """Adds a trade."""
        self.high, self.low, self.close = max(self.high, price_ticks), min(self.low, price_ticks), price_ticks
        self.lots += qty_lots
        self.amount += qty_lots * price_ticks
        if taker_buys:
            self.taker_lots += qty_lots
            self.taker_amount += qty_lots * price_ticks
        self.count += 1
        self.first_id = match_id if self.first_id < 0 else self.first_id
        self.last_id = match_id

    def merge(self, later: "Bar") -> None:
        """Adds the bar that follows."""
        self.high, self.low, self.close = max(self.high, later.high), min(self.low, later.low), later.close
        self.lots += later.lots
        self.amount += later.amount
        self.count += later.count
        self.taker_lots += later.taker_lots
        self.taker_amount += later.taker_amount
        self.first_id = later.first_id if self.first_id < 0 else self.first_id
        self.last_id = max(self.last_id, later.last_id)


def open_of(interval: str, time_ms: int, zone_ms: int = 0) -> int:
    """The opening time of the candle that contains a time. zone_ms: the offset of the candles' time zone from UTC."""
    local_ms = time_ms + zone_ms
    if interval == "1M":
        time = datetime.fromtimestamp(local_ms / 1000, UTC)
        return int(datetime(time.year, time.month, 1, tzinfo=UTC).timestamp()) * 1000 - zone_ms
    size = FIXED_MS[interval]
    start = WEEK_START_MS if interval == "1w" else 0
    return (local_ms - start) // size * size + start - zone_ms


def next_open(interval: str, open_ms: int, zone_ms: int = 0) -> int:
    """When the next candle opens."""
    if interval == "1M":
        return open_of("1M", open_ms + 32 * DAY_MS, zone_ms)
    return open_ms + FIXED_MS[interval]


class Bars:
    """The stored bars, oldest first."""

    def __init__(self) -> None:
        self._seconds: list[Bar] = []
        self._minutes: list[Bar] = []

    def add(self, time_ms: int, match_id: int, price_ticks: int, qty_lots: int, taker_buys: bool) -> None:
        """Adds a trade, which must not be earlier than those before it."""
        for bars, size, kept in ((self._seconds, SECOND_MS, SECONDS_KEPT), (self._minutes, MINUTE_MS, MINUTES_KEPT)):
            open_ms = time_ms - time_ms % size
            if not bars or bars[-1].open_ms < open_ms:
                bars.append(Bar(open_ms, price_ticks))
                if len(bars) > 2 * kept:
                    del bars[:kept]
            bars[-1].add(match_id, price_ticks, qty_lots, taker_buys)

    def _stored(self, interval: str) -> list[Bar]:
        return self._seconds if interval == "1s" else self._minutes

    def span(self, from_ms: int, to_ms: int, interval: str = "1m") -> Bar | None:
        """The trades in from_ms..to_ms (exclusive) as one bar; None without trades."""
        stored = self._stored(interval)
        start, end = (bisect_left(stored, time_ms, key=lambda bar: bar.open_ms) for time_ms in (from_ms, to_ms))
        if start == end:
            return None
        joined = Bar(from_ms, stored[start].open)
        for bar in stored[start:end]:
            joined.merge(bar)
        return joined

    def bar_at(self, interval: str, open_ms: int, zone_ms: int = 0) -> Bar | None:
        """The candle that opened at a time; without trades it is flat at the previous close. None before the first trade."""
        if (found := self.span(open_ms, next_open(interval, open_ms, zone_ms), interval)) is not None:
            return found
        close = self.close_before(open_ms, interval)
        return Bar(open_ms, close) if close else None

    def close_before(self, time_ms: int, interval: str = "1m") -> int:
        """The close of the last bar that opened before a time; 0 for none."""
        stored = self._stored(interval)
        before = bisect_left(stored, time_ms, key=lambda bar: bar.open_ms)
        return stored[before - 1].close if before else 0

    def bars(self, interval: str, start_ms: int | None, end_ms: int, count: int, zone_ms: int = 0) -> list[Bar]:
        """Up to `count` candles that open from start_ms (None: the latest ones) to end_ms, oldest first."""
        stored = self._stored(interval)
        if not stored:
            return []
        first = open_of(interval, stored[0].open_ms, zone_ms)
        opens: list[int] = []
        if start_ms is None:
            open_ms = open_of(interval, end_ms, zone_ms)
            while open_ms >= first and len(opens) < count:
                opens.append(open_ms)
                open_ms = open_of(interval, open_ms - 1, zone_ms)
            opens.reverse()
        else:
            open_ms = max(first, open_of(interval, start_ms, zone_ms))
            open_ms = open_ms if open_ms >= start_ms else next_open(interval, open_ms, zone_ms)
            while open_ms <= end_ms and len(opens) < count:
                opens.append(open_ms)
                open_ms = next_open(interval, open_ms, zone_ms)
        found = (self.bar_at(interval, open_ms, zone_ms) for open_ms in opens)
        return [bar for bar in found if bar is not None]
