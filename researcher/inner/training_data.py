"""The data that a training job gets: the training hours of its folds, and nothing else of the files.

A module that sees the hours it is scored on may memorise them, so other days, dates, names and paths stay outside. In the job, training on this
file gives the same numbers as training on the data files, and begins sooner: books and trades of recorded days are replayed once.
"""

import dataclasses
import hashlib
import json
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.bar_files import BarTable
from serl.agents.execution.data import TRAIN, Dataset, Part
from serl.agents.execution.environment.bars import BarDays
from serl.agents.execution.environment.episodes import Hours
from serl.agents.execution.environment.records import LEVELS
from serl.agents.execution.environment.static import TRADE, RecordedDay, book_dtype
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import Bars, Books, open_source
from serl.exchange.records import COMMAND
from serl.history.day import Day, Reference, SymbolReference
from serl.researcher.inner.versions import Versions

NAME = "training.npz"
"""The file's name among the inputs of a job."""
_LOCK = threading.Lock()


def file_of(config: MarketConfig, versions: Versions = ()) -> Path:
    """The training data of a market with data files. It is written once for each version of the files, and removed when this process ends."""
    key = hashlib.sha256(f"{config.model_dump_json()}{versions}".encode()).hexdigest()[:16]
    with _LOCK:
        path = Path(_folder().name) / f"{key}.npz"
        if not path.exists():
            write(config, path)
        return path


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="serl-training-")


def write(config: MarketConfig, path: Path) -> None:
    """Write the training data of a market with data files."""
    source = open_source(config)
    hours = source.hours(TRAIN)
    days = sorted({each.day for each in hours})
    places = {day: place for place, day in enumerate(days)}
    hours = [dataclasses.replace(each, day=places[each.day]) for each in hours]
    if isinstance(source, Bars):
        arrays = _arrays_of_bars(source, days)
    else:
        assert isinstance(source, Books)
        arrays = _arrays_of_books(source, days, hours)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, hours=json.dumps([dataclasses.astuple(each) for each in hours]), **arrays)
    part.replace(path)


def _arrays_of_bars(source: Bars, days: Sequence[int]) -> dict[str, Any]:
    table, half_spreads = source.data.table, np.asarray(source.half_spread_bps())
    return {
        "values": table.bars.values[days], "starts_ns": table.bars.starts_ns, "bar_ns": table.bars.bar_ns, "dates": table.date[days],
        "half_spreads": half_spreads[days] if half_spreads.ndim else half_spreads,
    }  # fmt: skip


def _arrays_of_books(source: Books, days: Sequence[int], hours: Sequence[Hours]) -> dict[str, Any]:
    """Books and trades within the hours. A replayed market needs every command before an hour to build its book, so only commands after a day's
    last hour are left out."""
    arrays: dict[str, Any] = {}
    latency_ns = round(source.config.latency_us * 1000)
    for place, number in enumerate(days):
        day = source.days[number]
        spans = [(each.start_ns, each.end_ns + latency_ns) for each in hours if each.day == place]
        end_ns = max(end for _, end in spans)
        reference = Reference(
            (SymbolReference("TRAINING", day.reference.symbols[0].tick_size, day.reference.symbols[0].lot_size),), "", "",
            first_time_ns=day.reference.first_time_ns, last_time_ns=min(day.reference.last_time_ns, end_ns), levels=day.reference.levels,
            counts=dict.fromkeys(day.reference.counts, 0),
        )  # fmt: skip
        arrays[f"reference{place}"] = reference.to_json(0)
        if source.config.kind == "replay":
            kept = day.commands["time_ns"] <= end_ns
            arrays |= {f"commands{place}": day.commands[kept], f"rows{place}": day.rows[kept]}
        else:
            recorded = RecordedDay.of(day).within(spans)
            arrays |= {f"books{place}-{levels}": rows for levels, rows in recorded.books.items()}
            arrays[f"trades{place}"] = recorded.trades
    return arrays


def read(path: Path, config: MarketConfig) -> "TrainingSource":
    """The source in a file that `write` made for the same settings."""
    with np.load(path, allow_pickle=False) as arrays:
        hours = tuple(Hours(*each) for each in json.loads(str(arrays["hours"])))
        if "values" in arrays:
            return _bars(arrays, config, hours)
        count = sum(name.startswith("reference") for name in arrays.files)
        return TrainingBooks(config, [_day(arrays, place) for place in range(count)], hours)


def _bars(arrays: Any, config: MarketConfig, hours: tuple[Hours, ...]) -> "TrainingBars":
    bars = BarDays(arrays["starts_ns"], int(arrays["bar_ns"]), arrays["values"])
    table = BarTable(bars, (), (), np.zeros(len(bars.values), np.int64), arrays["dates"], {})
    spreads = arrays["half_spreads"]
    data = Dataset("training", "", {}, {TRAIN: Part(hours, (), ())}, table)
    return TrainingBars(config, data, spreads if spreads.ndim else float(spreads))


def _day(arrays: Any, place: int) -> Any:
    reference = Reference.from_json(json.loads(str(arrays[f"reference{place}"])))
    if f"commands{place}" in arrays:  # .view: files do not keep the alignment that compiled code is made for
        return Day(arrays[f"commands{place}"].view(COMMAND), arrays[f"rows{place}"], reference)
    books = {levels: arrays[f"books{place}-{levels}"].view(book_dtype(levels)) for levels in (1, LEVELS)}
    return RecordedDay(books, arrays[f"trades{place}"].view(TRADE), reference)


@dataclasses.dataclass(frozen=True)
class TrainingBars(Bars):
    """Days of bars with their half spreads."""

    half_spreads: Any

    def half_spread_bps(self) -> Any:
        """See Bars."""
        return self.half_spreads


@dataclasses.dataclass(frozen=True)
class TrainingBooks(Books):
    """Days with a book and the hours to train in."""

    training_hours: tuple[Hours, ...]

    def hours(self, part: str) -> Sequence[Hours]:
        """See Source; only training hours exist."""
        assert part == TRAIN, part
        return self.training_hours


TrainingSource = TrainingBars | TrainingBooks
