"""Folds of the training days: what is scored is not trained on."""

from pathlib import Path

import pytest

from serl.agents.learning.folds import FOLD, scored_data
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import Source, open_source
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.execution.test_data import rows, write
from tests.agents.half_hour import SMALL


def source(tmp_path: Path, kind: str, fold: int | None, folds: int = 3) -> Source:
    own = {"fold": fold, "folds": folds, "duration_s": 600, "interval_s": 60}
    if kind == "simulated":
        return open_source(MarketConfig(kind="dynamic", population=SMALL, simulated_days=4, **own))
    if kind == "bars":
        return open_source(MarketConfig(kind="static", data=[write(tmp_path / "own.parquet", rows())], **own))
    path = tmp_path / "demo.day"
    if not path.exists():
        write_day(generate_day(3, commands_per_s=0.5), path)
    return open_source(MarketConfig(kind="static", data=[path], **own))


def seconds(source: Source, part: str) -> set[tuple[int, int]]:
    """All minutes of a part, with their day."""
    return {(hours.day, at) for hours in source.hours(part) for at in range(hours.start_ns, hours.end_ns, 60 * 10**9)}


@pytest.mark.parametrize("kind", ["bars", "books", "simulated"])
def test_each_fold_is_apart_from_its_training(tmp_path: Path, kind: str) -> None:
    found = [source(tmp_path, kind, fold) for fold in range(3)]
    scored = [seconds(one, FOLD) for one in found]
    for one, own in zip(found, scored, strict=True):
        assert own and not own & seconds(one, "train")
        assert not own & seconds(one, "validation")
    assert not scored[0] & scored[1] and not scored[1] & scored[2]
    if kind != "simulated":
        assert set.union(*scored) <= seconds(source(tmp_path, kind, None), "train")
        if kind == "bars":
            assert set.union(*scored) == seconds(source(tmp_path, kind, None), "train")


def test_bad_folds_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected 0 to 2, got 3"):
        source(tmp_path, "books", 3).hours("train")
    with pytest.raises(ConfigError, match=r"set market\.fold"):
        source(tmp_path, "books", None).hours(FOLD)
    with pytest.raises(ConfigError, match="expected pieces of at least 600 s"):
        source(tmp_path, "books", 0, folds=30).hours("train")


def test_a_fold_is_cut_from_all_training_data(tmp_path: Path) -> None:
    first, second, other = (tmp_path / f"{name}.day" for name in ("first", "second", "other"))
    market = MarketConfig(data=[first, second])
    assert scored_data(first, FOLD, market) == [first, second]
    assert scored_data(tmp_path / "x" / ".." / "first.day", FOLD, market) == [first, second]
    assert scored_data(other, "validation", market) == [other]
    with pytest.raises(ConfigError, match=r"expected one of market\.data.* got .*other\.day and .*first\.day"):
        scored_data(other, FOLD, market)
    with pytest.raises(ConfigError, match="no data; add it"):
        scored_data(other, FOLD, MarketConfig())
