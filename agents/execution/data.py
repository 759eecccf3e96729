"""Data sets for execution, split into training, validation and test parts.

Bars are split by date (the last 20 % test, the 10 % before them validation) and by stock (a fifth of the stocks, selected by the hash of
their names, is never trained on). A day with a book is split by hours: 10:00-12:30 training, 12:30-13:00 validation, 13:00-16:00 test. The
volume that determines the size of orders comes from the training dates or hours only.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from serl.agents.execution.bar_files import BarTable, read_bars
from serl.agents.execution.environment.bars import VOLUME, StaticBars
from serl.agents.execution.environment.episodes import Hours
from serl.agents.execution.environment.hours import lot_multiple
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.records import CHILD, FRAME
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.static import StaticBook, recorded_trades
from serl.agents.execution.environment.vector import Sampler
from serl.agents.execution.errors import DataError
from serl.exchange.config import time_of_day_ns, time_of_day_text
from serl.exchange.records import Rows
from serl.history.day import Day

TRAIN, VALIDATION, TEST, UNSEEN = "train", "validation", "test", "unseen"
TEST_SHARE, VALIDATION_SHARE, UNSEEN_SHARE = 0.2, 0.1, 0.2
BOOK_HOURS = {TRAIN: ("10:00", "12:30"), VALIDATION: ("12:30", "13:00"), TEST: ("13:00", "16:00")}
SECOND_NS = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of a split."""

    hours: tuple[Hours, ...]
    """The hours that its parent orders must be within."""
    symbols: tuple[str, ...]
    dates: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data file, either bars or a day with a book, and its split."""

    name: str
    sha256: str
    """SHA-256 of the file."""
    counts: Mapping[str, int]
    parts: Mapping[str, Part]
    source: BarTable | Day

    @property
    def fingerprint(self) -> str:
        """Identifies the data and the split; compare only results with the same fingerprint."""
        parts = {name: dataclasses.asdict(part) for name, part in self.parts.items()}
        return hashlib.sha256(json.dumps([self.sha256, parts], sort_keys=True).encode()).hexdigest()[:16]

    @property
    def table(self) -> BarTable:
        """The bars. Raises DataError for a day with a book."""
        if isinstance(self.source, BarTable):
            return self.source
        raise DataError(f"{self.name}: expected a file of bars, got a day with a book")

    def static(self, count: int) -> ExecutionMarket:
        """`count` environments without impact."""
        if isinstance(self.source, BarTable):
            return StaticBars(self.source.bars, count)
        return StaticBook([self.source], count)

    def replay(self, count: int) -> ReplayMarket:
        """`count` environments in the replayed book. Raises DataError for bars, which have no book."""
        if isinstance(self.source, BarTable):
            raise DataError(f"{self.name}: expected a day with a book, got bars, which contain no orders to replay")
        return ReplayMarket([self.source], count)


def bar_dataset(path: Path) -> Dataset:
    """Reads and splits a file of bars. Raises the errors of read_bars, and DataError if there are too few dates to split or a stock trades less than
    a lot a day."""
    table = read_bars(path)
    dates, symbols = len(table.dates), len(table.symbols)
    test, validation = max(1, round(TEST_SHARE * dates)), max(1, round(VALIDATION_SHARE * dates))
    first_test, first_validation = dates - test, dates - test - validation
    if first_validation < 1:
        raise DataError(f"{path}: expected at least 3 dates (training, validation, test), got {dates}")
    order = sorted(range(symbols), key=lambda index: hashlib.sha256(table.symbols[index].encode()).digest())
    unseen = np.isin(table.symbol, order[: round(UNSEEN_SHARE * symbols)])
    training, testing = table.date < first_validation, table.date >= first_test
    between = ~training & ~testing
    days = {TRAIN: training & ~unseen, VALIDATION: between & ~unseen, TEST: testing & ~unseen, UNSEEN: testing & unseen}
    volume = _volume_lots_per_s(table, training)
    _check_lots(path, table, volume)
    parts = {name: _bar_part(table, np.flatnonzero(chosen), volume) for name, chosen in days.items()}
    return Dataset(path.name, file_sha256(path), table.counts, parts, table)


def _volume_lots_per_s(table: BarTable, training: np.ndarray) -> np.ndarray:
    """(symbols,) mean over the training dates, 0 for a stock without training dates."""
    daily = table.bars.values[:, :, VOLUME].sum(axis=1)
    days = np.bincount(table.symbol[training], minlength=len(table.symbols))
    total = np.bincount(table.symbol[training], daily[training], minlength=len(table.symbols))
    seconds = len(table.bars.starts_ns) * table.bars.bar_ns / SECOND_NS
    volume: np.ndarray = total / np.maximum(days, 1) / seconds
    return volume


def _check_lots(path: Path, table: BarTable, volume: np.ndarray) -> None:
    """Raises DataError for a stock that trades less than a lot a day, because every order would be larger than its volume."""
    daily = volume * len(table.bars.starts_ns) * table.bars.bar_ns / SECOND_NS
    for index in np.flatnonzero((daily > 0) & (daily < 1)):
        raise DataError(
            f"{path}: {table.symbols[index]}: expected volumes in lots, got a mean of {daily[index]:.2g} a day; orders are whole lots, so "
            "multiply the column volume, for example by 1e8"
        )


def _bar_part(table: BarTable, days: np.ndarray, volume: np.ndarray) -> Part:
    """Whole days of stocks with a known volume, one entry for each stretch of a day without a pause."""
    starts, bar_ns = table.bars.starts_ns, table.bars.bar_ns
    ends = np.flatnonzero(np.append(np.diff(starts) > bar_ns, True))
    spans = [
        (int(starts[first]), int(starts[last]) + bar_ns)
        for first, last in zip([0, *(ends[:-1] + 1)], ends, strict=True)
    ]
    days = days[volume[table.symbol[days]] > 0]
    hours = tuple(
        Hours(day, *span, float(volume[symbol]))
        for day, symbol in zip(days.tolist(), table.symbol[days].tolist(), strict=True)
        for span in spans
    )
    symbols = tuple(table.symbols[index] for index in np.unique(table.symbol[days]))
    return Part(hours, symbols, tuple(table.dates[index] for index in np.unique(table.date[days])))


def book_dataset(path: Path, day: Day) -> Dataset:
    """Splits a day with the book of one symbol, read from `path`. Raises DataError if the day does not cover the hours of the split."""
    if not path.is_file():
        raise DataError(f"{path}: expected a day file or a zip, got a folder or nothing; the fingerprint needs a file")
    trades = recorded_trades(day)[:-1]
    first_ns, last_ns = day.reference.first_time_ns, day.reference.last_time_ns
    spans = {name: tuple(time_of_day_ns(text) for text in span) for name, span in BOOK_HOURS.items()}
    if first_ns > spans[TRAIN][0] or last_ns < spans[TEST][0]:
        raise DataError(
            f"{path}: expected a day from 10:00 or earlier until after 13:00, got {time_of_day_text(first_ns)} to {time_of_day_text(last_ns)}"
        )
    volume = volume_lots_per_s(trades, *spans[TRAIN])
    symbol, date = day.reference.symbols[0].name, day.reference.date
    parts = {
        name: Part(
            (Hours(0, start, min(end, last_ns // SECOND_NS * SECOND_NS), volume, lot_multiple(day.commands)),),
            (symbol,),
            (date,),
        )
        for name, (start, end) in spans.items()
    }
    counts = {"commands": len(day), "trades": len(trades), **day.reference.counts}
    return Dataset(path.name, file_sha256(path), counts, parts, day)


def volume_lots_per_s(trades: Rows, start_ns: int, end_ns: int) -> float:
    """Mean volume per second between two times, from rows of `recorded_trades`."""
    within = (trades["time_ns"] >= start_ns) & (trades["time_ns"] < end_ns)
    return float(trades["lots"][within].sum() / (end_ns - start_ns) * SECOND_NS)


def fit_scales(market: ExecutionMarket, sampler: Sampler, seed: int = 0) -> Scales:
    """Fits scales on one episode in each environment, without our orders. The sampler must draw from training hours."""
    return Scales.fit(
        idle_frames(market, sampler.sample(np.random.Generator(np.random.PCG64(seed)), market.count)).ravel()
    )


def idle_frames(market: ExecutionMarket, episodes: Rows) -> Rows:
    """(steps, N) FRAME rows after each step of the windows of (N,) EPISODE rows, without our orders."""
    market.reset(np.arange(market.count), episodes)
    steps = int(episodes["steps"].min())
    frames = np.zeros((steps, market.count), FRAME)
    for step in range(steps):
        market.step(np.zeros(market.count, CHILD), episodes["start_ns"] + (step + 1) * episodes["interval_ns"])
        frames[step] = market.frames
    return frames


def split_rows(datasets: Sequence[Dataset]) -> list[tuple[str, ...]]:
    """Table rows: data set, part, stocks, dates, stock-days, hours, first and last date."""
    rows: list[tuple[str, ...]] = []
    for dataset in datasets:
        for name, part in dataset.parts.items():
            length = sum(hours.end_ns - hours.start_ns for hours in part.hours) / 3600 / SECOND_NS
            span = f"{part.dates[0]} to {part.dates[-1]}" if len(part.dates) > 1 else "".join(part.dates)
            numbers = (len(part.symbols), len(part.dates), len({hours.day for hours in part.hours}))
            rows.append((dataset.name, name, *(f"{number:,}" for number in numbers), f"{length:,.1f}", span))
    return rows


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
