"""What a sandboxed training gets of the data: the training hours, with which it trains the same policy."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.racing import write_bars
from serl.agents.execution.data import TRAIN
from serl.agents.execution.environment.records import LEVELS
from serl.agents.execution.environment.static import RecordedDay, recorded_books
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import open_source
from serl.history.day import read_day
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner import job, training, training_data
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example

BUDGET = Budget(static_steps=320, dynamic_steps=0)


@pytest.fixture(scope="module")
def bars(tmp_path_factory: pytest.TempPathFactory) -> MarketConfig:
    path = write_bars(tmp_path_factory.mktemp("bars") / "walk.parquet")
    order = {"duration_s": 1800, "interval_s": 300, "environments": 8}
    return MarketConfig(kind="static", data=[path], spreads="stock", fold=1, **order)


def market_of(settings: Settings, bars: MarketConfig, name: str) -> MarketConfig:
    if name == "bars":
        return bars
    return settings.of_seed(1).market.model_copy(update={"kind": "replay" if name == "replay" else "static"})


def trained(settings: Settings, folder: Path, data: Path | None) -> Any:
    """The weights and claims of a training in this process."""
    folder.mkdir()
    kinds = (Kind.IMAGINE, Kind.REWARD)
    candidate = Candidate({kind: Module("spec", example(kind, "spec")) for kind in kinds})
    values = settings.training.model_dump(mode="json")
    if data:
        values["market"] |= {"data": [], "fold": None}
    claims = job.train(
        dataclasses.asdict(candidate),
        values,
        dataclasses.asdict(BUDGET),
        1.0,
        str(folder),
        str(data) if data else None,
    )
    return (folder / job.NETWORK).read_bytes(), claims["curve"], claims["scales"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["bars", "books", "replay"])
def test_training_hours_alone_train_the_same_policy(
    settings: Settings, bars: MarketConfig, tmp_path: Path, name: str
) -> None:
    chosen = settings.model_copy(update={"market": market_of(settings, bars, name)})
    data = training_data.file_of(chosen.market)
    assert trained(chosen, tmp_path / "files", None) == trained(chosen, tmp_path / "hours", data)


def test_the_file_has_only_training_days_of_bars_and_no_names(bars: MarketConfig) -> None:
    source = open_source(bars)
    days = sorted({each.day for each in source.hours(TRAIN)})
    table = source.data.table  # pyrefly: ignore[missing-attribute]
    with np.load(training_data.file_of(bars)) as arrays:
        assert set(arrays.files) == {"hours", "values", "starts_ns", "bar_ns", "dates", "half_spreads"}
        np.testing.assert_array_equal(arrays["values"], table.bars.values[days])
        assert len(arrays["half_spreads"]) == len(days) < len(table.bars.values) / 2
    content = training_data.file_of(bars).read_bytes()
    assert not [name for name in (*table.dates, bars.data[0].name) if name.encode() in content]


def test_the_file_has_no_book_or_trade_of_the_fold_that_is_scored_nor_of_later_hours(settings: Settings) -> None:
    config = settings.of_seed(1).market
    spans = [(each.start_ns, each.end_ns + 1_000_000) for each in open_source(config).hours(TRAIN)]
    assert len(spans) == 2  # the fold lies between them
    found = training_data.read(training_data.file_of(config), config).days[0]  # pyrefly: ignore[missing-attribute]
    assert isinstance(found, RecordedDay)
    whole = recorded_books(read_day(config.data[0]), LEVELS)
    inside = sum(int(((whole["time_ns"] >= start) & (whole["time_ns"] <= end)).sum()) for start, end in spans)
    assert len(found.books[LEVELS]) == inside + 1 + len(
        spans
    )  # the empty book, and the one that each stretch begins with
    for start, end in [(spans[0][1], spans[1][0]), (spans[1][1], 2**62)]:
        trades = found.trades["time_ns"][:-1]
        assert not ((trades > start) & (trades < end)).any()
        assert ((found.books[LEVELS]["time_ns"] > start) & (found.books[LEVELS]["time_ns"] < end)).sum() <= 1
    assert found.reference.date == ""
    assert found.reference.files == ()


def test_settings_of_a_job_say_nothing_of_scores(settings: Settings) -> None:
    values = training._settings_of_job(settings.of_seed(1))
    assert not {"day", "scored_in", "orders", "folds", "race", "warm_start", "score_seed"} & set(values)
    assert values["market"]["data"] == []
    assert values["market"]["fold"] is None
    assert str(settings.day) not in json.dumps(values)
